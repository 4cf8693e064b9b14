#include "src/place/region/api.h"

#include "src/base/caller_state.h"
#include "src/base/log.h"
#include "src/place/capture_range.h"
#include "src/place/nvtx.h"
#include "src/place/region/stack.h"
#include "src/state/configuration.h"
#include "src/state/stage.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace autoamp::core {

namespace {

int refuse(Stack &stack, int status, const std::string &why)
{
	stack.error = why;
	base::log(base::LogLevel::warn, "region refused: %s", why.c_str());
	return status;
}

using Policies = PerDeviceType<const Policy *>;

// A struct of an earlier version ends before one of these members. In one of a later version, unknown fields must be
// zero.
constexpr size_t leastSize = offsetof(autoamp_region, device), sizeWithDevice = offsetof(autoamp_region, weights);

constexpr bool isKnownSize(size_t size)
{
	return size == leastSize || size == sizeWithDevice || size >= sizeof(autoamp_region);
}

constexpr const char *deviceNames[] = {"cuda", "cpu"};

bool isKnown(const char *device)
{
	const auto is = [device](const char *name) { return !std::strcmp(device, name); };
	return !device || std::any_of(std::begin(deviceNames), std::end(deviceNames), is);
}

bool covers(const char *device, DeviceType type)
{
	return !device || !std::strcmp(device, deviceNames[static_cast<unsigned>(type)]);
}

// Writes the requested settings to `key`, so that an equal request need not be resolved again.
void appendKey(const autoamp_region &region, const Policies &around, std::string &key)
{
	key.assign(reinterpret_cast<const char *>(&around), sizeof around);
	for (const int &flag : {region.enabled, region.use_promote})
		key.append(reinterpret_cast<const char *>(&flag), sizeof flag);
	for (const char *text : {region.name, region.threads, region.device, region.dtype, region.level, region.lists,
	                         region.custom_white_list, region.custom_black_list, region.weights}) {
		key += text ? '+' : '-';
		key.append(text ? text : "").push_back('\0');
	}
}

// Returns the error, or an empty text.
std::string resolve(const autoamp_region &region, const Policies &around, Memo &memo)
{
	const auto is = [&region](const char *word) { return region.threads && !std::strcmp(region.threads, word); };
	memo.isShared = is("all");
	if (region.threads && !memo.isShared && !is("current"))
		return "threads=" + std::string(region.threads) + ": bad value; accepted: current, all";
	if (!isKnown(region.device))
		return "device=" + std::string(region.device) + ": bad value; accepted: cuda, cpu";
	policy::Change changes[std::size(regionFields)];
	size_t count = 0;
	std::string flags[2];
	for (const auto &[variable, text, flag] : regionFields) {
		if (flag && region.*flag != AUTOAMP_SAME) {
			std::string &number = flags[flag == &autoamp_region::use_promote];
			changes[count++] = {variable, number = std::to_string(region.*flag)};
		} else if (text && region.*text) {
			changes[count++] = {variable, region.*text};
		}
	}
	memo.name = region.name ? nameOf(region.name, true) : nullptr;
	memo.policies = {}, memo.isLimited = false;
	for (const DeviceType type : deviceTypes) {
		if (!covers(region.device, type) || !isIntercepted(type))
			continue;
		memo.policies[type] = around[type];
		if (count == 0)
			continue;
		const policy::ParsedOptions parsed = policy::changed(around[type]->options, {changes, count}, entryNames());
		if (!parsed.error.empty())
			return parsed.error;
		memo.policies[type] = policyOf(parsed.options, type);
		memo.isLimited |= !memo.policies[type];
	}
	return {};
}

// The resolved request with the key of the stack, remembered or new.
Memo &resolved(Stack &stack, const autoamp_region &region, const Policies &around, std::string &problem)
{
	const size_t hash = std::hash<std::string>()(stack.key);
	auto *const known = std::find_if(std::begin(stack.memos), std::end(stack.memos),
	                                 [&](const Memo &each) { return each.hash == hash && each.key == stack.key; });
	if (known != std::end(stack.memos))
		return *known;
	Memo &memo = stack.memos[stack.oldestMemo++ % std::size(stack.memos)];
	memo.key.clear();
	problem = resolve(region, around, memo);
	if (problem.empty() && !memo.isLimited)
		memo.hash = hash, memo.key = stack.key;
	return memo;
}

int enterRegion(const autoamp_region *given, size_t *number)
{
	if (!configuration())
		return 0;
	const base::CallerState callerState;
	Stack *const stack = thisStack();
	if (!stack)
		return AUTOAMP_TOO_MANY;
	autoamp_region region = AUTOAMP_REGION;
	const auto *const bytes = reinterpret_cast<const char *>(given);
	const auto isSet = [](char byte) { return byte != 0; };
	if (!given || !isKnownSize(given->size) ||
	    (given->size > sizeof region && std::any_of(bytes + sizeof region, bytes + given->size, isSet)))
		return refuse(*stack, AUTOAMP_BAD_VALUE, "size: not that of a region of this version");
	std::memcpy(&region, given, std::min(given->size, sizeof region));
	// Regions for all threads do not enclose this one: they may end before it.
	Policies around;
	for (const DeviceType type : deviceTypes) {
		around[type] = stack->frames.empty() ? nullptr : stack->frames.back().all[type].policy;
		around[type] = around[type] ? around[type] : &configuration()->base;
	}
	appendKey(region, around, stack->key);
	std::string problem;
	const Memo &memo = resolved(*stack, region, around, problem);
	if (!problem.empty())
		return refuse(*stack, AUTOAMP_BAD_VALUE, problem);
	if (memo.isLimited || stack->frames.size() >= depthLimit)
		return refuse(*stack, AUTOAMP_TOO_MANY, "too many regions are open, or too many different regions were opened");
	Frame frame = {};
	bool isEnabled = false;
	for (const DeviceType type : deviceTypes)
		if (const Policy *const policy = memo.policies[type]) {
			frame.own[type] = {policy, memo.name ? memo.name->patterns : 0, memo.name ? memo.name->text : nullptr};
			isEnabled |= policy->options.enabled;
		}
	if (memo.isShared && !(frame.ticket = share(frame.own)))
		return refuse(*stack, AUTOAMP_TOO_MANY, "too many regions are open for all threads");
	if (isEnabled)
		wakeProcess();
	static std::atomic<size_t> count{0};
	frame.number = ++count;
	frame.setsWeights = region.weights && covers(region.device, DeviceType::cuda);
	push(*stack, frame);
	if (number)
		*number = frame.number;
	stack->error.clear();
	return 0;
}

int leaveRegion(size_t number)
{
	if (!configuration())
		return 0;
	const base::CallerState callerState;
	Stack *const stack = knownStack();
	const Frame *frame = stack ? innermost(*stack, 0) : nullptr;
	while (frame && number && frame->number != number)
		frame = frame->below ? &stack->frames[frame->below - 1] : nullptr;
	if (!frame)
		return AUTOAMP_UNBALANCED;
	remove(*stack, frame);
	return 0;
}

int requireRegions(const char *device)
{
	if (!configuration())
		return 0;
	if (!isKnown(device))
		return AUTOAMP_BAD_VALUE;
	const base::CallerState callerState;
	if (configuration()->base.options.scope == policy::Scope::automatic) {
		watchForks();
		for (const DeviceType type : deviceTypes)
			if (covers(device, type))
				requireRegion(type);
	}
	return 0;
}

int describeRegion(autoamp_region *region)
{
	if (!configuration())
		return AUTOAMP_UNKNOWN;
	if (!region || region->size < leastSize)
		return AUTOAMP_BAD_VALUE;
	const char *const device = region->size < sizeWithDevice ? nullptr : region->device;
	if (!isKnown(device))
		return AUTOAMP_BAD_VALUE;
	const auto *const type = std::find_if(std::begin(deviceTypes), std::end(deviceTypes), [device](DeviceType each) {
		return covers(device, each) && isIntercepted(each);
	});
	if (type == std::end(deviceTypes))
		return AUTOAMP_UNKNOWN;
	const Region &current = regionAt(currentRegion(*type));
	for (const auto &[variable, text, flag] : regionFields)
		for (size_t i = 0; i < policy::optionTable().size(); i++)
			if (text != &autoamp_region::weights && !std::strcmp(policy::optionTable()[i].name, variable)) {
				const std::string &value = current.policy->options.value[i];
				flag ? void(region->*flag = value != "0") : void(region->*text = value.c_str());
			}
	const policy::Options &options = current.policy->options;
	// The value of the device, by its main name.
	const bool isCpu = *type == DeviceType::cpu;
	region->dtype = op::name(isCpu ? options.dtypeOnCpu : options.dtype);
	if (region->size >= sizeof *region)
		region->weights = policy::name(isCpu ? options.weightsOnCpu : options.weights);
	region->enabled = !current.policy->state.isRegionOff;
	region->name = current.name;
	region->threads = "current";
	return 0;
}

int isActive()
{
	if (!configuration())
		return 0;
	return std::any_of(std::begin(deviceTypes), std::end(deviceTypes), [](DeviceType type) {
		const policy::State &state = regionAt(currentRegion(type)).policy->state;
		return isIntercepted(type) && !state.isRegionOff && !state.observeOnly;
	});
}

const char *lastError()
{
	const Stack *const stack = knownStack();
	return stack ? stack->error.c_str() : nullptr;
}

} // namespace

const front::Regions regionCalls = {enterRegion, leaveRegion, requireRegions, describeRegion,
                                    isActive,    lastError,   receiveRanges,  renewCapture};

} // namespace autoamp::core
