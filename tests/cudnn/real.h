// The installed real libcudnn, queried without a GPU: device properties stand in for a handle. Needs a separate
// process, because the toolkit's driver stub is loaded under the driver's name.
#pragma once

#include "src/lower/dnn_plan.h"
#include "src/op/vendor.h"

#include <cudnn.h>

#include <cstdio>
#include <dlfcn.h>
#include <string>

namespace real {

struct Device {
	const char *name;
	int capability, processors, sharedKilobytes, threads, blocks;
	double l2Megabytes;
	int gigabytes, clockMegahertz, busBits;
};
// Values published by the vendor.
constexpr Device devices[] = {
    {"Tesla T4", 75, 40, 64, 1024, 16, 4, 16, 1590, 256},
    {"NVIDIA A100-SXM4-80GB", 80, 108, 164, 2048, 32, 40, 80, 1410, 5120},
    {"NVIDIA GeForce RTX 3090", 86, 82, 100, 1536, 16, 6, 24, 1695, 384},
    {"NVIDIA GeForce RTX 4090", 89, 128, 100, 1536, 24, 72, 24, 2520, 384},
    {"NVIDIA H100 80GB HBM3", 90, 132, 228, 2048, 32, 50, 80, 1980, 5120},
    {"NVIDIA B200", 100, 148, 228, 2048, 32, 126, 180, 1965, 8192},
    {"NVIDIA GeForce RTX 5090", 120, 170, 100, 1536, 24, 96, 32, 2407, 512},
};

inline std::string propertiesOf(const Device &device)
{
	char text[2048]; // a version skips keys that it does not know; versions since about 9.28 require memoryBusWidth
	std::snprintf(
	    text, sizeof text,
	    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
	    R"("multiProcessorCount":%d,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
	    R"("maxSharedMemoryPerBlockOptin":%d,"reservedSharedMemoryPerBlock":%d,"maxRegistersPerSM":65536,)"
	    R"("maxCtasPerSM":%d,"maxThreadsPerBlock":1024,"maxThreadsPerSM":%d,"pciDeviceId":0,"isTccDriver":0,)"
	    R"("supportCoopLaunch":1,"totalGlobalMem":%lld,"smClockRateKHz":%d,"memClockRateKHz":1215000,"memoryBusWidth":%d,)"
	    R"("l2CacheSize":%d,"cudaDeviceId":0,"deviceVer":%d,"driverVer":13000,"deviceName":"%s"})",
	    device.processors, device.capability == 75 ? 65536 : (device.sharedKilobytes - 1) * 1024,
	    device.capability == 75 ? 0 : 1024, device.blocks, device.threads,
	    static_cast<long long>(device.gigabytes) << 30, device.clockMegahertz * 1000, device.busBits,
	    static_cast<int>(device.l2Megabytes * 1048576), device.capability * 10, device.name);
	return text;
}

// Null: not installed, or too old for such a query.
inline const autoamp::op::CudnnGraph *load(const char *folder)
{
	const std::string path = folder;
	if (!dlopen((path + "/stubs/libcuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL))
		return nullptr;
	for (const char *library : {"/libnvrtc.so.13", "/libcudnn_graph.so.9", "/libcudnn.so.9"})
		if (!dlopen((path + library).c_str(), RTLD_NOW | RTLD_GLOBAL))
			return nullptr;
	void *const known = dlsym(RTLD_DEFAULT, "cudnnBackendExecute");
	return known ? autoamp::op::cudnn<autoamp::op::CudnnGraph>(known) : nullptr;
}

inline autoamp::lower::DnnDescriptor propertiesDescriptor(const autoamp::op::CudnnGraph &cudnn, const Device &device)
{
	autoamp::lower::DnnDescriptor made(cudnn, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
	const std::string text = propertiesOf(device);
	const bool isSet =
	    made.get() &&
	    cudnn.cudnnBackendSetAttribute(made.get(), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
	                                   static_cast<int64_t>(text.size()), text.data()) == 0 &&
	    cudnn.cudnnBackendFinalize(made.get()) == 0;
	return isSet ? std::move(made) : autoamp::lower::DnnDescriptor();
}

} // namespace real
