// Writes a file or folder of the user completely or not at all, and shows progress. Main thread. The output has a
// temporary name in the same folder until it is complete; a signal that ends the program (Ctrl-C) removes it.
#pragma once

#include <cstdint>
#include <string>

namespace autoamp::tool {

// The file that an output with this path replaces: the target of a link, which stays. Fails if it exists and may not be
// replaced. A folder is replaced only if it contains `mark`, the sign of an autoamp folder; other special files never.
std::string checkedTarget(const std::string &path, bool mayReplace, const std::string &mark = {});

class Output
{
public:
	Output(const std::string &path, bool mayReplace, const std::string &mark = {}); // fails as checkedTarget()
	~Output();
	Output(const Output &) = delete;
	Output &operator=(const Output &) = delete;
	const std::string &part() const { return part_; } // where to write
	void finish();                                    // renames the output to its final name

private:
	std::string path_, part_;
	bool mayReplace_;
};

// A progress bar if stderr is a terminal. Fails if a signal has requested the end of the program; step() checks
// periodically.
class Progress
{
public:
	Progress(const char *what, uint64_t whole);
	~Progress();
	void step()
	{
		if ((++done_ & 0xffff) == 0)
			show();
	}

private:
	void show();
	const char *what_;
	uint64_t whole_, done_ = 0;
	int shown_ = -1;
	bool isTerminal_;
};

} // namespace autoamp::tool
