// Regions in C++: the program itself selects the precision of its parts.
//
//     export CPATH=$CUDA_HOME/include LIBRARY_PATH=$CUDA_HOME/lib64:$CUDA_HOME/lib    # CUDA_HOME: the CUDA toolkit
//     g++ regions.cpp -o regions $(pkg-config --cflags autoamp) -lcublas -lcudart     # in a build: -I../../inject
//     autoamp run --strategy cast -o regions.aat -- ./regions # without a GPU: add --device emulated
//     autoamp report --by region regions.aat
//
// `--strategy cast` lowers the product of the region to bfloat16, whatever it gains. Without autoamp in the process,
// the regions have no effect, and both products run in fp32.
#include <autoamp.h>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

static constexpr int size = 256;

static void check(int status)
{
	if (status != 0) {
		std::fprintf(stderr, "status %d\n", status);
		std::exit(1);
	}
}

// Computes the square of `matrix`, and prints the relative error of its first column.
static void square(cublasHandle_t blas, const char *name, const std::vector<float> &matrix)
{
	const float one = 1, zero = 0;
	float *operand = nullptr, *product = nullptr;
	check(cudaMalloc(&operand, matrix.size() * sizeof(float)));
	check(cudaMalloc(&product, matrix.size() * sizeof(float)));
	check(cudaMemcpy(operand, matrix.data(), matrix.size() * sizeof(float), cudaMemcpyHostToDevice));
	check(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, operand, size, operand, size, &zero,
	                  product, size));
	std::vector<float> column(size);
	check(cudaMemcpy(column.data(), product, size * sizeof(float), cudaMemcpyDeviceToHost));
	double difference = 0, norm = 0;
	for (int row = 0; row < size; row++) {
		double exact = 0;
		for (int k = 0; k < size; k++)
			exact += static_cast<double>(matrix[row + k * size]) * matrix[k];
		difference += std::pow(column[row] - exact, 2);
		norm += exact * exact;
	}
	std::printf("%-9s relative error %.1e\n", name, std::sqrt(difference / norm));
	check(cudaFree(operand));
	check(cudaFree(product));
}

int main()
{
	cublasHandle_t blas;
	check(cublasCreate(&blas));
	std::vector<float> matrix(size * size);
	for (size_t i = 0; i < matrix.size(); i++)
		matrix[i] = static_cast<float>(std::sin(static_cast<double>(i * i % 7919)));

	autoamp_region features = AUTOAMP_REGION;
	features.name = "features"; // rules and reports use this name
	features.dtype = "bfloat16";
	{
		autoamp::Region inside(features); // until the end of the block
		square(blas, "features", matrix);
	}
	autoamp_region solver = AUTOAMP_REGION;
	solver.name = "solver";
	solver.enabled = 0; // fp32
	autoamp::Region inside(solver);
	square(blas, "solver", matrix);
	check(cublasDestroy(blas));
}
