// The legacy convolutions: their algorithms, workspaces, searches and calls. The three directions share one path,
// because their arguments have the same order: first operand, second operand, result.
#include "tools/emulated/cudnn/descriptors.h"

#include <cmath>
#include <cstring>

using namespace emulated::cudnn;
using emulated::dnn::Convolution;
using emulated::dnn::Direction;

namespace {

// Type of x, w and y, then the compute type.
enum Configuration : unsigned { trueHalf = 1, pseudoHalf = 2, pseudoBfloat16 = 4, single = 8, fp64 = 16 };
constexpr unsigned any = 31, notTrueHalf = any & ~trueHalf;

constexpr struct {
	cudnnDataType_t data, compute;
	Configuration configuration;
} configurations[] = {{CUDNN_DATA_HALF, CUDNN_DATA_HALF, trueHalf},
                      {CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, pseudoHalf},
                      {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, pseudoBfloat16},
                      {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, single},
                      {CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, fp64}};

enum class Limit { none, plain, fft, fftTiling, nonfused, never };

// The algorithms of each direction, best first. hasTensorCores: a search also returns the algorithm without them.
// types 0: cuDNN has no such kernel. Limit::never: the emulated device refuses it.
struct Algorithm {
	Direction direction;
	int number;
	unsigned types;
	Limit limit;
	bool isDeterministic, hasTensorCores;
};
constexpr auto F = Direction::forward, D = Direction::backwardData, W = Direction::backwardFilter;
constexpr Algorithm algorithms[] = {
    {F, 1, any, Limit::none, true, true},
    {F, 0, notTrueHalf, Limit::none, true, false},
    {F, 7, any & ~fp64, Limit::nonfused, true, true},
    {F, 6, pseudoHalf | single, Limit::never, true, false},
    {F, 2, notTrueHalf, Limit::plain, true, false},
    {F, 4, pseudoHalf | single, Limit::fft, true, false},
    {F, 5, pseudoHalf | single, Limit::fftTiling, true, false},
    {F, 3, 0, Limit::never, true, false},
    {D, 1, any, Limit::none, true, true},
    {D, 0, notTrueHalf, Limit::none, false, false},
    {D, 5, any & ~fp64, Limit::nonfused, true, true},
    {D, 4, pseudoHalf | single, Limit::never, true, false},
    {D, 2, pseudoHalf | single, Limit::fft, true, false},
    {D, 3, pseudoHalf | single, Limit::fftTiling, true, false},
    {W, 1, any, Limit::none, true, true},
    {W, 0, notTrueHalf, Limit::none, false, false},
    {W, 3, notTrueHalf, Limit::none, false, false},
    {W, 5, any & ~fp64, Limit::nonfused, true, true},
    {W, 2, pseudoHalf | single, Limit::fft, true, false},
    {W, 6, pseudoHalf | single, Limit::never, true, false},
    {W, 4, 0, Limit::never, true, false},
};

// A convolution with valid descriptors.
struct Problem {
	Convolution geometry;
	Tensor first, second, result;
	Configuration configuration = single;
	cudnnMathType_t math = CUDNN_DEFAULT_MATH;

	const Tensor &x() const { return geometry.direction == D ? result : first; }
	const Tensor &w() const { return geometry.direction == F ? second : geometry.direction == D ? first : result; }
	const Tensor &y() const { return geometry.direction == F ? result : second; }
	Rounding rounding(const Algorithm &algorithm) const
	{
		return math == CUDNN_FMA_MATH || !algorithm.hasTensorCores ? Rounding::None
		       : math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION     ? Rounding::Half
		                                                           : emulated::dnn::tensorCoreRounding();
	}
};

cudnnStatus_t describe(Direction direction, const cudnnTensorStruct *first, const cudnnTensorStruct *second,
                       const cudnnConvolutionStruct *convolution, const cudnnTensorStruct *result, Problem &problem)
{
	REFUSE_IF(!first || !second || !convolution || !result, BAD_PARAM);
	problem = {convolution->geometry(), first->tensor, second->tensor, result->tensor, single, convolution->math};
	problem.geometry.direction = direction;
	const Tensor &x = problem.x(), &w = problem.w(), &y = problem.y();
	int64_t dims[CUDNN_DIM_MAX];
	REFUSE_IF(!outputOf(*convolution, x, w, dims) || y.rank != x.rank, BAD_PARAM);
	REFUSE_IF(!std::equal(dims, dims + y.rank, y.dims) || w.dims[0] % convolution->groups != 0, BAD_PARAM);
	REFUSE_IF(x.rank != 4 && x.rank != 5, NOT_SUPPORTED);
	for (const Tensor *tensor : {&x, &w, &y})
		REFUSE_IF(tensor->before() != 0, NOT_SUPPORTED);
	for (const auto &row : configurations)
		if (x.type == row.data && w.type == row.data && y.type == row.data && convolution->compute == row.compute) {
			problem.configuration = row.configuration;
			return CUDNN_STATUS_SUCCESS;
		}
	return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the data types are not a supported configuration");
}

// Whether each image or filter is stored without gaps, with its channels last or before the image.
bool isPacked(const Tensor &t, bool isChannelsLast)
{
	int64_t stride = 1;
	const auto next = [&](int dimension) {
		const bool isNext = t.dims[dimension] == 1 || t.strides[dimension] == stride;
		stride *= t.dims[dimension];
		return isNext;
	};
	bool isIt = !isChannelsLast || next(1);
	for (int i = t.rank - 1; i > (isChannelsLast ? 1 : 0); --i)
		isIt &= next(i);
	return isIt;
}

// An output gradient has the layout of the filter, without gaps. 3-D filters have no gaps.
bool isLayoutServed(const Problem &p)
{
	const Convolution &c = p.geometry;
	if (c.direction == F)
		return c.spatial == 2 || isPacked(p.w(), false) || isPacked(p.w(), true);
	return (isPacked(p.w(), false) && isPacked(p.y(), false)) ||
	       (isPacked(p.w(), true) && isPacked(p.y(), true) && isPacked(p.x(), true));
}

bool isWithin(Limit limit, const Problem &p)
{
	const Convolution &c = p.geometry;
	const int64_t *filter = p.w().dims + 2, *image = p.x().dims + 2;
	bool isDense = true, isUnstrided = true, is3x3 = true, is5x5 = true, isSmall = true, isTile = true, hasRoom = true;
	for (int i = 0; i < c.spatial; ++i) {
		isDense &= c.dilation[i] == 1;
		isUnstrided &= c.stride[i] == 1;
		is3x3 &= filter[i] == 3;
		is5x5 &= filter[i] == 5;
		isSmall &= image[i] + 2 * c.prePad[i] <= 256;
		isTile &= filter[i] <= (c.spatial == 3 ? 16 : 32);
		hasRoom &= filter[i] > c.prePad[i];
	}
	auto hasRows = [](const Tensor &t) {
		return t.strides[t.rank - 1] == 1 && t.strides[t.rank - 2] == t.dims[t.rank - 1];
	};
	const bool is2d = c.spatial == 2, isNchw = hasRows(p.x()) && hasRows(p.y()) && hasRows(p.w());
	const bool isFft = isNchw && isDense && isUnstrided && hasRoom;
	switch (limit) {
	case Limit::none:
		return true;
	case Limit::plain:
		return is2d && isDense;
	case Limit::fft:
		return is2d && isFft && isSmall;
	case Limit::fftTiling:
		return isFft && isTile;
	case Limit::nonfused:
		return is2d && isDense && isUnstrided && (is3x3 || (is5x5 && p.configuration != trueHalf));
	default:
		return false;
	}
}

const Algorithm *find(const Problem &problem, int number)
{
	for (const Algorithm &row : algorithms)
		if (row.direction == problem.geometry.direction && row.number == number)
			return &row;
	return nullptr;
}

bool isServed(const Algorithm &algorithm, const Problem &problem)
{
	return (algorithm.types & problem.configuration) && isLayoutServed(problem) && isWithin(algorithm.limit, problem);
}

// Invented sizes, but nonzero if the real algorithm uses a workspace.
size_t workspaceOf(const Algorithm &algorithm, const Problem &problem)
{
	const size_t images = problem.x().count() + problem.y().count(), filter = problem.w().count();
	switch (algorithm.limit) {
	case Limit::none:
		return algorithm.number == 1 && problem.geometry.direction != W ? 256 + 4 * problem.w().countFrom(1) : 0;
	case Limit::plain:
		return 0;
	case Limit::fft:
		return 256 * (images + filter);
	default:
		return 8 * (images + filter);
	}
}

// Algorithm 1 runs slower without its workspace, except as an unstrided data gradient.
size_t requiredOf(const Algorithm &algorithm, const Problem &problem)
{
	const Convolution &c = problem.geometry;
	const bool isUnstrided = std::all_of(c.stride, c.stride + c.spatial, [](int64_t stride) { return stride == 1; });
	const bool isOptional = algorithm.limit == Limit::none && !(c.direction == D && isUnstrided);
	return isOptional ? 0 : workspaceOf(algorithm, problem);
}

constexpr size_t workspaceUnlimited = SIZE_MAX;

// The results of a search: supported algorithms, best first, then unsupported ones. Times are invented.
template <typename Result>
void search(const Problem &problem, bool isTimed, size_t workspace, int asked, int *returned, Result *results)
{
	std::vector<Result> served, refused;
	for (const Algorithm &row : algorithms) {
		if (row.direction != problem.geometry.direction)
			continue;
		Result one{};
		one.algo = static_cast<decltype(one.algo)>(row.number);
		one.determinism = row.isDeterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
		one.mathType = problem.math;
		one.time = -1;
		one.status = CUDNN_STATUS_NOT_SUPPORTED;
		if (isServed(row, problem)) {
			one.memory = workspaceOf(row, problem);
			one.status = one.memory > workspace ? CUDNN_STATUS_ALLOC_FAILED : CUDNN_STATUS_SUCCESS;
		}
		auto &list = one.status == CUDNN_STATUS_SUCCESS ? served : refused;
		list.push_back(one);
		if (row.hasTensorCores && one.status == CUDNN_STATUS_SUCCESS && problem.math != CUDNN_FMA_MATH) {
			list.push_back(one);
			list.back().mathType = CUDNN_FMA_MATH;
		}
	}
	for (size_t i = 0; isTimed && i < served.size(); ++i)
		served[i].time = .01f * static_cast<float>(i + 1);
	served.insert(served.end(), refused.begin(), refused.end());
	*returned = std::min(asked, static_cast<int>(served.size()));
	std::copy_n(served.begin(), *returned, results);
}

// Host scalars: double for double data, float for all other types.
double scalar(const void *at, const Problem &problem)
{
	return problem.configuration == fp64 ? *static_cast<const double *>(at) : *static_cast<const float *>(at);
}

struct Operands {
	const void *first, *second;
	void *workspace;
	size_t workspaceBytes;
	void *result;
};

// Fused bias and activation after the sums, for forward convolutions only.
struct Epilogue {
	double zFactor = 0;
	const void *z = nullptr, *bias = nullptr;
	Tensor biasTensor;
	bool isRelu = false, propagatesNan = false;
};

template <typename T>
void compute(Memory &memory, const Problem &p, Rounding rounding, const Operands &o, double alpha, double beta,
             const Epilogue &epilogue)
{
	const void *first = memory.at(p.first, o.first), *second = memory.at(p.second, o.second);
	void *workspace = o.workspaceBytes ? memory.at(o.workspace, o.workspaceBytes) : nullptr;
	if (memory.error())
		return;
	if (workspace) // destroys the contents: programs must not keep or share data in the workspace
		std::memset(workspace, 0xff, o.workspaceBytes);
	std::vector<T> dense(p.result.count());
	emulated::dnn::convolve(p.geometry, p.first, first, p.second, second, p.result, dense.data(), rounding);
	if (epilogue.bias) {
		const std::vector<T> bias = memory.read<T>(epilogue.biasTensor, epilogue.bias);
		std::vector<T> z(epilogue.zFactor != 0 ? dense.size() : 0);
		if (!z.empty())
			z = memory.read<T>(p.result, epilogue.z);
		const int64_t image = p.result.countFrom(2), channels = p.result.dims[1];
		for (size_t i = 0; i < dense.size(); ++i) {
			T value = static_cast<T>(alpha) * dense[i];
			if (!z.empty())
				value += static_cast<T>(epilogue.zFactor) * z[i];
			value += bias[static_cast<int64_t>(i) / image % channels];
			if (epilogue.isRelu && !(value > 0) && !(epilogue.propagatesNan && std::isnan(value)))
				value = 0;
			dense[i] = value;
		}
		alpha = 1;
	}
	memory.write<T>(std::move(dense), p.result, o.result, static_cast<T>(alpha), static_cast<T>(beta));
}

cudnnStatus_t launch(cudnnHandle_t handle, const char *name, const Problem &problem, int number, Operands operands,
                     double alpha, double beta, const Epilogue &epilogue = {})
{
	const Algorithm *algorithm = find(problem, number);
	REFUSE_IF(!algorithm, NOT_SUPPORTED);
	if (epilogue.bias && (algorithm->types & problem.configuration) && !isServed(*algorithm, problem))
		algorithm = find(problem, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM); // a fused call takes another one
	REFUSE_IF(!isServed(*algorithm, problem), NOT_SUPPORTED);
	const size_t needed = requiredOf(*algorithm, problem), most = workspaceOf(*algorithm, problem);
	REFUSE_IF(needed > operands.workspaceBytes || (needed && !operands.workspace), BAD_PARAM);
	operands.workspaceBytes = operands.workspace && operands.workspaceBytes >= most ? most : 0;
	return run(*handleOf(handle), name, [=, rounding = problem.rounding(*algorithm)](Memory &memory) {
		const auto function = problem.configuration == fp64 ? compute<double> : compute<float>;
		function(memory, problem, rounding, operands, alpha, beta, epilogue);
	});
}

// An exhaustive search waits for the device, so it fails in capture. With the program's memory it leaves results in
// that memory.
template <typename Result>
cudnnStatus_t time(cudnnHandle_t handle, const char *name, const Problem &problem, const Operands *operands, int asked,
                   int *returned, Result *results)
{
	const Handle *mine = handleOf(handle);
	search(problem, true, operands ? operands->workspaceBytes : workspaceUnlimited, asked, returned, results);
	cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
	for (int i = *returned - 1; operands && i >= 0 && status == CUDNN_STATUS_SUCCESS; --i)
		if (results[i].status == CUDNN_STATUS_SUCCESS)
			status = launch(handle, name, problem, results[i].algo, *operands, 1, 0);
	if (status == CUDNN_STATUS_SUCCESS && emulated::synchronize(mine->stream) != cudaSuccess)
		status = refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream cannot be waited for");
	return status;
}

} // namespace

#define DESCRIBED(direction)                                                                                           \
	REFUSE_IF(!handleOf(handle), BAD_PARAM);                                                                           \
	Problem problem;                                                                                                   \
	if (cudnnStatus_t status = describe(direction, first, second, convolution, result, problem))                       \
		return status;

#define DIRECTION(name, direction, count)                                                                              \
	ENTRY(cudnnConvolution##name, EXECUTION_FAILED, handle, alpha, first, firstData, second, secondData, convolution,  \
	      algorithm, workspace, workspaceBytes, beta, result, resultData)                                              \
	{                                                                                                                  \
		DESCRIBED(direction)                                                                                           \
		REFUSE_IF(!alpha || !beta || !firstData || !secondData || !resultData, BAD_PARAM);                             \
		return launch(handle, __func__, problem, algorithm,                                                            \
		              {firstData, secondData, workspace, workspaceBytes, resultData}, scalar(alpha, problem),          \
		              scalar(beta, problem));                                                                          \
	}                                                                                                                  \
	ENTRY(cudnnGetConvolution##name##WorkspaceSize, INTERNAL_ERROR, handle, first, second, convolution, result,        \
	      number, bytes)                                                                                               \
	{                                                                                                                  \
		DESCRIBED(direction)                                                                                           \
		const Algorithm *algorithm = find(problem, number);                                                            \
		REFUSE_IF(!bytes, BAD_PARAM);                                                                                  \
		*bytes = 0;                                                                                                    \
		REFUSE_IF(!algorithm || !isServed(*algorithm, problem), NOT_SUPPORTED);                                        \
		*bytes = workspaceOf(*algorithm, problem);                                                                     \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}                                                                                                                  \
	ENTRY(cudnnGetConvolution##name##AlgorithmMaxCount, BAD_PARAM, handle, number)                                     \
	{                                                                                                                  \
		REFUSE_IF(!handleOf(handle) || !number, BAD_PARAM);                                                            \
		*number = count;                                                                                               \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}                                                                                                                  \
	ENTRY(cudnnGetConvolution##name##Algorithm_v7, INTERNAL_ERROR, handle, first, second, convolution, result, asked,  \
	      returned, results)                                                                                           \
	{                                                                                                                  \
		DESCRIBED(direction)                                                                                           \
		REFUSE_IF(asked < 1 || !returned || !results, BAD_PARAM);                                                      \
		search(problem, false, workspaceUnlimited, asked, returned, results);                                          \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}                                                                                                                  \
	ENTRY(cudnnFindConvolution##name##Algorithm, ALLOC_FAILED, handle, first, second, convolution, result, asked,      \
	      returned, results)                                                                                           \
	{                                                                                                                  \
		DESCRIBED(direction)                                                                                           \
		REFUSE_IF(asked < 1 || !returned || !results, BAD_PARAM);                                                      \
		return time(handle, __func__, problem, nullptr, asked, returned, results);                                     \
	}                                                                                                                  \
	ENTRY(cudnnFindConvolution##name##AlgorithmEx, ALLOC_FAILED, handle, first, firstData, second, secondData,         \
	      convolution, result, resultData, asked, returned, results, workspace, workspaceBytes)                        \
	{                                                                                                                  \
		DESCRIBED(direction)                                                                                           \
		REFUSE_IF(asked < 1 || !returned || !results || !firstData || !secondData || !resultData, BAD_PARAM);          \
		const Operands operands{firstData, secondData, workspace, workspace ? workspaceBytes : 0, resultData};         \
		return time(handle, __func__, problem, &operands, asked, returned, results);                                   \
	}
DIRECTION(Forward, F, 10)
DIRECTION(BackwardData, D, 8)
DIRECTION(BackwardFilter, W, 9)

ENTRY(cudnnConvolutionBiasActivationForward, EXECUTION_FAILED, handle, alpha1, first, x, second, w, convolution,
      algorithm, workspace, workspaceBytes, alpha2, zDesc, z, biasDesc, bias, activation, result, y)
{
	DESCRIBED(F)
	REFUSE_IF(!alpha1 || !alpha2 || !x || !w || !y || !zDesc || !biasDesc || !bias || !activation, BAD_PARAM);
	REFUSE_IF(x == y || !zDesc->tensor.isSame(problem.result), BAD_PARAM);
	const Tensor &b = biasDesc->tensor;
	REFUSE_IF(b.type != problem.result.type || b.rank != problem.result.rank, BAD_PARAM);
	REFUSE_IF(b.dims[1] != problem.result.dims[1] || b.count() != b.dims[1], BAD_PARAM);
	const bool isRelu = activation->mode == CUDNN_ACTIVATION_RELU;
	REFUSE_IF(!isRelu && activation->mode != CUDNN_ACTIVATION_IDENTITY, NOT_SUPPORTED);
	REFUSE_IF(!isRelu && algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, NOT_SUPPORTED);
	const double zFactor = scalar(alpha2, problem);
	REFUSE_IF(zFactor != 0 && !z, BAD_PARAM);
	return launch(handle, __func__, problem, algorithm, {x, w, workspace, workspaceBytes, y}, scalar(alpha1, problem),
	              0, {zFactor, z, bias, b, isRelu, activation->nan == CUDNN_PROPAGATE_NAN});
}

ENTRY(cudnnConvolutionBackwardBias, EXECUTION_FAILED, handle, alpha, dyDesc, dy, beta, dbDesc, db)
{
	const Handle *mine = handleOf(handle);
	REFUSE_IF(!mine || !alpha || !beta || !dyDesc || !dbDesc || !dy || !db, BAD_PARAM);
	const Tensor from = dyDesc->tensor, to = dbDesc->tensor;
	REFUSE_IF(from.rank < 3 || to.rank != from.rank || to.dims[1] != from.dims[1] || to.count() != to.dims[1],
	          BAD_PARAM);
	REFUSE_IF(from.type != to.type, BAD_PARAM);
	Problem problem;
	problem.configuration = from.type == CUDNN_DATA_DOUBLE ? fp64 : single;
	const double a = scalar(alpha, problem), b = scalar(beta, problem);
	return run(*mine, __func__, [=](Memory &memory) {
		const std::vector<double> gradients = memory.read<double>(from, dy);
		std::vector<double> sums(to.count());
		for (size_t i = 0; i < gradients.size(); ++i)
			sums[static_cast<int64_t>(i) / from.countFrom(2) % from.dims[1]] += gradients[i];
		memory.write<double>(std::move(sums), to, db, a, b);
	});
}
