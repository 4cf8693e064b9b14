// A program with the gradient scalers of several frameworks. It follows a script from its standard input, prints the
// state that it reads back itself, and does not depend on autoamp.
#include "scaler_kernels.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                                                    \
	if (const auto status = call) {                                                                                    \
		std::printf("%s: %d\n", #call, int(status));                                                                   \
		std::exit(3);                                                                                                  \
	}

namespace at::native {

__global__ void amp_update_scale_kernel(float *scale, float *found, float *next, double growth, double backoff)
{
	scaler::torchFirst(scale, found, next, growth, backoff);
}
__global__ void amp_update_scale_cuda_kernel(int *tracker, float *scale, float *found, float *next, double growth,
                                             double backoff, int interval)
{
	scaler::torch(scale, tracker, found, growth, backoff, interval, false, next);
}
__global__ void amp_update_scale_cuda_kernel(float *scale, int *tracker, float *found, double growth, double backoff,
                                             int interval)
{
	scaler::torch(scale, tracker, found, growth, backoff, interval, false, scale);
}
__global__ void amp_update_scale_cuda_kernel(float *scale, int *tracker, const float *found, double growth,
                                             double backoff, int interval)
{
	scaler::torch(scale, tracker, found, growth, backoff, interval, true, scale);
}
// A later version could add a parameter.
__global__ void amp_update_scale_cuda_kernel(float *scale, int *tracker, const float *found, double growth,
                                             double backoff, int interval, bool)
{
	scaler::torch(scale, tracker, found, growth, backoff, interval, true, scale);
}

} // namespace at::native

// NVIDIA Modulus
__global__ void amp_update_scale_cuda_kernel(float *scale, int *tracker, float *found, float growth, float backoff,
                                             int interval, float, float, int)
{
	scaler::torch(scale, tracker, found, growth, backoff, interval, true, scale);
}

__global__ void update_scale_hysteresis_cuda_kernel(float *scale, int *tracker, int *hysteresisTracker,
                                                    const float *found, double growth, double backoff, int interval,
                                                    int hysteresis)
{
	scaler::apex(scale, tracker, hysteresisTracker, found, growth, backoff, interval, hysteresis);
}

namespace oneflow {
namespace unnamed { // nvcc gives an anonymous namespace a name that depends on the file
template <typename T>
__global__ void AmpUpdateScaleImpl(T *scale, int *tracker, const T *found, double growth, double backoff,
                                   int64_t interval)
{
	scaler::torch(scale, tracker, found, growth, backoff, interval, false, scale);
}
} // namespace unnamed
} // namespace oneflow

namespace phi {

__device__ bool read(const bool *found)
{
	return *found;
}
__device__ bool read(bool found)
{
	return found;
}
template <typename T, typename Found>
__global__ void GpuUpdateLossScaling(const Found found, const T *scale, const int *good, const int *bad,
                                     const int incrEvery, const int decrEvery, const float incr, const float decr,
                                     T *scaleOut, int *goodOut, int *badOut)
{
	scaler::paddle(read(found), scale, good, bad, incrEvery, decrEvery, incr, decr, scaleOut, goodOut, badOut);
}
template <typename T>
__global__ void InverseAndMemset(const T *scale, T *inverse, bool *found)
{
	*inverse = 1 / *scale;
	*found = false;
}
template <typename T, typename MT>
__global__ void CheckFiniteAndUnscale(const T **xs, const MT *scale, int64_t size, int64_t *, bool *found, T **outs)
{
	for (int64_t i = 0; i < size; i++) {
		*outs[i] = *xs[i] * *scale;
		if (!isfinite(*outs[i]))
			*found = true;
	}
}

} // namespace phi

extern "C" cudaError_t cudaLaunchKernel_ptsz(const void *, dim3, dim3, void **, size_t, cudaStream_t);

namespace {

// Ways to launch a kernel.
using Launch = decltype(&cudaLaunchKernel_ptsz);
std::string how = "arrows";

template <class... P, class... A>
void launch(void (*kernel)(P...), cudaStream_t stream, A... a)
{
	std::tuple<P...> values(a...);
	void *arguments[sizeof...(P)];
	std::apply(
	    [&](auto &...each) {
		    void **at = arguments;
		    ((*at++ = const_cast<void *>(static_cast<const void *>(&each))), ...);
	    },
	    values);
	const auto *stub = reinterpret_cast<const void *>(kernel);
	if (how == "arrows") {
		kernel<<<1, 1, 0, stream>>>(a...);
		CHECK(cudaGetLastError());
	} else if (how == "runtime") {
		CHECK(cudaLaunchKernel(stub, 1, 1, arguments, 0, stream));
	} else if (how == "config") {
		cudaLaunchConfig_t config = {};
		config.gridDim = config.blockDim = 1;
		config.stream = stream;
		CHECK(cudaLaunchKernelExC(&config, stub, arguments));
	} else if (how == "thread") {
		CHECK(cudaLaunchKernel_ptsz(stub, 1, 1, arguments, 0, stream));
	} else if (how == "looked") {
		static const auto found =
		    reinterpret_cast<Launch>(dlsym(dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD), "cudaLaunchKernel"));
		CHECK(found(stub, 1, 1, arguments, 0, stream));
	} else {
		std::exit(4);
	}
}

struct Scaler {
	std::string kind;
	int device;
	cudaStream_t stream;
	float *scale, *next, *found, *gradient, *inverse; // next: the scale after an update out of place
	int *tracker, *hysteresis;
	bool *flag;
	float **pointers;
	int64_t *starts;
};
std::map<std::string, Scaler> scalers;
std::map<std::string, cudaStream_t> streams;
std::map<std::string, cudaGraphExec_t> graphs;

template <class T>
T *allocate(T value, size_t count = 1)
{
	T *memory = nullptr;
	CHECK(cudaMalloc(&memory, count * sizeof value));
	CHECK(cudaMemcpy(memory, &value, sizeof value, cudaMemcpyHostToDevice));
	return memory;
}

template <class T>
T value(const T *memory)
{
	T host;
	CHECK(cudaMemcpy(&host, memory, sizeof host, cudaMemcpyDeviceToHost));
	return host;
}

template <class T>
void set(T *memory, T host, cudaStream_t stream)
{
	CHECK(cudaMemcpyAsync(memory, &host, sizeof host, cudaMemcpyHostToDevice, stream));
	CHECK(cudaStreamSynchronize(stream));
}

cudaStream_t streamNamed(const std::string &name)
{
	if (name == "0")
		return nullptr;
	cudaStream_t &stream = streams[name];
	if (!stream)
		CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	return stream;
}

// The numbers: growth, backoff, interval, hysteresis.
void update(Scaler &s, double growth, double backoff, int interval, int hysteresis)
{
	using namespace at::native;
	using InPlace = void (*)(float *, int *, float *, double, double, int);
	using Guarded = void (*)(float *, int *, const float *, double, double, int);
	using OutOfPlace = void (*)(int *, float *, float *, float *, double, double, int);
	using Longer = void (*)(float *, int *, const float *, double, double, int, bool);
	using Modulus = void (*)(float *, int *, float *, float, float, int, float, float, int);
	const float *const found = s.found;
	const auto factor = [](double number) { return static_cast<float>(number); };
	if (s.kind == "torch1.5") {
		launch(amp_update_scale_kernel, s.stream, s.scale, s.found, s.next, growth, backoff);
		std::swap(s.scale, s.next);
	} else if (s.kind == "torch1.6") {
		launch(static_cast<OutOfPlace>(amp_update_scale_cuda_kernel), s.stream, s.tracker, s.scale, s.found, s.next,
		       growth, backoff, interval);
		std::swap(s.scale, s.next);
	} else if (s.kind == "torch1.9") {
		launch(static_cast<InPlace>(amp_update_scale_cuda_kernel), s.stream, s.scale, s.tracker, s.found, growth,
		       backoff, interval);
	} else if (s.kind == "torch") {
		launch(static_cast<Guarded>(amp_update_scale_cuda_kernel), s.stream, s.scale, s.tracker, found, growth, backoff,
		       interval);
	} else if (s.kind == "longer") {
		launch(static_cast<Longer>(amp_update_scale_cuda_kernel), s.stream, s.scale, s.tracker, found, growth, backoff,
		       interval, true);
	} else if (s.kind == "modulus") {
		launch(static_cast<Modulus>(::amp_update_scale_cuda_kernel), s.stream, s.scale, s.tracker, s.found,
		       factor(growth), factor(backoff), interval, 0.0f, 0.0f, 0);
	} else if (s.kind == "apex") {
		launch(update_scale_hysteresis_cuda_kernel, s.stream, s.scale, s.tracker, s.hysteresis, found, growth, backoff,
		       interval, hysteresis);
	} else if (s.kind == "oneflow") {
		launch(oneflow::unnamed::AmpUpdateScaleImpl<float>, s.stream, s.scale, s.tracker, found, growth, backoff,
		       int64_t{interval});
	} else if (s.kind == "paddle_static") {
		launch(phi::GpuUpdateLossScaling<float, const bool *>, s.stream, static_cast<const bool *>(s.flag),
		       static_cast<const float *>(s.scale), static_cast<const int *>(s.tracker),
		       static_cast<const int *>(s.hysteresis), interval, hysteresis, factor(growth), factor(backoff), s.scale,
		       s.tracker, s.hysteresis);
	} else if (s.kind == "paddle_value") {
		launch(phi::GpuUpdateLossScaling<float, bool>, s.stream, value(s.flag), static_cast<const float *>(s.scale),
		       static_cast<const int *>(s.tracker), static_cast<const int *>(s.hysteresis), interval, hysteresis,
		       factor(growth), factor(backoff), s.scale, s.tracker, s.hysteresis);
	} else if (s.kind == "paddle") { // the program then reads the flag, and computes a new scale itself
		launch(phi::InverseAndMemset<float>, s.stream, static_cast<const float *>(s.scale), s.inverse, s.flag);
		launch(phi::CheckFiniteAndUnscale<float, float>, s.stream, const_cast<const float **>(s.pointers),
		       static_cast<const float *>(s.inverse), int64_t{1}, s.starts, s.flag, s.pointers);
	} else {
		std::exit(5);
	}
}

void follow(std::istream &script);

// The script's commands; `words` are those after the command.
void run(const std::string &command, std::istringstream &words, std::istream &script)
{
	std::string name;
	words >> name;
	const auto number = [&words] {
		std::string text;
		words >> text;
		return std::strtod(text.c_str(), nullptr); // "inf", too
	};
	if (command == "how") {
		how = name;
	} else if (command == "device") {
		CHECK(cudaSetDevice(std::stoi(name)));
	} else if (command == "scaler") { // NAME KIND STREAM SCALE TRACKER HYSTERESIS
		Scaler s = {};
		std::string stream;
		words >> s.kind >> stream;
		s.stream = streamNamed(stream);
		CHECK(cudaGetDevice(&s.device));
		s.scale = allocate(static_cast<float>(number()));
		s.next = allocate(0.0f);
		s.tracker = allocate(static_cast<int>(number()));
		s.hysteresis = allocate(static_cast<int>(number()));
		s.found = allocate(0.0f);
		s.gradient = allocate(1.0f);
		s.inverse = allocate(0.0f);
		s.flag = allocate(false);
		s.pointers = allocate(s.gradient);
		s.starts = allocate(int64_t{0}, 2);
		scalers[name] = s;
	} else if (command == "found" || command == "set") { // NAME VALUE
		Scaler &s = scalers.at(name);
		const auto value = static_cast<float>(number());
		set(command == "set" ? s.scale : s.found, value, s.stream);
		if (command == "found") {
			set(s.flag, value != 0, s.stream);
			set(s.gradient, value != 0 ? INFINITY : 1.0f, s.stream);
		}
	} else if (command == "update") { // NAME GROWTH BACKOFF INTERVAL HYSTERESIS
		const double growth = number(), backoff = number();
		const int interval = static_cast<int>(number());
		update(scalers.at(name), growth, backoff, interval, static_cast<int>(number()));
	} else if (command == "thread_update") { // as `update`: the first CUDA call of a thread
		Scaler &s = scalers.at(name);
		std::thread([&s] { update(s, 2, 0.5, 4, 1); }).join();
	} else if (command == "print") {
		const Scaler &s = scalers.at(name);
		CHECK(cudaStreamSynchronize(s.stream));
		std::printf("%s %a %d %d %d\n", name.c_str(), value(s.scale), value(s.tracker), value(s.hysteresis),
		            s.kind == "paddle" && value(s.flag));
	} else if (command == "wild") { // a scale that is not device memory; the kernel is never run
		static float host = 1;
		Scaler s = scalers.at(name);
		std::string kind;
		words >> kind;
		s.scale = &host;
		if (kind == "pinned")
			CHECK(cudaMallocHost(&s.scale, sizeof *s.scale));
		cudaGraph_t graph = nullptr;
		CHECK(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeRelaxed));
		update(s, 2, 0.5, 4, 1);
		CHECK(cudaStreamEndCapture(s.stream, &graph));
		CHECK(cudaGraphDestroy(graph));
	} else if (command == "product") {
		cublasHandle_t handle = nullptr;
		CHECK(cublasCreate(&handle));
		constexpr int n = 64;
		const float one = 1, zero = 0;
		std::vector<float> host(n * n, name == "inf" ? INFINITY : 1.0f);
		float *a = allocate(0.0f, n * n), *b = allocate(0.0f, n * n), *c = allocate(0.0f, n * n);
		CHECK(cudaMemcpy(a, host.data(), sizeof(float) * n * n, cudaMemcpyHostToDevice));
		host.assign(n * n, 1);
		CHECK(cudaMemcpy(b, host.data(), sizeof(float) * n * n, cudaMemcpyHostToDevice));
		CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n));
		CHECK(cudaDeviceSynchronize());
		std::printf("product %a\n", value(c));
		CHECK(cublasDestroy(handle));
	} else if (command ==
	           "capture") { // NAME STREAM, then commands up to `end`: the stream must be that of their scalers
		std::string stream;
		words >> stream;
		cudaGraph_t graph = nullptr;
		CHECK(cudaStreamBeginCapture(streamNamed(stream), cudaStreamCaptureModeThreadLocal));
		follow(script);
		CHECK(cudaStreamEndCapture(streamNamed(stream), &graph));
		size_t nodes = 0;
		CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
		std::fprintf(stderr, "nodes %zu\n", nodes);
		if (graphs.count(name)) {
			cudaGraphExecUpdateResultInfo info = {};
			std::fprintf(stderr, "exec update %d\n", int(cudaGraphExecUpdate(graphs[name], graph, &info)));
		} else {
			CHECK(cudaGraphInstantiate(&graphs[name], graph, 0));
		}
		CHECK(cudaGraphDestroy(graph));
	} else if (command == "replay") { // NAME STREAM
		std::string stream;
		words >> stream;
		CHECK(cudaGraphLaunch(graphs.at(name), streamNamed(stream)));
	} else if (command == "fork") { // a child, in which CUDA does not work
		const pid_t child = fork();
		if (child == 0) {
			double nothing = 0;
			void *arguments[] = {&nothing, &nothing, &nothing, &nothing, &nothing, &nothing};
			using Guarded = void (*)(float *, int *, const float *, double, double, int);
			const auto *stub =
			    reinterpret_cast<const void *>(static_cast<Guarded>(at::native::amp_update_scale_cuda_kernel));
			_exit(cudaLaunchKernel(stub, 1, 1, arguments, 0, nullptr) == cudaSuccess ? 1 : 7);
		}
		int status = 0;
		waitpid(child, &status, 0);
		std::printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	} else if (command == "threads") { // COUNT UPDATES: a scaler of its own on each thread
		std::vector<std::thread> running;
		const int count = std::stoi(name), updates = static_cast<int>(number());
		std::vector<float> last(static_cast<size_t>(count));
		for (int i = 0; i < count; i++)
			running.emplace_back([i, updates, &last] {
				Scaler s = {};
				s.kind = "torch";
				CHECK(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
				s.scale = allocate(1.0f);
				s.tracker = allocate(0);
				s.found = allocate(0.0f);
				for (int j = 0; j < updates; j++)
					update(s, 2, 0.5, 10, 1);
				CHECK(cudaStreamSynchronize(s.stream));
				last[static_cast<size_t>(i)] = value(s.scale);
			});
		for (std::thread &each : running)
			each.join();
		for (const float each : last)
			std::printf("thread %a\n", each);
	} else if (command == "lookup") { // a name in a library that does not have it
		void *const found = dlsym(dlopen("libm.so.6", RTLD_NOW), name.c_str());
		std::printf("lookup %d %d\n", found != nullptr, dlerror() != nullptr);
	} else if (command == "sync") {
		CHECK(cudaDeviceSynchronize());
	} else if (command == "kill") {
		std::fflush(stdout);
		raise(SIGKILL);
	} else if (command == "error") { // the program's last error is its own
		std::printf("error %d\n", int(cudaGetLastError()));
	} else {
		std::exit(6);
	}
}

void follow(std::istream &script)
{
	std::string line;
	while (std::getline(script, line) && line != "end") {
		std::istringstream words(line);
		std::string command;
		if (words >> command)
			run(command, words, script);
	}
}

} // namespace

int main()
{
	follow(std::cin);
	CHECK(cudaDeviceSynchronize());
}
