// Ways to run one call of an fp32 program, in one process: with the vendor's function, and with the linked one, which
// autoamp intercepts if it is preloaded. Requests come from standard input, so that the suite can stop between two.
#pragma once

#include "inject/autoamp.h"
#include "tests/gpu/timing.h"

#include <dlfcn.h>
#include <iostream>
#include <memory>
#include <sstream>

namespace gpu {

enum class Precision { fp32, tf32, half }; // in which the application makes the call

struct Way {
	const char *name;
	bool isBare; // the vendor's function, found with dlsym; needs AUTOAMP_HOOK_DLSYM=0
	Precision precision;
	bool isRegion; // in a region of that name: AUTOAMP_CONFIG has rules for some of the names
};
constexpr Way ways[] = {
    {"bare", true, Precision::fp32, false},
    {"bare_tf32", true, Precision::tf32, false},
    {"bare_half", true, Precision::half, false},
    {"linked", false, Precision::fp32, false},
    {"float16", false, Precision::fp32, true},
    {"bfloat16", false, Precision::fp32, true},
    {"tf32", false, Precision::fp32, true},
    {"auto", false, Precision::fp32, true},
    {"auto_tf32", false, Precision::tf32, true},
    {"float16_checked", false, Precision::fp32, true},
    {"float16_frozen", false, Precision::fp32, true},
    {"bfloat16_checked", false, Precision::fp32, true},
    {"bfloat16_frozen", false, Precision::fp32, true},
};

inline const Way &wayOf(const std::string &name)
{
	for (const Way &way : ways)
		if (name == way.name)
			return way;
	client::fail(name.c_str(), "no such way");
}

// The vendor's own function.
template <typename Function>
Function *original(const char *library, const char *name)
{
	void *const opened = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
	void *const found = opened ? dlsym(opened, name) : nullptr;
	if (!found)
		client::fail(name, "not found");
	return reinterpret_cast<Function *>(found);
}
#define ORIGINAL(library, name) ::gpu::original<decltype(name)>(library, #name)

class InRegion
{
public:
	explicit InRegion(const Way &way)
	{
		if (!way.isRegion)
			return;
		autoamp_region region = AUTOAMP_REGION;
		region.name = way.name;
		region.enabled = 1;
		region_ = std::make_unique<autoamp::Region>(region);
		if (region_->status)
			client::fail("autoamp_push", std::to_string(region_->status).c_str());
	}

private:
	std::unique_ptr<autoamp::Region> region_;
};

// Measures the ways in turn. Each round begins with the next way: in a row of rounds, every way follows the same ones.
// measure(way) returns the line for the way, without its name.
template <typename Measure>
void interleave(int rounds, const std::vector<std::string> &names, Measure measure)
{
	for (size_t round = 0; round < static_cast<size_t>(rounds); round++)
		for (size_t i = 0; i < names.size(); i++) {
			const Way &way = wayOf(names[(i + round) % names.size()]);
			const InRegion region(way);
			std::cout << way.name << ' ' << measure(way) << std::endl;
		}
	std::cout << "done" << std::endl;
}

inline std::vector<std::string> words(std::istream &line)
{
	std::vector<std::string> words;
	for (std::string word; line >> word;)
		words.push_back(word);
	return words;
}

} // namespace gpu
