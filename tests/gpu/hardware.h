// Facts about the driver and the vendor's libraries that documents leave open and only a device can answer. The rows do
// not use autoamp. docs/assumptions.md names the rows; tests/repo/assumptions.py compares the names.
#pragma once

#include "tests/preload/clients/harness.h"

#include <dlfcn.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hardware {

using namespace client;

inline const std::string yes = "yes", no = "no", absent = "absent"; // absent: the library is not installed here

inline std::string answer(bool found)
{
	return found ? yes : no;
}

enum class Need : bool { recorded, needed }; // needed: autoamp is wrong if the answer is another one
enum class Process : bool { shared, own };   // own: the row needs a new process
using enum Need;
using enum Process;

// One question. `ask` returns the answer and may add values to the line. It may break the context.
struct Row {
	std::string name, emulated; // emulated: answer of the emulated device
	Need need;
	Process process;
	std::string (*ask)(Line &line);
};
using Rows = std::vector<Row>;

Rows driverRows(), memoryRows(), captureRows(), cublasRows(), ltRows(), cuptiRows(), cudnnRows(), rnnRows();

// A function of the driver, which the programs do not link.
template <typename Function>
Function driver(const char *name)
{
	void *const found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
	if (!found)
		fail(name, "not in libcuda.so.1");
	return reinterpret_cast<Function>(found);
}

constexpr Spec gaussian = {.m = 256, .n = 256, .k = 512};

Spec with(Spec spec, auto change)
{
	change(spec);
	return spec;
}

cudaError_t makePool(cudaMemPool_t *pool);

// A driver call of a thread in relaxed mode while it captures a stream in global mode, as autoamp makes it: yes if it
// succeeds, and the capture ends as if there had been no call.
std::string duringCapture(Line &line, const std::function<int(cudaStream_t)> &ask);

// Runs the product and compares it with the host.
inline Answer product(Line &line, Problem &&problem)
{
	Session session;
	problem.upload();
	line.put("status", problem.call(session.handle, session.light));
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	const Answer answer = problem.compare();
	line.put("eta", answer.eta).put("nonfinite", answer.nonfinite);
	return answer;
}

// Blocks a stream until it is released, or for two seconds.
class Gate
{
public:
	explicit Gate(cudaStream_t stream);
	~Gate() { open(); }
	Gate(const Gate &) = delete;
	void open();
	bool hasExpired() const; // the stream was not released in time

private:
	struct State;
	State *state_; // never freed: the stream may still read it
};

} // namespace hardware
