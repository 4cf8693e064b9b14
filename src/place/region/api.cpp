#include "src/place/region/api.h"

#include "src/base/caller_state.h"
#include "src/base/log.h"
#include "src/place/capture_range.h"
#include "src/place/nvtx.h"
#include "src/place/region/stack.h"
#include "src/state/configuration.h"
#include "src/state/stage.h"

#include <algorithm>
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

// Writes the requested settings to `key`, so that an equal request need not be resolved again.
void appendKey(const autoamp_region &region, const Policy *around, std::string &key)
{
	key.assign(reinterpret_cast<const char *>(&around), sizeof around);
	for (const int &flag : {region.enabled, region.use_promote})
		key.append(reinterpret_cast<const char *>(&flag), sizeof flag);
	for (const char *text : {region.name, region.threads, region.dtype, region.level, region.lists,
	                         region.custom_white_list, region.custom_black_list}) {
		key += text ? '+' : '-';
		key.append(text ? text : "").push_back('\0');
	}
}

// Returns the error, or an empty text.
std::string resolve(const autoamp_region &region, const Policy &around, Memo &memo)
{
	const auto is = [&region](const char *word) { return region.threads && !std::strcmp(region.threads, word); };
	memo.isShared = is("all");
	if (region.threads && !memo.isShared && !is("current"))
		return "threads=" + std::string(region.threads) + ": bad value; accepted: current, all";
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
	memo.policy = &around;
	if (count == 0)
		return {};
	const policy::ParsedOptions parsed = policy::changed(around.options, {changes, count}, entryNames());
	if (!parsed.error.empty())
		return parsed.error;
	Policy made = policyOf(parsed.options);
	if (const Policy &base = configuration()->base; made.key == base.key) {
		memo.policy = &base;
		return {};
	}
	memo.policy = internPolicy(std::move(made));
	return {};
}

// The resolved request with the key of the stack, remembered or new.
Memo &resolved(Stack &stack, const autoamp_region &region, const Policy &around, std::string &problem)
{
	const size_t hash = std::hash<std::string>()(stack.key);
	auto *const known = std::find_if(std::begin(stack.memos), std::end(stack.memos),
	                                 [&](const Memo &each) { return each.hash == hash && each.key == stack.key; });
	if (known != std::end(stack.memos))
		return *known;
	Memo &memo = stack.memos[stack.oldestMemo++ % std::size(stack.memos)];
	memo.key.clear();
	problem = resolve(region, around, memo);
	if (problem.empty() && memo.policy)
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
	// A longer struct is of a later version: its unknown fields must be zero.
	autoamp_region region = AUTOAMP_REGION;
	const auto *const bytes = reinterpret_cast<const char *>(given);
	if (!given || given->size < sizeof region ||
	    std::any_of(bytes + sizeof region, bytes + given->size, [](char byte) { return byte != 0; }))
		return refuse(*stack, AUTOAMP_BAD_VALUE, "size: not that of a region of this version");
	region = *given;
	// Regions for all threads do not enclose this one: they may end before it.
	const Policy *around = stack->frames.empty() ? nullptr : stack->frames.back().all.policy;
	around = around ? around : &configuration()->base;
	appendKey(region, around, stack->key);
	std::string problem;
	const Memo &memo = resolved(*stack, region, *around, problem);
	if (!problem.empty())
		return refuse(*stack, AUTOAMP_BAD_VALUE, problem);
	const Region own = {memo.policy, memo.name ? memo.name->patterns : 0, memo.name ? memo.name->text : nullptr};
	if (!own.policy || stack->frames.size() >= depthLimit)
		return refuse(*stack, AUTOAMP_TOO_MANY, "too many regions are open, or too many different regions were opened");
	Frame frame = {};
	frame.own = own;
	if (memo.isShared && !(frame.ticket = share(own)))
		return refuse(*stack, AUTOAMP_TOO_MANY, "too many regions are open for all threads");
	if (own.policy->options.enabled)
		wakeProcess();
	static std::atomic<size_t> count{0};
	frame.number = ++count;
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

int requireRegions()
{
	if (!configuration())
		return 0;
	const base::CallerState callerState;
	if (configuration()->base.options.scope == policy::Scope::automatic) {
		watchForks();
		requireRegion();
	}
	return 0;
}

int describeRegion(autoamp_region *region)
{
	if (!configuration())
		return AUTOAMP_UNKNOWN;
	if (!region || region->size < sizeof *region)
		return AUTOAMP_BAD_VALUE;
	const Region &current = regionAt(currentRegion());
	for (const auto &[variable, text, flag] : regionFields)
		for (size_t i = 0; i < policy::optionTable().size(); i++)
			if (!std::strcmp(policy::optionTable()[i].name, variable)) {
				const std::string &value = current.policy->options.value[i];
				flag ? void(region->*flag = value != "0") : void(region->*text = value.c_str());
			}
	region->dtype = op::name(current.policy->options.dtype); // by its main name, not an alias
	region->enabled = !current.policy->state.isRegionOff;
	region->name = current.name;
	region->threads = "current";
	return 0;
}

int isActive()
{
	if (!configuration())
		return 0;
	const policy::State &state = regionAt(currentRegion()).policy->state;
	return !state.isRegionOff && !state.observeOnly;
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
