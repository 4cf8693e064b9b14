// A folder that is removed with its test, and functions to read and write the files in it. One thread.
#pragma once

#include "src/base/clock.h"
#include "src/trace/read/files.h"
#include "src/trace/read/trace.h"
#include "tests/unit/trace_sample.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

namespace trace_test {

struct Folder {
	std::string path;
	explicit Folder(const char *parent = "/tmp") : path(std::string(parent) + "/autoamp-trace-XXXXXX")
	{
		REQUIRE(mkdtemp(path.data()));
	}
	~Folder() { std::filesystem::remove_all(path); }
	std::string operator/(const std::string &name) const { return path + "/" + name; }
	std::vector<std::string> files() const // except hidden ones: the tails of traces
	{
		std::vector<std::string> names;
		for (const auto &entry : std::filesystem::directory_iterator(path))
			if (const std::string name = entry.path().filename(); name[0] != '.')
				names.push_back(name);
		std::sort(names.begin(), names.end());
		return names;
	}
};

inline trace::Trace read(const std::string &path)
{
	std::string error;
	auto opened = trace::Trace::open(path, error);
	INFO(error);
	REQUIRE(opened);
	return std::move(*opened);
}

inline std::string slurp(const std::string &path)
{
	std::ifstream file(path, std::ios::binary);
	return {std::istreambuf_iterator<char>(file), {}};
}

inline void spit(const std::string &path, const std::string &bytes)
{
	std::filesystem::remove(path); // ext4 would flush a file that is replaced by truncating it
	std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

} // namespace trace_test
