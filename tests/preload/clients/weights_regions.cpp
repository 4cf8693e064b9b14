// Regions of autoamp.h that keep converted weights until they end, and a program without regions. One case per line;
// see harness.h.
#include "harness.h"
#include "inject/autoamp.h"
#include "kernels/weights.h"
#include "src/base/hash.h"
#include "src/op/op.h"

#include <memory>
#include <vector>

using namespace client;

namespace {

constexpr double worst = 4e-3; // for the least exact type in which a product may be computed
constexpr int edge = 512;      // a weight of 1 MiB
constexpr int few = 8;         // some of these calls prove the weight, the others use its copy

class Program
{
public:
	Program(int inputs, Line &line) : line_(line), problem_({.m = edge, .n = inputs, .k = edge, .transa = CUBLAS_OP_T})
	{
		problem_.upload();
	}
	void run(int calls = few)
	{
		for (int i = 0; i < calls; i++) {
			CHECK(static_cast<cublasStatus_t>(problem_.call(session_.handle)));
			CHECK(cudaStreamSynchronize(session_.stream));
		}
		problem_.download();
		line_.require(problem_.compare().eta < worst, "wrong result");
		const uint64_t bits = problem_.result().array.bits();
		line_.require(!bits_ || bits == bits_, "other bits");
		bits_ = bits;
	}
	void describe() const { problem_.describe(line_); }

private:
	Line &line_;
	Session session_;
	Problem problem_;
	uint64_t bits_ = 0; // hash of the earlier results
};

void push(Line &line, const char *name, const char *weights)
{
	autoamp_region region = AUTOAMP_REGION;
	region.name = name, region.weights = weights;
	line.require(autoamp_push(&region) == 0, "autoamp_push was refused");
}

void pop(Line &line)
{
	line.require(autoamp_pop() == 0, "autoamp_pop was refused");
}

// Two regions in a row.
void inARow(Line &line)
{
	Program program(4, line);
	for (const char *name : {"first", "second"}) {
		push(line, name, "checked");
		program.run();
		pop(line);
	}
	program.describe();
}

// The products before the region, and between two regions, keep no copies.
void afterCalls(Line &line)
{
	Program program(5, line);
	for (const char *name : {"late", "later"}) {
		program.run();
		push(line, name, "checked");
		program.run();
		pop(line);
	}
	program.describe();
}

// The copies end with the outer region.
void nested(Line &line)
{
	Program program(6, line);
	push(line, "outer", "checked");
	program.run();
	push(line, "inner", "checked");
	program.run();
	pop(line);
	push(line, "plain", nullptr);
	program.run();
	pop(line);
	push(line, "without", "off");
	program.run();
	pop(line);
	program.run();
	pop(line);
	program.describe();
}

// Many weights, each in its own region: their copies use the same memory.
void grows(Line &line)
{
	constexpr int weights = 24;
	std::vector<std::unique_ptr<Program>> programs; // the addresses of their weights differ
	for (int i = 0; i < weights; i++)
		programs.push_back(std::make_unique<Program>(7, line));
	size_t before = 0, after = 0, total = 0;
	for (int i = 0; i < weights; i++) {
		if (i == 4) {
			CHECK(cudaDeviceSynchronize());
			CHECK(cudaMemGetInfo(&before, &total));
		}
		push(line, "one", "frozen");
		programs[static_cast<size_t>(i)]->run();
		pop(line);
	}
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemGetInfo(&after, &total));
	line.put("grown", static_cast<long long>(before) - static_cast<long long>(after));
	programs[0]->describe();
}

// No region, and always the same weight.
void steady(Line &line)
{
	Program program(8, line);
	program.run(200);
	program.describe();
}

// Six parts of a matrix that have the same place in the table of operands, where four of them fit. The place is that of
// Weights::claim(), the layout that of a cast to bfloat16.
void crowded(Line &line)
{
	constexpr int parts = 6;
	constexpr size_t size = edge * edge, starts = 1 << 15; // about 32 of them have the same place
	Session session;
	Random random(1);
	Array weights(size + starts), x(edge), c(edge);
	for (size_t i = 0; i < weights.size(); i++) // integers: the products are exact in each precision
		weights[i] = static_cast<float>(std::floor(random.uniform() * 15) - 7);
	for (size_t i = 0; i < x.size(); i++)
		x[i] = static_cast<float>(1 + i % 4);
	weights.upload(), x.upload();
	auto layout = static_cast<uint64_t>(autoamp::op::Dtype::bfloat16);
	for (const int stored : {edge, edge, edge, edge}) // rows, columns, and leading dimensions
		layout = autoamp::base::mix(layout, stored);
	const auto placeOf = [&](size_t start) {
		const auto address = reinterpret_cast<uintptr_t>(weights.data() + start);
		return (autoamp::base::mix(autoamp::base::mix(layout, address), 0) >> 8) % (autoamp::kernels::weightCount / 4);
	};
	const float one = 1, zero = 0;
	size_t start = 0;
	for (int part = 0; part < parts; part++, start++) {
		while (start < starts && placeOf(start) != placeOf(0))
			start++;
		line.require(start < starts, "too few parts");
		for (int i = 0; i < few; i++) {
			CHECK(cublasSgemm(session.handle, CUBLAS_OP_T, CUBLAS_OP_N, edge, 1, edge, &one, weights.data() + start,
			                  edge, x.data(), edge, &zero, c.data(), edge));
			CHECK(cudaStreamSynchronize(session.stream));
			c.download();
			for (size_t row = 0; row < edge; row++) {
				float sum = 0;
				for (size_t l = 0; l < edge; l++)
					sum += weights[start + row * edge + l] * x[l];
				line.require(c[row] == sum, "wrong result");
			}
		}
	}
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv,
	                {{"region.in_a_row", inARow},
	                 {"region.after_calls", afterCalls},
	                 {"region.nested", nested},
	                 {"region.grows", grows},
	                 {"crowded", crowded},
	                 {"steady", steady}});
}
