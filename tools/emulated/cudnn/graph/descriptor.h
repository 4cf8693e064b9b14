// What a cudnnBackendDescriptor_t holds: attributes as they were set, and what finalizing made of them. Any thread; a
// descriptor is its user's to guard.
#pragma once

#include "tools/emulated/cudnn/graph/support.h"
#include "tools/emulated/cudnn/handle.h"

namespace emulated::cudnn::graph {

struct Descriptor;
using Copy = std::shared_ptr<const Descriptor>; // of a descriptor as it was when it was set

struct Value {
	cudnnBackendAttributeType_t type;
	int64_t count;
	std::vector<std::byte> bytes;
	std::vector<Copy> copies; // of BACKEND_DESCRIPTOR
};

// What a finalized plan runs.
struct Plan {
	std::shared_ptr<const Graph> graph;
	Engine engine;
	int version = 0;
	size_t workspace = 0;
};

struct Descriptor {
	cudnnBackendDescriptorType_t type;
	bool isFinalized = false;
	std::map<int, Value> values;
	std::shared_ptr<const Graph> graph; // of an operation graph, and of an engine
	std::shared_ptr<const Plan> plan;
	Engine engine;
	int version = 0; // of the device that an engine is for
	Json properties; // of that device
	Node node;       // of an operation, and the edges that it has
	std::vector<Edge> edges;

	bool has(int name) const { return values.count(name) != 0; }
	int64_t countOf(int name) const { return has(name) ? values.at(name).count : 0; }
	Copy link(int name) const; // null: none was set, or a descriptor of another type
	template <typename T>
	std::vector<T> all(int name) const
	{
		std::vector<T> found(static_cast<size_t>(countOf(name)));
		if (!found.empty())
			std::memcpy(found.data(), values.at(name).bytes.data(), values.at(name).bytes.size());
		return found;
	}
	template <typename T>
	T get(int name, T otherwise = {}) const
	{
		return has(name) ? all<T>(name)[0] : otherwise;
	}
	double number(int name, double otherwise) const // FLOAT or DOUBLE
	{
		if (!has(name))
			return otherwise;
		return values.at(name).type == CUDNN_TYPE_FLOAT ? get<float>(name) : get<double>(name);
	}
	template <typename T>
	void put(int name, cudnnBackendAttributeType_t kind, const std::vector<T> &given)
	{
		Value &value = values[name] = {kind, static_cast<int64_t>(given.size()), {}, {}};
		value.bytes.resize(given.size() * sizeof(T));
		if (!given.empty())
			std::memcpy(value.bytes.data(), given.data(), value.bytes.size());
	}
};

// The live one behind a pointer, or null.
Descriptor *live(cudnnBackendDescriptor_t descriptor);

// What finalizing makes of the attributes; SUCCESS, or what is wrong with them.
cudnnStatus_t finish(Descriptor &descriptor);

// Checks the pack against the plan and puts the work on the handle's stream.
cudnnStatus_t execute(const Handle &handle, const std::shared_ptr<const Plan> &plan, const Descriptor &pack);

} // namespace emulated::cudnn::graph
