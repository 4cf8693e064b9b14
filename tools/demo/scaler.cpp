// Trains a linear model with a gradient scaler (autoamp.h). Products and gradients are computed by cuBLAS in fp32. The
// scale starts far too high, so the first steps overflow and are skipped; later it grows.
#include "inject/autoamp.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

static void check(int status, const char *what)
{
	if (status == 0)
		return;
	std::fprintf(stderr, "%s: status %d\n", what, status);
	std::exit(1);
}
#define CHECK(call) check(static_cast<int>(call), #call)

static float *onDevice(const std::vector<float> &values)
{
	void *memory = nullptr;
	CHECK(cudaMalloc(&memory, values.size() * sizeof(float)));
	CHECK(cudaMemcpy(memory, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
	return static_cast<float *>(memory);
}

int main()
{
	constexpr int examples = 512, inputs = 64, outputs = 32, steps = 120;
	constexpr int results = examples * outputs;
	const float one = 1, minusOne = -1, zero = 0, rate = -1.0f / examples;
	std::vector<float> random(examples * inputs);
	for (size_t i = 0; i < random.size(); i++)
		random[i] = static_cast<float>(std::sin(static_cast<double>(i * i % 7919)));
	std::vector<float> truth(inputs * outputs);
	for (size_t i = 0; i < truth.size(); i++)
		truth[i] = static_cast<float>(std::cos(static_cast<double>(i)));

	cublasHandle_t blas;
	CHECK(cublasCreate(&blas));
	float *const data = onDevice(random), *const wanted = onDevice(truth);
	float *const weights = onDevice(std::vector<float>(truth.size())), *const gradient = onDevice(truth);
	float *const target = onDevice(std::vector<float>(results)), *const error = onDevice(std::vector<float>(results));
	const auto predict = [&](const float *from, float *to) {
		CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, examples, outputs, inputs, &one, data, examples, from, inputs,
		                  &zero, to, examples));
	};
	predict(wanted, target);

	autoamp_scaler_options options = AUTOAMP_SCALER;
	options.name = "demo";
	options.init_scale = std::ldexp(1.0, 127);
	options.growth_interval = 25;
	autoamp_scaler *scaler = nullptr;
	if (autoamp_scaler_create(&scaler, &options) == AUTOAMP_UNKNOWN)
		std::puts("autoamp is not active: the scale is 1");
	int skipped = 0;
	for (int step = 0; step < steps; step++) {
		predict(weights, error);
		CHECK(cublasSaxpy(blas, results, &minusOne, target, 1, error, 1));
		if (step % 20 == 0 || step == steps - 1) {
			float norm = 0;
			CHECK(cublasSnrm2(blas, results, error, 1, &norm));
			autoamp_scaler_state state = {};
			state.size = sizeof state;
			autoamp_scaler_get(scaler, &state, nullptr);
			std::printf("step %3d  error %8.4f  scale 2^%.0f  skipped %d\n", step, static_cast<double>(norm) / results,
			            std::log2(state.scale), skipped);
		}
		const autoamp_tensor loss = {error, results, AUTOAMP_FLOAT32};
		CHECK(autoamp_scaler_scale(scaler, &loss, 1, nullptr));
		CHECK(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, inputs, outputs, examples, &one, data, examples, error,
		                  examples, &zero, gradient, inputs));
		const autoamp_tensor gradients = {gradient, inputs * outputs, AUTOAMP_FLOAT32};
		CHECK(autoamp_scaler_unscale(scaler, 0, &gradients, 1, nullptr));
		const int runs = autoamp_scaler_step(scaler, 0, nullptr);
		if (runs == 1)
			CHECK(cublasSaxpy(blas, inputs * outputs, &rate, gradient, 1, weights, 1));
		skipped += runs == 0;
		CHECK(autoamp_scaler_update(scaler, nullptr, nullptr));
	}
	CHECK(cudaDeviceSynchronize());
	CHECK(autoamp_scaler_destroy(scaler));
	CHECK(cublasDestroy(blas));
}
