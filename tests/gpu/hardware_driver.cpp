// Contexts, streams and images of device code.
#include "hardware.h"
#include "kernels/images.h"

#include <cuda.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <unistd.h>

namespace hardware {
namespace {

#define DRIVER(name) driver<decltype(&::name)>(#name)

CUcontext currentContext()
{
	CUcontext context = nullptr;
	if (DRIVER(cuCtxGetCurrent)(&context))
		fail("cuCtxGetCurrent", "refused");
	return context;
}

unsigned long long idOf(CUcontext context)
{
	unsigned long long id = 0;
	if (DRIVER(cuCtxGetId)(context, &id))
		fail("cuCtxGetId", "refused");
	return id;
}

// autoamp stores its state under the context's id. If an id were reused, autoamp would find pointers into freed memory.
std::string resetContext(Line &)
{
	unsigned long long ids[2] = {};
	for (unsigned long long &id : ids) {
		CHECK(cudaDeviceReset());
		CHECK(cudaFree(nullptr));
		id = idOf(currentContext());
	}
	return answer(ids[0] != ids[1]);
}

// A second context in addition to the primary one, current until this object is destroyed.
class OtherContext
{
public:
	OtherContext()
	{
		CHECK(cudaFree(nullptr));
		primary_ = currentContext();
		const auto create = driver<CUresult (*)(CUcontext *, unsigned, CUdevice)>("cuCtxCreate_v2");
		if (create(&context, 0, 0))
			fail("cuCtxCreate_v2", "refused");
	}
	~OtherContext()
	{
		DRIVER(cuCtxDestroy_v2)(context);
		DRIVER(cuCtxSetCurrent)(primary_);
	}
	OtherContext(const OtherContext &) = delete;
	CUcontext context = nullptr;

private:
	CUcontext primary_ = nullptr;
};

std::string idOfNull(Line &)
{
	CHECK(cudaFree(nullptr));
	bool isOwn = idOf(nullptr) == idOf(currentContext());
	const unsigned long long primary = idOf(nullptr);
	const OtherContext other;
	isOwn = isOwn && idOf(nullptr) == idOf(other.context) && idOf(nullptr) != primary;
	return answer(isOwn);
}

// A gradient scaler keeps the handle of each context in which it has an event.
std::string idOfDestroyed(Line &line)
{
	CUcontext gone = nullptr;
	unsigned long long before = 0, after = 0;
	{
		const OtherContext other;
		gone = other.context;
		before = idOf(gone);
	}
	const CUresult status = DRIVER(cuCtxGetId)(gone, &after);
	line.put("status", status);
	return answer(status == CUDA_SUCCESS && before == after);
}

std::string idWithoutContext(Line &line)
{
	CHECK(cudaFree(nullptr));
	const CUcontext context = currentContext();
	unsigned long long id = 0;
	if (DRIVER(cuCtxSetCurrent)(nullptr))
		fail("cuCtxSetCurrent", "refused");
	const CUresult status = DRIVER(cuCtxGetId)(nullptr, &id);
	DRIVER(cuCtxSetCurrent)(context);
	line.put("status", status);
	return answer(status == CUDA_SUCCESS);
}

// 4000 streams, four at a time, in two contexts.
std::string streamIds(Line &line)
{
	std::set<unsigned long long> ids;
	int count = 0;
	const auto add = [&] {
		for (int turn = 0; turn < 500; turn++) {
			cudaStream_t streams[4];
			for (cudaStream_t &stream : streams) {
				unsigned long long id = 0;
				if (DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) || DRIVER(cuStreamGetId)(stream, &id))
					fail("cuStreamGetId", "refused");
				ids.insert(id);
				count++;
			}
			for (const cudaStream_t stream : streams)
				DRIVER(cuStreamDestroy_v2)(stream);
		}
	};
	CHECK(cudaFree(nullptr));
	add();
	const OtherContext other;
	add();
	line.put("streams", count).put("ids", static_cast<long long>(ids.size()));
	return answer(static_cast<int>(ids.size()) == count);
}

// ---- images

int capabilityHere()
{
	int major = 0, minor = 0;
	if (DRIVER(cuInit)(0) || DRIVER(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) ||
	    DRIVER(cuDeviceGetAttribute)(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0))
		fail("cuDeviceGetAttribute", "refused");
	return major * 10 + minor;
}

// Loads the image after cuInit, makes the primary context if there is none, and finds the code of a kernel there.
std::string load(Line &line, const autoamp::kernels::Image *image)
{
	if (!image)
		return absent;
	CUlibrary library = nullptr;
	CUkernel kernel = nullptr;
	CUfunction function = nullptr;
	CUresult status = DRIVER(cuLibraryLoadData)(&library, autoamp_kernel_images + image->offset, nullptr, nullptr, 0,
	                                            nullptr, nullptr, 0);
	line.put("architecture", image->architecture).put("load", status);
	if (status)
		return no;
	line.put("context", cudaFree(nullptr));
	status = DRIVER(cuLibraryGetKernel)(&kernel, library, "autoamp_cast_half");
	if (!status)
		status = DRIVER(cuKernelGetFunction)(&function, kernel);
	line.put("kernel", status);
	DRIVER(cuLibraryUnload)(library);
	return answer(!status);
}

const autoamp::kernels::Image *imageHere()
{
	return autoamp::kernels::imageFor(capabilityHere());
}

template <typename Wanted>
const autoamp::kernels::Image *firstImage(Wanted wanted)
{
	const auto images = autoamp::kernels::images();
	const auto found = std::find_if(images.begin(), images.end(), wanted);
	return found == images.end() ? nullptr : &*found;
}

std::string loadPtx(Line &line)
{
	capabilityHere();
	return load(line, firstImage([](const autoamp::kernels::Image &image) { return image.isPtx; }));
}

std::string loadEagerly(Line &line)
{
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	return load(line, imageHere());
}

// The function, in the current context, of a kernel that has not run there.
std::string findFunction(Line &line)
{
	CHECK(cudaFree(nullptr));
	CUlibrary library = nullptr;
	CUkernel kernel = nullptr;
	CUfunction function = nullptr;
	if (DRIVER(cuLibraryLoadData)(&library, autoamp_kernel_images + imageHere()->offset, nullptr, nullptr, 0, nullptr,
	                              nullptr, 0) ||
	    DRIVER(cuLibraryGetKernel)(&kernel, library, "autoamp_widen"))
		return no;
	const std::string found =
	    duringCapture(line, [&](cudaStream_t) { return DRIVER(cuKernelGetFunction)(&function, kernel); });
	DRIVER(cuLibraryUnload)(library);
	return found;
}

// As for the parameters of a gradient scaler, and for its state on the host.
std::string queryMemory(Line &line)
{
	Array array(4);
	void *host = nullptr;
	CHECK(cudaHostAlloc(&host, 4096, cudaHostAllocMapped));
	const std::string found = duringCapture(line, [&](cudaStream_t) {
		unsigned type = 0;
		int device = 0;
		unsigned long long id = 0;
		CUdeviceptr mapped = 0;
		const auto address = reinterpret_cast<CUdeviceptr>(array.data());
		const CUresult results[] = {
		    DRIVER(cuCtxGetDevice)(&device), DRIVER(cuCtxGetId)(nullptr, &id),
		    DRIVER(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
		    DRIVER(cuPointerGetAttribute)(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address),
		    DRIVER(cuMemHostGetDevicePointer_v2)(&mapped, host, 0)};
		return *std::max_element(std::begin(results), std::end(results));
	});
	CHECK(cudaFreeHost(host));
	return found;
}

// As for scratch memory that the graph of a capture owns.
std::string keepObject(Line &line)
{
	static bool isDestroyed;
	isDestroyed = false;
	const std::string found = duringCapture(line, [](cudaStream_t stream) {
		const auto ask = driver<CUresult (*)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
		                                     const CUgraphNode **, size_t *)>("cuStreamGetCaptureInfo_v2");
		CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
		cuuint64_t id = 0;
		CUgraph graph = nullptr;
		const CUgraphNode *nodes = nullptr;
		size_t count = 0;
		CUuserObject object = nullptr;
		if (const CUresult result = ask(stream, &status, &id, &graph, &nodes, &count))
			return result;
		if (const CUresult result = DRIVER(cuUserObjectCreate)(
		        &object, &isDestroyed, [](void *is) { *static_cast<bool *>(is) = true; }, 1,
		        CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))
			return result;
		return DRIVER(cuGraphRetainUserObject)(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
	});
	for (int i = 0; i < 100 && !isDestroyed; i++) // with the graph, perhaps on another thread
		usleep(10'000);
	line.put("destroyed", isDestroyed);
	return found;
}

// A cubin that runs on no GPU of this major version, while this GPU has a context.
std::string loadForeign(Line &line)
{
	const int major = capabilityHere() / 10;
	CHECK(cudaFree(nullptr));
	const auto *const image =
	    firstImage([&](const autoamp::kernels::Image &one) { return !one.isPtx && one.architecture / 10 != major; });
	if (!image)
		return absent;
	CUlibrary library = nullptr;
	const CUresult status = DRIVER(cuLibraryLoadData)(&library, autoamp_kernel_images + image->offset, nullptr, nullptr,
	                                                  0, nullptr, nullptr, 0);
	line.put("architecture", image->architecture).put("load", status);
	return answer(status == CUDA_SUCCESS);
}

} // namespace

Rows driverRows()
{
	return {
	    {"context.has_another_id_after_a_reset", yes, needed, own, resetContext},
	    {"context.id_of_null_is_that_of_the_current_one", yes, needed, shared, idOfNull},
	    {"context.a_destroyed_one_keeps_its_id", no, needed, own, idOfDestroyed},
	    {"context.null_has_an_id_without_a_current_one", no, recorded, shared, idWithoutContext},
	    {"stream.ids_are_never_used_again", yes, needed, shared, streamIds},
	    {"capture.relaxed_allows_finding_a_function", yes, needed, shared, findFunction},
	    {"capture.relaxed_allows_querying_memory", yes, needed, shared, queryMemory},
	    {"capture.relaxed_allows_keeping_an_object_in_the_graph", yes, needed, shared, keepObject},
	    {"images.ptx_is_compiled", yes, recorded, shared, loadPtx},
	    {"images.a_cubin_loads_before_there_is_a_context", yes, recorded, own,
	     [](Line &line) { return load(line, imageHere()); }},
	    {"images.a_cubin_loads_eagerly_before_there_is_a_context", yes, recorded, own, loadEagerly},
	    {"images.a_cubin_of_another_architecture_loads", yes, recorded, shared, loadForeign},
	};
}

} // namespace hardware
