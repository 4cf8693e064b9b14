// Vectors and scalars: BLAS level 1 and its Ex forms.
#include "tests/emulated/blas/levels.h"

using namespace levels;

TEMPLATE_TEST_CASE("Vectors", "", ALL_TYPES)
{
	using E = TestType;
	using R = Real<E>;
	using On = Client<E> &;
	Client<E> on;
	const Wide cosine = 0.8, sine{0.6, isComplex<E> ? -0.3 : 0}, al = on.alpha;
	struct Elementwise {
		const char *name;
		bool hasY;
		Routine<E> call;
		std::function<std::pair<Wide, Wide>(Wide, Wide)> expect;
	};
	const Elementwise rows[] = {
	    {"axpy", true, [](On o) { return axpy<E>(o.blas.handle, o.n, o.al(), o.X.get(), o.incx, o.Y.get(), o.incy); },
	     [=](Wide x, Wide y) { return std::pair(x, al * x + y); }},
	    {"copy", true, [](On o) { return copy<E>(o.blas.handle, o.n, o.X.get(), o.incx, o.Y.get(), o.incy); },
	     [](Wide x, Wide) { return std::pair(x, x); }},
	    {"swap", true, [](On o) { return swap<E>(o.blas.handle, o.n, o.X.get(), o.incx, o.Y.get(), o.incy); },
	     [](Wide x, Wide y) { return std::pair(y, x); }},
	    {"scal", false, [](On o) { return scal<E>(o.blas.handle, o.n, o.al(), o.X.get(), o.incx); },
	     [=](Wide x, Wide y) { return std::pair(al * x, y); }},
	    {"real scal", false, [](On o) { return realScal<E>(o.blas.handle, o.n, o.realAl(), o.X.get(), o.incx); },
	     [=](Wide x, Wide y) { return std::pair(al.real() * x, y); }},
	    {"rot", true,
	     [=](On o) {
		     return rot<E>(o.blas.handle, o.n, o.X.get(), o.incx, o.Y.get(), o.incy, o.scalar(R(cosine.real())),
		                   o.scalar(narrow<E>(sine)));
	     },
	     [=](Wide x, Wide y) { return std::pair(cosine * x + sine * y, cosine * y - std::conj(sine) * x); }},
	    {"real rot", true,
	     [=](On o) {
		     return realRot<E>(o.blas.handle, o.n, o.X.get(), o.incx, o.Y.get(), o.incy, o.scalar(R(cosine.real())),
		                       o.scalar(R(sine.real())));
	     },
	     [=](Wide x, Wide y) { return std::pair(cosine * x + sine.real() * y, cosine * y - sine.real() * x); }},
	};
	for (auto [incx, incy] : increments)
		for (int n : {0, 7}) {
			on.incx = incx, on.incy = incy, on.n = n;
			const Matrix x = vectorIn(on.x, n, incx), y = vectorIn(on.y, n, incy);
			for (const Elementwise &row : rows) {
				Expected<E> newX(on.x), newY(on.y);
				if (row.hasY || incx > 0) { // a single vector with a negative stride is not changed
					newX.putVector(matrix(n, 1, [&](int i, int) { return row.expect(x[i][0], y[i][0]).first; }), incx);
					newY.putVector(matrix(n, 1, [&](int i, int) { return row.expect(x[i][0], y[i][0]).second; }), incy);
				}
				inAllModes<E>(on, row.name, row.call, [&] { return newX.isIn(on.X) && newY.isIn(on.Y); });
			}

			Wide dotu = 0, dotcc = 0, one = 0, square = 0;
			for (int i = 0; i < n; ++i) {
				const Wide v = x[i][0];
				dotu += v * y[i][0];
				dotcc += std::conj(v) * y[i][0];
				one += incx > 0 ? std::abs(v.real()) + std::abs(v.imag()) : 0;
				square += incx > 0 ? std::norm(v) : 0;
			}
			E *result = nullptr;
			R *norm = nullptr;
			auto isClose = [](Wide value, Wide exact) { return std::abs(value - exact) <= tolerance<E> * 8; };
			inAllModes<E>(
			    on, "dot",
			    [&](On o) {
				    return dot<E>(o.blas.handle, n, o.X.get(), incx, o.Y.get(), incy, result = o.scalar(E(NaN)));
			    },
			    [&] { return isClose(wide(on.value(result)), dotu); });
			if (isComplex<E>)
				inAllModes<E>(
				    on, "dotc",
				    [&](On o) {
					    return dotc<E>(o.blas.handle, n, o.X.get(), incx, o.Y.get(), incy, result = o.scalar(E(NaN)));
				    },
				    [&] { return isClose(wide(on.value(result)), dotcc); });
			inAllModes<E>(
			    on, "asum", [&](On o) { return asum<E>(o.blas.handle, n, o.X.get(), incx, norm = o.scalar(R(NaN))); },
			    [&] { return isClose(wide(on.value(norm)), one); });
			inAllModes<E>(
			    on, "nrm2", [&](On o) { return nrm2<E>(o.blas.handle, n, o.X.get(), incx, norm = o.scalar(R(NaN))); },
			    [&] { return isClose(wide(on.value(norm)), std::sqrt(square)); });
		}
}

namespace {

// The functions that return an index: their int and int64_t results cannot share one template.
#define INDEX(name)                                                                                                    \
	template <typename E, typename Integer>                                                                            \
	cublasStatus_t name(cublasHandle_t handle, int n, E *x, int incx, Integer *result)                                 \
	{                                                                                                                  \
		constexpr bool isWide = sizeof(Integer) == 8;                                                                  \
		if constexpr (std::is_same_v<E, float> && isWide)                                                              \
			return cublasIs##name##_64(handle, n, x, incx, result);                                                    \
		else if constexpr (std::is_same_v<E, float>)                                                                   \
			return cublasIs##name(handle, n, x, incx, result);                                                         \
		else if constexpr (std::is_same_v<E, double> && isWide)                                                        \
			return cublasId##name##_64(handle, n, x, incx, result);                                                    \
		else if constexpr (std::is_same_v<E, double>)                                                                  \
			return cublasId##name(handle, n, x, incx, result);                                                         \
		else if constexpr (std::is_same_v<E, std::complex<float>> && isWide)                                           \
			return cublasIc##name##_64(handle, n, vendors(x), incx, result);                                           \
		else if constexpr (std::is_same_v<E, std::complex<float>>)                                                     \
			return cublasIc##name(handle, n, vendors(x), incx, result);                                                \
		else if constexpr (isWide)                                                                                     \
			return cublasIz##name##_64(handle, n, vendors(x), incx, result);                                           \
		else                                                                                                           \
			return cublasIz##name(handle, n, vendors(x), incx, result);                                                \
	}
INDEX(amax)
INDEX(amin)

template <typename E, typename Integer>
void checkIndices()
{
	Client<E> on;
	for (auto [most, least] : {std::pair{3, 5}, {6, 0}, {0, 6}})
		for (int inc : {1, 2, -1}) {
			std::fill(on.x.begin(), on.x.end(), narrow<E>({3, -1}));
			on.x[most * std::abs(inc)] = narrow<E>({-3.5, -3});
			on.x[least * std::abs(inc)] = narrow<E>({0.25, 0.5});
			Integer *largest = nullptr, *smallest = nullptr;
			inAllModes<E>(
			    on, "iamax",
			    [&](auto &o) {
				    amin(o.blas.handle, 7, o.X.get(), inc, smallest = o.scalar(Integer(-1)));
				    return amax(o.blas.handle, 7, o.X.get(), inc, largest = o.scalar(Integer(-1)));
			    },
			    [&] {
				    return on.value(largest) == (inc > 0 ? most + 1 : 0) &&
				           on.value(smallest) == (inc > 0 ? least + 1 : 0);
			    });
		}
}

} // namespace

TEMPLATE_TEST_CASE("Indices count from 1, the first of equals wins", "", ALL_TYPES)
{
	checkIndices<TestType, int>();
	checkIndices<TestType, int64_t>();
	Client<TestType> on;
	std::fill(on.x.begin(), on.x.end(), TestType(2));
	int index = -1;
	CHECK(on.call([&](auto &o) { return amax(o.blas.handle, 7, o.X.get(), 1, &index); }, false, false));
	CHECK(index == 1);
	CHECK(on.call([&](auto &o) { return amin(o.blas.handle, 7, o.X.get(), 1, &index); }, false, false));
	CHECK(index == 1);
	CHECK(on.call([&](auto &o) { return amin(o.blas.handle, 0, o.X.get(), 1, &index); }, false, false));
	CHECK(index == 0);
}

TEMPLATE_TEST_CASE("Rotations are made and turn", "", ALL_TYPES)
{
	using E = TestType;
	using R = Real<E>;
	Client<E> on;
	const Wide pairs[][2] = {{{3, 1}, {-4, 2}}, {{-4, 0}, {3, 0}}, {0, {2, 1}}, {{2, -1}, 0}, {0, 0}};
	for (const auto &pair : pairs)
		for (bool device : {false, true}) {
			E *a = nullptr, *b = nullptr, *s = nullptr;
			R *c = nullptr;
			INFO(pair[0] << " " << pair[1]);
			CHECK(on.call(
			    [&](auto &o) {
				    a = o.scalar(narrow<E>(pair[0])), b = o.scalar(narrow<E>(pair[1])), c = o.scalar(R(NaN));
				    s = o.scalar(E(NaN));
				    if constexpr (std::is_same_v<E, float>)
					    return cublasSrotg(o.blas, a, b, c, s);
				    else if constexpr (std::is_same_v<E, double>)
					    return cublasDrotg(o.blas, a, b, c, s);
				    else if constexpr (std::is_same_v<E, std::complex<float>>)
					    return cublasCrotg(o.blas, vendors(a), vendors(b), c, vendors(s));
				    else
					    return cublasZrotg(o.blas, vendors(a), vendors(b), c, vendors(s));
			    },
			    device, false));
			const Wide f = wide(narrow<E>(pair[0])), g = wide(narrow<E>(pair[1]));
			const Wide r = wide(on.value(a)), cosine = wide(on.value(c)), sine = wide(on.value(s)),
			           z = wide(on.value(b));
			auto isZero = [](Wide value) { return std::abs(value) < 16 * tolerance<E>; };
			CHECK(isZero(cosine * f + sine * g - r));
			CHECK(isZero(cosine * g - std::conj(sine) * f));
			CHECK(isZero(std::norm(cosine) + std::norm(sine) - 1.));
			if constexpr (!isComplex<E>) { // z returns c and s
				const double kept = z.real();
				const double c2 = kept == 1 ? 0 : std::abs(kept) < 1 ? std::sqrt(1 - kept * kept) : 1 / kept;
				const double s2 = kept == 1 ? 1 : std::abs(kept) < 1 ? kept : std::sqrt(1 - c2 * c2);
				CHECK((isZero(c2 - cosine) && isZero(s2 - sine)));
			}
		}
}

TEMPLATE_TEST_CASE("Modified rotations are made and turn", "", float, double)
{
	using E = TestType;
	Client<E> on;
	const E cases[][4] = {{2, 3, 1, 4}, {3, 2, 4, 1},    {1, 1, 0, 2},
	                      {2, 3, 5, 0}, {1, -1, 1, 0.5}, {1e-9f, 1, 1, 1e-3f}};
	for (const auto &row : cases)
		for (bool device : {false, true}) {
			struct Param {
				E flag, h11, h21, h12, h22;
			};
			E *p[4] = {};
			Param *param = nullptr;
			CHECK(on.call(
			    [&](auto &o) {
				    for (int i = 0; i < 4; ++i)
					    p[i] = o.scalar(row[i]);
				    param = o.scalar(Param{NaN, 0, 0, 0, 0});
				    o.used += 32;
				    auto *h = reinterpret_cast<E *>(param);
				    if constexpr (std::is_same_v<E, float>)
					    return cublasSrotmg(o.blas, p[0], p[1], p[2], p[3], h);
				    else
					    return cublasDrotmg(o.blas, p[0], p[1], p[2], p[3], h);
			    },
			    device, false));
			const Param h = on.value(param);
			double h11 = h.h11, h21 = h.h21, h12 = h.h12, h22 = h.h22;
			if (h.flag == 0)
				h11 = h22 = 1;
			if (h.flag == 1)
				h12 = 1, h21 = -1;
			if (h.flag == -2)
				h11 = h22 = 1, h12 = h21 = 0;
			const double x1 = row[2], y1 = row[3];
			const double x = h11 * x1 + h12 * y1, y = h21 * x1 + h22 * y1;
			const double energy = double(row[0]) * x1 * x1 + double(row[1]) * y1 * y1;
			INFO(row[0] << " " << row[1] << " " << x1 << " " << y1 << " flag " << h.flag);
			CHECK(std::abs(y) < tolerance<E> * 8);
			CHECK(std::abs(x - on.value(p[2])) < tolerance<E> * (1 + std::abs(x)));
			CHECK(std::abs(energy - on.value(p[0]) * x * x) < tolerance<E> * 8 * (1e-9 + energy));

			// The same parameters rotate vectors.
			on.incx = 2, on.incy = -1;
			Expected<E> newX(on.x), newY(on.y);
			for (int i = 0; i < 7; ++i) {
				const double u = on.x[at(i, 7, 2)], v = on.y[at(i, 7, -1)];
				newX.put(at(i, 7, 2), h11 * u + h12 * v);
				newY.put(at(i, 7, -1), h21 * u + h22 * v);
			}
			CHECK(on.call(
			    [&](auto &o) {
				    auto *given = reinterpret_cast<E *>(o.scalar(h));
				    if constexpr (std::is_same_v<E, float>)
					    return cublasSrotm(o.blas, 7, o.X, 2, o.Y, -1, given);
				    else
					    return cublasDrotm(o.blas, 7, o.X, 2, o.Y, -1, given);
			    },
			    device, false));
			CHECK((newX.isIn(on.X) && newY.isIn(on.Y)));
		}
}

TEMPLATE_TEST_CASE("Ex forms of vectors", "", __half, __nv_bfloat16, ALL_TYPES)
{
	using E = TestType;
	using S = std::conditional_t<sizeof(E) == 2, float, E>; // type of the computation
	Blas blas;
	constexpr cudaDataType type = TypeOf<E>::value, computed = TypeOf<S>::value, realType = TypeOf<Real<E>>::value;
	const auto a = randomValues<E>(14, 1), b = randomValues<E>(7, 2);
	const S alpha = narrow<S>({2, isComplex<E> ? -0.5 : 0});
	const E cosine = narrow<E>(0.75), sine = narrow<E>({0.5, 0.25});
	auto near = [](E value, Wide exact) {
		return std::abs(wide(value) - exact) <= 4 * epsilon<E>() * (1 + std::abs(exact));
	};
	for (bool twins : {false, true}) {
		DeviceArray<E> x(a), y(b);
#define EX(name, ...) (twins ? cublas##name##Ex_64(blas, 7, __VA_ARGS__) : cublas##name##Ex(blas, 7, __VA_ARGS__))
		auto every = [&](const DeviceArray<E> &memory, int inc, auto exact) {
			const auto values = memory.read();
			for (int i = 0; i < 7; ++i)
				if (!near(values[i * inc], exact(i)))
					return false;
			return true;
		};
		auto xs = [&](int i) { return wide(a[2 * i]); };
		auto ys = [&](int i) { return wide(b[i]); };
		CHECK(EX(Axpy, &alpha, computed, x, type, 2, y, type, 1, computed) == 0);
		CHECK(every(y, 1, [&](int i) { return wide(alpha) * xs(i) + ys(i); }));
		CHECK(EX(Copy, x, type, 2, y, type, 1) == 0);
		CHECK(every(y, 1, xs));
		CHECK(EX(Scal, &alpha, computed, x, type, 2, computed) == 0);
		CHECK(every(x, 2, [&](int i) { return wide(alpha) * xs(i); }));
		CHECK(EX(Swap, x, type, 2, y, type, 1) == 0);
		CHECK(every(x, 2, xs));
		const auto scaled = y.read();
		CHECK(EX(Rot, x, type, 2, y, type, 1, &cosine, &sine, type, computed) == 0);
		CHECK(every(x, 2, [&](int i) { return wide(cosine) * xs(i) + wide(sine) * wide(scaled[i]); }));

		DeviceArray<E> u(a), v(b);
		E result, norm, sum;
		Wide dot = 0, dotc = 0, squares = 0, magnitudes = 0;
		for (int i = 0; i < 7; ++i) {
			dot += xs(i) * ys(i);
			dotc += std::conj(xs(i)) * ys(i);
			squares += std::norm(xs(i));
			magnitudes += std::abs(xs(i).real()) + std::abs(xs(i).imag());
		}
		CHECK(EX(Dot, u, type, 2, v, type, 1, &result, type, computed) == 0);
		CHECK(near(result, dot));
		CHECK(EX(Dotc, u, type, 2, v, type, 1, &result, type, computed) == 0);
		CHECK(near(result, dotc));
		norm = sum = E(0.f);
		CHECK(EX(Nrm2, u, type, 2, &norm, realType, TypeOf<Real<S>>::value) == 0);
		CHECK(near(norm, std::sqrt(squares)));
		CHECK(EX(Asum, u, type, 2, &sum, realType, TypeOf<Real<S>>::value) == 0);
		CHECK(near(sum, magnitudes));
	}
	DeviceArray<E> x(a);
	int index = 0;
	CHECK(cublasIamaxEx(blas, 7, x, type, 2, &index) == 0);
	CHECK(index >= 1);
	const double big[2] = {1, 0};
	const cudaDataType other = type == CUDA_R_64F ? CUDA_R_32F : CUDA_R_64F;
	CHECK(cublasScalEx(blas, 7, big, computed, x, type, 2, other) == CUBLAS_STATUS_NOT_SUPPORTED);
	CHECK(cublasScalEx(blas, 7, big, other, x, type, 2, computed) == CUBLAS_STATUS_NOT_SUPPORTED);
	CHECK(cublasAxpyEx(blas, 7, big, computed, x, type, 1, x, other, 1, computed) == CUBLAS_STATUS_NOT_SUPPORTED);
	CHECK(cublasScalEx(blas, 7, big, CUDA_R_32F, x, CUDA_R_8I, 2, CUDA_R_32F) == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("Results for the device come in stream order, also in a graph; results for the host are there")
{
	Blas blas;
	cudaStream_t stream;
	cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	cublasSetStream(blas, stream);
	DeviceArray<float> x(std::vector<float>{3, 4, 0}), norm(std::vector<float>{-1}), at(std::vector<float>{0, 0, 0});
	DeviceArray<int> index(1);
	float result = -1;
	CHECK(cublasSnrm2(blas, 3, x, 1, &result) == 0);
	CHECK(result == 5); // without a synchronisation
	auto chain = [&] {
		cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE);
		CHECK(cublasSnrm2(blas, 3, x, 1, norm) == 0);
		CHECK(cublasSaxpy(blas, 3, norm, x, 1, at, 1) == 0);
		CHECK(cublasIsamax(blas, 3, at, 1, index) == 0);
		CHECK(cublasSrotg(blas, x, x + 1, x + 2, at + 2) == 0); // x becomes 5, 5/3, 0.6
		cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST);   // the queued work keeps the mode of its call
	};
	float before = 0;
	chain();
	cudaMemcpy(&before, norm, sizeof before, cudaMemcpyDeviceToHost); // does not wait for our stream
	CHECK(before == -1);
	cudaStreamSynchronize(stream);
	CHECK(at.read() == std::vector<float>{15, 20, 0.8f});
	CHECK(index.read()[0] == 2);
	CHECK(x.read()[0] == 5);

	cudaGraph_t graph;
	cudaGraphExec_t exec;
	REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
	chain();
	REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
	REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
	for (int i : {1, 2}) {
		const float again[] = {float(3 * i), float(4 * i), 0}, zeros[3] = {};
		cudaMemcpy(x, again, sizeof again, cudaMemcpyHostToDevice);
		cudaMemcpy(at, zeros, sizeof zeros, cudaMemcpyHostToDevice);
		CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
		CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
		CHECK(at.read() == std::vector<float>{float(15 * i * i), float(20 * i * i), 0.8f});
	}
	REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
	CHECK(cublasSnrm2(blas, 3, x, 1, &result) == CUBLAS_STATUS_EXECUTION_FAILED);
	CHECK(cudaStreamEndCapture(stream, &graph) != cudaSuccess);
	cudaGetLastError();
	cudaGraphExecDestroy(exec);
	cudaStreamDestroy(stream);
}
