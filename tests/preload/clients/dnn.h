// Shared by the cuDNN clients: an error ends the program, a session is a handle on its own stream, graph API
// descriptors destroy themselves.
#pragma once

#include "harness.h"

#include <cudnn.h>

#include <utility>
#include <vector>

namespace client {

inline void needDnn(cudnnStatus_t status, const char *what)
{
	if (status != CUDNN_STATUS_SUCCESS)
		fail(what, cudnnGetErrorString(status));
}
#define DNN(call) client::needDnn(call, #call)

struct DnnSession {
	DnnSession()
	{
		CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		DNN(cudnnCreate(&handle));
		DNN(cudnnSetStream(handle, stream));
	}
	~DnnSession()
	{
		DNN(cudnnDestroy(handle));
		CHECK(cudaStreamDestroy(stream));
	}
	DnnSession(const DnnSession &) = delete;
	cudaStream_t stream = nullptr;
	cudnnHandle_t handle = nullptr;
};

using Dims = std::vector<int64_t>;

class Descriptor
{
public:
	explicit Descriptor(cudnnBackendDescriptor_t made) : made_(made) {}
	explicit Descriptor(cudnnBackendDescriptorType_t type) { DNN(cudnnBackendCreateDescriptor(type, &made_)); }
	~Descriptor()
	{
		if (made_)
			DNN(cudnnBackendDestroyDescriptor(made_));
	}
	Descriptor(Descriptor &&other) noexcept : made_(std::exchange(other.made_, nullptr)) {}
	operator cudnnBackendDescriptor_t() const { return made_; }

	template <typename Value>
	Descriptor &set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
	                const std::vector<Value> &values)
	{
		DNN(cudnnBackendSetAttribute(made_, name, type, static_cast<int64_t>(values.size()), values.data()));
		return *this;
	}
	Descriptor &set(cudnnBackendAttributeName_t name, const Dims &values)
	{
		return set(name, CUDNN_TYPE_INT64, values);
	}
	Descriptor &set(cudnnBackendAttributeName_t name, int64_t value)
	{
		return set(name, CUDNN_TYPE_INT64, Dims{value});
	}
	Descriptor &set(cudnnBackendAttributeName_t name, bool value)
	{
		DNN(cudnnBackendSetAttribute(made_, name, CUDNN_TYPE_BOOLEAN, 1, &value));
		return *this;
	}
	Descriptor &set(cudnnBackendAttributeName_t name, cudnnDataType_t value)
	{
		return set(name, CUDNN_TYPE_DATA_TYPE, std::vector{value});
	}
	Descriptor &link(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
	{
		return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{value});
	}
	Descriptor &finalize()
	{
		DNN(cudnnBackendFinalize(made_));
		return *this;
	}
	Descriptor finalized() { return std::move(finalize()); }

private:
	cudnnBackendDescriptor_t made_ = nullptr;
};

} // namespace client
