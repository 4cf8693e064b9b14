// cublasLtMatmul: refused calls, algorithms, reads of C, epilogues.
#include "hardware.h"

#include <cuda.h>

#include <chrono>
#include <functional>
#include <initializer_list>

namespace hardware {
namespace {

constexpr int n = 256;
constexpr size_t room = 32 << 20; // of the workspace

// A square product in place, with beta 1. C is 2 everywhere.
class Square
{
public:
	explicit Square(cublasComputeType_t compute = CUBLAS_COMPUTE_32F, cudaDataType type = CUDA_R_32F, uint64_t size = n)
	    : compute(compute), type(type), a(size * size), b(size * size), c(size * size), scalars(2),
	      workspace(room / sizeof(float))
	{
		CHECK(cublasLtMatmulDescCreate(&description, compute, CUDA_R_32F));
		CHECK(cublasLtMatrixLayoutCreate(&operand, type, size, size, static_cast<int64_t>(size)));
		CHECK(cublasLtMatrixLayoutCreate(&result, CUDA_R_32F, size, size, static_cast<int64_t>(size)));
		for (size_t i = 0; i < c.size(); i++) {
			a[i] = b[i] = type == CUDA_R_32F ? 1 : 0; // 16-bit operands are 0
			c[i] = 2;
		}
		setScalars(1, 1);
		for (const Array *array : {&a, &b, &c})
			array->upload();
	}
	~Square()
	{
		cublasLtMatrixLayoutDestroy(result);
		cublasLtMatrixLayoutDestroy(operand);
		cublasLtMatmulDescDestroy(description);
	}
	Square(const Square &) = delete;

	void setScalars(float alpha, float beta)
	{
		scalars[0] = alpha, scalars[1] = beta;
		scalars.upload();
	}
	// At most `count` algorithms for operands aligned to 16 bytes or more.
	std::vector<cublasLtMatmulHeuristicResult_t> algorithms(int count) const
	{
		cublasLtMatmulPreference_t preference = nullptr;
		CHECK(cublasLtMatmulPreferenceCreate(&preference));
		CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
		                                           sizeof room));
		std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(count));
		CHECK(cublasLtMatmulAlgoGetHeuristic(session.light, description, operand, operand, result, result, preference,
		                                     count, found.data(), &count));
		CHECK(cublasLtMatmulPreferenceDestroy(preference));
		found.resize(static_cast<size_t>(count));
		return found;
	}
	bool accepts(const cublasLtMatmulAlgo_t &algorithm, cublasLtMatmulHeuristicResult_t &found) const
	{
		return !cublasLtMatmulAlgoCheck(session.light, description, operand, operand, result, result, &algorithm,
		                                &found);
	}
	cublasStatus_t call(const cublasLtMatmulAlgo_t *algorithm, size_t bytes = room, const void *operandA = nullptr)
	{
		return cublasLtMatmul(session.light, description, alpha, operandA ? operandA : a.data(), operand, b.data(),
		                      operand, beta, source ? source : c.data(), result, c.data(), result, algorithm,
		                      workspace.data(), bytes, session.stream);
	}
	bool isUnchanged()
	{
		c.download();
		for (size_t i = 0; i < c.size(); i++)
			if (c[i] != 2)
				return false;
		return true;
	}

	const cublasComputeType_t compute;
	const cudaDataType type;
	Session session;
	Array a, b, c, scalars, workspace;
	const float *alpha = &scalars[0], *beta = &scalars[1];
	const void *source = nullptr; // C, if the product is not in place
	cublasLtMatmulDesc_t description = nullptr;
	cublasLtMatrixLayout_t operand = nullptr, result = nullptr;
};

// An algorithm that was promised an alignment of 16 bytes, with an operand aligned to 4.
std::string misaligned(Line &line)
{
	Square square(CUBLAS_COMPUTE_32F_FAST_TF32);
	const auto found = square.algorithms(1);
	Array shifted(n * n, 1);
	shifted.upload();
	const auto status = square.call(&found.at(0).algo, room, shifted.data());
	line.put("status", status).put("ran", cudaStreamSynchronize(square.session.stream));
	return answer(status != CUBLAS_STATUS_SUCCESS);
}

// C is an address without memory: reading it breaks the context.
std::string readsC(Line &line, bool hasDeviceScalars)
{
	Square square(CUBLAS_COMPUTE_32F, CUDA_R_16F);
	CUdeviceptr nowhere = 0;
	if (driver<decltype(&cuMemAddressReserve)>("cuMemAddressReserve")(&nowhere, room, 0, 0, 0))
		fail("cuMemAddressReserve", "refused");
	square.source = reinterpret_cast<const void *>(nowhere);
	square.setScalars(1, 0);
	if (hasDeviceScalars) {
		const auto mode = CUBLASLT_POINTER_MODE_DEVICE;
		CHECK(
		    cublasLtMatmulDescSetAttribute(square.description, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode));
		square.alpha = square.scalars.data();
		square.beta = square.scalars.data() + 1;
	}
	const auto status = square.call(&square.algorithms(1).at(0).algo);
	const cudaError_t ran = cudaStreamSynchronize(square.session.stream);
	line.put("status", status).put("ran", ran);
	return status ? "refused" : answer(ran != cudaSuccess);
}

bool configure(cublasLtMatmulAlgo_t &algorithm, cublasLtMatmulAlgoConfigAttributes_t id, uint32_t value)
{
	return !cublasLtMatmulAlgoConfigSetAttribute(&algorithm, id, &value, sizeof value);
}

// All algorithms of these types, each with its first tile.
std::vector<cublasLtMatmulAlgo_t> initialised(const Square &square)
{
	int ids[256], count = 0;
	CHECK(cublasLtMatmulAlgoGetIds(square.session.light, square.compute, CUDA_R_32F, square.type, square.type,
	                               CUDA_R_32F, CUDA_R_32F, 256, ids, &count));
	std::vector<cublasLtMatmulAlgo_t> all;
	for (int i = 0; i < count; i++) {
		cublasLtMatmulAlgo_t algorithm = {};
		if (cublasLtMatmulAlgoInit(square.session.light, square.compute, CUDA_R_32F, square.type, square.type,
		                           CUDA_R_32F, CUDA_R_32F, ids[i], &algorithm))
			continue;
		size_t bytes = 0;
		cublasLtMatmulAlgoCapGetAttribute(&algorithm, CUBLASLT_ALGO_CAP_TILE_IDS, nullptr, 0, &bytes);
		std::vector<uint32_t> tiles(bytes / sizeof(uint32_t));
		if (!tiles.empty() &&
		    !cublasLtMatmulAlgoCapGetAttribute(&algorithm, CUBLASLT_ALGO_CAP_TILE_IDS, tiles.data(), bytes, &bytes))
			configure(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, tiles[0]);
		all.push_back(algorithm);
	}
	return all;
}

// An algorithm that splits k and needs a workspace; the other one if there is none.
cublasLtMatmulAlgo_t splitting(const Square &square, const cublasLtMatmulAlgo_t &other)
{
	for (cublasLtMatmulAlgo_t algorithm : initialised(square)) {
		cublasLtMatmulHeuristicResult_t result = {};
		if (configure(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2) &&
		    configure(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) &&
		    square.accepts(algorithm, result) && result.workspaceSize)
			return algorithm;
	}
	return other;
}

// Calls that cublasLt should refuse, each with beta 1 and in a capture.
std::string refusedCalls(Line &line)
{
	Square square;
	const auto found = square.algorithms(8);
	const cublasLtMatmulAlgo_t zero = {}, split = splitting(square, found.at(0).algo);
	cublasLtMatrixLayout_t wide = nullptr;
	CHECK(cublasLtMatrixLayoutCreate(&wide, CUDA_R_32F, n, 2 * n, n));
	const auto calls = std::vector<std::function<cublasStatus_t()>>{
	    [&] { return square.call(&zero); }, [&] { return square.call(&split, 0); },
	    [&] {
		    std::swap(wide, square.operand);
		    const auto status = square.call(nullptr);
		    std::swap(wide, square.operand);
		    return status;
	    },
	    [&] { return square.call(&found.at(0).algo, room, square.a.data() + 1); }, // last: it may break the context
	};
	std::string statuses;
	int refused = 0;
	bool isNothing = true;
	for (const auto &call : calls) {
		cudaGraph_t graph = nullptr;
		size_t nodes = 0;
		CHECK(cudaStreamBeginCapture(square.session.stream, cudaStreamCaptureModeRelaxed));
		const cublasStatus_t captured = call();
		const cudaError_t end = cudaStreamEndCapture(square.session.stream, &graph);
		if (!end)
			CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
		if (graph)
			CHECK(cudaGraphDestroy(graph));
		cudaGetLastError();
		const cublasStatus_t status = call();
		statuses += (statuses.empty() ? "" : ",") + std::to_string(status);
		if (cudaStreamSynchronize(square.session.stream) && !status)
			break;
		if (captured)
			isNothing = isNothing && nodes == 0;
		if (status)
			refused++, isNothing = isNothing && square.isUnchanged();
		else
			square.c.upload();
	}
	CHECK(cublasLtMatrixLayoutDestroy(wide));
	line.put("statuses", statuses);
	return refused ? answer(isNothing) : "nothing_was_refused";
}

// Whether the product accepts what cublasLtMatmulAlgoCheck accepts: every algorithm as initialised, and with one
// attribute changed to values that can be invalid.
std::string checksAlgorithms(Line &line)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
	int asked = 0, accepted = 0, refused = 0;
	for (const auto &[compute, size] : std::initializer_list<std::pair<cublasComputeType_t, uint64_t>>{
	         {CUBLAS_COMPUTE_32F, 64}, {CUBLAS_COMPUTE_32F, 65}, {CUBLAS_COMPUTE_32F_FAST_TF32, 64}}) {
		Square square(compute, CUDA_R_32F, size);
		for (const cublasLtMatmulAlgo_t &plain : initialised(square))
			for (const auto id : {CUBLASLT_ALGO_CONFIG_TILE_ID, CUBLASLT_ALGO_CONFIG_STAGES_ID,
			                      CUBLASLT_ALGO_CONFIG_SPLITK_NUM, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
			                      CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION})
				for (const uint32_t value : {0u, 1u, 2u, 3u, 8u, 15u, 4096u}) {
					cublasLtMatmulAlgo_t algorithm = plain;
					cublasLtMatmulHeuristicResult_t result = {};
					if (!configure(algorithm, id, value) || std::chrono::steady_clock::now() > end)
						continue;
					asked++;
					if (!square.accepts(algorithm, result) || result.workspaceSize > room)
						continue;
					accepted++;
					refused += square.call(&algorithm) != CUBLAS_STATUS_SUCCESS;
					if (cudaStreamSynchronize(square.session.stream))
						return "broke_the_context";
				}
	}
	line.put("asked", asked).put("accepted", accepted).put("refused", refused);
	return answer(refused == 0);
}

Spec withEpilogue(cublasLtEpilogue_t epilogue, cublasOperation_t transa, cublasOperation_t transb)
{
	return with(gaussian, [&](Spec &spec) {
		spec.door = Interception::ltMatmul;
		spec.epilogue = epilogue;
		spec.transa = transa;
		spec.transb = transb;
		spec.alpha = 4;
	});
}

int statusOf(Problem &problem, Line &line)
{
	Session session;
	problem.upload();
	const int status = problem.call(session.handle, session.light);
	CHECK(cudaStreamSynchronize(session.stream));
	line.put("status", status);
	return status;
}

std::string gradientHasAlpha(Line &line, const Spec &spec)
{
	Problem problem(spec);
	const int status = statusOf(problem, line);
	problem.download();
	const double error = problem.compare().beside; // compared with the sum without alpha
	line.put("error", error);
	return status ? "refused" : answer(error > 1e-3);
}

// A product that cublasLt should refuse.
std::string isRefused(Line &line, const Spec &spec)
{
	Problem problem(spec);
	return answer(statusOf(problem, line) == CUBLAS_STATUS_NOT_SUPPORTED);
}

// The gradient of a bias, without a workspace and, if that is refused, with one.
std::string gradientNeedsWorkspace(Line &line)
{
	int statuses[2];
	for (const bool hasWorkspace : {false, true}) {
		Session session;
		Problem problem(withEpilogue(CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLAS_OP_N, CUBLAS_OP_N));
		if (!hasWorkspace)
			problem.spec.workspace = 0;
		problem.upload();
		statuses[hasWorkspace] = problem.call(session.handle, session.light);
		CHECK(cudaStreamSynchronize(session.stream));
	}
	line.put("without", statuses[0]).put("with", statuses[1]);
	return statuses[1] ? "refused" : answer(statuses[0] != 0);
}

} // namespace

Rows ltRows()
{
	return {
	    {"lt.a_refused_product_enqueues_nothing", yes, needed, shared, refusedCalls},
	    {"lt.algo_check_refuses_what_the_product_refuses", yes, recorded, shared, checksAlgorithms},
	    {"lt.c_is_read_at_host_beta_0", no, recorded, shared, [](Line &line) { return readsC(line, false); }},
	    {"lt.c_is_read_at_device_beta_0", no, recorded, shared, [](Line &line) { return readsC(line, true); }},
	    {"lt.bgrada_includes_alpha", no, recorded, shared,
	     [](Line &line) {
		     return gradientHasAlpha(line, withEpilogue(CUBLASLT_EPILOGUE_BGRADA, CUBLAS_OP_N, CUBLAS_OP_N));
	     }},
	    {"lt.bgradb_includes_alpha", no, recorded, shared,
	     [](Line &line) {
		     return gradientHasAlpha(line, withEpilogue(CUBLASLT_EPILOGUE_BGRADB, CUBLAS_OP_N, CUBLAS_OP_T));
	     }},
	    {"lt.bgrada_of_a_transposed_a_is_refused", yes, recorded, shared,
	     [](Line &line) { return isRefused(line, withEpilogue(CUBLASLT_EPILOGUE_BGRADA, CUBLAS_OP_T, CUBLAS_OP_T)); }},
	    {"lt.bgradb_of_a_plain_b_is_refused", yes, recorded, shared,
	     [](Line &line) { return isRefused(line, withEpilogue(CUBLASLT_EPILOGUE_BGRADB, CUBLAS_OP_N, CUBLAS_OP_N)); }},
	    {"lt.the_gradient_of_a_bias_needs_a_workspace", yes, recorded, shared, gradientNeedsWorkspace},
	    {"lt.refuses_a_pointer_less_aligned_than_promised", yes, recorded, shared, misaligned},
	};
}

} // namespace hardware
