// hardware [--list | --case GLOB...]: prints all rows, without autoamp. Each row has the answer, that of the emulated
// device, and whether autoamp needs that answer. If it does, another one is a failure and not just a difference to
// record. Rows run in child processes with a time limit. If a child crashes or hangs, this is the answer of its row,
// and another child continues with the next one.
#include "hardware.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fnmatch.h>
#include <poll.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace hardware {

struct Gate::State {
	std::atomic<bool> isOpen{false}, hasExpired{false};
};

Gate::Gate(cudaStream_t stream) : state_(new State)
{
	CHECK(cudaLaunchHostFunc(
	    stream,
	    [](void *argument) {
		    auto &state = *static_cast<State *>(argument);
		    for (int i = 0; i < 200 && !state.isOpen; i++)
			    std::this_thread::sleep_for(std::chrono::milliseconds(10));
		    state.hasExpired = !state.isOpen;
	    },
	    state_));
}

void Gate::open()
{
	state_->isOpen = true;
}

bool Gate::hasExpired() const
{
	return state_->hasExpired;
}

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds longestRow{30}, longestRun{150};

bool print(const Row &row, Line &line, const std::string &found)
{
	line.put("answer", found).put("emulated", row.emulated).put("needed", row.need == needed);
	line.require(found == row.emulated || found == absent || row.need == recorded, "autoamp needs the other answer");
	return line.print();
}

// Asks these rows in this process, and ends it. If a row has left a sticky error, the next rows need another process.
[[noreturn]] void askHere(const Row *row, const Row *end)
{
	bool isOk = true;
	for (; row != end; row++) {
		Line line(row->name);
		const std::string found = row->ask(line);
		cudaGetLastError();
		const cudaError_t after = cudaDeviceSynchronize();
		if (after)
			line.put("after", after);
		isOk = print(*row, line, found) && isOk;
		if (after)
			break;
	}
	std::fflush(nullptr);
	std::_Exit(!isOk);
}

struct Child {
	pid_t process;
	int output;
};

Child start(const Row *row, const Row *end)
{
	int ends[2];
	if (pipe(ends))
		fail("pipe", std::strerror(errno));
	std::fflush(nullptr);
	const pid_t process = fork(); // this process never calls CUDA
	if (process < 0)
		fail("fork", std::strerror(errno));
	if (process == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]), close(ends[1]);
		askHere(row, end);
	}
	close(ends[1]);
	return {process, ends[0]};
}

// Reads one line. False: the child has ended, or `until` has passed.
bool readLine(int output, Clock::time_point until, std::string &line, bool &isLate)
{
	for (line.clear();;) {
		pollfd wait = {output, POLLIN, 0};
		const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
		isLate = left <= 0 || poll(&wait, 1, static_cast<int>(left)) == 0;
		char next = 0;
		if (isLate || read(output, &next, 1) != 1)
			return false;
		if (next == '\n')
			return true;
		line += next;
	}
}

// A process that the driver does not let die is left behind after five seconds.
int statusOf(pid_t process, bool isLate)
{
	int status = 0;
	if (isLate)
		kill(process, SIGKILL);
	for (int i = 0; i < 500; i++) {
		if (waitpid(process, &status, WNOHANG) == process)
			return status;
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
	}
	kill(process, SIGKILL);
	return 0;
}

// Prints the answer of a row that its child did not print.
bool printEnd(const Row &row, bool isLate, int status)
{
	Line line(row.name);
	if (WIFSIGNALED(status) && !isLate)
		line.put("signal", WTERMSIG(status));
	else if (!isLate)
		line.put("exit", WEXITSTATUS(status));
	return print(row, line, isLate ? "hung" : WIFSIGNALED(status) ? "crashed" : "failed");
}

bool askAll(const Rows &rows)
{
	bool isOk = true;
	const auto deadline = Clock::now() + longestRun;
	for (const Row *row = rows.data(), *const last = row + rows.size(); row != last;) {
		if (Clock::now() >= deadline) {
			Line line(row->name);
			isOk = print(*row++, line, "out_of_time") && isOk;
			continue;
		}
		const Row *end = row + 1;
		while (row->process == shared && end != last && end->process == shared)
			end++;
		const Child child = start(row, end);
		std::string line;
		bool isLate = false;
		const Row *const first = row;
		while (row != end && readLine(child.output, std::min(deadline, Clock::now() + longestRow), line, isLate)) {
			std::puts(line.c_str());
			std::fflush(stdout);
			isOk = isOk && line.ends_with("ok=1");
			row++;
		}
		close(child.output);
		const int status = statusOf(child.process, isLate);
		// A child that ended between two rows has left the next one to another child.
		if (row != end && (row == first || isLate || !WIFEXITED(status) || WEXITSTATUS(status) > 1))
			isOk = printEnd(*row++, isLate, status) && isOk;
	}
	return isOk;
}

} // namespace
} // namespace hardware

int main(int argc, char **argv)
{
	using namespace hardware;
	Rows rows;
	for (Rows (*const group)() :
	     {cublasRows, ltRows, captureRows, memoryRows, driverRows, cuptiRows, cudnnRows, rnnRows})
		for (Row &row : group())
			rows.push_back(std::move(row));
	std::vector<const char *> globs;
	for (int i = 1; i < argc; i++) {
		if (!std::strcmp(argv[i], "--list") && argc == 2) {
			for (const Row &row : rows)
				std::puts(row.name.c_str());
			return 0;
		}
		if (std::strcmp(argv[i], "--case") || ++i == argc) {
			std::fprintf(stderr, "usage: %s [--list | --case GLOB...]\n", argv[0]);
			return 2;
		}
		globs.push_back(argv[i]);
	}
	if (!globs.empty())
		std::erase_if(rows, [&](const Row &row) {
			return std::none_of(globs.begin(), globs.end(),
			                    [&](const char *glob) { return fnmatch(glob, row.name.c_str(), 0) == 0; });
		});
	if (rows.empty())
		std::fprintf(stderr, "%s: no such row\n", argv[0]);
	return rows.empty() || !askAll(rows);
}
