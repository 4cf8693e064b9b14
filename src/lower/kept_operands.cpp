#include "src/lower/kept_operands.h"

#include "src/base/faults.h"
#include "src/base/hash.h"
#include "src/base/own_work.h"
#include "src/lower/lowered_call.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace autoamp::lower {

namespace {

constexpr size_t stateBytes = 256; // reserved for the state in front of a copy
static_assert(sizeof(kernels::WeightState) <= stateBytes);

// Without kept copies, two calls in a row of this many are observed, for the estimate in reports.
constexpr uint32_t estimatedEvery = 64;
// Two changes within this many calls end the use of a copy.
constexpr uint32_t changesApart = 64;
// Calls between attempts to get memory for a copy.
constexpr uint32_t refusedCalls = 64;
// Calls after which an observation is lost that the device has not counted. The host is less far ahead of the device.
constexpr uint32_t lostCalls = 4096;

// Identifies the stream of a call among the streams that are used one after the other. 0: only a query can tell.
uint64_t keyOf(const LoweredCall &call)
{
	constexpr uintptr_t perThread = 2; // the null stream and its two special handles have no id
	if (call.streamId)
		return call.streamId << 1;
	return reinterpret_cast<uintptr_t>(call.stream) == perThread ? 0 : 1;
}

} // namespace

void KeptOperands::choose(LoweredCall &call, int operand, const void *source, uint64_t layout, int64_t elements,
                          size_t bytes)
{
	const size_t copyBytes = stateBytes + aligned(bytes);
	constexpr int64_t leastElements = (1 << 20) / int64_t{sizeof(float)};
	WeightUse &told = call.weights[operand];
	const bool isOn = call.decision.weights != policy::Weights::off;
	if (elements < leastElements || !call.context->slots.ringOnDevice() || (!isOn && call.isCaptured))
		return;
	call_ = &call;
	Weights &weights = call.context->weights;
	if (!call.isCaptured)
		weights.collect(*call.driver, call.context->memory);
	Use &use = uses_[operand];
	isReserving_ = isPaired_ = isPaired_ || (isOn && call.isCaptured);
	bool isFull;
	use.weight = weights.claim(source, layout, isFull);
	if (!use.weight) {
		told.reason = !isOn ? nullptr : isFull ? "too_many" : "stream_not_ready";
		return;
	}
	Weight &weight = *use.weight;
	scale::Slots &slots = call.context->slots;
	const uint32_t index = weights.indexOf(weight);
	const kernels::WeightFacts &facts = slots.weightFacts(index);
	auto &onDevice = slots.ringOnDevice()->weights[index];
	use.kept = {&onDevice.state, &onDevice.facts, weight.generation, kernels::Keeping::none, kernels::sampleShare};
	const uint32_t compared = __atomic_load_n(&facts.compared, __ATOMIC_RELAXED),
	               repeated = __atomic_load_n(&facts.repeated, __ATOMIC_RELAXED);
	told.compared = compared - std::exchange(weight.compared, compared);
	told.repeated = repeated - std::exchange(weight.repeated, repeated);
	const uint64_t inARow = __atomic_load_n(&facts.inARow, __ATOMIC_RELAXED);
	const bool isOfOperand = inARow >> 32 == (weight.generation & 0xffffffff);
	const auto ended = static_cast<uint16_t>(inARow >> 16), repeats = static_cast<uint16_t>(inARow);
	const bool isProven = weight.copy || (isOfOperand && repeats >= provenRepeats);
	const uint64_t content = base::mix(layout, reinterpret_cast<uintptr_t>(source));
	if (isOn && isProven && call.isCaptured)
		useInGraph(call, use, told, content, copyBytes);
	else if (isOn && isProven)
		useCopy(call, use, told, copyBytes);
	else if (isOn && call.isCaptured)
		told.reason = "capture_unready";
	else
		observe(call, use, told, isOfOperand ? ended : 0);
	if (use.kept.how == kernels::Keeping::none) {
		weights.release(weight);
		use = {};
	}
}

// Only the fingerprint of the conversion is new for an observed call. ended: observations that the device has ended,
// modulo 2^16. It can lose one if two streams observe the operand at the same time.
void KeptOperands::observe(LoweredCall &call, Use &use, WeightUse &told, uint16_t ended)
{
	Weight &weight = *use.weight;
	const uint32_t number = weight.calls++;
	bool isObserved;
	if (call.decision.weights == policy::Weights::off) {
		isObserved = number % estimatedEvery < 2;
		told.reason = told.compared ? "weights_off" : nullptr;
	} else {
		told.reason = weight.gap > 2 * firstGap ? "changes" : "unproven";
		if (weight.windowLeft == 0 && number - weight.observedAt >= lostCalls)
			weight.observed = ended;
		const bool isEnded = weight.observed > 0 && ended == static_cast<uint16_t>(weight.observed);
		if (weight.windowLeft == 0 && weight.windowAt == 0 && isEnded) {
			weight.windowAt = number + weight.gap;
			weight.gap = std::min(2 * weight.gap, longestGap);
		}
		if (weight.windowAt && number >= weight.windowAt)
			weight.windowLeft = windowCalls, weight.windowAt = 0;
		isObserved = weight.windowLeft > 0;
		weight.windowLeft -= isObserved;
	}
	if (isObserved) {
		use.kept.how = kernels::Keeping::observed;
		++weight.observed;
		weight.observedAt = number;
	}
}

bool KeptOperands::make(LoweredCall &call, Weight &weight, WeightUse &told, size_t copyBytes)
{
	Weights &weights = call.context->weights;
	const cuda::Driver &driver = *call.driver;
	told.bytes = copyBytes;
	if (weight.calls++ < weight.retryAt) {
		told.reason = "memory_budget";
		return false;
	}
	cuda::Block block = {0, cuda::Failure::overBudget};
	for (int attempt = 0; attempt < 2 && !block.address; ++attempt) {
		if (attempt) { // copies of memory that was freed are released
			weights.releaseFreed(driver);
			weights.collect(driver, call.context->memory);
		}
		if (!weights.reserve(copyBytes, call.settings.memoryBudget))
			continue;
		block = call.context->memory.allocate(driver, call.stream, copyBytes);
		if (!block.address)
			weights.giveBack(copyBytes);
	}
	constexpr unsigned disableTiming = 2; // CU_EVENT_DISABLE_TIMING
	if (block.address && !weight.used && driver.cuEventCreate(&weight.used, disableTiming))
		weight.used = nullptr;
	bool isCleared = false;
	if (block.address && weight.used) {
		const base::OwnWork ownWork;
		isCleared = driver.cuMemsetD8Async(block.address, 0, stateBytes, call.stream) == 0;
	}
	if (!isCleared) {
		if (block.address) {
			weights.giveBack(copyBytes);
			if (!call.context->memory.release(driver, call.stream, block.address))
				base::leaveFault("cuMemFreeAsync");
		}
		told.isRefused = weight.retryAt == 0; // the event tells it once
		weight.retryAt = weight.calls + refusedCalls;
		told.reason = "memory_budget";
		return false;
	}
	weight.bytes = copyBytes;
	weight.copyGeneration = nextGeneration();
	weight.bufferId = bufferIdOf(driver, weight.source);
	weight.region = call.weightsRegion;
	weight.stream = keyOf(call);
	weight.hits = weight.changes = weight.changedAt = 0;
	told.isMade = true;
	told.held = weights.held() + call.context->memory.copiesInGraphs();
	weights.setCopy(weight, block.address);
	return true;
}

// The call has the copy to itself, so that its stream may free it.
void KeptOperands::giveUp(LoweredCall &call, Weight &weight, WeightUse &told)
{
	Weights &weights = call.context->weights;
	if (!call.context->memory.release(*call.driver, call.stream, weight.copy))
		base::leaveFault("cuMemFreeAsync");
	weights.giveBack(weight.bytes);
	told.bytes = weight.bytes;
	told.isGivenUp = true;
	told.reason = "changes";
	weight.generation = nextGeneration(); // the observation begins again
	weight.failures = std::min(weight.failures + 1, 8u);
	weight.gap = firstGap << weight.failures;
	weight.calls = weight.observed = weight.windowLeft = weight.retryAt = 0;
	weight.windowAt = changesApart << weight.failures;
	weights.setCopy(weight, 0);
}

void KeptOperands::useCopy(LoweredCall &call, Use &use, WeightUse &told, size_t copyBytes)
{
	Weight &weight = *use.weight;
	const cuda::Driver &driver = *call.driver;
	const uint64_t stream = keyOf(call);
	if (!weight.copy && !make(call, weight, told, copyBytes))
		return;
	if (!told.isMade && (!stream || weight.stream != stream) &&
	    (weight.isUnordered || driver.cuEventQuery(weight.used))) {
		told.reason = "stream_not_ready";
		return;
	}
	weight.stream = stream;
	const kernels::WeightFacts &facts = call.context->slots.weightFacts(call.context->weights.indexOf(weight));
	const uint64_t word = __atomic_load_n(&facts.changes, __ATOMIC_RELAXED);
	const auto changes = static_cast<uint32_t>(word);
	if (word == kernels::tagged(weight.copyGeneration, changes) && changes != weight.changes) {
		const bool isAgain =
		    changes > 1 && (changes - weight.changes > 1 || weight.hits - weight.changedAt <= changesApart);
		if (!weight.isReported && call.decision.weights == policy::Weights::frozen)
			told.unreported = changes - weight.changes;
		weight.changes = changes, weight.changedAt = weight.hits;
		if (isAgain)
			return giveUp(call, weight, told);
	}
	// Memory that was freed and allocated again at this address is another operand.
	if (const uint64_t id = bufferIdOf(driver, weight.source); id != weight.bufferId) {
		weight.bufferId = id;
		weight.copyGeneration = nextGeneration();
		weight.changes = weight.changedAt = 0;
	} else {
		told.isServed = !told.isMade;
	}
	const uint32_t period = call.settings.auditPeriod;
	const bool isAudited = period > 0 && weight.hits % period == 0;
	++weight.hits;
	weight.isReported = call.settings.reportsEvents;
	told.how = call.decision.weights;
	told.bytes = weight.bytes;
	use.copy = weight.copy + stateBytes;
	use.kept.state = reinterpret_cast<kernels::WeightState *>(weight.copy);
	use.kept.generation = weight.copyGeneration;
	use.kept.how = told.how == policy::Weights::frozen ? kernels::Keeping::frozen : kernels::Keeping::checked;
	use.kept.share = isAudited ? 1 : kernels::sampleShare;
}

// The graph owns its copy, which the first replay makes.
void KeptOperands::useInGraph(LoweredCall &call, Use &use, WeightUse &told, uint64_t content, size_t copyBytes)
{
	told.bytes = copyBytes;
	// Copies of a graph cannot be released for a later call: half of the budget remains for conversions.
	const size_t used = call.context->memory.inGraphs() + call.context->weights.held();
	if (used + copyBytes <= call.settings.memoryBudget / 2)
		use.block = call.context->memory.allocateForGraph(*call.driver, call.stream, copyBytes, false, content);
	if (!use.block.address) {
		told.isRefused = true;
		told.reason = "memory_budget";
		return;
	}
	told.how = call.decision.weights;
	told.isServed = use.block.isShared;
	told.isMade = !told.isServed;
	told.held = call.context->weights.held() + call.context->memory.copiesInGraphs();
	use.copy = use.block.address + stateBytes;
	use.kept.state = reinterpret_cast<kernels::WeightState *>(use.block.address);
	use.kept.generation = use.block.content;
	use.kept.how = told.how == policy::Weights::frozen ? kernels::Keeping::frozen : kernels::Keeping::checked;
	if (call.settings.auditPeriod == 1)
		use.kept.share = 1;
}

bool KeptOperands::dropObservation()
{
	bool isDropped = false;
	for (Use &use : uses_)
		if (use.kept.how == kernels::Keeping::observed) {
			--use.weight->observed;
			call_->context->weights.release(*use.weight);
			use = {};
			isDropped = true;
		}
	return std::exchange(isReserving_, false) || isDropped;
}

bool KeptOperands::needsSettle(const LoweredCall &call) const
{
	return call.isCaptured || // only eager copies are cleared, for the count of blocks
	       std::any_of(std::begin(uses_), std::end(uses_), [](const Use &use) {
		       return use.kept.how == kernels::Keeping::observed || use.kept.how == kernels::Keeping::checked;
	       });
}

void KeptOperands::prepare(kernels::Scaling &parameters, const LoweredCall &call, cuda::Address records) const
{
	for (int i = 0; i < kernels::operands; ++i)
		parameters.kept[i] = uses_[i].kept;
	if (call.isHalf() || needsSettle(call))
		parameters.keptRecords = reinterpret_cast<kernels::KeptRecord *>(records);
}

KeptOperands::~KeptOperands()
{
	if (!call_)
		return;
	for (Use &use : uses_) {
		if (!use.weight)
			continue;
		Weight &weight = *use.weight;
		weight.observed -= use.kept.how == kernels::Keeping::observed && !isLaunched_; // the device will not count it
		if (use.block.address)
			call_->context->memory.releaseForGraph(*call_->driver, call_->stream, use.block);
		else if (use.copy)
			weight.isUnordered = call_->driver->cuEventRecord(weight.used, call_->stream) != 0;
		call_->context->weights.release(weight);
	}
}

bool mayKeep(const LoweredCall &call)
{
	return call.isCast() && !call.isTest && !(call.settings.isStrict && call.isHalf()) &&
	       (call.decision.weights != policy::Weights::off || call.settings.estimatesWeights);
}

void releaseWeights(uint64_t region)
{
	const cuda::Driver *const driver = cuda::driver();
	if (!driver)
		return;
	unsigned long long current = 0;
	const bool isKnown = contexts() && driver->cuCtxGetId(nullptr, &current) == 0;
	const cuda::RelaxedCapture relaxed(*driver);
	for (ContextState *context = contexts(); context; context = context->next) {
		context->weights.releaseRegion(region);
		if (isKnown && context->id == current && relaxed.isOk())
			context->weights.collect(*driver, context->memory);
	}
}

} // namespace autoamp::lower
