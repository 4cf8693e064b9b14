// libcudnn for the rows that need it. It is loaded at run time, because a machine may have none.
#pragma once

#include "hardware.h"

#include <cudnn.h>

namespace hardware {

inline void *library()
{
	static void *const found = dlopen("libcudnn.so.9", RTLD_NOW);
	return found;
}

template <typename Function>
Function inLibrary(const char *name)
{
	void *const found = dlsym(library(), name);
	if (!found)
		fail(name, "not in libcudnn.so.9");
	return reinterpret_cast<Function>(found);
}

inline void need(cudnnStatus_t status, const char *what)
{
	if (status)
		fail(what, std::to_string(status).c_str());
}
#define FUNCTION(name) inLibrary<decltype(&::name)>(#name)
#define DNN(name, ...) need(FUNCTION(name)(__VA_ARGS__), #name)

struct DnnSession {
	DnnSession()
	{
		CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		DNN(cudnnCreate, &handle);
		DNN(cudnnSetStream, handle, stream);
		int major = 0, minor = 0;
		CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
		CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
		capability = major * 10 + minor;
	}
	~DnnSession()
	{
		FUNCTION(cudnnDestroy)(handle);
		cudaStreamDestroy(stream);
	}
	DnnSession(const DnnSession &) = delete;
	cudaStream_t stream = nullptr;
	cudnnHandle_t handle = nullptr;
	int capability = 0;
};

inline double difference(const std::vector<float> &a, const std::vector<float> &b)
{
	double error = 0, size = 0;
	for (size_t i = 0; i < a.size(); i++)
		error += std::pow(double(a[i]) - b[i], 2), size += std::pow(b[i], 2);
	return std::sqrt(error / size);
}
inline constexpr double fp32Error = 1e-5; // larger than the difference between two fp32 sums of these sizes

} // namespace hardware
