// The regions, policies and range names of the process, each stored once and never freed. Any thread.
#pragma once

#include "inject/front.h"
#include "src/policy/decide.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace autoamp::core {

// A front intercepts the calls on devices of one type. Each type has its own region at any time, so that a region of
// one type does not split the sites of the other one.
enum class DeviceType : unsigned { cuda, cpu };
inline constexpr DeviceType deviceTypes[] = {DeviceType::cuda, DeviceType::cpu};
template <typename Value>
struct PerDeviceType : std::array<Value, std::size(deviceTypes)> {
	using Base = std::array<Value, std::size(deviceTypes)>;
	Value &operator[](DeviceType type) { return Base::operator[](static_cast<unsigned>(type)); }
	const Value &operator[](DeviceType type) const { return Base::operator[](static_cast<unsigned>(type)); }
};
static_assert(std::size(deviceTypes) == sizeof front::ThreadBlock::region / sizeof(unsigned));
constexpr DeviceType deviceTypeOf(op::Library library)
{
	return library == op::Library::blas ? DeviceType::cpu : DeviceType::cuda;
}
bool isIntercepted(DeviceType type); // its front is in this process

struct Policy {
	policy::Options options;
	policy::State state;
};

// All open regions and ranges of a call, merged. Never changed or freed; at most 2^regionBits.
struct Region {
	const Policy *policy = nullptr;
	uint64_t patterns = 0;       // bit i: an open region matches Rules::regionPatterns[i]
	const char *name = nullptr;  // name of the innermost named region; null: none
	const char *range = nullptr; // the innermost NVTX range, if no rule names it; null: none
	// If `range` is set: the ids of the same region without it, and with `(more ranges)` in its place.
	uint32_t decisive = 0, unnamed = 0;
};
constexpr unsigned regionBits = 16;
const Region &regionAt(uint32_t id);
// The id of an equal region. Beyond the limits, the id of one that decides as this one does, without its names.
uint32_t idOf(const Region &wanted);

// The configuration, read at the first call or region of the process. Null: off (AUTOAMP_ENABLED=0, or an invalid
// variable, which stderr reports).
const Policy *processPolicy();

struct Configuration {
	Policy base, outside; // for regions without settings; for calls outside of all regions
	Region none;
};
// The configuration with the policies of calls inside and outside of regions. Read and null as for processPolicy().
const Configuration *configuration();

// The members of autoamp_region that are options, with the names of the variables.
struct RegionField {
	const char *variable;
	const char *autoamp_region::*text;
	int autoamp_region::*flag;
};
inline constexpr RegionField regionFields[] = {
    {"AUTOAMP_ENABLED", nullptr, &autoamp_region::enabled},
    {"AUTOAMP_DTYPE", &autoamp_region::dtype, nullptr},
    {"AUTOAMP_LEVEL", &autoamp_region::level, nullptr},
    {"AUTOAMP_LISTS", &autoamp_region::lists, nullptr},
    {"AUTOAMP_CUSTOM_WHITE_LIST", &autoamp_region::custom_white_list, nullptr},
    {"AUTOAMP_CUSTOM_BLACK_LIST", &autoamp_region::custom_black_list, nullptr},
    {"AUTOAMP_USE_PROMOTE", nullptr, &autoamp_region::use_promote},
    {"AUTOAMP_WEIGHTS", &autoamp_region::weights, nullptr}};
// The policy of calls of this type with these options: Configuration::base if they decide as it does. Null: there
// are too many.
const Policy *policyOf(const policy::Options &options, DeviceType type);

// A name and its users: rules, the capture range, the trace. Never freed.
struct RangeName {
	uint64_t patterns;
	const char *text; // null: it names no rows
	bool isCapture;
};
// Returns null for a name without a user, or beyond the limit. `isStored`: a name of a region, which is stored even if
// no rule matches it.
const RangeName *nameOf(std::string_view text, bool isStored);
bool areRangesUsed(); // by rules with a region, the capture range or the trace

// Protects the tables, and the state that all threads share. Never held during a call that could wait.
void lockRegions();
void unlockRegions();
struct RegionLock {
	RegionLock() { lockRegions(); }
	~RegionLock() { unlockRegions(); }
	RegionLock(const RegionLock &) = delete;
	RegionLock &operator=(const RegionLock &) = delete;
};

} // namespace autoamp::core
