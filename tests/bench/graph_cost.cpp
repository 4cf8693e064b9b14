// Nanoseconds of a cuDNN call on libraries that do nothing. `graph_cost [REPEATS]` prints median, smallest and largest
// for: a variant pack that is made, executed and destroyed; the execution alone; the pack alone; a
// cudnnConvolutionForward. graph_cost.py runs it without autoamp and preloaded.
#include <cudnn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

namespace {

constexpr int calls = 20'000;

template <typename Call>
void time(int repeats, Call call)
{
	std::vector<double> times;
	for (int repeat = 0; repeat <= repeats; repeat++) {
		const auto start = std::chrono::steady_clock::now();
		for (int i = 0; i < calls; i++)
			call();
		const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
		if (repeat) // the first repeat warms up
			times.push_back(took.count() / calls);
	}
	std::sort(times.begin(), times.end());
	std::printf("%.2f %.2f %.2f\n", times[times.size() / 2], times.front(), times.back());
}

} // namespace

int main(int count, char **arguments)
{
	const int repeats = count > 1 ? std::atoi(arguments[1]) : 21;
	alignas(16) static int handleOf, memory[12];
	auto *const handle = reinterpret_cast<cudnnHandle_t>(&handleOf);
	cudnnBackendDescriptor_t plan = nullptr;
	cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
	cudnnBackendFinalize(plan);
	const int64_t uids[] = {'x', 'w', 'y'};
	void *const pointers[] = {&memory[0], &memory[4], &memory[8]}, *const workspace = memory;
	const auto make = [&] {
		cudnnBackendDescriptor_t pack = nullptr;
		cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
		cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers);
		cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, uids);
		cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
		cudnnBackendFinalize(pack);
		return pack;
	};
	time(repeats, [&] {
		cudnnBackendDescriptor_t pack = make();
		cudnnBackendExecute(handle, plan, pack);
		cudnnBackendDestroyDescriptor(pack);
	});
	cudnnBackendDescriptor_t pack = make();
	time(repeats, [&] { cudnnBackendExecute(handle, plan, pack); });
	time(repeats, [&] { cudnnBackendDestroyDescriptor(make()); });
	const float one = 1, zero = 0;
	const auto description = [](auto *&of) { return of = reinterpret_cast<std::decay_t<decltype(of)>>(&handleOf); };
	cudnnTensorDescriptor_t tensor;
	cudnnFilterDescriptor_t filter;
	cudnnConvolutionDescriptor_t convolution;
	description(tensor), description(filter), description(convolution);
	time(repeats, [&] {
		cudnnConvolutionForward(handle, &one, tensor, &memory[0], filter, &memory[4], convolution,
		                        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero, tensor, &memory[8]);
	});
}
