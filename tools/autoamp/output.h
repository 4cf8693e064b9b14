// What a command writes into a file or folder of the user's: whole, or not at all. And how far it is. Main thread.
// It is made under another name beside its own; a signal that ends the program (Ctrl-C) takes it away again.
#pragma once

#include <cstdint>
#include <string>

namespace autoamp::tool {

class Output
{
public:
	// Fails where `path` exists, unless it may be replaced: a file, or a folder that `mark` says is one of ours.
	Output(std::string path, bool mayReplace, std::string mark = {});
	~Output();
	Output(const Output &) = delete;
	Output &operator=(const Output &) = delete;
	const std::string &part() const { return part_; } // where to write
	void finish();                                    // it takes its own name

private:
	std::string path_, part_, mark_;
	bool mayReplace_;
};

// A bar on stderr, if that is a terminal. Each step also asks whether the program shall end, and then fails.
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
