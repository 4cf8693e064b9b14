#include "tools/autoamp/calibrate.h"

#include "src/cpu/processor.h"
#include "src/cpu/product.h"
#include "src/policy/cpu_calibration.h"
#include "src/policy/decide.h"
#include "tools/autoamp/cpu.h"
#include "tools/autoamp/cpu_fit.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/machine.h"
#include "tools/autoamp/output.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

using policy::Cpu, policy::CpuPath;

// Column-major products whose larger operand, A, is the weight. Squares show arithmetic and the cost of a call; few
// rows show the operands, from caches and from memory (three weights of 64 MiB in turn).
struct Shape {
	int64_t m, n, k;
	int weights;
	bool isKept;
};
constexpr Shape shapes[] = {{64, 64, 64, 1, false},    {96, 96, 96, 1, false},       {128, 128, 128, 1, false},
                            {256, 256, 256, 1, false}, {1024, 1024, 1024, 1, false}, {256, 1, 256, 1, true},
                            {1024, 1, 1024, 1, true},  {512, 32, 512, 1, true},      {4096, 1, 4096, 3, true},
                            {4096, 8, 4096, 3, true},  {4096, 32, 4096, 3, true}};

struct Measured {
	CpuSample sample;
	double spread[3]; // distance of the quartiles / median, by CpuPath
};

// Times with a larger spread are refused: medians of so few rounds would say little.
constexpr double mostSpread = .5;

using Matrix = std::vector<float>;

Matrix randomMatrix(int64_t elements)
{
	static std::minstd_rand random(1);
	Matrix matrix(static_cast<size_t>(elements));
	for (float &x : matrix)
		x = static_cast<float>(random()) * 0x1p-30f - 1;
	return matrix;
}

// CPU time of the thread, which other processes change little.
double cpuNanoseconds()
{
	timespec now;
	::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

double quantile(const std::vector<double> &sorted, double part)
{
	return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1) + .5)];
}

// The products of one shape, with its weights in turn.
class Bench
{
public:
	Bench(const Shape &shape, const std::vector<Matrix> &weights, Sgemm *sgemm)
	    : shape_(shape), weights_(weights), sgemm_(sgemm), B_(randomMatrix(shape.k * shape.n)),
	      C_(static_cast<size_t>(shape.m * shape.n))
	{
	}

	// Text of one line for the parent, or the reason after "problem".
	std::string measure()
	{
		std::vector<CpuPath> paths = {CpuPath::single, CpuPath::converted};
		if (shape_.isKept) {
			if (!keep())
				return "problem no copy of a weight can be kept";
			paths.push_back(CpuPath::kept);
		}
		constexpr size_t mostRounds = 9, leastRounds = 4;
		constexpr double mostNs = 1e9;
		std::vector<double> times[3];
		const double begin = cpuNanoseconds();
		for (size_t round = 0; round < mostRounds; ++round)
			if (round < leastRounds || cpuNanoseconds() - begin < mostNs)
				for (const CpuPath path : paths)
					times[static_cast<size_t>(path)].push_back(time(path));
		std::string line = fmt::format("{} {} {}", shape_.m, shape_.n, shape_.k);
		for (auto &each : times) {
			if (!each.empty())
				each.erase(each.begin()); // pages are new, and with AMX, oneDNN generates code
			std::sort(each.begin(), each.end());
			const double median = each.empty() ? 0 : quantile(each, .5);
			line +=
			    fmt::format(" {} {}", median, each.empty() ? 0 : (quantile(each, .75) - quantile(each, .25)) / median);
		}
		return line;
	}

private:
	cpu::WeightUse run(const Matrix &A, CpuPath path)
	{
		const auto &[m, n, k, count, isKept] = shape_;
		cpu::WeightUse use;
		if (path == CpuPath::single) {
			const float one = 1, zero = 0;
			sgemm_("N", "N", &m, &n, &k, &one, A.data(), &m, B_.data(), &k, &zero, C_.data(), &m, 1, 1);
			return use;
		}
		const cpu::Product product = {false, false, m, n, k, 1, A.data(), m, B_.data(), k, 0, C_.data(), m};
		constexpr size_t budget = size_t{1} << 30;
		const cpu::WeightMode mode = path == CpuPath::kept ? mode_ : cpu::WeightMode::off;
		if (cpu::multiply(product, 1, budget, {mode, false}, use) != cpu::Reason::none)
			hasFailed_ = true;
		return use;
	}

	// Multiplies until the copies of all weights are used. Where the kernel cannot watch memory, frozen copies are the
	// only ones that a program can have.
	bool keep()
	{
		constexpr int most = 50;
		for (const auto mode : {cpu::WeightMode::watched, cpu::WeightMode::frozen}) {
			mode_ = mode;
			for (int i = 0; i < most; ++i) {
				bool isServed = true;
				for (const Matrix &weight : weights_)
					isServed &= run(weight, CpuPath::kept).isServed;
				if (isServed)
					return true;
			}
		}
		return false;
	}

	// ns per product.
	double time(CpuPath path)
	{
		constexpr double wantedNs = 3e6;
		const double expected = policy::cpuTime(Cpu(), productOf({shape_.m, shape_.n, shape_.k, {}}), path);
		const int repeats = std::max(1, static_cast<int>(wantedNs / expected));
		const double begin = cpuNanoseconds();
		for (int i = 0; i < repeats; ++i)
			for (const Matrix &weight : weights_)
				run(weight, path);
		const double ns = cpuNanoseconds() - begin;
		return hasFailed_ ? NAN : ns / repeats / static_cast<double>(weights_.size());
	}

	const Shape &shape_;
	const std::vector<Matrix> &weights_;
	Sgemm *sgemm_;
	Matrix B_, C_;
	cpu::WeightMode mode_ = cpu::WeightMode::off;
	bool hasFailed_ = false;
};

constexpr std::string_view aboutKey = "about ";

// Prints a line about the library, and one per shape. In a child process.
void measureAll(const std::string &blas)
{
	for (const char *variable : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"})
		::setenv(variable, "1", 1);
	const auto [sgemm, about, problem] = openBlas(blas);
	if (!sgemm)
		return fmt::print("problem {}\n", problem);
	fmt::print("{}{}\n", aboutKey, about);
	std::vector<Matrix> weights;
	for (const Shape &shape : shapes) {
		const auto elements = static_cast<size_t>(shape.m * shape.k);
		if (weights.empty() || weights.front().size() != elements) {
			weights.clear();
			for (int i = 0; i < shape.weights; ++i)
				weights.push_back(randomMatrix(shape.m * shape.k));
		}
		fmt::print("{}\n", Bench(shape, weights, sgemm).measure());
	}
}

std::vector<Measured> measured(const std::string &blas, std::string &about)
{
	const Answer answer = queryInChild([&blas] { measureAll(blas); });
	std::vector<Measured> result;
	std::istringstream lines(answer.text);
	for (std::string line; std::getline(lines, line);) {
		constexpr std::string_view problem = "problem ";
		if (line.starts_with(problem))
			fail(Status::failed, "doctor: {}", line.substr(problem.size()));
		if (line.starts_with(aboutKey)) {
			about = line.substr(aboutKey.size());
			continue;
		}
		std::istringstream words(line);
		Measured row = {};
		words >> row.sample.m >> row.sample.n >> row.sample.k;
		for (size_t i = 0; i < std::size(row.spread); ++i)
			words >> row.sample.ns[i] >> row.spread[i];
		if (!words)
			fail(Status::failed, "doctor: a product failed");
		result.push_back(row);
	}
	if (answer.signal)
		fail(Status::failed, "doctor: the measurement of {} ends with signal {}", blas, answer.signal);
	if (result.size() != std::size(shapes))
		fail(Status::failed, "doctor: {} ends the measurement", blas);
	return result;
}

std::string decisionOf(const Cpu &cpu, const CpuSample &sample)
{
	policy::Device device = {};
	device.cpu = &cpu;
	const auto decision = policy::decide(productOf(sample), policy::State(), {}, device);
	return decision.verdict != policy::Verdict::lowered ? "fp32"
	       : decision.needsKept                         ? "bfloat16 with a kept weight"
	                                                    : "bfloat16";
}

void print(const std::vector<Measured> &rows, const Cpu &before, const Cpu &after, const Terminal &terminal)
{
	Table table("lrrrrrrll");
	table.add({"shape", "fp32", "model", "bfloat16", "model", "kept", "model", "decision before", "now"}, Style::bold);
	for (const auto &[sample, spread] : rows) {
		std::vector<std::string> cells = {shape(sample.m, sample.n, sample.k, 1)};
		for (const CpuPath path : {CpuPath::single, CpuPath::converted, CpuPath::kept}) {
			const double ns = sample.ns[static_cast<size_t>(path)];
			cells.push_back(ns > 0 ? duration(ns) : "");
			cells.push_back(ns > 0 ? duration(policy::cpuTime(after, productOf(sample), path)) : "");
		}
		const auto was = decisionOf(before, sample), is = decisionOf(after, sample);
		cells.push_back(was), cells.push_back(is);
		table.add(cells, was == is ? Style::plain : Style::yellow);
	}
	fmt::print("{}", table.print(terminal, terminal.width));
}

std::string whyUnsure(const std::vector<Measured> &rows)
{
	for (const auto &[sample, spread] : rows)
		for (const double each : spread)
			if (each > mostSpread)
				return fmt::format("the machine is too busy: the quartiles of the times of {} are {:.0f} % apart",
				                   shape(sample.m, sample.n, sample.k, 1), 100 * each);
	return {};
}

void store(const Cpu &cpu, const std::string &blas, const std::string &path)
{
	std::error_code error;
	fs::create_directories(fs::path(path).parent_path(), error);
	Output output(path, true);
	std::ofstream file(output.part());
	file << policy::textOf(cpu, cpu::model(), shown(blas));
	file.close();
	if (!file)
		fail(Status::failed, "{} cannot be written", path);
	output.finish();
}

} // namespace

void calibrate(const CalibrateOptions &options, const policy::Options &configuration)
{
	if (configuration.directory.empty())
		fail(Status::wrong, "doctor: no folder for the constants; set AUTOAMP_DIR");
	if (configuration.cpuModel != policy::CpuModel::automatic)
		fail(Status::wrong, "doctor: --calibrate measures this CPU; unset AUTOAMP_CPU_MODEL");
	if (cpu::bf16Unit() == cpu::Bf16Unit::none)
		fail(Status::failed, "doctor: this CPU has no AVX512-BF16; its calls are not lowered");
	if (cpu::bf16Unit() == cpu::Bf16Unit::amx)
		if (const auto engine = queryOneDnn(); !engine.problem.empty())
			fail(Status::failed, "doctor: AMX is not used: {}", engine.problem);
	std::string blas = options.blas;
	if (blas.empty()) {
		const auto libraries = visibleBlas();
		if (libraries.empty())
			fail(Status::failed, "doctor: no BLAS on the loader's paths; --blas names one");
		blas = libraries.front().path;
	}
	const Terminal terminal(STDOUT_FILENO, options.colour);
	std::string about;
	const auto rows = measured(blas, about);
	std::vector<CpuSample> samples;
	for (const auto &row : rows)
		samples.push_back(row.sample);
	const Cpu before = thisCpu(configuration).cpu, builtIn = builtInCpu();
	if (policy::librarySpeed(builtIn, about) < 1)
		fail(Status::failed,
		     "doctor: {} has kernels for older CPUs ({}), so its times do not fit other libraries; "
		     "name another one with --blas, or set OPENBLAS_CORETYPE=SkylakeX; nothing was stored",
		     shown(blas), about);
	Cpu after = fitCpu(samples);
	after.hasBfloat16 = true;
	after.avx2Speed = builtIn.avx2Speed, after.olderSpeed = builtIn.olderSpeed;
	fmt::print("products on one thread, CPU time; fp32 by {}\n", shown(blas));
	print(rows, before, after, terminal);
	auto problem = whyUnsure(rows);
	if (problem.empty())
		problem = whyUnfit(after, samples);
	if (!problem.empty())
		fail(Status::failed, "doctor: {}; nothing was stored", problem);
	store(after, blas, calibrationPath(configuration));
	fmt::print("stored: {}\n", shown(calibrationPath(configuration)));
}

} // namespace autoamp::tool
