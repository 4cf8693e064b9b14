#include "src/place/region/intern.h"

#include "src/base/caller_state.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/base/once.h"
#include "src/base/run_board.h"
#include "src/config/environment.h"
#include "src/lists/glob.h"
#include "src/state/configuration.h"

#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <pthread.h>
#include <unordered_map>
#include <utility>

namespace autoamp::core {

namespace {

// A program may generate names without limit. Beyond these limits, the name of a region is dropped first, then the
// patterns that it matches; its settings stay. Every region multiplies the number of sites.
constexpr size_t nameLimit = 1024, policyLimit = 4096;
// Limits for NVTX ranges that no rule names: their names, and the regions with one.
constexpr size_t rangeNameLimit = 256;
constexpr uint32_t rangedLimit = 1u << 14;
constexpr const char *moreRanges = "(more ranges)";
constexpr uint32_t regionLimit = 1u << regionBits;

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

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
	PerDeviceType<std::unordered_map<std::string, Policy>> policies; // by key
	std::unordered_map<std::string, RangeName> names;
	std::unordered_map<std::string, RangeName> ranges;       // names that no rule matches
	std::map<std::pair<uint64_t, bool>, RangeName> nameless; // by patterns, and whether it is a capture range
};
Tables &tables()
{
	static auto *const made = new Tables; // under the lock
	return *made;
}

Node *findNode(const Region &wanted, unsigned bucket)
{
	Node *node = buckets[bucket].load(std::memory_order_acquire);
	while (node && (node->policy != wanted.policy || node->patterns != wanted.patterns || node->name != wanted.name ||
	                node->range != wanted.range))
		node = node->next;
	return node;
}

const RangeName captureOnly = {0, nullptr, true};

// The name of a range that no rule names.
const RangeName *rangeNameOf(std::string_view text, bool isCapture)
{
	static const RangeName more[] = {{0, moreRanges, false}, {0, moreRanges, true}};
	const RegionLock lock;
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

} // namespace

void lockRegions()
{
	pthread_mutex_lock(&mutex);
}

void unlockRegions()
{
	pthread_mutex_unlock(&mutex);
}

bool isIntercepted(DeviceType type)
{
	return type == DeviceType::cuda ? autoamp_front_original != nullptr : autoamp_cpu_original != nullptr;
}

namespace {

Policy makePolicy(const policy::Options &options)
{
	Policy policy = {options, policy::State(options)};
	policy.state.enabled = true;
	policy.state.isRegionOff = !options.enabled;
	return policy;
}

// The settings that a region can change: options with equal keys make equal decisions about calls of this type. All
// aliases of a value give the same key.
std::string keyOf(const policy::Options &options, DeviceType type)
{
	std::string key;
	const bool isCpu = type == DeviceType::cpu;
	const op::Dtype dtype = isCpu ? options.dtypeOnCpu : options.dtype;
	const policy::Weights weights = isCpu ? options.weightsOnCpu : options.weights;
	for (const auto &[variable, text, flag] : regionFields)
		for (size_t i = 0; i < policy::optionTable().size(); i++)
			if (const policy::OptionRow &row = policy::optionTable()[i];
			    row.type == policy::ValueType::choice && !std::strcmp(row.name, variable))
				(key += text == &autoamp_region::dtype     ? op::name(dtype)
				        : text == &autoamp_region::weights ? policy::name(weights)
				                                           : options.value[i]) += ' ';
	for (const policy::NameSet *set : {&options.customWhite, &options.customBlack}) {
		key += std::to_string(set->ops); // not the names: the later of two lists takes its names from the other
		for (const uint64_t word : set->entries)
			key += ',' + std::to_string(word);
		key += ';';
	}
	return key;
}

} // namespace

const Configuration *configuration()
{
	static base::Once<const Configuration> once;
	return once.get([]() -> const Configuration * {
		const base::CallerState callerState;
		base::setLogTarget(autoamp_front_has_stderr);
		const policy::ParsedOptions parsed = readConfiguration();
		if (!parsed.error.empty()) {
			static std::atomic<bool> isLogged{false}; // another thread may have found the error too
			base::setLogLevel(base::LogLevel::error);
			if (!isLogged.exchange(true))
				base::log(base::LogLevel::error, "off: %s", parsed.error.c_str());
			base::AttachedBoard(policy::environmentValue(policy::processEnvironment(), base::runBoardVariable))
			    .report(base::RunBoard::Failure::off, parsed.error.c_str());
			return nullptr;
		}
		base::setLogLevel(static_cast<base::LogLevel>(parsed.options.log));
		// AUTOAMP_ENABLED=0 in a file applies only outside of regions.
		if (!parsed.options.enabled && parsed.options.originOf(policy::Option::enabled) == policy::Origin::environment)
			return nullptr;
		auto *const made = new Configuration{makePolicy(parsed.options), makePolicy(parsed.options), {}};
		made->outside.state.isRegionOff = true;
		made->none.policy = parsed.options.scope == policy::Scope::regions ? &made->outside : &made->base;
		return made;
	});
}

const Policy *processPolicy()
{
	const Configuration *const known = configuration();
	return known ? &known->base : nullptr;
}

const Region &regionAt(uint32_t id)
{
	return id ? *regions[id].load(std::memory_order_acquire) : configuration()->none;
}

namespace {

// Adds a region; the caller holds the lock. `decisive`, `unnamed`: other ids than that of the region itself.
uint32_t addRegion(const Region &region, unsigned bucket, std::optional<uint32_t> decisive = {},
                   std::optional<uint32_t> unnamed = {})
{
	auto *const made = new Node{region, regionCount++, buckets[bucket].load(std::memory_order_relaxed)};
	made->decisive = decisive.value_or(made->id), made->unnamed = unnamed.value_or(made->id);
	regions[made->id].store(made, std::memory_order_release);
	buckets[bucket].store(made, std::memory_order_release);
	return made->id;
}

// `decisive`, `unnamed`: ids of the region without its range, and with the range `(more ranges)` if it has another one.
uint32_t idOfRange(const Region &wanted, unsigned bucket, uint32_t decisive, std::optional<uint32_t> unnamed)
{
	const RegionLock lock;
	if (const Node *known = findNode(wanted, bucket))
		return known->id;
	// Reserves the last ids for regions that decisions depend on. Regions with `(more ranges)` are as few as regions
	// without a range and have no limit of their own.
	if (regionCount >= regionLimit - policyLimit || (unnamed && rangedCount >= rangedLimit))
		return unnamed.value_or(decisive);
	rangedCount++;
	return addRegion(wanted, bucket, decisive, unnamed);
}

} // namespace

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
		const bool isLast = wanted.range == moreRanges;
		return idOfRange(wanted, bucket, decisive, isLast ? std::nullopt : std::optional(idOf(plain)));
	}
	const bool isNamed = wanted.patterns || wanted.name;
	{
		const RegionLock lock;
		if (const Node *known = findNode(wanted, bucket))
			return known->id;
		// The last ids are reserved for regions without a name and patterns.
		if (regionCount < (isNamed ? regionLimit - policyLimit : regionLimit))
			return addRegion(wanted, bucket);
	}
	return isNamed ? idOf({wanted.policy, 0, nullptr}) : 0;
}

const Policy *policyOf(const policy::Options &options, DeviceType type)
{
	const Policy &base = configuration()->base;
	const std::string key = keyOf(options, type);
	if (key == keyOf(base.options, type))
		return &base;
	const RegionLock lock;
	auto &all = tables().policies[type];
	const auto known = all.find(key);
	return known != all.end()         ? &known->second
	       : all.size() < policyLimit ? &all.emplace(key, makePolicy(options)).first->second
	                                  : nullptr;
}

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
		const RegionLock lock;
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
	base::log(base::LogLevel::warn, "more than %zu region names; reports omit further names", nameLimit);
	return nameless;
}

bool areRangesUsed()
{
	const Configuration *const known = configuration();
	return known && (known->base.options.trace != policy::TraceLevel::off ||
	                 !known->base.options.rules->regionPatterns.empty() ||
	                 known->base.options.captureRange.kind == policy::CaptureRange::Kind::nvtx);
}

} // namespace autoamp::core
