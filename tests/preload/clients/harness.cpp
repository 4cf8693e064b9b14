#include "harness.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fnmatch.h>
#include <mutex>
#include <sstream>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace client {

void fail(const char *what, const char *status)
{
	std::fprintf(stderr, "%s: %s\n", what, status);
	std::fflush(nullptr);
	std::_Exit(3);
}

void check(cudaError_t status, const char *what)
{
	if (status != cudaSuccess)
		fail(what, cudaGetErrorString(status));
}

void check(cublasStatus_t status, const char *what)
{
	if (status != CUBLAS_STATUS_SUCCESS)
		fail(what, cublasGetStatusString(status));
}

void *runtimeFunction(const char *name, const char *nameIn12)
{
	int version = 0;
	CHECK(cudaRuntimeGetVersion(&version));
	const char *const wanted = version < 13000 ? nameIn12 : name;
	void *const found = dlsym(RTLD_DEFAULT, wanted);
	if (!found)
		fail(wanted, "not in the CUDA runtime");
	return found;
}

// ---- output

Line &Line::put(const char *key, const std::string &value)
{
	text_ += std::string(" ") + key + '=' + value;
	return *this;
}

Line &Line::put(const char *key, double value)
{
	char text[32];
	std::snprintf(text, sizeof text, "%.6g", value);
	return put(key, text);
}

Line &Line::bits(const char *key, uint64_t value)
{
	char text[32];
	std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
	return put(key, text);
}

void Line::require(bool condition, const char *what)
{
	if (condition)
		return;
	ok_ = false;
	std::fprintf(stderr, "%s: %s\n", name.c_str(), what);
}

void Line::putCounts()
{
	auto *const counted =
	    reinterpret_cast<unsigned long (*)(const char *)>(dlsym(RTLD_DEFAULT, "autoamp_emulated_calls"));
	const char *const asked = std::getenv("COUNTED");
	std::istringstream functions(asked && counted ? asked : "");
	for (std::string name; functions >> name;)
		put(("count_" + name).c_str(), static_cast<long long>(counted(name.c_str())));
}

bool Line::print() const
{
	std::printf("%s%s ok=%d\n", name.c_str(), text_.c_str(), ok_);
	std::fflush(stdout);
	return ok_;
}

int runCases(int argc, char **argv, const std::vector<Case> &cases)
{
	std::vector<const char *> globs;
	for (int i = 1; i < argc; i++) {
		if (!std::strcmp(argv[i], "--list") && argc == 2) {
			for (const Case &one : cases)
				std::puts(one.name.c_str());
			return 0;
		}
		if (std::strcmp(argv[i], "--case") || ++i == argc) {
			std::fprintf(stderr, "usage: %s [--list | --case GLOB...]\n", argv[0]);
			return 2;
		}
		globs.push_back(argv[i]);
	}
	bool ok = true, any = false;
	for (const Case &one : cases) {
		const auto isWanted = [&](const char *glob) { return fnmatch(glob, one.name.c_str(), 0) == 0; };
		if (!globs.empty() && std::none_of(globs.begin(), globs.end(), isWanted))
			continue;
		Line line(one.name);
		one.run(line);
		ok = line.print() && ok;
		any = true;
	}
	if (!any)
		std::fprintf(stderr, "%s: no such case\n", argv[0]);
	return ok && any ? 0 : 1;
}

// ---- data

uint64_t Random::next()
{
	uint64_t x = state_ += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

double Random::uniform()
{
	return static_cast<double>(next() >> 11) * 0x1p-53;
}

double Random::gaussian()
{
	const double radius = std::sqrt(-2 * std::log(1 - uniform()));
	return radius * std::cos(6.283185307179586 * uniform());
}

uint64_t hash(const void *data, size_t bytes, uint64_t seed)
{
	const auto *p = static_cast<const unsigned char *>(data);
	for (size_t i = 0; i < bytes; i++)
		seed = (seed ^ p[i]) * 0x100000001b3u;
	return seed;
}

namespace {

constexpr size_t guard = 64; // elements before and behind: 256 bytes

const Home plain = {[](size_t bytes) {
	                    void *memory = nullptr;
	                    CHECK(cudaMalloc(&memory, bytes));
	                    return memory;
                    },
                    [](void *memory) { cudaFree(memory); }};

uint32_t bitsOf(float x)
{
	return std::bit_cast<uint32_t>(x);
}

} // namespace

thread_local const Home *home = &plain;

Array::Array(size_t count, size_t shift)
    : count_(count), before_(guard + shift), image_(before_ + count + guard, std::bit_cast<float>(untouched))
{
	move();
}

Array::~Array()
{
	if (device_)
		home_->give(device_);
}

Array::Array(Array &&other) noexcept
    : count_(other.count_), before_(other.before_), image_(std::move(other.image_)), home_(other.home_),
      device_(std::exchange(other.device_, nullptr))
{
}

Array &Array::operator=(Array &&other) noexcept
{
	std::swap(count_, other.count_);
	std::swap(before_, other.before_);
	image_.swap(other.image_);
	std::swap(home_, other.home_);
	std::swap(device_, other.device_);
	return *this;
}

void Array::move()
{
	float *const old = device_;
	device_ = static_cast<float *>(home_->take(image_.size() * sizeof(float)));
	if (old)
		home_->give(old);
}

void Array::upload() const
{
	CHECK(cudaMemcpy(device_, image_.data(), image_.size() * sizeof(float), cudaMemcpyDefault));
	CHECK(cudaStreamSynchronize(cudaStreamLegacy)); // pageable memory may still be on its way, and streams do not wait
}

void Array::uploadAsync(cudaStream_t stream) const
{
	CHECK(cudaMemcpyAsync(device_, image_.data(), image_.size() * sizeof(float), cudaMemcpyDefault, stream));
}

void Array::download()
{
	CHECK(cudaMemcpy(image_.data(), device_, image_.size() * sizeof(float), cudaMemcpyDefault));
}

void Array::downloadAsync(cudaStream_t stream)
{
	CHECK(cudaMemcpyAsync(image_.data(), device_, image_.size() * sizeof(float), cudaMemcpyDefault, stream));
}

bool Array::isWholeOutside(const std::vector<bool> &written) const
{
	for (size_t i = 0; i < image_.size(); i++) {
		const bool mayDiffer = i >= before_ && i < before_ + count_ && written[i - before_];
		if (!mayDiffer && bitsOf(image_[i]) != untouched)
			return false;
	}
	return true;
}

Matrix::Matrix(int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t stride, size_t shift, bool isByRows)
    : rows(rows), columns(columns), ld(ld), batch(batch), stride(stride), isByRows(isByRows),
      array(static_cast<size_t>(std::max<int64_t>(0, stride * (batch - 1)) +
                                ld * std::max<int64_t>(isByRows ? rows : columns, 1)),
            shift)
{
}

void Matrix::each(const std::function<void(float &)> &visit)
{
	for (int64_t matrix = 0; matrix < (stride ? batch : 1); matrix++)
		for (int64_t column = 0; column < columns; column++)
			for (int64_t row = 0; row < rows; row++)
				visit(array[index(matrix, row, column)]);
}

void Matrix::fill(const std::function<double()> &value)
{
	each([&](float &x) { x = static_cast<float>(value()); });
}

// ---- the application's state

void awaitDestructors()
{
	std::atomic<bool> isCalled{false};
	cudaUserObject_t last = nullptr; // destructors run in turn
	const auto destroy = [](void *pointer) { *static_cast<std::atomic<bool> *>(pointer) = true; };
	CHECK(cudaUserObjectCreate(&last, &isCalled, destroy, 1, cudaUserObjectNoDestructorSync));
	CHECK(cudaUserObjectRelease(last, 1));
	while (!isCalled)
		std::this_thread::sleep_for(std::chrono::microseconds(100));
}

Session::Session()
{
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cublasCreate(&handle));
	CHECK(cublasSetStream(handle, stream));
	CHECK(cublasLtCreate(&light));
}

Session::~Session()
{
	if (light)
		cublasLtDestroy(light);
	if (handle)
		cublasDestroy(handle);
	if (stream)
		cudaStreamDestroy(stream);
}

Workspace::Workspace(const Session &session)
{
	constexpr size_t bytes = 32 << 20;
	CHECK(cudaMalloc(&memory_, bytes));
	CHECK(cublasSetWorkspace(session.handle, memory_, bytes));
}

Workspace::~Workspace()
{
	CHECK(cudaFree(memory_));
}

State::State(cublasHandle_t handle)
{
	CHECK(cublasGetStream(handle, &stream));
	CHECK(cublasGetPointerMode(handle, &pointerMode));
	CHECK(cublasGetMathMode(handle, &mathMode));
	CHECK(cublasGetAtomicsMode(handle, &atomicsMode));
	CHECK(cublasGetSmCountTarget(handle, &smCount));
	error = cudaPeekAtLastError();
}

// ---- a product

std::string entryOf(const Spec &spec)
{
	static constexpr const char *names[] = {"cublasSgemm_v2",
	                                        "cublasSgemmEx",
	                                        "cublasGemmEx",
	                                        "cublasSgemmStridedBatched",
	                                        "cublasGemmStridedBatchedEx",
	                                        "cublasSgemmBatched",
	                                        "cublasGemmBatchedEx",
	                                        "cublasSgemmGroupedBatched",
	                                        "cublasGemmGroupedBatchedEx",
	                                        "cublasLtMatmul"};
	return std::string(names[static_cast<size_t>(spec.door)]) + (spec.is64 ? "_64" : "");
}

namespace {

Matrix operand(int rows, int columns, bool isTransposed, int pad, int gap, bool isShared, int batch, unsigned shift,
               bool isByRows)
{
	if (isTransposed)
		std::swap(rows, columns);
	const int64_t ld = std::max(isByRows ? columns : rows, 1) + pad;
	return {rows, columns, ld, batch, isShared ? 0 : ld * (isByRows ? rows : columns) + gap, shift, isByRows};
}

bool isLt(const Spec &spec)
{
	return spec.door == Interception::ltMatmul;
}

// The bits of cublasLtEpilogue_t for which there are no names.
constexpr unsigned maskedBit = 8, gradientBit = 16, derivedBit = 64, auxBit = 128;

bool hasBias(const Spec &spec)
{
	return spec.epilogue & CUBLASLT_EPILOGUE_BIAS;
}

// One group after the other; the last one takes what is left of the batch.
template <typename Int>
struct Groups {
	explicit Groups(const Spec &spec, const Matrix &a, const Matrix &b, const Matrix &c)
	    : transa(count(spec), spec.transa), transb(count(spec), spec.transb), alpha(count(spec), spec.alpha),
	      beta(count(spec), spec.beta), size(count(spec), static_cast<Int>(spec.batch / spec.groups))
	{
		const int64_t numbers[] = {spec.m, spec.n, spec.k, a.ld, b.ld, c.ld};
		for (int i = 0; i < 6; i++)
			shape[i].assign(count(spec), static_cast<Int>(numbers[i]));
		size.back() = static_cast<Int>(spec.batch - spec.batch / spec.groups * (spec.groups - 1));
		if (spec.hasOddGroup)
			beta.back() = -0.0f;
	}
	static size_t count(const Spec &spec) { return static_cast<size_t>(spec.groups); }

	std::vector<cublasOperation_t> transa, transb;
	std::vector<float> alpha, beta;
	std::vector<Int> shape[6], size;
};

template <typename Int, typename Function, typename Pointers, typename... Compute>
int callGrouped(Function function, cublasHandle_t handle, const Spec &spec, const Groups<Int> &g, Pointers arrays,
                Compute... compute)
{
	const float *const scalars[] = {g.alpha.data(), g.beta.data()};
	const auto B = arrays + spec.batch, C = B + spec.batch;
	if constexpr (sizeof...(compute) == 0)
		return function(handle, g.transa.data(), g.transb.data(), g.shape[0].data(), g.shape[1].data(),
		                g.shape[2].data(), scalars[0], arrays, g.shape[3].data(), B, g.shape[4].data(), scalars[1], C,
		                g.shape[5].data(), static_cast<Int>(spec.groups), g.size.data());
	else
		return function(handle, g.transa.data(), g.transb.data(), g.shape[0].data(), g.shape[1].data(),
		                g.shape[2].data(), scalars[0], arrays, CUDA_R_32F, g.shape[3].data(), B, CUDA_R_32F,
		                g.shape[4].data(), scalars[1], C, CUDA_R_32F, g.shape[5].data(), static_cast<Int>(spec.groups),
		                g.size.data(), compute...);
}

bool hasGradient(const Spec &spec)
{
	return spec.epilogue & (gradientBit | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
}

size_t auxSize(const Spec &spec, int64_t ld) // in floats
{
	const int64_t elements = ld * spec.n * spec.batch;
	return !(spec.epilogue & auxBit)                              ? 0
	       : spec.epilogue & (CUBLASLT_EPILOGUE_RELU | maskedBit) ? static_cast<size_t>(elements / 32)
	                                                              : static_cast<size_t>(elements);
}

// cublasLt computes the gradient of a bias from partial sums, which are in the workspace.
Spec withWorkspace(Spec spec)
{
	if (spec.epilogue & gradientBit) {
		spec.usesHeuristic = true;
		spec.workspace = std::max(spec.workspace, size_t{32} << 20); // as much as autoamp permits
	}
	return spec;
}

double gelu(double x)
{
	return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

double slopeOfGelu(double x)
{
	const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
	return 0.5 * (1 + t + x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x));
}

} // namespace

Problem::Problem(const Spec &wanted, uint64_t seed)
    : spec(withWorkspace(wanted)), a(operand(spec.m, spec.k, spec.transa != CUBLAS_OP_N, spec.padA, spec.gap,
                                             spec.sharesA, spec.batch, spec.shiftA, spec.isRowA)),
      b(operand(spec.k, spec.n, spec.transb != CUBLAS_OP_N, spec.padB, spec.gap, spec.sharesB, spec.batch, spec.shiftB,
                spec.isRowB)),
      c(operand(spec.m, spec.n, false, spec.padC, spec.gap, false, spec.batch, spec.shiftC, spec.isRowD)),
      d(operand(spec.hasOwnD ? spec.m : 1, spec.hasOwnD ? spec.n : 1, false, spec.padC, spec.gap, false,
                spec.hasOwnD ? spec.batch : 1, spec.shiftC, spec.isRowD)),
      bias(static_cast<size_t>(std::max({spec.m, spec.n, 1}) + spec.gap) * static_cast<size_t>(spec.batch + 1)),
      aux(auxSize(spec, (spec.m + 255) / 128 * 128)), scalars(2), workspace(spec.workspace / sizeof(float)),
      biasStride(hasGradient(spec) ? std::max(spec.m, spec.n) + spec.gap : 0), auxLd((spec.m + 255) / 128 * 128),
      pointers(8 * static_cast<size_t>(std::max(spec.batch, 1)))
{
	Random random(seed);
	const auto gaussian = [&] { return random.gaussian(); };
	a.fill(gaussian);
	b.fill(gaussian);
	c.fill(gaussian);
	for (size_t i = 0; i < bias.size(); i++)
		bias[i] = hasGradient(spec) ? bias[i] : static_cast<float>(random.gaussian());
	if (spec.epilogue & (maskedBit | derivedBit)) // the input of an operation's gradient
		for (size_t i = 0; i < aux.size(); i++)
			aux[i] = static_cast<float>(random.gaussian());
	if (spec.isCNan)
		c.fill([] { return NAN; });
	if (spec.isANan)
		a.fill([] { return NAN; });
	setScalars(spec.alpha, spec.beta);
}

void Problem::setScalars(float alpha, float beta)
{
	spec.alpha = alpha;
	spec.beta = beta;
	scalars[0] = alpha;
	scalars[1] = beta;
}

void Problem::upload()
{
	before_.resize(c.array.size());
	for (size_t i = 0; i < before_.size(); i++)
		before_[i] = c.array[i];
	for (const Matrix *matrix : {&a, &b, &c, &d})
		matrix->array.upload();
	size_t place = 0;
	for (const Matrix *matrix : {&a, &b, &c, &result()})
		for (int i = 0; i < spec.batch; i++) {
			const auto address = reinterpret_cast<uintptr_t>(matrix->array.data() + i * matrix->stride);
			for (const uintptr_t half : {address, address >> 32})
				pointers[place++] = std::bit_cast<float>(static_cast<uint32_t>(half));
		}
	pointers.upload();
	bias.upload();
	aux.upload();
	scalars.upload();
	workspace.upload();
}

void Problem::download()
{
	for (Matrix *matrix : {&a, &b, &c, &d})
		matrix->array.download();
	workspace.download();
	bias.download();
	aux.download();
}

void Problem::restore()
{
	for (size_t i = 0; i < before_.size(); i++)
		c.array[i] = before_[i];
}

int Problem::call(cublasHandle_t handle, cublasLtHandle_t light)
{
	CHECK(cublasSetPointerMode(handle, spec.hasDeviceScalars ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
	CHECK(cublasSetMathMode(handle, spec.mathMode));
	const float *const alpha = spec.hasDeviceScalars ? scalars.data() : &spec.alpha;
	const float *const beta = spec.hasDeviceScalars ? scalars.data() + 1 : &spec.beta;
	const Spec &s = spec;
	const float *const A = a.array.data(), *const B = b.array.data();
	float *const C = c.array.data();
	const cudaDataType type = CUDA_R_32F;
	const int lda = static_cast<int>(a.ld), ldb = static_cast<int>(b.ld), ldc = static_cast<int>(c.ld);
	constexpr cublasGemmAlgo_t algo = CUBLAS_GEMM_DEFAULT;
	auto *const *const arrays = reinterpret_cast<float *const *>(pointers.data());
	auto *const *const voids = reinterpret_cast<void *const *>(pointers.data());
	switch (s.door) {
#define EITHER(name, ...)                                                                                              \
	return s.is64 ? name##_64(handle, s.transa, s.transb, s.m, s.n, s.k, __VA_ARGS__)                                  \
	              : name(handle, s.transa, s.transb, s.m, s.n, s.k, __VA_ARGS__)
	case Interception::sgemm:
		EITHER(cublasSgemm, alpha, A, lda, B, ldb, beta, C, ldc);
	case Interception::sgemmEx:
		EITHER(cublasSgemmEx, alpha, A, type, lda, B, type, ldb, beta, C, type, ldc);
	case Interception::gemmEx:
		EITHER(cublasGemmEx, alpha, A, type, lda, B, type, ldb, beta, C, type, ldc, s.compute, algo);
	case Interception::sgemmStridedBatched:
		EITHER(cublasSgemmStridedBatched, alpha, A, lda, a.stride, B, ldb, b.stride, beta, C, ldc, c.stride, s.batch);
	case Interception::sgemmBatched:
		EITHER(cublasSgemmBatched, alpha, arrays, lda, arrays + s.batch, ldb, beta, arrays + 2 * s.batch, ldc, s.batch);
	case Interception::gemmBatchedEx:
		EITHER(cublasGemmBatchedEx, alpha, voids, type, lda, voids + s.batch, type, ldb, beta, voids + 2 * s.batch,
		       type, ldc, s.batch, s.compute, algo);
	case Interception::gemmStridedBatchedEx:
		EITHER(cublasGemmStridedBatchedEx, alpha, A, type, lda, a.stride, B, type, ldb, b.stride, beta, C, type, ldc,
		       c.stride, s.batch, s.compute, algo);
#undef EITHER
	case Interception::sgemmGrouped:
		return s.is64 ? callGrouped(cublasSgemmGroupedBatched_64, handle, s, Groups<int64_t>(s, a, b, c), arrays)
		              : callGrouped(cublasSgemmGroupedBatched, handle, s, Groups<int>(s, a, b, c), arrays);
	case Interception::gemmGroupedEx:
		return s.is64 ? callGrouped(cublasGemmGroupedBatchedEx_64, handle, s, Groups<int64_t>(s, a, b, c), voids,
		                            s.compute)
		              : callGrouped(cublasGemmGroupedBatchedEx, handle, s, Groups<int>(s, a, b, c), voids, s.compute);
	case Interception::ltMatmul:
		break;
	}
	cudaStream_t stream = nullptr;
	CHECK(cublasGetStream(handle, &stream));
	return callLt(handle, light, stream);
}

namespace {

// Bytes that end exactly at the end of the accessible memory.
class GuardedBytes
{
public:
	explicit GuardedBytes(size_t bytes) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE)))
	{
		base_ =
		    static_cast<char *>(mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		if (base_ == MAP_FAILED || mprotect(base_ + page_, page_, PROT_NONE))
			fail("mmap", "refused");
		std::memset(base_, 0xa5, page_);
		start = base_ + page_ - bytes;
	}
	~GuardedBytes() { munmap(base_, 2 * page_); }
	GuardedBytes(const GuardedBytes &) = delete;

	void *start;

private:
	size_t page_;
	char *base_;
};

// cublasLt's descriptors, in each way in which an application may keep them.
class LtObjects
{
public:
	LtObjects(Objects kind, size_t bytes, cublasComputeType_t compute)
	    : kind_(kind), pages_{GuardedBytes(bytes), GuardedBytes(sizeof layouts_[0]), GuardedBytes(sizeof layouts_[0]),
	                          GuardedBytes(sizeof layouts_[0]), GuardedBytes(sizeof layouts_[0])}
	{
		std::memset(&desc_, 0xa5, sizeof desc_);
		std::memset(layouts_, 0xa5, sizeof layouts_);
		switch (kind) {
		case Objects::created:
			CHECK(cublasLtMatmulDescCreate(&desc, compute, CUDA_R_32F));
			break;
		case Objects::onStack:
			desc = &desc_;
			CHECK(cublasLtMatmulDescInit(desc, compute, CUDA_R_32F));
			break;
		default:
			desc = static_cast<cublasLtMatmulDesc_t>(pages_[0].start);
			CHECK(cublasLtMatmulDescInit_internal(desc, bytes, compute, CUDA_R_32F));
		}
	}
	~LtObjects()
	{
		if (kind_ != Objects::created)
			return;
		cublasLtMatmulDescDestroy(desc);
		for (int i = 0; i < count_; i++)
			cublasLtMatrixLayoutDestroy(made_[i]);
	}
	template <typename Value>
	void set(cublasLtMatmulDescAttributes_t attribute, Value value)
	{
		CHECK(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value));
	}
	cublasLtMatrixLayout_t layout(const Matrix &matrix, bool isArray)
	{
		cublasLtMatrixLayout_t &made = made_[count_];
		const auto rows = static_cast<uint64_t>(matrix.rows), columns = static_cast<uint64_t>(matrix.columns);
		if (kind_ == Objects::created) {
			CHECK(cublasLtMatrixLayoutCreate(&made, CUDA_R_32F, rows, columns, matrix.ld));
		} else {
			made = kind_ == Objects::onStack ? &layouts_[count_]
			                                 : static_cast<cublasLtMatrixLayout_t>(pages_[1 + count_].start);
			CHECK(cublasLtMatrixLayoutInit(made, CUDA_R_32F, rows, columns, matrix.ld));
		}
		if (matrix.batch != 1) {
			const auto batch = static_cast<int32_t>(matrix.batch);
			CHECK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
			CHECK(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.stride,
			                                       sizeof matrix.stride));
		}
		const auto set = [made](cublasLtMatrixLayoutAttribute_t id, uint32_t value) {
			CHECK(cublasLtMatrixLayoutSetAttribute(made, id, &value, sizeof value));
		};
		if (matrix.isByRows)
			set(CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_ROW);
		if (isArray)
			set(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, CUBLASLT_BATCH_MODE_POINTER_ARRAY);
		count_++;
		return made;
	}

	cublasLtMatmulDesc_t desc = nullptr;

private:
	const Objects kind_;
	cublasLtMatmulDescOpaque_t desc_;
	cublasLtMatrixLayoutOpaque_t layouts_[4];
	GuardedBytes pages_[5];
	cublasLtMatrixLayout_t made_[4] = {};
	int count_ = 0;
};

} // namespace

int Problem::callLt(cublasHandle_t handle, cublasLtHandle_t light, cudaStream_t stream)
{
	// Deliberately in this frame only: autoamp must not keep a descriptor beyond the call.
	LtObjects objects(spec.objects, spec.objectBytes, spec.compute);
	objects.set(CUBLASLT_MATMUL_DESC_TRANSA, spec.transa);
	objects.set(CUBLASLT_MATMUL_DESC_TRANSB, spec.transb);
	if (spec.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
		objects.set(CUBLASLT_MATMUL_DESC_EPILOGUE, spec.epilogue);
	if (hasBias(spec) || hasGradient(spec))
		objects.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void *>(bias.data()));
	if (biasStride)
		objects.set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, biasStride);
	if (spec.epilogue & auxBit) {
		objects.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<const void *>(aux.data()));
		objects.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, auxLd);
		objects.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, auxLd * spec.n);
	}
	if (spec.hasDeviceScalars)
		objects.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
	cublasLtMatrixLayout_t layoutA = objects.layout(a, spec.areArrays), layoutB = objects.layout(b, spec.areArrays),
	                       layoutC = objects.layout(spec.isCA ? a : c, spec.areArrays),
	                       layoutD = objects.layout(result(), spec.areArrays);

	const cublasLtHandle_t asked = spec.ltHandle == LtHandle::own ? light : reinterpret_cast<cublasLtHandle_t>(handle);
	const float *const alpha = spec.hasDeviceScalars ? scalars.data() : &spec.alpha;
	const float *const beta = spec.hasDeviceScalars ? scalars.data() + 1 : &spec.beta;
	cublasLtMatmulHeuristicResult_t found = {};
	if (spec.usesHeuristic) {
		cublasLtMatmulPreference_t preference = nullptr;
		int count = 0;
		CHECK(cublasLtMatmulPreferenceCreate(&preference));
		CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
		                                           &spec.workspace, sizeof spec.workspace));
		const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(asked, objects.desc, layoutA, layoutB, layoutC,
		                                                             layoutD, preference, 1, &found, &count);
		CHECK(cublasLtMatmulPreferenceDestroy(preference));
		if (status || count != 1)
			return status ? status : CUBLAS_STATUS_NOT_SUPPORTED;
	}
	const float *const A = a.array.data(), *const B = b.array.data(),
	                   *const C = spec.isCNull ? nullptr : (spec.isCA ? a : c).array.data();
	float *const *const arrays = reinterpret_cast<float *const *>(pointers.data()); // in place, C's is the result's
	const auto of = [&](const float *data, int which) {
		return spec.areArrays && data ? static_cast<const void *>(arrays + which * spec.batch) : data;
	};
	return cublasLtMatmul(asked, objects.desc, alpha, of(A, 0), layoutA, of(B, 1), layoutB, beta,
	                      of(C, spec.hasOwnD ? 2 : 3), layoutC, const_cast<void *>(of(result().array.data(), 3)),
	                      layoutD, spec.usesHeuristic ? &found.algo : nullptr,
	                      spec.workspace ? workspace.data() : nullptr, spec.workspace, stream);
}

bool Problem::maskAt(int64_t matrix, int64_t row, int64_t column) const
{
	const int64_t bit = (matrix * spec.n + column) * auxLd + row;
	return std::bit_cast<uint32_t>(aux[static_cast<size_t>(bit / 32)]) >> bit % 32 & 1;
}

Answer Problem::compare() const
{
	const Matrix &got = spec.hasOwnD ? d : c;
	// A large product is compared at a sample of its elements, with at least one in every row and column.
	const double work = 1.0 * spec.batch * spec.m * spec.n * spec.k;
	const auto step = static_cast<int64_t>(std::max(1.0, work / (1 << 23))) | 1;
	const bool isTransA = spec.transa != CUBLAS_OP_N, isTransB = spec.transb != CUBLAS_OP_N;
	constexpr double roundings = 0x1p-7; // two bfloat16 operands, in |A||B|
	Answer answer;
	double error = 0, size = 0, largest = 0, squares = 0, besideError = 0, besideSize = 0;
	long long count = 0;
	const unsigned epilogue = spec.epilogue;
	std::vector<double> gradient(bias.size()), gradientOfProduct(bias.size());
	const auto toGradient = [&](int64_t matrix, int64_t i, double value, double ofProduct) {
		gradient[static_cast<size_t>(matrix * biasStride + i)] += value;
		gradientOfProduct[static_cast<size_t>(matrix * biasStride + i)] += ofProduct;
	};
	for (int64_t place = 0; place < int64_t{1} * spec.batch * spec.m * spec.n; place++) {
		const int64_t i = place % spec.m, j = place / spec.m % spec.n, matrix = place / spec.m / spec.n;
		const float out = got.at(matrix, i, j);
		const int category = std::isnan(out) ? 3 : std::isinf(out) ? (out > 0 ? 1 : 2) : 0;
		answer.classes = (answer.classes ^ static_cast<uint64_t>(category)) * 0x100000001b3u;
		answer.nonfinite += category != 0;
		if (place % step)
			continue;
		double product = 0, magnitude = 0;
		for (int64_t l = 0; l < (spec.alpha != 0 ? spec.k : 0); l++) {
			const double x = isTransA ? a.at(matrix, l, i) : a.at(matrix, i, l);
			const double y = isTransB ? b.at(matrix, j, l) : b.at(matrix, l, j);
			if (epilogue & CUBLASLT_EPILOGUE_BGRADA && j == 0)
				toGradient(matrix, i, x, x);
			if (epilogue & CUBLASLT_EPILOGUE_BGRADB && i == 0)
				toGradient(matrix, j, y, y);
			product += x * y;
			magnitude += std::fabs(x * y);
		}
		product *= spec.alpha;
		magnitude *= std::fabs(spec.alpha);
		double sum = product;
		if (spec.beta != 0)
			sum += spec.beta * (spec.isCA ? a.at(matrix, i, j) : before_[c.index(matrix, i, j)]);
		if (hasBias(spec))
			sum += bias[static_cast<size_t>(i)];
		double slope = 1; // the result's part of the product's error
		if (epilogue & CUBLASLT_EPILOGUE_RELU)
			slope = sum >= 0;
		else if (epilogue & CUBLASLT_EPILOGUE_GELU)
			slope = slopeOfGelu(sum);
		else if (epilogue & maskedBit)
			slope = maskAt(matrix, i, j);
		const int64_t auxPlace = (matrix * spec.n + j) * auxLd + i;
		if (epilogue & derivedBit)
			slope = slopeOfGelu(aux[static_cast<size_t>(auxPlace)]);
		const double wanted = epilogue & CUBLASLT_EPILOGUE_GELU ? gelu(sum) : sum * slope;
		if (epilogue & gradientBit)
			toGradient(matrix, i, wanted, product * slope);
		if (epilogue & auxBit && epilogue & CUBLASLT_EPILOGUE_GELU) {
			besideError += std::pow(aux[static_cast<size_t>(auxPlace)] - sum, 2);
			besideSize += product * product;
		}
		if (epilogue & auxBit && epilogue & CUBLASLT_EPILOGUE_RELU) {
			besideError += maskAt(matrix, i, j) != (out > 0); // if it is exactly 0, nothing was rounded
			besideSize++;
		}
		answer.spoiled += category != 0 && std::fabs(wanted) + roundings * magnitude < 3.4e38;
		largest = std::max(largest, std::fabs(wanted));
		squares += wanted * wanted;
		count++;
		const double difference = static_cast<double>(out) - wanted; // rounding may affect clipped elements
		error += difference * difference;
		size += product * product * slope * slope;
		if (magnitude > 0 && slope != 0)
			answer.omega = std::max(answer.omega, std::fabs(difference) / magnitude);
	}
	answer.eta = size > 0 ? std::sqrt(error / size) : error > 0 ? INFINITY : 0;
	for (size_t i = 0; hasGradient(spec) && i < gradient.size(); i++)
		if (gradientOfProduct[i] != 0) {
			besideError += std::pow(bias[i] - gradient[i], 2);
			besideSize += std::pow(gradientOfProduct[i], 2);
		}
	if (besideSize > 0)
		answer.beside = std::sqrt(besideError / besideSize);
	const double usual = count ? std::sqrt(squares / static_cast<double>(count)) : 0;
	answer.isMeasurable = largest <= 3.4e38 && usual >= 1e-30;
	return answer;
}

bool Problem::isPaddingWhole() const
{
	const auto isWhole = [](const Matrix &matrix) {
		std::vector<bool> belongs(matrix.array.size());
		for (int64_t batch = 0; batch < matrix.batch; batch++)
			for (int64_t column = 0; column < matrix.columns; column++)
				for (int64_t row = 0; row < matrix.rows; row++)
					belongs[matrix.index(batch, row, column)] = true;
		return matrix.array.isWholeOutside(belongs);
	};
	const int perWord = hasMask() ? 32 : 1;
	std::vector<bool> inAux(aux.size()), inBias(bias.size(), !hasGradient(spec));
	for (size_t i = 0; i < aux.size(); i++)
		inAux[i] = static_cast<int64_t>(i) * perWord % auxLd < spec.m || spec.epilogue & (maskedBit | derivedBit);
	for (size_t i = 0; biasStride && i < bias.size(); i++) {
		const auto place = static_cast<int64_t>(i);
		inBias[i] = place / biasStride < spec.batch &&
		            place % biasStride < (spec.epilogue & CUBLASLT_EPILOGUE_BGRADB ? spec.n : spec.m);
	}
	if (!aux.isWholeOutside(inAux) || !bias.isWholeOutside(inBias))
		return false;
	return isWhole(a) && isWhole(b) && isWhole(c) && (!spec.hasOwnD || isWhole(d)) &&
	       workspace.isWholeOutside(std::vector<bool>(workspace.size(), true));
}

void Problem::putRounded(Line &line)
{
	int wide = 0;
	uint64_t hash = 0;
	result().each([&](float &x) {
		uint32_t bits;
		std::memcpy(&bits, &x, sizeof bits);
		wide += (bits & 0xffff) != 0;
		if (!std::isnan(x))
			bits += 0x7fff + (bits >> 16 & 1);
		hash = (hash ^ bits >> 16) * 0x9e3779b97f4a7c15;
	});
	line.put("wide", wide).bits("rounded", hash);
}

void Problem::describe(Line &line) const
{
	line.put("entry", entryOf(spec)).put("m", spec.m).put("n", spec.n).put("k", spec.k).put("batch", spec.batch);
	if (isLt(spec))
		line.put("epilogue", static_cast<int>(spec.epilogue)).put("arrays", spec.areArrays);
}

void Problem::runOn(Session &session, Line &line)
{
	constexpr double worst = 4e-3; // for the least exact type in which a product may be computed
	upload();
	CHECK(cudaDeviceSynchronize());
	CHECK(cublasSetPointerMode(session.handle,
	                           spec.hasDeviceScalars ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
	CHECK(cublasSetMathMode(session.handle, spec.mathMode));
	const State before(session.handle);
	const int status = call(session.handle, session.light);
	line.require(State(session.handle) == before, "the handle or the pending error changed");
	CHECK(cudaStreamSynchronize(session.stream));
	const uint64_t operands[] = {a.array.bits(), b.array.bits()};
	download();
	line.require(operands[0] == a.array.bits() && operands[1] == b.array.bits(), "an operand changed");
	line.require(isPaddingWhole(), "memory outside the matrices changed");
	describe(line);
	line.put("status", status).bits("bits", result().array.bits());
	putRounded(line);
	if (status == 0) {
		const Answer answer = compare();
		line.put("eta", answer.eta).put("omega", answer.omega).put("nonfinite", answer.nonfinite);
		if (!(answer.beside < 0)) // true for NaN, too
			line.put("beside", answer.beside).bits("beside_bits", bias.bits() ^ aux.bits());
		line.require(answer.spoiled == 0, "Inf or NaN where there is none");
		line.require(answer.eta < worst, "wrong result");
	}
}

} // namespace client
