// A program that sets the precision of its products. Their rounding shows the precision that ran: `ran` lists it call
// by call; `said` lists the results of autoamp.h functions.
#include "harness.h"

#include "inject/autoamp.h"

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <list>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace client;

namespace {

// One product of that size, and the precision that its rounding shows.
const char *product(Session &session, int m, int n = 64, int k = 64)
{
	Problem problem({.m = m, .n = n, .k = k});
	problem.upload();
	CHECK(static_cast<cublasStatus_t>(problem.call(session.handle)));
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	const double eta = problem.compare().eta;
	return eta < 1e-6 ? "float32" : eta < 3.5e-4 ? "float16" : eta < 3e-3 ? "bfloat16" : "wrong";
}

autoamp_region region(const char *name = nullptr, const char *dtype = nullptr, int enabled = AUTOAMP_SAME)
{
	autoamp_region made = AUTOAMP_REGION;
	made.name = name, made.dtype = dtype, made.enabled = enabled;
	return made;
}

autoamp_region with(autoamp_region made, const char *autoamp_region::*field, const char *value)
{
	made.*field = value;
	return made;
}

// The settings of this thread's calls, as returned by autoamp_current.
std::string current()
{
	autoamp_region now = AUTOAMP_REGION;
	if (const int status = autoamp_current(&now))
		return std::to_string(status);
	return std::string(now.name ? now.name : "-") + "/" + (now.enabled ? now.dtype : "off") + "/" + now.level;
}

// ---- scripts: one thread, step by step

struct Step {
	enum { push, pop, call } kind;
	autoamp_region region = AUTOAMP_REGION;
	int status = 0; // expected status of the push or pop if autoamp is loaded
};
Step push(const autoamp_region &region, int status = 0)
{
	return {Step::push, region, status};
}
const Step pop = {Step::pop}, unbalanced = {Step::pop, AUTOAMP_REGION, AUTOAMP_UNBALANCED}, call = {Step::call};

autoamp_region sized(size_t size)
{
	autoamp_region made = AUTOAMP_REGION;
	made.size = size;
	return made;
}

const std::pair<const char *, std::vector<Step>> scripts[] = {
    // torch's documentation: a region that is off inside one that is on, and one of another type.
    {"torch", {call, push(region("outer", "float16", 1)),
               call, push(region(nullptr, nullptr, 0)),
               call, pop,
               call, push(region("inner", "bfloat16")),
               call, push(region(nullptr, nullptr, 0)),
               call, push(region(nullptr, nullptr, 1)),
               call, pop,
               pop,  pop,
               call, pop,
               call, unbalanced}},
    // paddle's amp_guard: its own lists, merged with those around it; the inner one decides.
    {"lists",
     {push(with(region("black"), &autoamp_region::custom_black_list, "mm")), call,
      push(with(region("white"), &autoamp_region::custom_white_list, "mm")), call,
      push(with(region("entry"), &autoamp_region::custom_black_list, "bmm, cublasSgemm*")), call, pop, pop, call, pop,
      call}},
    // The same names in another order are another pair of lists.
    {"order",
     {push(with(region("outer"), &autoamp_region::custom_black_list, "matmul")),
      push(with(region("inner"), &autoamp_region::custom_white_list, "mm")), call, pop, pop,
      push(with(region("outer"), &autoamp_region::custom_white_list, "mm")),
      push(with(region("inner"), &autoamp_region::custom_black_list, "matmul")), call, pop, pop}},
    {"levels",
     {push(with(region("observed"), &autoamp_region::level, "O0")), call,
      push(with(region("lowered"), &autoamp_region::level, "O1")), call, pop, call, pop, call}},
    {"refused",
     {push(region("kept", "bf16")),
      call,
      push(region("bad", "fp8"), AUTOAMP_BAD_VALUE),
      call,
      push(region("bad", nullptr, 2), AUTOAMP_BAD_VALUE),
      push(region("bad", nullptr, 256), AUTOAMP_BAD_VALUE),
      call,
      push(with(region("bad"), &autoamp_region::level, "O9"), AUTOAMP_BAD_VALUE),
      push(with(region("bad"), &autoamp_region::lists, "jax"), AUTOAMP_BAD_VALUE),
      push(with(region("bad"), &autoamp_region::custom_white_list, "no_op"), AUTOAMP_BAD_VALUE),
      push(
          with(with(region("bad"), &autoamp_region::custom_white_list, "mm"), &autoamp_region::custom_black_list, "mm"),
          AUTOAMP_BAD_VALUE),
      push(with(region("bad"), &autoamp_region::threads, "some"), AUTOAMP_BAD_VALUE),
      push(with(region("bad"), &autoamp_region::weights, "some"), AUTOAMP_BAD_VALUE),
      push(region("bad", "tf32"), AUTOAMP_BAD_VALUE), // with AUTOAMP_STRATEGY=cast
      push(sized(0), AUTOAMP_BAD_VALUE),
      push(sized(sizeof(autoamp_region) - 1), AUTOAMP_BAD_VALUE),
      call,
      pop,
      unbalanced,
      unbalanced,
      call}},
    {"plain", {call, push(region()), call, pop, call}},
};

void runScript(const std::vector<Step> &steps, Line &line)
{
	Session session;
	std::string ran, said;
	for (const Step &step : steps) {
		if (step.kind == Step::call) {
			ran += (ran.empty() ? "" : ",") + std::string(product(session, 64));
			said += (said.empty() ? "" : ",") + current();
			continue;
		}
		const std::string before = current();
		const int status = step.kind == Step::push ? autoamp_push(&step.region) : autoamp_pop();
		const bool isThere = current() != std::to_string(AUTOAMP_UNKNOWN);
		line.require(status == (isThere ? step.status : 0), "another status");
		line.require(!status || current() == before, "a refused step changed something");
		line.require(step.kind != Step::push || !isThere || !step.status == !*autoamp_error(),
		             "no reason, or one too many");
	}
	line.put("ran", ran).put("said", said);
}

// ---- CLIENT_SCRIPT, for a table that autocast.py also reads: `push key=value...`, `pop`, or a call

// A call of square matrices of a value of which float16 keeps a half and bfloat16 nothing. Returns its precision.
const char *run(Session &session, const std::string &call)
{
	constexpr int n = 64, half = n * n / 2;
	constexpr auto none = CUBLAS_OP_N;
	constexpr float kept = 1 + 0x1p-9f, value = kept + 0x1p-12f, one = 1, zero = 0;
	Array a(n * n), b(n * n), c(n * n);
	for (int i = 0; i < n * n; i++)
		a[i] = value, b[i] = 1, c[i] = 0;
	for (const Array *array : {&a, &b, &c})
		array->upload();
	cublasHandle_t handle = session.handle;
	float *const A = a.data(), *const B = b.data(), *const C = c.data();
	if (call == "mm")
		CHECK(cublasSgemm(handle, none, none, n, n, n, &one, A, n, B, n, &zero, C, n));
	else if (call == "bmm")
		CHECK(cublasSgemmStridedBatched(handle, none, none, n, n / 2, n, &one, A, n, 0, B, n, half, &zero, C, n, half,
		                                2));
	else if (call == "mv")
		CHECK(cublasSgemv(handle, none, n, n, &one, A, n, B, 1, &zero, C, 1));
	else if (call == "add")
		CHECK(cublasSgeam(handle, none, none, n, n, &one, A, n, &zero, B, n, C, n));
	else
		fail("no such call", call.c_str());
	CHECK(cudaStreamSynchronize(session.stream));
	c.download();
	const float each = c[0] / (call == "add" ? 1 : n);
	return each == value ? "float32" : each == kept ? "float16" : each == 1 ? "bfloat16" : "wrong";
}

void examples(Line &line)
{
	constexpr std::pair<const char *, const char * autoamp_region::*> texts[] = {
	    {"name", &autoamp_region::name},
	    {"dtype", &autoamp_region::dtype},
	    {"level", &autoamp_region::level},
	    {"lists", &autoamp_region::lists},
	    {"custom_white_list", &autoamp_region::custom_white_list},
	    {"custom_black_list", &autoamp_region::custom_black_list}};
	constexpr std::pair<const char *, int autoamp_region::*> flags[] = {{"enabled", &autoamp_region::enabled},
	                                                                    {"use_promote", &autoamp_region::use_promote}};
	const char *const script = std::getenv("CLIENT_SCRIPT");
	std::istringstream steps(script ? script : "");
	Session session;
	std::string ran;
	const auto tell = [&ran](const char *word) { ran += (ran.empty() ? "" : ",") + std::string(word); };
	for (std::string step; std::getline(steps, step, '|');) {
		std::istringstream words(step);
		std::string word;
		words >> word;
		if (word == "pop") {
			line.require(autoamp_pop() == 0, "unbalanced");
		} else if (word == "push") {
			autoamp_region made = AUTOAMP_REGION;
			std::list<std::string> values; // storage of the values
			for (std::string key; std::getline(words >> std::ws, key, '=');) {
				words >> values.emplace_back();
				for (const auto &[name, text] : texts)
					made.*text = key == name ? values.back().c_str() : made.*text;
				for (const auto &[name, flag] : flags)
					made.*flag = key == name ? values.back() == "1" : made.*flag;
			}
			if (autoamp_push(&made) == AUTOAMP_BAD_VALUE)
				tell("ValueError");
		} else {
			tell(run(session, word));
		}
	}
	line.put("ran", ran);
}

// ---- arbitrary behaviour of programs

// Random regions, also left by exceptions. Inside, calls use the innermost region's settings; afterwards the former
// ones.
void explore(Random &random, Session &session, const std::string &expected, int depth, Line &line)
{
	static const char *const dtypes[] = {nullptr, "float16", "bfloat16"};
	const std::string before = current();
	for (int i = 0; i < 3; i++) {
		const char *const dtype = dtypes[static_cast<int>(random.uniform() * 3)];
		const int enabled = static_cast<int>(random.uniform() * 3) - 1;
		const bool wasOn = expected.find('-') == expected.npos; // "bfloat16", or "-bfloat16" if it is off
		const bool isOn = enabled == AUTOAMP_SAME ? wasOn : enabled;
		const std::string within = (isOn ? "" : "-") + (dtype ? std::string(dtype) : expected.substr(wasOn ? 0 : 1));
		try {
			const autoamp::Region inside(region(nullptr, dtype, enabled));
			line.require(inside.status == 0, "refused");
			if (autoamp_active() || before != std::to_string(AUTOAMP_UNKNOWN))
				line.require(product(session, 48) == (isOn ? within : "float32"), "not in what was asked for");
			if (depth > 0)
				explore(random, session, within, depth - 1, line);
			if (random.uniform() < 0.5)
				throw std::runtime_error("left");
		} catch (const std::runtime_error &) {
		}
		line.require(current() == before, "something is left open");
	}
}

void anySequence(Line &line)
{
	Session session;
	Random random(7);
	product(session, 48); // nothing is cached before
	explore(random, session, "float16", 3, line);
}

// ---- threads

// Eight threads at once, each with its own regions, are not affected by each other's.
void eightThreads(Line &line)
{
	std::barrier<> together(8);
	std::atomic<int> wrong = 0;
	std::vector<std::thread> threads;
	for (int number = 0; number < 8; number++)
		threads.emplace_back([&, number] {
			static const char *const types[] = {"float16", "bfloat16", "float32"};
			static const char *const names[] = {"zero", "one", "two", "three", "four", "five", "six", "seven"};
			Session session;
			for (int i = 0; i < 12; i++) {
				const int type = (number + i) % 3;
				together.arrive_and_wait();
				const autoamp::Region inside(region(names[number], type < 2 ? types[type] : nullptr, type < 2));
				const bool isThere = current() != std::to_string(AUTOAMP_UNKNOWN);
				wrong += product(session, 56) != std::string(isThere ? types[type] : "float32");
				wrong += isThere && current().find(names[number]) != 0;
			}
			wrong += current().find('-') != 0 && current() != std::to_string(AUTOAMP_UNKNOWN);
		});
	for (std::thread &thread : threads)
		thread.join();
	line.require(wrong == 0, "a thread saw another one's region");
}

// One region for all threads, existing and new, except those that have their own region; until it ends, also by the end
// of its thread.
void allThreads(Line &line)
{
	std::barrier<> turn(2);
	std::string ran;
	std::mutex mutex; // a sanitizer knows it, but not the barrier
	const auto tell = [&](const char *word) {
		const std::lock_guard lock(mutex);
		ran += (ran.empty() ? "" : ",") + std::string(word);
	};
	std::thread old([&] {
		Session session;
		for (int i = 0; i < 4; i++) {
			turn.arrive_and_wait();
			tell(product(session, 72));
			turn.arrive_and_wait();
		}
	});
	const auto next = [&] {
		turn.arrive_and_wait();
		turn.arrive_and_wait();
	};
	next(); // as configured
	const auto everywhere = with(region("everywhere", "bfloat16"), &autoamp_region::threads, "all");
	{
		const autoamp::Region all(everywhere);
		next(); // an existing thread
		std::thread([&] {
			Session session;
			tell(product(session, 72)); // a new one
			const autoamp::Region own(region("own", "float16"));
			tell(product(session, 72));
		}).join();
	}
	next(); // it has ended
	std::thread([&] { autoamp_push(&everywhere); }).join();
	next(); // it ended with its thread
	old.join();
	line.put("ran", ran);
}

// Regions end in any order: one that has ended has no effect, the others remain.
void anyOrder(Line &line)
{
	Session session;
	std::string ran;
	const auto tell = [&](bool isElsewhere = false) {
		const char *word = nullptr;
		const auto call = [&] {
			Session own;
			word = product(own, 40);
		};
		isElsewhere ? std::thread(call).join() : call();
		ran += (ran.empty() ? "" : ",") + std::string(word);
	};
	const auto open = [](const autoamp_region &region) { return std::make_unique<autoamp::Region>(region); };
	const auto everywhere = with(region("everywhere", "bfloat16"), &autoamp_region::threads, "all");
	for (const autoamp_region &outer : {region("outer", "bfloat16"), everywhere}) {
		auto first = open(outer), second = open(region("second", nullptr, 0)),
		     third = open(region("third", nullptr, 1));
		tell();
		third.reset();
		tell();
		first.reset();
		tell(); // off, as the second one says
		tell(true);
		line.require(current().find("second/off/") == 0 || current() == std::to_string(AUTOAMP_UNKNOWN), "renamed");
		second.reset();
		tell();
	}
	// A thread's own region inherits nothing from regions for all threads, which may end before it.
	auto all = open(everywhere);
	std::barrier<> turn(2);
	std::thread other([&] {
		Session own;
		const autoamp::Region named(region("mine"));
		turn.arrive_and_wait();
		turn.arrive_and_wait();
		ran += std::string(",") + product(own, 40);
	});
	turn.arrive_and_wait();
	all.reset();
	turn.arrive_and_wait();
	other.join();
	size_t number = 0;
	const autoamp_region mine = region("mine");
	autoamp_enter(&mine, &number);
	const bool isThere = current() != std::to_string(AUTOAMP_UNKNOWN);
	const int unbalanced = isThere ? AUTOAMP_UNBALANCED : 0;
	std::thread([&] { line.require(autoamp_leave(number) == unbalanced, "another thread's"); }).join();
	line.require(!autoamp_leave(number) && autoamp_leave(number) == unbalanced, "ended twice");
	line.put("ran", ran);
}

// With one row, a product is only cast to bfloat16 if its weight may be kept.
void weights(Line &line)
{
	Session session;
	std::string ran, said;
	const auto tell = [&] {
		autoamp_region now = AUTOAMP_REGION;
		const int status = autoamp_current(&now);
		ran += (ran.empty() ? "" : ",") + std::string(product(session, 4096, 1, 4096));
		said += (said.empty() ? "" : ",") + std::string(status ? "unknown" : now.weights);
	};
	const auto set = [](const char *weights) { return with(region(), &autoamp_region::weights, weights); };
	product(session, 32);
	tell();
	{
		const autoamp::Region outer(set("frozen"));
		tell();
		const autoamp::Region inner(region("inner"));
		tell();
		const autoamp::Region none(set("off"));
		tell();
	}
	{
		const autoamp::Region other(with(set("frozen"), &autoamp_region::device, "cpu"));
		tell();
		autoamp_region earlier = set("frozen"); // a program that was compiled before the member existed
		earlier.size = offsetof(autoamp_region, weights);
		const autoamp::Region inside(earlier);
		line.require(inside.status == 0, "refused");
		tell();
		earlier.weights = "untouched";
		autoamp_current(&earlier);
		line.require(!std::strcmp(earlier.weights, "untouched"), "wrote beyond the end of the struct");
	}
	line.put("ran", ran).put("said", said);
}

// The settings returned by autoamp_current, pushed outside of all regions, give the same decisions as the original
// region.
void described(Line &line)
{
	Session session;
	product(session, 32);
	for (const auto &[black, white] :
	     {std::pair{"mm", "matmul"}, {"matmul", "mm"}, {"cublasSgemm_v2", "cublasS*"}, {"bmm,mm", "linear,bmm"}}) {
		autoamp_region told = AUTOAMP_REGION;
		std::string ran;
		{
			const autoamp::Region outer(with(region(), &autoamp_region::custom_black_list, black));
			const autoamp::Region inner(with(region(), &autoamp_region::custom_white_list, white));
			ran = product(session, 32);
			if (autoamp_current(&told))
				continue;
		}
		told.name = nullptr;
		const autoamp::Region again(told);
		line.require(again.status == 0, "refused");
		line.require(ran == product(session, 32), "other lists than those that hold");
	}
}

// ---- the process

void forked(Line &line)
{
	Session session;
	std::thread([] {
		autoamp_region all = with(region("lost", "bfloat16"), &autoamp_region::threads, "all");
		autoamp_push(&all);
		autoamp_region own = region("mine", "bfloat16");
		autoamp_push(&own);
		const std::string before = current();
		const pid_t child = fork();
		if (child == 0)
			_exit(current() == before && autoamp_pop() == autoamp_pop() ? 0 : 1);
		int status = 0;
		waitpid(child, &status, 0);
		if (status)
			fail("the child", "has other regions");
	}).join();
	std::barrier<> turn(2);
	std::thread open([&] {
		autoamp_region all = with(region("lost", "bfloat16"), &autoamp_region::threads, "all");
		autoamp_push(&all);
		turn.arrive_and_wait();
		turn.arrive_and_wait();
	});
	turn.arrive_and_wait();
	const std::string covered = current();
	const pid_t child = fork();
	if (child == 0) // its thread does not exist here
		_exit(current() != covered || covered == std::to_string(AUTOAMP_UNKNOWN) ? 0 : 1);
	int status = 0;
	waitpid(child, &status, 0);
	line.require(status == 0, "the child is still in the region of a thread that it has not");
	turn.arrive_and_wait();
	open.join();
}

long residentPages()
{
	long size = 0, resident = 0;
	std::ifstream("/proc/self/statm") >> size >> resident;
	return resident;
}

// Names that are created at run time, and endless recursion: memory use is bounded, decisions remain.
void manyNames(Line &line)
{
	Session session;
	long pages = 0;
	for (int i = 0; i < 60000; i++) {
		const autoamp::Region inside(region(("step " + std::to_string(i)).c_str(), i % 2 ? "bfloat16" : "float16"));
		line.require(inside.status == 0, "refused");
		if (i == 4000)
			pages = residentPages();
		if (i == 59998)
			line.require(residentPages() - pages < 256, "a megabyte more");
		const bool isLast = i > 59997; // the first ones need memory, too
		if (const char *const ran = isLast || i < 2 ? product(session, 80) : nullptr; isLast)
			line.put(i % 2 ? "odd" : "even", ran);
	}
	int depth = 0;
	while (depth < 100000 && !autoamp_push(&pop.region))
		depth++;
	line.put("depth", depth);
	while (depth-- > 0)
		line.require(autoamp_pop() == 0, "unbalanced");
}

// Settings that are created at run time: up to a limit, then new ones are refused; earlier ones are not.
void newSettings(Line &line)
{
	static const char *const ops[] = {"conv2d", "softmax", "cat",  "exp",     "sum", "mean", "prod",
	                                  "gelu",   "max",     "relu", "dropout", "add", "mul"};
	int known = 0;
	long pages = 0;
	for (int i = 1; i < 1 << std::size(ops); i++) {
		std::string names;
		for (size_t bit = 0; bit < std::size(ops); bit++)
			names += i >> bit & 1 ? (names.empty() ? "" : ",") + std::string(ops[bit]) : "";
		const autoamp::Region inside(with(region(), &autoamp_region::custom_black_list, names.c_str()));
		line.require(!inside.status || inside.status == AUTOAMP_TOO_MANY, "another status");
		line.require(inside.status || known == i - 1, "one that is new after the limit");
		known += !inside.status;
		if (known == 100)
			pages = residentPages();
	}
	line.put("known", known).put("bytes_each", static_cast<int>((residentPages() - pages) * getpagesize() / known));
	line.require(!autoamp::Region(with(region(), &autoamp_region::custom_black_list, "conv2d")).status,
	             "no longer known");
	Session session;
	const autoamp::Region inside(region(nullptr, "bfloat16"));
	line.put("ran", product(session, 88)); // as outside, because it was refused
}

} // namespace

int main(int argc, char **argv)
{
	std::vector<Case> cases;
	for (const auto &[name, steps] : scripts)
		cases.push_back({name, [&steps = steps](Line &line) { runScript(steps, line); }});
	const Case others[] = {
	    {"any", anySequence},         {"eight", eightThreads},  {"all", allThreads},
	    {"order_of_ends", anyOrder},  {"examples", examples},   {"forked", forked},
	    {"weights", weights},         {"described", described}, {"names", manyNames}, // after it no name is stored
	    {"new_settings", newSettings}};                                               // after it no setting is stored
	cases.insert(cases.end(), std::begin(others), std::end(others));
	return runCases(argc, argv, cases);
}
