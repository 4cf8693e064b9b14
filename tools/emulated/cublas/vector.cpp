// BLAS level 1 with its Ex forms: computed in fp64 for all element types, and rounded once.
#include "tools/emulated/cublas/call.h"

#include <array>
#include <cmath>

using namespace emulated::blas;

namespace emulated::cublas {

namespace {

enum Written { nothing = 0, onlyX = 1, onlyY = 2, both = 3 };

// Vectors and scalars of one routine, in double or complex<double>; y is x for routines with one vector.
template <typename W>
struct Vectors {
	std::vector<W> x, y;
	W alpha, c, s;
	std::array<W, 5> param;
	W result{};
};

double magnitude(double value)
{
	return std::abs(value);
}

double magnitude(std::complex<double> value)
{
	return std::abs(value.real()) + std::abs(value.imag());
}

cudaDataType realOf(cudaDataType type)
{
	return type == CUDA_C_32F ? CUDA_R_32F : type == CUDA_C_64F ? CUDA_R_64F : type;
}

// The types that the manual documents for the Ex forms. Forms without documented types use the same.
bool isSupported(const Call &call)
{
	const cudaDataType stored = call.x.type, computed = sizeOf(stored) == 2 ? CUDA_R_32F : stored;
	const cudaDataType result = call.result.type;
	auto isOf = [](const Matrix &matrix, cudaDataType type) {
		return !isGiven(matrix) || matrix.type == type || matrix.type == realOf(type);
	};
	if (call.executionType) {
		const bool isNorm = result == realOf(stored);
		if (*call.executionType != (isNorm ? realOf(computed) : computed) ||
		    (isGiven(call.alpha) && call.alpha.type != computed))
			return false;
	}
	return sizeOf(stored) > 0 && (!isGiven(call.y) || call.y.type == stored) && isOf(call.alpha, computed) &&
	       isOf(call.c, stored) && isOf(call.s, stored) && isOf(call.param, stored) &&
	       (isOf(call.result, stored) || result == CUDA_R_32I || result == CUDA_R_64I);
}

// A routine with one vector does nothing if the increment is not positive.
template <typename Compute>
cublasStatus_t onVectors(const Call &call, Written written, Compute compute)
{
	const bool hasY = isGiven(call.y), hasResult = isGiven(call.result);
	const int64_t n = hasY || call.x.ld > 0 ? std::max<int64_t>(call.n, 0) : 0;
	for (const Matrix *scalar : {&call.alpha, &call.c, &call.s, &call.param})
		if (isGiven(*scalar) && !scalar->data && n > 0)
			return CUBLAS_STATUS_INVALID_VALUE;
	if (hasResult && !call.result.data)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!isSupported(call))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (n == 0 && !hasResult)
		return CUBLAS_STATUS_SUCCESS;
	const bool isForDevice = call.handle->hasDeviceScalars(); // read now, because the mode may change before the work
	                                                          // runs
	Work work = [=, alpha = Scalar(call, call.alpha, 1), c = Scalar(call, call.c, 1), s = Scalar(call, call.s, 0),
	             param = std::array{Scalar(call, call.param, 0, 0), Scalar(call, call.param, 0, 1),
	                                Scalar(call, call.param, 0, 2), Scalar(call, call.param, 0, 3),
	                                Scalar(call, call.param, 0, 4)}](Memory &memory) {
		inWide(call.x.type, [&]<typename W>(W) {
			Vectors<W> v{memory.vector<W>(call.x, n), {}, as<W>(alpha.read(memory)), as<W>(c.read(memory)),
			             as<W>(s.read(memory)),       {}};
			if (hasY)
				v.y = memory.vector<W>(call.y, n);
			for (size_t i = 0; i < param.size(); ++i)
				v.param[i] = as<W>(param[i].read(memory));
			compute(v);
			if (written & onlyX)
				memory.store(v.x, call.x);
			if (written & onlyY)
				memory.store(v.y, call.y);
			void *result = const_cast<void *>(call.result.data);
			if (hasResult && isForDevice)
				result = memory.at(call.result, 0, 1);
			if (hasResult && result)
				putNumber(call.result.type, v.result, result);
		});
	};
	return hasResult ? runForResult(call, work) : run(call, work);
}

// Calls compute(v, x, y) for each element.
template <typename Compute>
cublasStatus_t onElements(const Call &call, Written written, Compute compute)
{
	return onVectors(call, written, [compute](auto &v) {
		auto &y = v.y.empty() ? v.x : v.y;
		for (size_t i = 0; i < v.x.size(); ++i)
			compute(v, v.x[i], y[i]);
	});
}

// The 1-based index of the first element that is better than all elements before it.
template <typename IsBetter>
cublasStatus_t findElement(const Call &call, IsBetter isBetter)
{
	return onVectors(call, nothing, [isBetter](auto &v) {
		size_t best = 0;
		for (size_t i = 1; i < v.x.size(); ++i)
			if (isBetter(magnitude(v.x[i]), magnitude(v.x[best])))
				best = i;
		v.result = v.x.empty() ? 0. : static_cast<double>(best + 1);
	});
}

// Scalars that are both read and written: during the call if they are in host memory.
template <typename Compute>
cublasStatus_t onScalars(const Call &call, const std::vector<Matrix> &scalars, Compute compute)
{
	for (const Matrix &scalar : scalars)
		if (!scalar.data || sizeOf(scalar.type) == 0)
			return scalar.data ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_INVALID_VALUE;
	auto change = [=](auto find) {
		std::vector<std::complex<double>> values;
		std::vector<std::byte *> places;
		for (const Matrix &scalar : scalars) {
			places.push_back(find(scalar));
			if (!places.back())
				return;
			values.push_back(numberAt(scalar.type, places.back()));
		}
		compute(values);
		for (size_t i = 0; i < scalars.size(); ++i)
			putNumber(scalars[i].type, values[i], places[i]);
	};
	if (call.handle->hasDeviceScalars())
		return run(call,
		           [=](Memory &memory) { change([&](const Matrix &scalar) { return memory.at(scalar, 0, 1); }); });
	change([](const Matrix &scalar) { return static_cast<std::byte *>(const_cast<void *>(scalar.data)); });
	return CUBLAS_STATUS_SUCCESS;
}

} // namespace

#define ELEMENTWISE(name, written, ...)                                                                                \
	cublasStatus_t name(Call &call)                                                                                    \
	{                                                                                                                  \
		return onElements(call, written, []([[maybe_unused]] auto &v, auto &x, [[maybe_unused]] auto &y) __VA_ARGS__); \
	}
ELEMENTWISE(axpy, onlyY, { y += v.alpha * x; })
ELEMENTWISE(scal, onlyX, { x *= v.alpha; })
ELEMENTWISE(copy, onlyY, { y = x; })
ELEMENTWISE(swap, both, { std::swap(x, y); })
ELEMENTWISE(dot, nothing, { v.result += x * y; })
ELEMENTWISE(dotc, nothing, { v.result += conjugate(x) * y; })
ELEMENTWISE(asum, nothing, { v.result += magnitude(x); })
ROUTINE(iamax, findElement, std::greater<>())
ROUTINE(iamin, findElement, std::less<>())

cublasStatus_t rot(Call &call)
{
	return onElements(call, both, [](auto &v, auto &x, auto &y) {
		const auto turned = v.c * x + v.s * y;
		y = v.c * y - conjugate(v.s) * x;
		x = turned;
	});
}

// The flag selects the elements of H = {h11, h21, h12, h22} that are used.
cublasStatus_t rotm(Call &call)
{
	return onElements(call, both, [](auto &v, auto &x, auto &y) {
		auto [flag, h11, h21, h12, h22] = v.param;
		if (flag == -2.)
			return;
		if (flag == 0.)
			h11 = h22 = 1;
		if (flag == 1.)
			h12 = 1, h21 = -1;
		const auto turned = h11 * x + h12 * y;
		y = h21 * x + h22 * y;
		x = turned;
	});
}

cublasStatus_t nrm2(Call &call)
{
	return onVectors(call, nothing, [](auto &v) {
		long double sum = 0; // its range contains the square of every double
		for (const std::complex<double> x : v.x)
			sum += static_cast<long double>(x.real()) * x.real() + static_cast<long double>(x.imag()) * x.imag();
		v.result = static_cast<double>(std::sqrt(sum));
	});
}

// Rotates (a, b) to (r, 0). For real types, b then encodes c and s.
cublasStatus_t rotg(Call &call)
{
	const bool isReal = realOf(call.a.type) == call.a.type;
	return onScalars(call, {call.a, call.b, call.c, call.s}, [isReal](auto &values) {
		auto &a = values[0], &b = values[1], &c = values[2], &s = values[3];
		const double norm = std::hypot(std::abs(a), std::abs(b));
		const auto larger = std::abs(a) > std::abs(b) || !isReal ? a : b;
		const auto sign = isReal             ? std::complex<double>(std::copysign(1., larger.real()))
		                  : std::abs(a) == 0 ? 1.
		                                     : a / std::abs(a);
		const auto r = sign * norm;
		c = norm == 0 ? 1. : isReal ? a / r : std::abs(a) / norm;
		s = norm == 0 ? 0. : isReal ? b / r : sign * std::conj(b) / norm;
		if (isReal)
			b = norm == 0 ? 0. : std::abs(a) > std::abs(b) ? s : c != 0. ? 1. / c : 1.;
		a = r;
	});
}

cublasStatus_t rotmg(Call &call)
{
	std::vector<Matrix> scalars{call.d1, call.d2, call.x1, call.y1};
	for (int64_t i = 0; i < 5; ++i)
		scalars.push_back(call.param.data ? call.param.moved(i) : call.param);
	return onScalars(call, scalars, [](auto &values) {
		double all[9];
		std::transform(values.begin(), values.end(), all, [](auto value) { return value.real(); });
		modifiedRotation(all[0], all[1], all[2], all[3], all + 4);
		std::copy(all, all + 9, values.begin());
	});
}

} // namespace emulated::cublas
