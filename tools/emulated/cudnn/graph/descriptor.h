// The contents of a cudnnBackendDescriptor_t: attributes as set, and the results of finalizing. Any thread; the user of
// a descriptor must guard it.
#pragma once

#include "tools/emulated/cudnn/graph/support.h"
#include "tools/emulated/cudnn/handle.h"

namespace emulated::cudnn::graph {

struct Descriptor;
using Copy = std::shared_ptr<const Descriptor>; // a copy of a descriptor, made when it was set as an attribute

struct Value {
	cudnnBackendAttributeType_t type;
	int64_t count;
	std::vector<std::byte> bytes;
	std::vector<Copy> copies; // if the type is BACKEND_DESCRIPTOR
};

// The contents of a finalized plan.
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
	std::shared_ptr<const Graph> graph; // set in operation graphs and engines
	std::shared_ptr<const Plan> plan;
	Engine engine;
	int version = 0; // the engine's device
	Json properties; // of this device
	Node node;       // set in operations, with their edges
	std::vector<Edge> edges;

	bool has(int name) const { return values.count(name) != 0; }
	int64_t countOf(int name) const { return has(name) ? values.at(name).count : 0; }
	Copy link(int name) const; // null: not set, or of another type
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
	double number(int name, double otherwise) const // for FLOAT and DOUBLE
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

// The live descriptor at a pointer, or null.
Descriptor *live(cudnnBackendDescriptor_t descriptor);

// Finalizes a descriptor: SUCCESS, or the error in its attributes.
cudnnStatus_t finish(Descriptor &descriptor);

// Checks the pack against the plan and enqueues the work on the handle's stream.
cudnnStatus_t execute(const Handle &handle, const std::shared_ptr<const Plan> &plan, const Descriptor &pack);

} // namespace emulated::cudnn::graph
