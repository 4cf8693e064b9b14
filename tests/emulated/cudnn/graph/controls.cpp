// Small clients of the cuDNN graph API, each correct or with one error, like those of tests/emulated/controls.cpp: the
// errors show only when the work runs.
#include "tests/emulated/controls.h"
#include "tests/emulated/cudnn/graph/plan.h"

#include <cuda_runtime_api.h>

#include <functional>

namespace {

using namespace graph;

// A 1x1 convolution of ones with NCHW operands, which needs a workspace, with the given pointers.
struct Small {
	cudnnHandle_t handle = nullptr;
	Client client;
	Descriptor plan = nullptr;
	float *x = nullptr, *w = nullptr, *y = nullptr;
	char *workspace = nullptr;
	size_t bytes = 0;
	bool isRight = true;

	Small()
	{
		ok(cudnnCreate(&handle));
		const auto edge = [&](int64_t uid, const Dims &dims) {
			return client.tensor(uid, CUDNN_DATA_FLOAT, dims, packed(dims, false));
		};
		Descriptor node = client.convolution(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, edge(2, {8, 8, 1, 1}),
		                                     edge(1, {1, 8, 2, 2}), edge(3, {1, 8, 2, 2}), {0, 0}, {1, 1}, {1, 1});
		const auto configs = client.configs(client.operations(handle, {node}));
		for (size_t i = 0; i < configs.size() && bytes == 0; ++i) {
			plan = client.plan(handle, configs[i]);
			bytes = static_cast<size_t>(client.workspace(plan));
		}
		isRight &= bytes > 0;
		for (auto [to, count] : {std::pair(&x, 32), std::pair(&w, 64), std::pair(&y, 32)}) {
			const std::vector<float> ones(static_cast<size_t>(count), 1);
			ok(cudaMalloc(reinterpret_cast<void **>(to), ones.size() * sizeof(float)));
			ok(cudaMemcpy(*to, ones.data(), ones.size() * sizeof(float), cudaMemcpyHostToDevice));
		}
		ok(cudaMalloc(reinterpret_cast<void **>(&workspace), bytes));
	}
	void ok(int status) { isRight &= status == 0; }
	Descriptor pack(void *first, void *room) { return client.pack({{1, first}, {2, w}, {3, y}}, room); }
	bool run(Descriptor variants)
	{
		ok(cudnnBackendExecute(handle, plan, variants));
		std::vector<float> result(32);
		ok(cudaDeviceSynchronize());
		ok(cudaMemcpy(result.data(), y, result.size() * sizeof(float), cudaMemcpyDeviceToHost));
		for (float one : result)
			isRight &= one == 8;
		return isRight && client.status() == CUDNN_STATUS_SUCCESS;
	}
};

alignas(256) float onHost[32];

struct Row {
	const char *name;
	std::function<bool(Small &, bool)> run; // right?
};
const Row rows[] = {
    {"host_pointer", [](Small &s, bool right) { return s.run(s.pack(right ? s.x : onHost, s.workspace)); }},
    {"small_workspace",
     [](Small &s, bool right) { return s.run(s.pack(s.x, right ? s.workspace : s.workspace + s.bytes / 2)); }},
    {"stale_pack",
     [](Small &s, bool right) {
	     float *other = nullptr;
	     s.ok(cudaMalloc(reinterpret_cast<void **>(&other), 128));
	     s.ok(cudaMemcpy(other, s.x, 128, cudaMemcpyDeviceToDevice));
	     Descriptor pack = s.pack(other, s.workspace);
	     if (!right)
		     s.ok(cudaFree(other));
	     return s.run(pack);
     }},
    {"destroyed_plan",
     [](Small &s, bool right) {
	     Descriptor copy = nullptr;
	     s.ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &copy));
	     Descriptor mine = right ? s.plan : copy;
	     s.ok(cudnnBackendDestroyDescriptor(copy));
	     s.plan = mine;
	     return s.run(s.pack(s.x, s.workspace));
     }},
    {"result_without_waiting",
     [](Small &s, bool right) {
	     cudaStream_t stream = nullptr;
	     s.ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	     s.ok(cudnnSetStream(s.handle, stream));
	     s.ok(cudnnBackendExecute(s.handle, s.plan, s.pack(s.x, s.workspace)));
	     if (right)
		     s.ok(cudaStreamSynchronize(stream));
	     float first = 0;
	     s.ok(cudaMemcpyAsync(&first, s.y, sizeof first, cudaMemcpyDeviceToHost, nullptr));
	     s.ok(cudaStreamSynchronize(nullptr));
	     return s.isRight && first == 8;
     }},
    {"dead_handle",
     [](Small &s, bool right) {
	     if (!right)
		     s.ok(cudnnDestroy(s.handle));
	     return s.run(s.pack(s.x, s.workspace));
     }},
};

} // namespace

int main(int argc, char **argv)
{
	return runControl(argc, argv, rows, [](const Row &row, bool isRight) {
		Small small;
		return row.run(small, isRight);
	});
}
