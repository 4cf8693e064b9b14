// A program with gradient scalers: its own, whose updates it reports to the trace, and those of autoamp.h.
#include "harness.h"

#include "inject/autoamp.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace client;

namespace {

autoamp_gradient_update update(double before, double after, double foundInf)
{
	autoamp_gradient_update made = {};
	made.size = sizeof made;
	made.framework = "mine", made.how = "python", made.scaler = &made, made.device = 1;
	made.scale_before = before, made.scale_after = after, made.found_inf = foundInf;
	made.growth_factor = 2, made.backoff_factor = NAN, made.interval = 3;
	made.tracker_before = made.tracker_after = made.hysteresis = -1;
	made.scaler = reinterpret_cast<void *>(0x1000);
	return made;
}

void record(Line &line)
{
	autoamp_gradient_update each = update(8, 4, 1);
	std::string statuses = std::to_string(autoamp_record_update(&each));
	each = update(4, 4, 0);
	autoamp_record_update(&each);
	each = update(4, 8, NAN);
	autoamp_record_update(&each);
	each = update(8, 4, NAN); // found_inf unknown: the scale shows it
	autoamp_record_update(&each);
	each.scaler = nullptr;
	std::thread([&each] { autoamp_record_update(&each); }).join();
	line.put("status", statuses);
}

void refused(Line &line)
{
	autoamp_gradient_update each = update(8, 4, 1);
	std::string statuses = std::to_string(autoamp_record_update(nullptr));
	const auto with = [&](auto change) {
		autoamp_gradient_update changed = each;
		change(changed);
		statuses += "," + std::to_string(autoamp_record_update(&changed));
	};
	with([](auto &changed) { changed.size--; });
	with([](auto &changed) { changed.framework = nullptr; });
	with([](auto &changed) { changed.how = nullptr; });
	with([](auto &changed) { changed.interval = -1; });
	with([](auto &changed) { changed.device = -1; });
	with([](auto &changed) { changed.device = 70000; });
	const std::string longName(65, 'x');
	with([&](auto &changed) { changed.framework = longName.c_str(); });
	struct {
		autoamp_gradient_update update;
		int later;
	} longer = {each, 0};
	longer.update.size = sizeof longer;
	statuses += "," + std::to_string(autoamp_record_update(&longer.update));
	longer.later = 1;
	statuses += "," + std::to_string(autoamp_record_update(&longer.update));
	line.put("statuses", statuses);
}

// The child writes another trace.
void forked(Line &line)
{
	autoamp_gradient_update each = update(8, 4, 1);
	const int status = autoamp_record_update(&each);
	const pid_t child = fork();
	if (child == 0) {
		each = update(4, 2, 1);
		exit(autoamp_record_update(&each));
	}
	int ended = 0;
	waitpid(child, &ended, 0);
	line.put("status", status).put("child", WEXITSTATUS(ended));
}

// ---- the scaler of autoamp.h, by a script: one operation per line of the file CLIENT_SCRIPT. The results are printed
// with a leading "=", numbers in hexadecimal.

struct Gradient {
	int dtype, device;
	size_t shift; // elements off the start of the allocation
	std::vector<unsigned char> bytes;
	char *memory = nullptr;
};

size_t sizeOf(int dtype)
{
	return dtype == AUTOAMP_FLOAT64 ? 8 : dtype == AUTOAMP_FLOAT32 ? 4 : 2;
}

std::vector<unsigned char> bytesOf(const std::string &hex)
{
	std::vector<unsigned char> bytes;
	for (size_t i = 0; i + 1 < hex.size(); i += 2)
		bytes.push_back(static_cast<unsigned char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
	return bytes;
}

class Player
{
public:
	~Player()
	{
		cudaDeviceSynchronize();
		if (graph_)
			cudaGraphExecDestroy(graph_);
		for (autoamp_scaler *each : scalers_)
			autoamp_scaler_destroy(each);
	}

	void play(std::istream &script)
	{
		for (std::string line; std::getline(script, line);) {
			std::istringstream words(line);
			std::string verb;
			words >> verb;
			std::printf("= %s", verb.c_str());
			run(verb, words);
			std::printf("\n");
		}
	}

private:
	autoamp_scaler *scaler() const { return scalers_.empty() ? nullptr : scalers_.back(); }
	cudaStream_t stream() const { return streams_[streamIndex_]; }
	static double number(std::istream &words)
	{
		std::string word;
		words >> word;
		return std::strtod(word.c_str(), nullptr);
	}

	void create(std::istream &words)
	{
		CHECK(cudaDeviceSynchronize());
		for (autoamp_scaler *each : scalers_)
			autoamp_scaler_destroy(each);
		scalers_.clear();
		gradients_.clear();
		autoamp_scaler_options options = AUTOAMP_SCALER;
		std::string rule;
		words >> rule;
		options.rule = rule.c_str();
		for (double autoamp_scaler_options::*field :
		     {&autoamp_scaler_options::init_scale, &autoamp_scaler_options::growth_factor,
		      &autoamp_scaler_options::backoff_factor})
			options.*field = number(words);
		words >> options.growth_interval >> options.backoff_every >> options.hysteresis;
		options.min_scale = number(words);
		words >> options.flags;
		autoamp_scaler *made = nullptr;
		std::printf(" %d", autoamp_scaler_create(&made, &options));
		if (made)
			scalers_.push_back(made);
	}

	// OPTIMIZER DTYPE SHIFT HEX: a tensor in device memory, of bytes in the order of memory
	void gradient(std::istream &words)
	{
		unsigned optimizer = 0;
		std::string hex;
		Gradient made = {0, device_, 0, {}};
		words >> optimizer >> made.dtype >> made.shift >> hex;
		made.bytes = bytesOf(hex);
		const size_t offset = made.shift * sizeOf(made.dtype);
		CHECK(cudaMalloc(reinterpret_cast<void **>(&made.memory), offset + made.bytes.size() + 64));
		CHECK(cudaMemset(made.memory, 0x5a, offset + made.bytes.size() + 64));
		made.memory += offset;
		CHECK(cudaMemcpy(made.memory, made.bytes.data(), made.bytes.size(), cudaMemcpyHostToDevice));
		gradients_[optimizer].push_back(made);
	}

	// OPTIMIZER HEX: new contents of its first tensor
	void write(std::istream &words)
	{
		unsigned optimizer = 0;
		std::string hex;
		words >> optimizer >> hex;
		Gradient &first = gradients_[optimizer].front();
		first.bytes = bytesOf(hex);
		CHECK(cudaMemcpy(first.memory, first.bytes.data(), first.bytes.size(), cudaMemcpyHostToDevice));
	}

	std::vector<autoamp_tensor> tensors(unsigned optimizer)
	{
		std::vector<autoamp_tensor> made;
		for (const Gradient &each : gradients_[optimizer])
			if (each.device == device_)
				made.push_back({each.memory, each.bytes.size() / sizeOf(each.dtype), each.dtype});
		return made;
	}

	void print(unsigned optimizer)
	{
		CHECK(cudaDeviceSynchronize());
		for (const Gradient &each : gradients_[optimizer]) {
			const size_t before = each.shift * sizeOf(each.dtype);
			std::vector<unsigned char> now(before + each.bytes.size() + 64);
			CHECK(cudaMemcpy(now.data(), each.memory - before, now.size(), cudaMemcpyDeviceToHost));
			std::printf(" ");
			for (size_t i = 0; i < now.size(); i++)
				if (i >= before && i < before + each.bytes.size())
					std::printf("%02x", now[i]);
				else if (now[i] != 0x5a)
					std::printf("!");
		}
	}

	void get()
	{
		autoamp_scaler_state state = {};
		state.size = sizeof state;
		const int status = autoamp_scaler_get(scaler(), &state, stream());
		std::printf(" %d %a %d %d %d %d %a %a %d", status, state.scale, state.growth_tracker, state.backoff_tracker,
		            state.steps, state.skipped, state.growth_factor, state.backoff_factor, state.growth_interval);
	}

	void load(std::istream &words)
	{
		autoamp_scaler_state state = {};
		state.size = sizeof state;
		state.scale = number(words), state.growth_factor = number(words), state.backoff_factor = number(words);
		words >> state.growth_interval >> state.growth_tracker >> state.backoff_tracker;
		std::printf(" %d", autoamp_scaler_load(scaler(), &state, stream()));
	}

	void pointers(unsigned optimizer)
	{
		const float *scale = nullptr, *found = nullptr;
		const int status = autoamp_scaler_pointers(scaler(), optimizer, &scale, &found);
		float values[2] = {};
		CHECK(cudaDeviceSynchronize());
		if (status == 0) {
			CHECK(cudaMemcpy(values, scale, sizeof *values, cudaMemcpyDefault));
			CHECK(cudaMemcpy(values + 1, found, sizeof *values, cudaMemcpyDefault));
		}
		std::printf(" %d %a %a", status, static_cast<double>(values[0]), static_cast<double>(values[1]));
	}

	void capture(const std::string &verb)
	{
		if (verb == "begin") {
			CHECK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal));
		} else if (verb == "end") {
			cudaGraph_t graph;
			CHECK(cudaStreamEndCapture(stream(), &graph));
			CHECK(cudaGraphInstantiate(&graph_, graph, 0));
			CHECK(cudaGraphDestroy(graph));
		} else {
			CHECK(cudaGraphLaunch(graph_, stream()));
		}
	}

	void run(const std::string &verb, std::istream &words)
	{
		unsigned number = 0;
		if (verb == "new")
			return create(words);
		if (verb == "gradient")
			return gradient(words);
		if (verb == "load")
			return load(words);
		if (verb == "get")
			return get();
		if (verb == "write")
			return write(words);
		if (verb == "set") {
			const double scale = Player::number(words);
			std::printf(" %d", autoamp_scaler_update(scaler(), &scale, stream()));
			return;
		}
		if (verb == "begin" || verb == "end" || verb == "replay")
			return capture(verb);
		if (verb == "thread") { // the rest of the line, in a thread that makes no other CUDA call
			std::string inThread;
			words >> inThread;
			return std::thread([&] { run(inThread, words); }).join();
		}
		if (verb == "reset") {
			CHECK(cudaDeviceReset());
			CHECK(cudaFree(nullptr));
			return;
		}
		if (verb == "slow") { // work of another kind, which delays the kernels after it in the stream
			CHECK(cudaLaunchHostFunc(
			    stream(), [](void *) { usleep(200'000); }, nullptr));
			return;
		}
		if (verb == "destroy") {
			std::printf(" %d", autoamp_scaler_destroy(scaler()));
			return scalers_.pop_back();
		}
		words >> number;
		if (verb == "clear")
			gradients_[number].clear();
		else if (verb == "print")
			print(number);
		else if (verb == "pointers")
			pointers(number);
		else if (verb == "device")
			CHECK(cudaSetDevice(device_ = static_cast<int>(number)));
		else if (verb == "stream")
			select(number);
		else
			std::printf(" %d", status(verb, number));
	}

	int status(const std::string &verb, unsigned optimizer)
	{
		const std::vector<autoamp_tensor> given = tensors(optimizer);
		return verb == "unscale" ? autoamp_scaler_unscale(scaler(), optimizer, given.data(), given.size(), stream())
		       : verb == "scale" ? autoamp_scaler_scale(scaler(), given.data(), given.size(), stream())
		       : verb == "step"  ? autoamp_scaler_step(scaler(), optimizer, stream())
		                         : autoamp_scaler_update(scaler(), nullptr, stream());
	}

	// 4: the stream of the thread
	void select(unsigned number)
	{
		streamIndex_ = number;
		if (number && !streams_[number])
			CHECK(cudaStreamCreateWithFlags(&streams_[number], cudaStreamNonBlocking));
	}

	std::vector<autoamp_scaler *> scalers_;
	std::map<unsigned, std::vector<Gradient>> gradients_;
	int device_ = 0;
	unsigned streamIndex_ = 0;
	cudaStream_t streams_[5] = {nullptr, nullptr, nullptr, nullptr, cudaStreamPerThread};
	cudaGraphExec_t graph_ = nullptr;
};

void play(Line &)
{
	CHECK(cudaFree(nullptr)); // makes the context
	std::ifstream script(std::getenv("CLIENT_SCRIPT"));
	Player().play(script);
}

// Wrong arguments, and more scalers than there can be.
void wrong(Line &line)
{
	std::string statuses;
	const auto say = [&](int status) { statuses += (statuses.empty() ? "" : ",") + std::to_string(status); };
	autoamp_scaler *scaler = nullptr;
	const autoamp_scaler_options early = AUTOAMP_SCALER;
	line.put("early", autoamp_scaler_create(&scaler, &early)); // before the first CUDA call
	CHECK(cudaFree(nullptr));
	const auto with = [&](auto change) {
		autoamp_scaler_options options = AUTOAMP_SCALER;
		change(options);
		scaler = reinterpret_cast<autoamp_scaler *>(&options);
		say(autoamp_scaler_create(&scaler, &options));
		line.require(!scaler, "a refused scaler is not null");
	};
	with([](auto &options) { options.rule = "jax"; });
	with([](auto &options) { options.size--; });
	with([](auto &options) { options.growth_factor = 0; });
	with([](auto &options) { options.init_scale = NAN; });
	with([](auto &options) { options.growth_interval = -1; });
	with([](auto &options) { options.backoff_every = 0; });
	with([](auto &options) { options.hysteresis = 0; });
	with([](auto &options) { options.backoff_factor = NAN; });
	const std::string longName(65, 'x');
	with([&](auto &options) { options.name = longName.c_str(); });
	autoamp_scaler_options options = AUTOAMP_SCALER;
	autoamp_scaler *const bogus = reinterpret_cast<autoamp_scaler *>(&options);
	say(autoamp_scaler_update(bogus, nullptr, nullptr));
	say(autoamp_scaler_create(&scaler, &options));
	char memory[64];
	const autoamp_tensor tensors[] = {{nullptr, 1, AUTOAMP_FLOAT32}, {memory + 1, 1, AUTOAMP_FLOAT32}, {memory, 1, 4}};
	for (const autoamp_tensor &each : tensors)
		say(autoamp_scaler_unscale(scaler, 0, &each, 1, nullptr));
	say(autoamp_scaler_unscale(scaler, 0, nullptr, 1, nullptr));
	say(autoamp_scaler_unscale(scaler, 32, nullptr, 0, nullptr));
	autoamp_scaler_state state = {};
	state.size = sizeof state;
	state.growth_factor = -1;
	say(autoamp_scaler_load(scaler, &state, nullptr));
	say(autoamp_scaler_destroy(scaler));
	autoamp_scaler *const destroyed = scaler;
	say(autoamp_scaler_create(&scaler, &options));
	say(autoamp_scaler_destroy(destroyed)); // no longer known, also if the new one has its place
	say(autoamp_scaler_destroy(scaler));
	line.put("statuses", statuses);
	std::vector<autoamp_scaler *> many;
	int status = 0;
	while (many.size() < 1000 && !(status = autoamp_scaler_create(&scaler, &options)))
		many.push_back(scaler);
	line.put("many", static_cast<int>(many.size())).put("status", status);
	for (autoamp_scaler *each : many)
		line.require(autoamp_scaler_destroy(each) == 0, "not destroyed");
	CHECK(cudaDeviceReset());
	CHECK(cudaFree(nullptr));
	line.require(autoamp_scaler_create(&scaler, &options) == 0, "no scaler in the next context");
	// A forked child, in which CUDA does not work. Another thread of the parent can be in a call.
	std::atomic<bool> isEnding{false};
	std::thread caller([&isEnding, scaler] {
		const float *scale = nullptr, *found = nullptr;
		while (!isEnding)
			autoamp_scaler_pointers(scaler, 0, &scale, &found);
	});
	for (int i = 0; i < 20; i++) {
		const pid_t busy = fork();
		if (busy == 0) {
			alarm(20);
			_exit(autoamp_scaler_step(scaler, 0, nullptr) == AUTOAMP_BAD_VALUE ? 0 : 1);
		}
		int status = 0;
		waitpid(busy, &status, 0);
		line.require(status == 0, "a forked child does not get AUTOAMP_BAD_VALUE");
	}
	isEnding = true;
	caller.join();
	const pid_t child = fork();
	if (child == 0)
		_exit(autoamp_scaler_update(scaler, nullptr, nullptr) == AUTOAMP_BAD_VALUE &&
		              autoamp_scaler_step(scaler, 0, nullptr) == AUTOAMP_BAD_VALUE
		          ? 0
		          : 1);
	int ended = 0;
	waitpid(child, &ended, 0);
	line.put("child", ended);
}

// Scalers of several threads, each with its own stream.
void threads(Line &line)
{
	CHECK(cudaFree(nullptr));
	std::vector<std::thread> running;
	std::atomic<int> wrong{0};
	for (int i = 0; i < 4; i++)
		running.emplace_back([&wrong, i] {
			cudaStream_t stream;
			CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
			autoamp_scaler_options options = AUTOAMP_SCALER;
			options.growth_interval = i + 1;
			options.init_scale = 1;
			autoamp_scaler *scaler = nullptr;
			wrong += autoamp_scaler_create(&scaler, &options) != 0;
			float *gradient = nullptr;
			CHECK(cudaMalloc(reinterpret_cast<void **>(&gradient), sizeof *gradient));
			CHECK(cudaMemset(gradient, 0, sizeof *gradient));
			CHECK(cudaDeviceSynchronize());
			for (int step = 0; step < 24; step++) {
				const autoamp_tensor tensor = {gradient, 1, AUTOAMP_FLOAT32};
				wrong += autoamp_scaler_unscale(scaler, 0, &tensor, 1, stream) != 0;
				wrong += autoamp_scaler_step(scaler, 0, stream) != 1;
				wrong += autoamp_scaler_update(scaler, nullptr, stream) != 0;
			}
			autoamp_scaler_state state = {};
			state.size = sizeof state;
			wrong += autoamp_scaler_get(scaler, &state, stream) != 0;
			wrong += state.scale != std::ldexp(1.0, 24 / (i + 1)) || state.steps != 24;
			autoamp_scaler_destroy(scaler);
		});
	for (std::thread &each : running)
		each.join();
	line.put("wrong", wrong.load());
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv,
	                {{"record", record},
	                 {"refused", refused},
	                 {"forked", forked},
	                 {"play", play},
	                 {"wrong", wrong},
	                 {"threads", threads}});
}
