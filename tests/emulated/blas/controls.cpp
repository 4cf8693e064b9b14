// Small cuBLAS clients, each correct or with one error, like those of tests/emulated/controls.cpp.
#include "tests/emulated/controls.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

bool failed = false;

// A call that must succeed; both libraries' success is 0.
void ok(int status)
{
	failed |= status != 0;
}

template <typename T>
T *device(const std::vector<T> &values)
{
	T *out = nullptr;
	ok(cudaMalloc(reinterpret_cast<void **>(&out), values.size() * sizeof(T) + 256));
	ok(cudaMemcpy(out, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
	return out;
}

constexpr auto N = CUBLAS_OP_N;
constexpr float one = 1, zero = 0;

// Two products of 4 x 4 matrices of ones (the second of twos), their pointers and a separate stream.
struct Client {
	cublasHandle_t blas = nullptr;
	cudaStream_t stream = nullptr;
	float *a = device(std::vector<float>(24, 1)), *b = device(std::vector<float>(24, 2)),
	      *c = device(std::vector<float>(64, 0));
	std::vector<float *> as{a, b}, cs{c, c + 16};
	float **deviceAs = device(as), **deviceCs = device(cs);

	Client()
	{
		ok(cublasCreate(&blas));
		ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		ok(cublasSetStream(blas, stream));
	}
	void multiply(float **array) const
	{
		ok(cublasSgemmBatched(blas, N, N, 4, 4, 4, &one, array, 4, array, 4, &zero, deviceCs, 4, 2));
	}
	bool holds(float first, float second) const
	{
		float values[32];
		ok(cudaDeviceSynchronize());
		ok(cudaMemcpy(values, c, sizeof values, cudaMemcpyDeviceToHost));
		return values[0] == first && values[16] == second;
	}
};

bool passesHostArray(bool right)
{
	Client client;
	client.multiply(right ? client.deviceAs : client.as.data());
	return client.holds(4, 16);
}

bool putsHostPointerIntoArray(bool right)
{
	Client client;
	std::vector<float> host(16, 1);
	client.multiply(device(std::vector<float *>{right ? client.a : host.data(), client.b}));
	return client.holds(4, 16);
}

bool overwritesArrayTooEarly(bool right)
{
	Client client;
	client.multiply(client.deviceAs);
	if (right)
		ok(cudaStreamSynchronize(client.stream));
	float *const others[] = {client.b, client.a};
	ok(cudaMemcpy(client.deviceAs, others, sizeof others, cudaMemcpyHostToDevice));
	return client.holds(4, 16);
}

bool uploadsArrayOnOtherStream(bool right)
{
	Client client;
	cudaStream_t other = nullptr;
	ok(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	float **array = device(std::vector<float *>{client.b, client.b}), **pinned = nullptr;
	ok(cudaMallocHost(reinterpret_cast<void **>(&pinned), 2 * sizeof(float *)));
	std::memcpy(pinned, client.as.data(), 2 * sizeof(float *));
	ok(cudaMemcpyAsync(array, pinned, 2 * sizeof(float *), cudaMemcpyHostToDevice, right ? client.stream : other));
	client.multiply(array);
	ok(cudaStreamSynchronize(client.stream));
	return client.holds(4, 16);
}

bool misalignsElement(bool right)
{
	Client client;
	auto *odd = reinterpret_cast<float *>(reinterpret_cast<char *>(client.a) + (right ? 4 : 2));
	client.multiply(device(std::vector<float *>{odd, client.b}));
	return client.holds(4, 16);
}

// With tensor cores and rows of 16 bytes the matrices of an array must be aligned to 16 bytes.
bool misalignsTensorCoreOperand(bool right)
{
	Client client;
	ok(cublasSetMathMode(client.blas, CUBLAS_TF32_TENSOR_OP_MATH));
	client.multiply(device(std::vector<float *>{client.a + (right ? 4 : 1), client.b}));
	return client.holds(4, 16);
}

bool freesMatrix(bool right)
{
	Client client;
	if (!right)
		ok(cudaFree(client.b));
	client.multiply(client.deviceAs);
	return client.holds(4, 16);
}

bool freesArrayOfGraph(bool right)
{
	Client client;
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	ok(cudaStreamBeginCapture(client.stream, cudaStreamCaptureModeGlobal));
	client.multiply(client.deviceAs);
	ok(cudaStreamEndCapture(client.stream, &graph));
	ok(cudaGraphInstantiate(&exec, graph, 0));
	if (!right)
		ok(cudaFree(client.deviceAs));
	ok(cudaGraphLaunch(exec, client.stream));
	return client.holds(4, 16);
}

// The sizes of groups are read on the host, the pointers on the device.
bool groups(int *sizes, float **array, const Client &client)
{
	const cublasOperation_t operation = N;
	const int four = 4;
	ok(cublasSgemmGroupedBatched(client.blas, &operation, &operation, &four, &four, &four, &one, array, &four, array,
	                             &four, &zero, client.deviceCs, &four, 1, sizes));
	return client.holds(4, 16);
}

bool putsGroupSizesOnDevice(bool right)
{
	Client client;
	int two = 2;
	return groups(right ? &two : device(std::vector<int>{2}), client.deviceAs, client);
}

bool passesHostArrayToGroups(bool right)
{
	Client client;
	int two = 2;
	return groups(&two, right ? client.deviceAs : client.as.data(), client);
}

// ---- vectors and scalars

bool passesHostVector(bool right)
{
	Client client;
	std::vector<float> host(24, 1);
	float result = 0;
	ok(cublasSasum(client.blas, 24, right ? client.a : host.data(), 1, &result));
	return result == 24;
}

bool countsElementsNotIncrements(bool right)
{
	Client client;
	float result = 0; // 88 floats were allocated
	ok(cublasSasum(client.blas, right ? 12 : 50, client.a, 2, &result));
	return result == 12;
}

bool wantsHostResultInDeviceMode(bool right)
{
	Client client;
	float result = 0;
	if (!right)
		ok(cublasSetPointerMode(client.blas, CUBLAS_POINTER_MODE_DEVICE));
	ok(cublasSasum(client.blas, 24, client.a, 1, &result));
	ok(cudaDeviceSynchronize());
	return result == 24;
}

bool wantsDeviceResultInHostMode(bool right)
{
	Client client;
	if (right)
		ok(cublasSetPointerMode(client.blas, CUBLAS_POINTER_MODE_DEVICE));
	ok(cublasSasum(client.blas, 24, client.a, 1, client.c));
	return client.holds(24, 0);
}

bool readsDeviceResultWithoutWaiting(bool right)
{
	Client client;
	float *pinned = nullptr;
	ok(cudaMallocHost(reinterpret_cast<void **>(&pinned), sizeof(float)));
	*pinned = 0;
	ok(cublasSetPointerMode(client.blas, CUBLAS_POINTER_MODE_DEVICE));
	ok(cublasSasum(client.blas, 24, client.a, 1, pinned));
	if (right)
		ok(cudaStreamSynchronize(client.stream));
	return *pinned == 24;
}

bool freesTriangle(bool right)
{
	Client client;
	if (!right)
		ok(cudaFree(client.a));
	ok(cublasStrmm(client.blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, N, CUBLAS_DIAG_UNIT, 1, 1, &one, client.a, 1,
	               client.b, 1, client.c, 1));
	return client.holds(2, 0);
}

// D overlaps an operand, so that blocks of it are read after they were written.
bool writesOverOperand(bool right, bool isLeft)
{
	Client client;
	constexpr int size = 8, columns = 2 * size; // A and B are parts of one matrix, side by side
	std::vector<float> values(size * columns);
	for (size_t i = 0; i < values.size(); ++i)
		values[i] = static_cast<float>(i % 7) - 3;
	float *const both = device(values), *const a = both, *const b = both + size * size;
	float *const target = right ? client.c : isLeft ? a : b;
	ok(cublasSgemm(client.blas, N, N, size, size, size, &one, a, size, b, size, &zero, target, size));
	std::vector<float> found(size * size), product(size * size);
	ok(cudaStreamSynchronize(client.stream));
	ok(cudaMemcpy(found.data(), target, found.size() * sizeof(float), cudaMemcpyDeviceToHost));
	for (int j = 0; j < size; ++j)
		for (int k = 0; k < size; ++k)
			for (int i = 0; i < size; ++i)
				product[j * size + i] += values[k * size + i] * values[(size + j) * size + k];
	return found == product;
} // namespace
bool writesOverLeftOperand(bool right)
{
	return writesOverOperand(right, true);
}
bool writesOverRightOperand(bool right)
{
	return writesOverOperand(right, false);
}

// Blocks of one matrix are interleaved but do not overlap. Wrong: one row more.
bool writesOverNeighbour(bool right)
{
	Client client;
	constexpr int size = 4, ld = 2 * size;
	std::vector<float> values(ld * size);
	for (size_t i = 0; i < values.size(); ++i)
		values[i] = static_cast<float>(i % 5) - 2;
	float *const above = device(values);
	ok(cublasSgemm(client.blas, N, N, size, size, size, &one, above, ld, client.b, size, &zero,
	               above + (right ? size : size - 1), ld));
	float last = 0, expected = 0;
	ok(cudaStreamSynchronize(client.stream));
	ok(cudaMemcpy(&last, above + 3 * ld + (right ? ld - 1 : ld - 2), sizeof last, cudaMemcpyDeviceToHost));
	for (int k = 0; k < size; ++k)
		expected += 2 * values[k * ld + size - 1];
	return last == expected;
}

constexpr struct {
	const char *name;
	bool (*run)(bool right);
} controls[] = {
    CONTROL(passesHostArray),
    CONTROL(putsHostPointerIntoArray),
    CONTROL(overwritesArrayTooEarly),
    CONTROL(uploadsArrayOnOtherStream),
    CONTROL(misalignsElement),
    CONTROL(misalignsTensorCoreOperand),
    CONTROL(freesMatrix),
    CONTROL(freesArrayOfGraph),
    CONTROL(putsGroupSizesOnDevice),
    CONTROL(passesHostArrayToGroups),
    CONTROL(passesHostVector),
    CONTROL(countsElementsNotIncrements),
    CONTROL(wantsHostResultInDeviceMode),
    CONTROL(wantsDeviceResultInHostMode),
    CONTROL(readsDeviceResultWithoutWaiting),
    CONTROL(freesTriangle),
    CONTROL(writesOverLeftOperand),
    CONTROL(writesOverRightOperand),
    CONTROL(writesOverNeighbour),
};

} // namespace

int main(int argc, char **argv)
{
	return runControl(argc, argv, controls, [](const auto &row, bool isRight) { return row.run(isRight) && !failed; });
}
