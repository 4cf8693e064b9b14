// Calls without a lower-precision form: fp64 and complex products, and the rest of BLAS on such data. Each case checks
// its own results if it computes any.
#include "harness.h"

#include <cuComplex.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace client;

namespace {

constexpr auto N = CUBLAS_OP_N, T = CUBLAS_OP_T;

template <typename Value>
struct Array {
	explicit Array(size_t count, Value value) : count(count)
	{
		CHECK(cudaMalloc(reinterpret_cast<void **>(&data), count * sizeof(Value)));
		const std::vector<Value> host(count, value);
		CHECK(cudaMemcpy(data, host.data(), count * sizeof(Value), cudaMemcpyHostToDevice));
	}
	~Array() { cudaFree(data); }
	Value first() const
	{
		Value value;
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
		return value;
	}
	Value *data = nullptr;
	size_t count;
};

const double one = 1, zero = 0;
const cuDoubleComplex zOne = {1, 0}, zZero = {0, 0};
const cuComplex cOne = {1, 0}, cZero = {0, 0};

void multiply(const Session &session, const Array<double> &a, Array<double> &c, int m, cublasOperation_t transa)
{
	CHECK(cublasDgemm(session.handle, transa, N, m, 8, 16, &one, a.data, 16, a.data, 16, &zero, c.data, 16));
}

// Many calls of one signature, and another one of its transpose.
void products(Line &line)
{
	Session session;
	Array<double> a(256, 2), c(256, 0);
	for (int i = 0; i < 1000; i++)
		multiply(session, a, c, 16, N);
	multiply(session, a, c, 16, T);
	line.require(c.first() == 64, "wrong product");
}

void complexProducts(Line &line)
{
	Session session;
	Array<cuDoubleComplex> a(256, {0, 2}), c(256, zZero);
	Array<cuComplex> ca(256, {0, 2}), cc(256, cZero);
	for (int i = 0; i < 10; i++)
		CHECK(cublasZgemm(session.handle, N, N, 16, 8, 16, &zOne, a.data, 16, a.data, 16, &zZero, c.data, 16));
	for (int i = 0; i < 20; i++)
		CHECK(cublasCgemm_64(session.handle, N, N, 16, 8, 16, &cOne, ca.data, 16, ca.data, 16, &cZero, cc.data, 16));
	line.require(c.first().x == -64 && cc.first().x == -64, "wrong product");
}

// Matrices times vectors, whose sizes the report has, and vectors, whose sizes it does not have.
void vectors(Line &line)
{
	Session session;
	Array<double> a(256, 2), x(16, 1), y(16, 0);
	Array<float> fa(256, 2), fx(16, 1), fy(16, 0);
	const float fOne = 1, fZero = 0;
	for (int i = 0; i < 3; i++)
		CHECK(cublasDgemv(session.handle, T, 16, 8, &one, a.data, 16, x.data, 1, &zero, y.data, 1));
	line.require(y.first() == 32, "wrong product");
	CHECK(cublasSgemv(session.handle, T, 16, 8, &fOne, fa.data, 16, fx.data, 1, &fZero, fy.data, 1));
	for (int n = 1; n <= 16; n++)
		CHECK(cublasDaxpy(session.handle, n, &one, x.data, 1, y.data, 1));
}

void threads(Line &)
{
	std::vector<std::thread> all;
	for (int t = 0; t < 4; t++)
		all.emplace_back([] {
			Session session;
			Array<double> a(256, 2), c(256, 0);
			for (int i = 0; i < 100; i++)
				multiply(session, a, c, 16, N);
		});
	for (auto &thread : all)
		thread.join();
}

// The trace contains the calls counted before a kill.
void killed(Line &)
{
	Session session;
	Array<double> a(256, 2), c(256, 0);
	for (int i = 0; i < 123; i++)
		multiply(session, a, c, 16, N);
	CHECK(cudaDeviceSynchronize());
	kill(getpid(), SIGKILL);
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv,
	                {{"products", products},
	                 {"complex", complexProducts},
	                 {"vectors", vectors},
	                 {"threads", threads},
	                 {"killed", killed}});
}
