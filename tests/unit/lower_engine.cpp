#include "src/lower/engine.h"

#include "tests/unit/fake_lt.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace autoamp;
using namespace autoamp::lower;
using fake_lt::library;
using op::Dtype;

namespace {

template <typename Value>
Value get(const fake_lt::Attributes &attributes, int id)
{
	return fake_lt::get<Value>(attributes, id);
}

// 10 x 30 by 30 x 20, awkward leading dimensions.
op::Op product()
{
	op::Op op;
	op.a = op.b = op.out = op.asked = Dtype::float32;
	op.m = 10, op.n = 20, op.k = 30;
	op.lda = 13, op.ldb = 31, op.ldc = 12, op.ldd = 11;
	return op;
}

op::Op batched(int32_t count)
{
	op::Op op = product();
	op.batch = count;
	op.stridea = 400, op.strideb = 700, op.stridec = 250, op.strided = 260;
	return op;
}

void withBias(op::Op &op)
{
	op.epilogue = static_cast<uint8_t>(op::Epilogue::relu_bias);
}

using policy::Strategy;
constexpr EngineKey halfKey = {Strategy::cast, Dtype::float16, 256, 256, 64, 32, 16, 0};
constexpr EngineKey bfloatKey = {Strategy::cast, Dtype::bfloat16, 256, 256, 128, 4, 16, 0};
constexpr EngineKey fewProcessors = {Strategy::cast, Dtype::float16, 256, 256, 64, 32, 16, 9};

// A fresh library, and one engine made with it.
struct Made {
	EngineAnswer answer;

	Made(
	    const op::Op &op, const EngineKey &key, const op::LtExtras &extras = {}, void (*prepare)() = [] {})
	{
		library = {};
		prepare();
		answer = makeEngine(fake_lt::lt, this, op, key, extras);
	}
	~Made()
	{
		if (answer.engine)
			destroyEngine(fake_lt::lt, answer.engine);
		CHECK(library.live.empty());
	}
	Made(const Made &) = delete;
};

} // namespace

TEST_CASE("operands are stored with columns on 16 bytes")
{
	op::Op op = product();
	StoredOperand a = storedA(op, true), b = storedB(op, true);
	CHECK((a.rows == 10 && a.columns == 30 && a.ld == 16 && a.stride == 0 && a.batch == 1));
	CHECK((b.rows == 30 && b.columns == 20 && b.ld == 32 && b.stride == 0 && b.batch == 1));
	CHECK(a.bytes() == 16 * 30 * 2);

	op.transa = op::Transpose::transposed, op.transb = op::Transpose::conjugate;
	a = storedA(op, true), b = storedB(op, true);
	CHECK((a.rows == 30 && a.columns == 10 && a.ld == 32));
	CHECK((b.rows == 20 && b.columns == 30 && b.ld == 24));

	op.m = 8, op.transa = op::Transpose::none;
	CHECK(storedA(op, true).ld == 8);

	op = batched(3);
	a = storedA(op, true);
	CHECK((a.stride == 16 * 30 && a.batch == 3 && a.bytes() == 3 * 16 * 30 * 2));
	op.stridea = 0; // one matrix for the whole batch
	a = storedA(op, true);
	CHECK((a.stride == 0 && a.batch == 1 && a.bytes() == 16 * 30 * 2));
	CHECK(storedB(op, true).batch == 3);

	a = storedA(op, false), b = storedB(op, false); // not converted: in the application's storage
	CHECK((a.rows == 10 && a.columns == 30 && a.ld == 13 && a.stride == 0));
	CHECK((b.rows == 30 && b.columns == 20 && b.ld == 31 && b.stride == 700));
}

TEST_CASE("a float16 engine: 16-bit operands, fp32 result, scalars from the scratch")
{
	Made made(product(), halfKey);
	REQUIRE(made.answer.engine);
	CHECK(made.answer.status == 0);
	const auto &asked = library.asked;
	CHECK(asked.handle == &made);
	CHECK(asked.most >= 1);
	CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE) == CUBLAS_COMPUTE_32F);
	CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_SCALE_TYPE) == CUDA_R_32F);
	CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_POINTER_MODE) == CUBLASLT_POINTER_MODE_DEVICE);
	CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_N);
	CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_N);
	CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_EPILOGUE) == CUBLASLT_EPILOGUE_DEFAULT);
	CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET) == 0);

	const struct {
		const fake_lt::Attributes &layout;
		int type;
		uint64_t rows, columns;
		int64_t ld;
	} layouts[] = {{asked.a, CUDA_R_16F, 10, 30, 16},
	               {asked.b, CUDA_R_16F, 30, 20, 32},
	               {asked.c, CUDA_R_32F, 10, 20, 12},
	               {asked.d, CUDA_R_32F, 10, 20, 11}};
	for (const auto &expected : layouts) {
		CAPTURE(&expected - layouts);
		CHECK(get<int>(expected.layout, CUBLASLT_MATRIX_LAYOUT_TYPE) == expected.type);
		CHECK(get<uint64_t>(expected.layout, CUBLASLT_MATRIX_LAYOUT_ROWS) == expected.rows);
		CHECK(get<uint64_t>(expected.layout, CUBLASLT_MATRIX_LAYOUT_COLS) == expected.columns);
		CHECK(get<int64_t>(expected.layout, CUBLASLT_MATRIX_LAYOUT_LD) == expected.ld);
		CHECK(get<int>(expected.layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) == 1);
	}
	const Engine &engine = *made.answer.engine;
	CHECK(&fake_lt::of(engine.layoutA) != &fake_lt::of(engine.layoutB));
	CHECK(fake_lt::of(engine.layoutA) == asked.a);
	CHECK(fake_lt::of(engine.layoutB) == asked.b);
	CHECK(fake_lt::of(engine.layoutC) == asked.c);
	CHECK(fake_lt::of(engine.layoutD) == asked.d);
	CHECK(fake_lt::of(engine.description) == asked.description);
	CHECK(engine.key == halfKey);
	CHECK(library.live.size() == 5); // the preference is destroyed
}

TEST_CASE("arguments of the heuristic")
{
	Made made(product(), halfKey);
	const auto &preference = library.asked.preference;
	CHECK(get<uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) == 32 << 20);
	const auto reductions = get<uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
	CHECK((reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE) == 0);
	CHECK((reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0);
	CHECK(get<uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) == 256);
	CHECK(get<uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES) == 256);
	CHECK(get<uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES) == 64);
	CHECK(get<uint32_t>(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES) == 32);
}

TEST_CASE("bfloat16 needs no scale: the application's scalars where they are")
{
	op::Op op = product();
	{
		Made made(op, bfloatKey);
		CHECK(get<int>(library.asked.a, CUBLASLT_MATRIX_LAYOUT_TYPE) == CUDA_R_16BF);
		CHECK(get<int>(library.asked.b, CUBLASLT_MATRIX_LAYOUT_TYPE) == CUDA_R_16BF);
		CHECK(get<int>(library.asked.c, CUBLASLT_MATRIX_LAYOUT_TYPE) == CUDA_R_32F);
		CHECK(get<int>(library.asked.description, CUBLASLT_MATMUL_DESC_POINTER_MODE) == CUBLASLT_POINTER_MODE_HOST);
	}
	op.flags = op::flagDeviceScalars;
	Made made(op, bfloatKey);
	CHECK(get<int>(library.asked.description, CUBLASLT_MATMUL_DESC_POINTER_MODE) == CUBLASLT_POINTER_MODE_DEVICE);
}

TEST_CASE("sums in half, raised: the application's own matrices, summed in fp32")
{
	const EngineKey key = {Strategy::fp32, Dtype::float16, 2, 2, 2, 2, 16, 0};
	for (const bool areArrays : {false, true}) {
		op::Op op = batched(3);
		op.a = op.b = op.out = Dtype::float16;
		op.flags = static_cast<uint16_t>(op::flagHalfSums | (areArrays ? op::flagArrays : 0));
		Made made(op, key);
		const auto &asked = library.asked;
		CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE) == CUBLAS_COMPUTE_32F);
		CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_SCALE_TYPE) == CUDA_R_32F);
		CHECK(get<uint32_t>(asked.preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) == 2);
		for (const fake_lt::Attributes *layout : {&asked.a, &asked.b, &asked.c, &asked.d}) {
			CHECK(get<int>(*layout, CUBLASLT_MATRIX_LAYOUT_TYPE) == CUDA_R_16F);
			CHECK(get<uint32_t>(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE) == (areArrays ? 1 : 0));
		}
		CHECK(get<int64_t>(asked.a, CUBLASLT_MATRIX_LAYOUT_LD) == 13);
	}
}

TEST_CASE("the application's own operands, by what the vendor makes of them")
{
	const struct {
		EngineKey key;
		int compute;
	} rows[] = {{{Strategy::tf32, Dtype::tf32, 16, 4, 64, 32, 16, 0}, CUBLAS_COMPUTE_32F_FAST_TF32},
	            {{Strategy::library, Dtype::bfloat16, 16, 4, 64, 32, 16, 0}, CUBLAS_COMPUTE_32F_FAST_16BF},
	            {{Strategy::library, Dtype::float16, 16, 4, 64, 32, 16, 0}, CUBLAS_COMPUTE_32F_FAST_16F}};
	for (const auto &row : rows)
		for (const bool isDevice : {false, true}) {
			op::Op op = batched(3);
			op.stridea = 0;
			op.flags = isDevice ? op::flagDeviceScalars : 0;
			Made made(op, row.key);
			const auto &asked = library.asked;
			CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE) == row.compute);
			CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_SCALE_TYPE) == CUDA_R_32F);
			CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_POINTER_MODE) ==
			      (isDevice ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST));
			for (const fake_lt::Attributes *layout : {&asked.a, &asked.b, &asked.c, &asked.d})
				CHECK(get<int>(*layout, CUBLASLT_MATRIX_LAYOUT_TYPE) == CUDA_R_32F);
			CHECK(get<int64_t>(asked.a, CUBLASLT_MATRIX_LAYOUT_LD) == 13);
			CHECK(get<int64_t>(asked.b, CUBLASLT_MATRIX_LAYOUT_LD) == 31);
			CHECK(get<int64_t>(asked.a, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) == 0);
			CHECK(get<int64_t>(asked.b, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) == 700);
			CHECK(get<uint32_t>(asked.preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) == 16);
			CHECK(get<uint32_t>(asked.preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES) == 4);
		}
}

TEST_CASE("transpositions, SM count and batches are carried over")
{
	op::Op op = batched(3);
	op.transa = op::Transpose::transposed, op.transb = op::Transpose::conjugate;
	op.strideb = 0; // shared
	Made made(op, fewProcessors);
	const auto &asked = library.asked;
	CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T);
	CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_C);
	CHECK(get<int>(asked.description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET) == 9);
	for (const fake_lt::Attributes *layout : {&asked.a, &asked.b, &asked.c, &asked.d})
		CHECK(get<int>(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) == 3);
	const int stride = CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
	CHECK(get<int64_t>(asked.a, stride) == 32 * 10);
	CHECK(get<int64_t>(asked.b, stride) == 0);
	CHECK(get<int64_t>(asked.c, stride) == 250);
	CHECK(get<int64_t>(asked.d, stride) == 260);
}

TEST_CASE("without C, D's layout stands for it")
{
	op::Op op = batched(2);
	op.flags = op::flagNoC | op::flagBetaZero;
	Made made(op, halfKey);
	CHECK(library.asked.c == library.asked.d);
	CHECK(get<int64_t>(library.asked.c, CUBLASLT_MATRIX_LAYOUT_LD) == 11);
}

TEST_CASE("epilogues, and a bias pointer that is each call's own")
{
	op::Op op = product();
	op.epilogue = static_cast<uint8_t>(op::Epilogue::relu);
	{
		Made made(op, halfKey, {0x5000, 64, 0});
		const auto &description = library.asked.description;
		CHECK(get<int>(description, CUBLASLT_MATMUL_DESC_EPILOGUE) == CUBLASLT_EPILOGUE_RELU);
		CHECK(get<uint64_t>(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER) == 0);
		CHECK(made.answer.engine->description);
	}
	const struct {
		op::Epilogue epilogue;
		int expected;
	} rows[] = {{op::Epilogue::bias, CUBLASLT_EPILOGUE_BIAS},
	            {op::Epilogue::relu_bias, CUBLASLT_EPILOGUE_RELU_BIAS},
	            {op::Epilogue::gelu_aux_bias, CUBLASLT_EPILOGUE_GELU_AUX_BIAS},
	            {op::Epilogue::drelu_bgrad, CUBLASLT_EPILOGUE_DRELU_BGRAD}};
	for (const auto &row : rows) {
		op.epilogue = static_cast<uint8_t>(row.epilogue);
		Made made(op, halfKey, {0x5000, 64, 0, 0x6000, 128, 256});
		const auto &asked = library.asked.description;
		const bool hasAux = op::epilogueEffects(op) & (op::hasMatrix | op::hasMask);
		CHECK(get<uint64_t>(asked, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER) == (hasAux ? 0x6000 : 0));
		CHECK(get<int64_t>(asked, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD) == (hasAux ? 128 : 0));
		CHECK(get<int64_t>(asked, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE) == (hasAux ? 256 : 0));
		CHECK(get<int>(asked, CUBLASLT_MATMUL_DESC_EPILOGUE) == row.expected);
		CHECK(get<uint64_t>(asked, CUBLASLT_MATMUL_DESC_BIAS_POINTER) == 0x5000);
		CHECK(get<int64_t>(asked, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE) == 64);
		CHECK(made.answer.engine->description == nullptr);
		CHECK(library.live.size() == 4);

		void *description = nullptr;
		REQUIRE(makeDescription(fake_lt::lt, op, halfKey, {0x7000, 0, 0}, description) == 0);
		CHECK(get<uint64_t>(fake_lt::of(description), CUBLASLT_MATMUL_DESC_BIAS_POINTER) == 0x7000);
		CHECK(get<int64_t>(fake_lt::of(description), CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE) == 0);
		fake_lt::destroy(description);
	}
}

TEST_CASE("the vendor is not asked to sum an operand that is rounded")
{
	op::Op op = product();
	op.epilogue = static_cast<uint8_t>(op::Epilogue::bgradb);
	Made made(op, halfKey, {0x5000, 64, 0});
	const auto &asked = library.asked.description;
	CHECK(get<int>(asked, CUBLASLT_MATMUL_DESC_EPILOGUE) == CUBLASLT_EPILOGUE_DEFAULT);
	CHECK(get<uint64_t>(asked, CUBLASLT_MATMUL_DESC_BIAS_POINTER) == 0);
	CHECK(made.answer.engine->description);
}

TEST_CASE("the first algorithm that can run is taken, with its workspace")
{
	Made made(product(), halfKey, {}, [] {
		library.states = {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INTERNAL_ERROR, CUBLAS_STATUS_SUCCESS,
		                  CUBLAS_STATUS_SUCCESS};
	});
	REQUIRE(made.answer.engine);
	CHECK(made.answer.engine->workspaceSize == 1002);
	const unsigned char *algo = made.answer.engine->algo;
	CHECK(std::all_of(algo, algo + sizeof(cublasLtMatmulAlgo_t), [](unsigned char byte) { return byte == 0x42; }));
}

TEST_CASE("a vendor without such an engine")
{
	void (*const prepare[])() = {[] { library.states = {}; },
	                             [] {
		                             library.states = {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INTERNAL_ERROR};
	                             },
	                             [] { library.status = CUBLAS_STATUS_NOT_SUPPORTED; }};
	for (const auto &one : prepare)
		for (const bool bias : {false, true}) {
			op::Op op = product();
			if (bias)
				withBias(op);
			Made made(op, halfKey, {}, one);
			CHECK(made.answer.engine == nullptr);
			CHECK(made.answer.status == CUBLAS_STATUS_NOT_SUPPORTED);
			CHECK(made.answer.what == std::string("cublasLtMatmulAlgoGetHeuristic"));
		}
}

TEST_CASE("if any call fails, nothing is left and the failure is returned")
{
	op::Op op = batched(2);
	withBias(op);
	int steps = 0;
	for (bool isReached = true; isReached; steps++) {
		library = {};
		library.failAt = steps + 1;
		const EngineAnswer answer = makeEngine(fake_lt::lt, &library, op, fewProcessors, {0x5000, 64, 0});
		isReached = !library.failed.empty();
		CAPTURE(steps, library.failed);
		CHECK((answer.engine == nullptr) == isReached);
		CHECK(answer.status == (isReached ? fake_lt::internalError : 0));
		if (answer.engine)
			destroyEngine(fake_lt::lt, answer.engine);
		else // the object that could not be made
			CHECK(std::string(answer.what).substr(0, 16) == library.failed.substr(0, 16));
		CHECK(library.live.empty());
	}
	// One description with seven attributes, four layouts with two each, a preference with six, the heuristic; in the
	// last iteration none failed.
	CHECK(steps == 1 + 7 + 4 * 3 + 1 + 6 + 1 + 1);
}

TEST_CASE("a call's own description fails alone")
{
	op::Op op = product();
	withBias(op);
	for (int failAt = 1; failAt <= 6; failAt++) {
		library = {};
		library.failAt = failAt;
		void *description = nullptr;
		CHECK(makeDescription(fake_lt::lt, op, halfKey, {0x5000, 0, 0}, description) == fake_lt::internalError);
		CHECK(description == nullptr);
		CHECK(library.live.empty());
	}
}

TEST_CASE("an algorithm and a workspace that the vendor would refuse")
{
	const auto at = [](uintptr_t address) { return reinterpret_cast<void *>(address); };
	op::LtMatmulCall call;
	call.computeDesc = at(1), call.Adesc = at(2), call.Bdesc = at(3), call.Cdesc = at(4), call.Ddesc = at(5);
	call.D = at(0x2010);
	const auto accepted = [&] { return !refusalOf(fake_lt::lt, at(9), call); };
	library = {};
	CHECK(accepted());
	call.workspace = at(0x1080);
	CHECK(!accepted());
	call.workspace = at(0x1100), call.workspaceSizeInBytes = 100;
	CHECK(accepted());
	CHECK(library.checked.empty()); // the vendor chooses

	call.algo = at(6);
	library.checkedWorkspace = 100;
	CHECK(accepted());
	CHECK(library.checked == std::vector<const void *>{at(9), at(1), at(2), at(3), at(4), at(5), at(6)});
	library.checkedWorkspace = 101;
	CHECK(!accepted());
	library.checkedWorkspace = 0;
	library.checkStatus = CUBLAS_STATUS_NOT_SUPPORTED;
	CHECK(!accepted());
	library.checkStatus = 0;
	library.alignmentOfD = 16;
	CHECK(accepted());
	library.alignmentOfD = 32;
	CHECK(!accepted());
	CHECK(refusalOf(fake_lt::lt, at(9), call) == std::string("cublasLtMatmulAlgoCapGetAttribute"));
}

TEST_CASE("whether there is an engine depends on the key alone, not on the keys before")
{
	library = {};
	Engines engines;
	int queries = 0;
	const auto find = [&](uint16_t alignment, int32_t processors, op::Status vendor) {
		library.status = static_cast<cublasStatus_t>(vendor);
		library.states.assign(vendor ? 0 : 1, CUBLAS_STATUS_SUCCESS);
		library.asked = {};
		EngineKey key = halfKey;
		key.alignmentC = alignment, key.smCountTarget = processors;
		const EngineAnswer answer = findEngine(engines, fake_lt::lt, nullptr, product(), key, {});
		queries += library.asked.most > 0;
		return answer;
	};
	constexpr op::Status notSupported = 15, failure = 14;
	for (int i = 0; i < 20; i++)
		CHECK(find(4, 0, notSupported).status == notSupported);
	CHECK(queries == 1); // remembered
	CHECK(find(16, 0, 0).engine);
	CHECK(find(4, 0, notSupported).status == notSupported);
	CHECK(find(16, 0, 0).engine);
	CHECK(queries == 2);
	CHECK(find(32, 0, failure).status == failure);
	CHECK(find(32, 0, 0).engine); // a failure is not cached
	for (int i = 1; i < 200; i++)
		CHECK(find(4, i, notSupported).status == notSupported);
	unsigned remembered = 0;
	for (const Engine *engine = engines.first; engine; engine = engine->next)
		remembered += engine->refusedBy != nullptr;
	CHECK(remembered == 64);
	CHECK(find(64, 0, 0).engine);
	while (Engine *engine = engines.first) {
		engines.first = engine->next;
		if (engine->refusedBy)
			delete engine;
		else
			destroyEngine(fake_lt::lt, engine);
	}
}
