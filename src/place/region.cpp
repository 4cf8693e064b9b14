#include "src/place/region.h"

#include "src/base/caller_state.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/base/once.h"
#include "src/place/capture_range.h"
#include "src/policy/glob.h"
#include "src/state/configuration.h"
#include "src/state/stage.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <pthread.h>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace autoamp::core {

std::atomic<unsigned> regionEpoch{0};

namespace {

// A program may generate names without limit. Beyond these limits, the name of a region is dropped first, then the
// patterns that it matches; its settings stay. Every region multiplies the number of sites.
constexpr size_t nameLimit = 1024, policyLimit = 4096, depthLimit = 1u << 16, sharedLimit = 256, rangeLimit = 1u << 16;
// Limits for NVTX ranges that no rule names: their names, and the regions with one.
constexpr size_t rangeNameLimit = 256;
constexpr uint32_t rangedLimit = 1u << 14;
constexpr const char *moreRanges = "(more ranges)";
constexpr uint32_t regionLimit = 1u << regionBits;

// Protects the tables below. Never held during a call that could wait.
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
struct Lock {
	Lock() { pthread_mutex_lock(&mutex); }
	~Lock() { pthread_mutex_unlock(&mutex); }
};

// ---- regions of the process

struct Node : Region {
	uint32_t id;
	Node *next; // next node in the bucket
};
constexpr unsigned bucketCount = 1024;
std::atomic<Node *> buckets[bucketCount]; // read without the lock
std::atomic<const Region *> regions[regionLimit];
uint32_t regionCount = 1; // 0 is the process itself
uint32_t rangedCount = 0;

struct Tables {
	std::unordered_map<std::string, Policy> policies; // by key
	std::unordered_map<std::string, RangeName> names;
	std::unordered_map<std::string, RangeName> ranges;       // names that no rule matches
	std::map<std::pair<uint64_t, bool>, RangeName> nameless; // by patterns, and whether it is a capture range
};
Tables &tables()
{
	static auto *const made = new Tables; // under the lock
	return *made;
}

struct Configuration {
	Policy base, outside; // for regions without settings; for calls outside of all regions
	Region none;
};

// Fields of a region that are options, with their variables.
constexpr struct {
	const char *variable;
	const char *autoamp_region::*text;
	int autoamp_region::*flag;
} fields[] = {{"AUTOAMP_ENABLED", nullptr, &autoamp_region::enabled},
              {"AUTOAMP_DTYPE", &autoamp_region::dtype, nullptr},
              {"AUTOAMP_LEVEL", &autoamp_region::level, nullptr},
              {"AUTOAMP_LISTS", &autoamp_region::lists, nullptr},
              {"AUTOAMP_CUSTOM_WHITE_LIST", &autoamp_region::custom_white_list, nullptr},
              {"AUTOAMP_CUSTOM_BLACK_LIST", &autoamp_region::custom_black_list, nullptr},
              {"AUTOAMP_USE_PROMOTE", nullptr, &autoamp_region::use_promote}};

Policy policyOf(const policy::Options &options)
{
	Policy policy = {options, policy::State(options), {}};
	policy.state.enabled = true;
	policy.state.isRegionOff = !options.enabled;
	// The key contains what a region can change. All aliases of a value give the same key.
	for (const auto &[variable, text, flag] : fields)
		for (size_t i = 0; i < policy::optionTable().size(); i++)
			if (const policy::OptionRow &row = policy::optionTable()[i];
			    row.type == policy::ValueType::words && !std::strcmp(row.name, variable))
				(policy.key += text == &autoamp_region::dtype ? op::name(options.dtype) : options.value[i]) += ' ';
	for (const policy::NameSet *set : {&options.customWhite, &options.customBlack}) {
		policy.key += std::to_string(set->ops); // not the names: the later of two lists takes its names from the other
		for (const uint64_t word : set->entries)
			policy.key += ',' + std::to_string(word);
		policy.key += ';';
	}
	return policy;
}

const Configuration *configuration()
{
	static base::Once<const Configuration> once;
	return once.get([]() -> const Configuration * {
		const base::CallerState callerState;
		base::setLogTarget(autoamp_front_has_stderr);
		const policy::ParsedOptions parsed = readConfiguration();
		if (!parsed.error.empty()) {
			static std::atomic<bool> isTold{false}; // another thread may have found the error too
			base::setLogLevel(base::LogLevel::error);
			if (!isTold.exchange(true))
				base::log(base::LogLevel::error, "off: %s", parsed.error.c_str());
			return nullptr;
		}
		base::setLogLevel(static_cast<base::LogLevel>(parsed.options.log));
		// AUTOAMP_ENABLED=0 in a file applies only outside of regions.
		if (!parsed.options.enabled && parsed.options.originOf(policy::Option::enabled) == policy::Origin::environment)
			return nullptr;
		auto *const made = new Configuration{policyOf(parsed.options), policyOf(parsed.options), {}};
		made->outside.state.isRegionOff = parsed.options.scope == policy::Scope::regions;
		made->none.policy = made->outside.state.isRegionOff ? &made->outside : &made->base;
		return made;
	});
}

Node *findNode(const Region &wanted, unsigned bucket)
{
	Node *node = buckets[bucket].load(std::memory_order_acquire);
	while (node && (node->policy != wanted.policy || node->patterns != wanted.patterns || node->name != wanted.name ||
	                node->range != wanted.range))
		node = node->next;
	return node;
}

uint32_t idOf(const Region &wanted)
{
	const Region &none = configuration()->none;
	if (wanted.policy == none.policy && wanted.patterns == none.patterns && wanted.name == none.name && !wanted.range)
		return 0;
	const uint64_t words[] = {reinterpret_cast<uintptr_t>(wanted.policy), wanted.patterns,
	                          reinterpret_cast<uintptr_t>(wanted.name), reinterpret_cast<uintptr_t>(wanted.range)};
	const unsigned bucket = base::hashBytes(words, sizeof words) % bucketCount;
	if (const Node *known = findNode(wanted, bucket))
		return known->id;
	if (wanted.range) {
		Region plain = wanted;
		plain.range = nullptr;
		const uint32_t decisive = idOf(plain);
		plain.range = moreRanges;
		const uint32_t unnamed = wanted.range == moreRanges ? 0 : idOf(plain);
		const Lock lock;
		if (const Node *known = findNode(wanted, bucket))
			return known->id;
		// Reserves the last ids for regions that decisions depend on. Regions with `(more ranges)` are as few as
		// regions without a range and have no limit of their own.
		if (regionCount >= regionLimit - policyLimit || (unnamed && rangedCount >= rangedLimit))
			return unnamed ? unnamed : decisive;
		rangedCount++;
		auto *const made = new Node{wanted, regionCount++, buckets[bucket].load(std::memory_order_relaxed)};
		made->decisive = decisive, made->unnamed = unnamed ? unnamed : made->id;
		regions[made->id].store(made, std::memory_order_release);
		buckets[bucket].store(made, std::memory_order_release);
		return made->id;
	}
	{
		const Lock lock;
		if (const Node *known = findNode(wanted, bucket))
			return known->id;
		// The last ids are reserved for regions without a name and patterns.
		if (regionCount < (wanted.patterns || wanted.name ? regionLimit - policyLimit : regionLimit)) {
			auto *const made = new Node{wanted, regionCount++, buckets[bucket].load(std::memory_order_relaxed)};
			made->decisive = made->unnamed = made->id;
			regions[made->id].store(made, std::memory_order_release);
			buckets[bucket].store(made, std::memory_order_release);
			return made->id;
		}
	}
	return wanted.patterns || wanted.name ? idOf({wanted.policy, 0, nullptr}) : 0;
}

const RangeName captureOnly = {0, nullptr, true};

// The name of a range that no rule names.
const RangeName *rangeNameOf(std::string_view text, bool isCapture)
{
	static const RangeName more[] = {{0, moreRanges, false}, {0, moreRanges, true}};
	const Lock lock;
	auto &ranges = tables().ranges;
	const std::string key(text);
	const auto known = ranges.find(key);
	if (known != ranges.end())
		return &known->second;
	if (ranges.size() >= rangeNameLimit)
		return &more[isCapture];
	const auto added = ranges.emplace(key, RangeName{0, nullptr, isCapture}).first;
	added->second.text = added->first.c_str();
	return &added->second;
}

// Returns null for a name without a user, or beyond the limit. `isStored`: a name of a region, which is stored even if
// no rule matches it.
const RangeName *nameOf(std::string_view text, bool isStored)
{
	const policy::Options &options = configuration()->base.options;
	const uint64_t patterns = policy::bitsOf(options.rules->regionPatterns, text);
	const bool isCapture = options.captureRange.kind == policy::CaptureRange::Kind::nvtx &&
	                       policy::matches(options.captureRange.name, text);
	if (text.empty())
		return nullptr;
	if (!patterns && !isStored)
		return options.trace != policy::TraceLevel::off ? rangeNameOf(text, isCapture)
		       : isCapture                              ? &captureOnly
		                                                : nullptr;
	const RangeName *nameless = nullptr;
	{
		const Lock lock;
		Tables &all = tables();
		const std::string key(text);
		const auto known = all.names.find(key);
		if (known != all.names.end())
			return &known->second;
		if (all.names.size() < nameLimit) {
			const auto added = all.names.emplace(key, RangeName{patterns, nullptr, isCapture}).first;
			added->second.text = added->first.c_str();
			return &added->second;
		}
		if (patterns)
			nameless = &all.nameless.emplace(std::pair(patterns, isCapture), RangeName{patterns, nullptr, isCapture})
			                .first->second;
	}
	base::log(base::LogLevel::warn, "more than %zu names of regions: reports name none after these", nameLimit);
	return nameless;
}

// ---- state shared by all threads

struct Shared {
	struct Part {
		uint64_t ticket;
		Region region;
	};
	std::vector<Part> regions; // for all threads
	// NVTX ranges of the process, by ticket. A program may open thousands: `range` caches their combination.
	struct Range {
		uint64_t domain;
		const RangeName *name;
	};
	std::map<uint64_t, Range> ranges;
	std::unordered_map<const RangeName *, size_t> open;
	Region range;
	uint64_t ticketCount = 1; // 1 is returned for ranges without a user
};
Shared &shared()
{
	static auto *const made = new Shared; // under the lock
	return *made;
}
std::atomic<bool> isShared{false};

void shareOthers() // under the lock, after a change
{
	isShared = !shared().regions.empty() || !shared().ranges.empty();
	regionEpoch++;
}

void renewRange() // under the lock
{
	Shared &all = shared();
	Region range;
	for (const auto &[name, count] : all.open)
		range.patterns |= name->patterns;
	const auto latest = std::find_if(all.ranges.rbegin(), all.ranges.rend(),
	                                 [](const auto &each) { return each.second.name->patterns != 0; });
	range.name = latest == all.ranges.rend() ? nullptr : latest->second.name->text;
	if (latest != all.ranges.rbegin()) // the innermost is one that no rule names
		range.range = all.ranges.rbegin()->second.name->text;
	if (range.patterns == all.range.patterns && range.name == all.range.name && range.range == all.range.range)
		return;
	all.range = range;
	shareOthers();
}

void watchForks();

// Returns 0 if there are too many.
uint64_t share(const Region &part)
{
	watchForks();
	const Lock lock;
	Shared &all = shared();
	if (all.regions.size() >= sharedLimit)
		return 0;
	all.regions.push_back({++all.ticketCount, part});
	shareOthers();
	return all.ticketCount;
}

void unshare(uint64_t ticket)
{
	const Lock lock;
	if (std::erase_if(shared().regions, [ticket](const Shared::Part &each) { return each.ticket == ticket; }))
		shareOthers();
}

// ---- regions of a thread

struct Frame {
	uint64_t domain; // domain whose pop ends it; 0: autoamp.h
	Region own;      // no policy: an NVTX range
	bool isRange;    // an NVTX range that has a user
	bool isCapture;  // an NVTX range that matches the capture range
	uint64_t ticket; // ticket of a region shared by all threads; 0: not shared
	unsigned above;  // ranges of the domain without a user, opened since
	size_t number;   // number of a region, with which it can be ended
	// pileUp() and settle() set the members below.
	size_t below; // 1 + index of the next lower frame of the domain; 0: none
	int level;    // number of ranges of the domain that are open below
	Region all;   // merged with all frames below
	uint32_t id;
	unsigned epoch; // epoch of `id`; if it differs from regionEpoch, `id` is out of date

	int height() const { return level + static_cast<int>(above) + isRange; }
};

struct Memo {
	size_t hash = 0; // of the key
	std::string key;
	const Policy *policy = nullptr;
	const RangeName *name = nullptr;
	bool isShared = false;
};

struct Stack {
	std::vector<Frame> frames;
	std::unordered_map<uint64_t, size_t> tops; // by domain: 1 + index of its innermost frame
	Memo memos[16];                            // of recently pushed regions
	unsigned oldestMemo = 0;
	std::string key, error;
};

pthread_key_t stackKey;

Stack *knownStack()
{
	return static_cast<Stack *>(autoamp_front_thread.regions);
}

void giveBack(void *state)
{
	const base::CallerState callerState;
	auto *const stack = static_cast<Stack *>(state);
	autoamp_front_thread.regions = nullptr;
	autoamp_front_thread.epoch = regionEpoch.load(std::memory_order_relaxed) - 1; // later calls renew the region
	for (const Frame &frame : stack->frames) {
		if (frame.ticket)
			unshare(frame.ticket);
		if (frame.isCapture)
			endCaptureRange();
	}
	delete stack;
}

// In a forked child only this thread remains, with the regions that it shares.
void afterForkInChild()
{
	const Stack *const stack = knownStack();
	std::erase_if(shared().regions, [stack](const Shared::Part &each) {
		const auto isIts = [&each](const Frame &frame) { return frame.ticket == each.ticket; };
		return !(stack && std::any_of(stack->frames.begin(), stack->frames.end(), isIts));
	});
	shareOthers();
	const auto isOpen = [](const auto &range) { return range.second.name->isCapture; };
	auto open = std::count_if(shared().ranges.begin(), shared().ranges.end(), isOpen);
	if (stack)
		open += std::count_if(stack->frames.begin(), stack->frames.end(),
		                      [](const Frame &frame) { return frame.isCapture; });
	inheritCaptureRanges(static_cast<unsigned>(open));
	pthread_mutex_unlock(&mutex);
}

void watchForks()
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, [] {
		pthread_key_create(&stackKey, giveBack);
		pthread_atfork([] { pthread_mutex_lock(&mutex); }, [] { pthread_mutex_unlock(&mutex); }, afterForkInChild);
	});
}

Stack *thisStack()
{
	if (Stack *const known = knownStack())
		return known;
	watchForks();
	auto *const made = new (std::nothrow) Stack;
	if (made) {
		autoamp_front_thread.regions = made;
		pthread_setspecific(stackKey, made);
	}
	return made;
}

Region above(const Region &below, const Region &own)
{
	return {own.policy ? own.policy : below.policy, below.patterns | own.patterns, own.name ? own.name : below.name,
	        own.name || own.range ? own.range : below.range};
}

// The merged region of a thread's calls: its own regions and the ranges of the process. A thread without own regions
// uses the regions for all threads.
Region together(const Region &own)
{
	Region all;
	if (isShared) {
		const Lock lock;
		const Shared &others = shared();
		const bool isCovered = !own.policy && !others.regions.empty();
		for (const Shared::Part &each : others.regions)
			if (isCovered)
				all = above(all, each.region);
		const bool isRangeInner =
		    !isCovered || others.ranges.empty() || others.ranges.rbegin()->first > others.regions.back().ticket;
		all = isRangeInner ? above(all, others.range) : above(others.range, all);
	}
	all = above(all, own);
	const Configuration &known = *configuration();
	if (!all.policy)
		all.policy = all.patterns ? &known.base : known.none.policy;
	return all;
}

void settle(Stack &stack)
{
	front::ThreadBlock &block = autoamp_front_thread;
	block.epoch = regionEpoch.load(std::memory_order_acquire);
	if (stack.frames.empty()) {
		block.region = idOf(together({}));
		return;
	}
	Frame &frame = stack.frames.back();
	if (frame.epoch != block.epoch) {
		frame.id = idOf(together(frame.all));
		frame.epoch = block.epoch;
	}
	block.region = frame.id;
}

void pileUp(Stack &stack, size_t from)
{
	for (size_t i = from; i < stack.frames.size(); i++) {
		Frame &frame = stack.frames[i];
		frame.below = std::exchange(stack.tops[frame.domain], i + 1);
		frame.level = frame.below ? stack.frames[frame.below - 1].height() : 0;
		frame.all = above(i ? stack.frames[i - 1].all : Region{}, frame.own);
		frame.epoch = regionEpoch.load(std::memory_order_relaxed) - 1;
	}
}

void push(Stack &stack, const Frame &frame)
{
	stack.frames.push_back(frame);
	pileUp(stack, stack.frames.size() - 1);
	settle(stack);
}

Frame *innermost(Stack &stack, uint64_t domain)
{
	const auto top = stack.tops.find(domain);
	return top == stack.tops.end() || !top->second ? nullptr : &stack.frames[top->second - 1];
}

void remove(Stack &stack, const Frame *frame)
{
	const auto place = static_cast<size_t>(frame - stack.frames.data());
	if (frame->ticket)
		unshare(frame->ticket);
	if (frame->isCapture)
		endCaptureRange();
	for (size_t i = stack.frames.size(); i-- > place;)
		stack.tops[stack.frames[i].domain] = stack.frames[i].below;
	stack.frames.erase(stack.frames.begin() + static_cast<std::ptrdiff_t>(place));
	pileUp(stack, place);
	settle(stack);
}

int levelOf(Stack &stack, uint64_t domain)
{
	const Frame *const top = innermost(stack, domain);
	return top ? top->height() : 0;
}

// ---- autoamp.h

int refuse(Stack &stack, int status, const std::string &why)
{
	stack.error = why;
	base::log(base::LogLevel::warn, "region refused: %s", why.c_str());
	return status;
}

// Writes the requested settings to `key`, so that an equal request need not be resolved again.
void describe(const autoamp_region &region, const Policy *around, std::string &key)
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
	policy::Change changes[std::size(fields)];
	size_t count = 0;
	std::string flags[2];
	for (const auto &[variable, text, flag] : fields) {
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
	const Lock lock;
	auto &all = tables().policies;
	const std::string key = made.key;
	const auto known = all.find(key);
	memo.policy = known != all.end()         ? &known->second
	              : all.size() < policyLimit ? &all.emplace(key, std::move(made)).first->second
	                                         : nullptr;
	return {};
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
	describe(region, around, stack->key);
	const size_t hash = std::hash<std::string>()(stack->key);
	auto *const known = std::find_if(std::begin(stack->memos), std::end(stack->memos),
	                                 [&](const Memo &each) { return each.hash == hash && each.key == stack->key; });
	const bool isKnown = known != std::end(stack->memos);
	Memo &memo = isKnown ? *known : stack->memos[stack->oldestMemo++ % std::size(stack->memos)];
	if (!isKnown) {
		memo.key.clear();
		if (const std::string problem = resolve(region, *around, memo); !problem.empty())
			return refuse(*stack, AUTOAMP_BAD_VALUE, problem);
		if (memo.policy)
			memo.hash = hash, memo.key = stack->key;
	}
	const Region own = {memo.policy, memo.name ? memo.name->patterns : 0, memo.name ? memo.name->text : nullptr};
	if (!own.policy || stack->frames.size() >= depthLimit)
		return refuse(*stack, AUTOAMP_TOO_MANY, "too many regions are open, or too many different ones were");
	Frame frame = {};
	frame.own = own;
	if (memo.isShared && !(frame.ticket = share(own)))
		return refuse(*stack, AUTOAMP_TOO_MANY, "too many regions for all threads are open");
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

int describeRegion(autoamp_region *region)
{
	if (!configuration())
		return AUTOAMP_UNKNOWN;
	if (!region || region->size < sizeof *region)
		return AUTOAMP_BAD_VALUE;
	const Region &current = regionAt(currentRegion());
	for (const auto &[variable, text, flag] : fields)
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

const front::Regions regionCalls = {enterRegion, leaveRegion,   describeRegion, isActive,
                                    lastError,   receiveRanges, renewCapture};

const Policy *processPolicy()
{
	const Configuration *const known = configuration();
	return known ? &known->base : nullptr;
}

const Region &regionAt(uint32_t id)
{
	return id ? *regions[id].load(std::memory_order_acquire) : configuration()->none;
}

void renewRegion()
{
	const base::CallerState callerState;
	if (Stack *const stack = knownStack()) {
		settle(*stack);
	} else {
		autoamp_front_thread.epoch = regionEpoch.load(std::memory_order_acquire);
		autoamp_front_thread.region = idOf(together({}));
	}
}

bool areRangesUsed()
{
	const Configuration *const known = configuration();
	return known && (known->base.options.trace != policy::TraceLevel::off ||
	                 !known->base.options.rules->regionPatterns.empty() ||
	                 known->base.options.captureRange.kind == policy::CaptureRange::Kind::nvtx);
}

const RangeName *findRangeName(std::string_view text)
{
	const base::CallerState callerState;
	return nameOf(text, false);
}

int pushRange(uint64_t domain, const RangeName *name)
{
	const base::CallerState callerState;
	Stack *const stack = thisStack();
	if (!stack)
		return 0;
	const int level = levelOf(*stack, domain);
	Frame frame = {};
	frame.domain = domain;
	if (name && name->patterns)
		frame.own = {nullptr, name->patterns, name->text};
	else if (name)
		frame.own.range = name->text;
	frame.isRange = name;
	frame.above = !name;
	Frame *const below = innermost(*stack, domain);
	const bool isTooDeep = name && stack->frames.size() >= depthLimit;
	if (isTooDeep)
		base::log(base::LogLevel::warn, "%zu regions of a thread are open: another NVTX range is ignored", depthLimit);
	if ((!name || isTooDeep) && below) {
		below->above++;
	} else {
		if ((frame.isCapture = name && name->isCapture))
			beginCaptureRange();
		push(*stack, frame);
	}
	return level;
}

int popRange(uint64_t domain)
{
	const base::CallerState callerState;
	Stack *const stack = knownStack();
	Frame *const frame = stack ? innermost(*stack, domain) : nullptr;
	if (!frame)
		return -1;
	if (frame->above)
		frame->above--;
	else
		remove(*stack, frame);
	if (const Frame *const counter = innermost(*stack, domain); counter && !counter->above && !counter->isRange)
		remove(*stack, counter);
	return levelOf(*stack, domain);
}

uint64_t startRange(uint64_t domain, const RangeName *name)
{
	const base::CallerState callerState;
	if (!name)
		return 1;
	watchForks();
	uint64_t ticket = 0;
	{
		const Lock lock;
		Shared &all = shared();
		if (all.ranges.size() < rangeLimit) {
			ticket = all.ranges.emplace(++all.ticketCount, Shared::Range{domain, name}).first->first;
			all.open[name]++;
			renewRange();
		}
	}
	if (ticket) {
		if (name->isCapture)
			beginCaptureRange();
		return ticket;
	}
	base::log(base::LogLevel::warn, "%zu NVTX ranges of the process are open: another one is ignored", rangeLimit);
	return 1;
}

void endRange(uint64_t id)
{
	const base::CallerState callerState;
	const RangeName *name = nullptr;
	{
		const Lock lock;
		Shared &all = shared();
		const auto known = all.ranges.find(id);
		if (known == all.ranges.end())
			return;
		name = known->second.name;
		if (!--all.open[name])
			all.open.erase(name);
		all.ranges.erase(known);
		renewRange();
	}
	if (name->isCapture) // not under the lock: CUPTI may be called
		endCaptureRange();
}

void endRanges(uint64_t domain)
{
	const base::CallerState callerState;
	while (popRange(domain) >= 0)
		;
	std::vector<uint64_t> started;
	{
		const Lock lock;
		for (const auto &[id, range] : shared().ranges)
			if (range.domain == domain)
				started.push_back(id);
	}
	for (const uint64_t id : started)
		endRange(id);
}

} // namespace autoamp::core
