#include "src/op/backend.h"

#include "src/base/caller_state.h"
#include "src/base/faults.h"

#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <pthread.h>
#include <string>
#include <unordered_map>

namespace autoamp::op {

namespace {

struct Plan {
	uint64_t generation; // distinguishes the plan from a later one at the same address
	bool isRead = false, isFromText = false;
	PlanFacts facts;
};

struct Shelf {
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // never held during vendor calls
	std::unordered_map<const void *, VariantPack> packs;
	std::unordered_map<const void *, Plan> plans;
	std::atomic<uint64_t> packChanges{1}, planChanges{1}; // written with the mutex held
};

constexpr size_t shelfCount = 16;
std::atomic<uint64_t> generations;

Shelf *shelves()
{
	static Shelf *const made = new Shelf[shelfCount]; // never destroyed: other threads may still call during exit
	return made;
}

Shelf &shelfOf(const void *descriptor)
{
	return shelves()[reinterpret_cast<uintptr_t>(descriptor) / 64 % shelfCount];
}

void noteChange(std::atomic<uint64_t> &changes)
{
	changes.store(changes.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool isStill(const Sighting &seen, const void *descriptor, const std::atomic<uint64_t> &changes)
{
	return seen.descriptor == descriptor && seen.when == changes.load(std::memory_order_acquire);
}

// The shelf of a descriptor, locked for the lifetime of this object.
class Hold
{
public:
	explicit Hold(const void *descriptor) : shelf_(shelfOf(descriptor)) { pthread_mutex_lock(&shelf_.mutex); }
	~Hold() { pthread_mutex_unlock(&shelf_.mutex); }
	Hold(const Hold &) = delete;
	Hold &operator=(const Hold &) = delete;
	Shelf *operator->() const { return &shelf_; }

private:
	base::CallerState callerState_; // released after the mutex
	Shelf &shelf_;
};

template <typename Value>
int64_t copy(Value (&to)[mostPackTensors], const void *values, int64_t count)
{
	if (count > mostPackTensors)
		return 0;
	std::memcpy(to, values, static_cast<size_t>(count) * sizeof(Value));
	return count;
}

bool multipliesOnTensorCores(const CudnnGraph &cudnn, void *plan)
{
	void *configuration = nullptr, *engine = nullptr;
	cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	int64_t count = 0;
	const bool isRead =
	    !cudnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configuration) &&
	    !cudnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) &&
	    !cudnn.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
	                                    &count, &configuration) &&
	    !cudnn.cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
	                                    &count, &engine) &&
	    !cudnn.cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
	                                    CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes);
	for (void *const made : {engine, configuration})
		if (made && cudnn.cudnnBackendDestroyDescriptor(made))
			base::leaveFault("cudnnBackendDestroyDescriptor");
	const auto *const end = notes + std::min<int64_t>(count, std::size(notes));
	return isRead && std::find(static_cast<const cudnnBackendNumericalNote_t *>(notes), end,
	                           CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != end;
}

// False: cuDNN returned an error, most likely because the plan is not finalized.
bool readPlan(const CudnnGraph &cudnn, void *plan, PlanFacts &facts)
{
	int64_t length = 0, written = 0, workspace = 0;
	if (cudnn.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &written,
	                                   &workspace) ||
	    cudnn.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &length,
	                                   nullptr) ||
	    length <= 0)
		return false;
	std::string text(static_cast<size_t>(length), '\0');
	if (cudnn.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, length,
	                                   &written, text.data()))
		return false;
	facts.graph = knownGraph(text.c_str());
	facts.needsWorkspace = workspace > 0;
	facts.isOnTensorCores = facts.graph && multipliesOnTensorCores(cudnn, plan);
	return true;
}

} // namespace

Status watchCreateDescriptor(const CudnnGraph &cudnn, int type, void **descriptor)
{
	const Status status = cudnn.cudnnBackendCreateDescriptor(type, descriptor);
	if (status)
		return status;
	const Hold shelf(*descriptor);
	const bool isPack = type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
	           isPlan = type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
	if (shelf->packs.erase(*descriptor) || isPack) // a descriptor whose destruction was not intercepted
		noteChange(shelf->packChanges);
	if (shelf->plans.erase(*descriptor) || isPlan)
		noteChange(shelf->planChanges);
	if (isPack)
		shelf->packs[*descriptor] = {};
	else if (isPlan)
		shelf->plans[*descriptor] = {++generations, false, false, {}};
	return status;
}

Status watchSetAttribute(const CudnnGraph &cudnn, void *descriptor, int name, int type, int64_t count,
                         const void *values)
{
	const Status status = cudnn.cudnnBackendSetAttribute(descriptor, name, type, count, values);
	if (!status && name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
		const Hold shelf(descriptor);
		if (const auto found = shelf->plans.find(descriptor); found != shelf->plans.end())
			found->second.isFromText = true;
	}
	if (status || name < CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS || name > CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES)
		return status;
	const Hold shelf(descriptor);
	const auto found = shelf->packs.find(descriptor);
	if (found == shelf->packs.end())
		return status;
	VariantPack &pack = found->second;
	noteChange(shelf->packChanges);
	switch (name) {
	case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
		pack.count = copy(pack.uids, values, count);
		break;
	case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
		pack.pointerCount = copy(pack.pointers, values, count);
		break;
	case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
		std::memcpy(&pack.workspace, values, sizeof pack.workspace);
		break;
	default: // shapes that override those of the plan
		pack.isPlain = false;
	}
	return status;
}

Status watchFinalize(const CudnnGraph &cudnn, void *descriptor)
{
	const Status status = cudnn.cudnnBackendFinalize(descriptor);
	if (status)
		return status;
	const Hold shelf(descriptor);
	if (const auto found = shelf->packs.find(descriptor); found != shelf->packs.end()) {
		found->second.isFinal = true;
		noteChange(shelf->packChanges);
	}
	return status;
}

// Removed before the vendor frees it: another thread may get a new descriptor at that address immediately.
Status watchDestroyDescriptor(const CudnnGraph &cudnn, void *descriptor)
{
	base::CallerState callerState;
	decltype(Shelf::packs)::node_type pack;
	decltype(Shelf::plans)::node_type plan;
	{
		const Hold shelf(descriptor);
		pack = shelf->packs.extract(descriptor);
		plan = shelf->plans.extract(descriptor);
		if (pack)
			noteChange(shelf->packChanges);
		if (plan)
			noteChange(shelf->planChanges);
	}
	const Status status = [&] {
		const base::CallerState::Restored restored(callerState);
		return cudnn.cudnnBackendDestroyDescriptor(descriptor);
	}();
	if (status && (pack || plan)) {
		const Hold shelf(descriptor);
		shelf->packs.insert(std::move(pack));
		shelf->plans.insert(std::move(plan));
	}
	return status;
}

bool findPack(const void *descriptor, Execution &execution)
{
	if (isStill(execution.packSeen, descriptor, shelfOf(descriptor).packChanges))
		return true;
	execution.packSeen = {};
	const Hold shelf(descriptor);
	const auto found = shelf->packs.find(descriptor);
	if (found == shelf->packs.end())
		return false;
	const VariantPack &there = found->second;
	VariantPack &pack = execution.pack;
	std::copy_n(there.uids, there.count, pack.uids);
	std::copy_n(there.pointers, there.pointerCount, pack.pointers);
	pack.count = there.count == there.pointerCount ? there.count : 0;
	pack.pointerCount = there.pointerCount;
	pack.workspace = there.workspace;
	pack.isFinal = there.isFinal, pack.isPlain = there.isPlain;
	execution.packSeen = {descriptor, shelf->packChanges.load(std::memory_order_relaxed)};
	return true;
}

bool findPlan(const CudnnGraph &cudnn, void *descriptor, Execution &execution)
{
	if (isStill(execution.planSeen, descriptor, shelfOf(descriptor).planChanges))
		return true;
	execution.planSeen = {};
	uint64_t generation, when;
	bool isFromText;
	{
		const Hold shelf(descriptor);
		const auto found = shelf->plans.find(descriptor);
		if (found == shelf->plans.end())
			return false;
		execution.facts = found->second.facts;
		when = shelf->planChanges.load(std::memory_order_relaxed);
		if (found->second.isRead) {
			execution.planSeen = {descriptor, when};
			return true;
		}
		generation = found->second.generation;
		isFromText = found->second.isFromText;
	}
	if (!readPlan(cudnn, descriptor, execution.facts))
		return true;
	// A plan from text has an engine without notes. It may use TF32, and assuming so is safe.
	execution.facts.isOnTensorCores |= isFromText;
	const Hold shelf(descriptor);
	if (const auto found = shelf->plans.find(descriptor);
	    found != shelf->plans.end() && found->second.generation == generation) {
		found->second.isRead = true;
		found->second.facts = execution.facts;
		execution.planSeen = {descriptor, when};
	}
	return true;
}

// A call that the vendor would refuse must go to it, so that the application gets its status.
static Obstacle obstacleOf(const GraphCall &call, const PlanFacts &facts, const VariantPack &pack)
{
	if (!call.handle || !pack.isFinal || (facts.needsWorkspace && !pack.workspace))
		return Obstacle::bad_argument;
	if (!pack.isPlain || !pack.count)
		return Obstacle::unsupported;
	for (const GraphTensor &tensor : facts.graph->graph.tensors) {
		if (tensor.isVirtual)
			continue;
		void *const *const pointer = pack.find(tensor.uid);
		const auto alignment = static_cast<uintptr_t>(tensor.isByValue ? 0 : tensor.alignment);
		if (!pointer || !*pointer ||
		    reinterpret_cast<uintptr_t>(*pointer) % std::max<uintptr_t>(sizeof(float), alignment))
			return Obstacle::bad_argument;
	}
	for (int64_t i = 0; i < pack.count; i++)
		if (pack.find(pack.uids[i]) != &pack.pointers[i])
			return Obstacle::bad_argument; // duplicate uid: only cuDNN knows which pointer it uses
	return Obstacle::none;
}

Op describe(const Entry &entry, uint16_t index, const GraphCall &call, const CudnnGraph *cudnn,
            const VendorEnvironment &environment, Execution &execution)
{
	Op op;
	op.entry = index;
	op.library = entry.library;
	op.obstacle = entry.obstacle;
	if (op.obstacle != Obstacle::none)
		return op;
	if (execution.op.entry == index && execution.handle == call.handle &&
	    isStill(execution.packSeen, call.variantPack, shelfOf(call.variantPack).packChanges) &&
	    isStill(execution.planSeen, call.executionPlan, shelfOf(call.executionPlan).planChanges))
		return execution.op;
	const bool isSeen =
	    cudnn && findPack(call.variantPack, execution) && findPlan(*cudnn, call.executionPlan, execution);
	execution.graph = isSeen ? execution.facts.graph : nullptr;
	if (!execution.graph) {
		op.obstacle = isSeen ? Obstacle::unknown_graph : Obstacle::unseen_graph;
	} else {
		op = describe(entry, index, *execution.graph, execution.facts.isOnTensorCores, environment);
		if (op.obstacle == Obstacle::none) {
			op.obstacle = obstacleOf(call, execution.facts, execution.pack);
			if (op.obstacle == Obstacle::unsupported)
				op.cause = Cause::variant_pack;
		}
	}
	execution.handle = call.handle;
	return execution.op = op;
}

void lockDescriptors()
{
	for (size_t i = 0; i < shelfCount; i++)
		pthread_mutex_lock(&shelves()[i].mutex);
}

void unlockDescriptors()
{
	for (size_t i = shelfCount; i--;)
		pthread_mutex_unlock(&shelves()[i].mutex);
}

} // namespace autoamp::op
