// The conversion kernels as on the emulated device: called through the plug-in's own table, on plain host memory. Tests
// only, any thread.
#pragma once

#include "kernels/cast.h"
#include "kernels/launch.h"
#include "tools/emulated/kernel.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace kernels_host {

using namespace autoamp::kernels;

std::vector<std::string> registered();
void launchWith(const std::string &name, unsigned blocks, void *parameters);
template <class Argument>
void launch(const std::string &name, unsigned blocks, Argument argument)
{
	launchWith(name, blocks, &argument);
}

// Memory that begins `skew` elements off a 16-byte boundary and ends at an unreadable page, or with up to 3 NaNs before
// it. NaNs also precede it.
class Source
{
public:
	Source(size_t count, unsigned skew);
	~Source();
	Source(const Source &) = delete;
	Source &operator=(const Source &) = delete;
	float *data() const { return data_; }

private:
	void *pages_;
	size_t bytes_;
	float *data_;
};

struct Shape {
	int64_t rows, columns, sourceLd, targetLd;
	int64_t batch = 1, sourceGap = 0; // elements between one matrix and the next
};

// One operand in memory, every element outside the matrix a NaN in the source and a guard word in the target.
class Matrix
{
public:
	static constexpr uint16_t guard = 0xbeef;

	// skew: elements by which the source is off a 16-byte boundary
	explicit Matrix(const Shape &shape, unsigned skew = 0);
	float &at(int64_t row, int64_t column, int64_t matrix = 0)
	{
		return source_.data()[matrix * operand_.sourceStride + column * operand_.sourceLd + row];
	}
	uint16_t target(int64_t row, int64_t column, int64_t matrix = 0) const
	{
		return targets_[front + matrix * operand_.targetStride + column * operand_.targetLd + row];
	}
	const Operand &operand() const { return operand_; }
	template <class Function>
	void each(Function function)
	{
		for (int64_t matrix = 0; matrix < operand_.batch; ++matrix)
			for (int64_t column = 0; column < operand_.columns; ++column)
				for (int64_t row = 0; row < operand_.rows; ++row)
					function(row, column, matrix);
	}
	void fill(unsigned seed, float scale = 1)
	{
		std::mt19937 random(seed);
		std::normal_distribution<float> normal;
		each([&](int64_t row, int64_t column, int64_t matrix) { at(row, column, matrix) = normal(random) * scale; });
	}
	uint32_t amax()
	{
		uint32_t most = 0;
		each([&](int64_t row, int64_t column, int64_t matrix) {
			const uint32_t bits = std::bit_cast<uint32_t>(at(row, column, matrix)) & 0x7fffffff;
			if (bits < 0x7f800000)
				most = std::max(most, bits);
		});
		return most;
	}
	std::vector<uint16_t> converted() // the matrix alone, without padding
	{
		std::vector<uint16_t> all;
		each([&](int64_t row, int64_t column, int64_t matrix) { all.push_back(target(row, column, matrix)); });
		return all;
	}
	// True if words outside of the matrices are unchanged: before, after, between. Zeros up to the next vector of 8 are
	// allowed.
	bool isPaddingIntact() const;

private:
	static constexpr int64_t front = 32;

	Operand operand_;
	Source source_;
	std::unique_ptr<uint16_t[], void (*)(uint16_t *)> memory_;
	uint16_t *targets_;
	int64_t targetCount_;
};

// A table that has this prediction. Each call of this function changes the same table.
Prediction *predicting(uint64_t key, int first, int second);

// Scratch memory of a call. It has arbitrary contents before, because nothing clears it.
struct Memory {
	Scratch scratch;
	std::vector<CastRecord> records = std::vector<CastRecord>(mostCastBlocks);

	Memory()
	{
		std::memset(&scratch, 0x5a, sizeof scratch);
		std::memset(records.data(), 0xa5, records.size() * sizeof records[0]);
	}
	Memory(const Memory &) = delete;
	void give(Scaling &to)
	{
		to.scratch = &scratch;
		to.records = records.data();
	}
	uint32_t amax(const Scaling &of, int operand) const
	{
		uint32_t most = 0;
		for (uint32_t i = 0; i < of.castBlocks; ++i)
			most = std::max(most, records[i].maximum[operand] & magnitudeMask);
		return most;
	}
	uint32_t nonfinite(const Scaling &of, int operand) const
	{
		return std::any_of(records.begin(), records.begin() + of.castBlocks,
		                   [=](const CastRecord &each) { return each.maximum[operand] >> 31; });
	}
};

// Device memory of a context and a call.
struct Call : Memory {
	Parameters parameters = {};

	Call(const Matrix &a, const Matrix &b, Prediction *predictions, Ring *ring = nullptr)
	{
		parameters.operand[0] = a.operand();
		parameters.operand[1] = b.operand();
		give(parameters);
		parameters.predictions = predictions;
		parameters.pairKey = 0x1234567;
		parameters.signatureKey = 0x89abcdf;
		parameters.ring = ring;
		parameters.alphaValue = 1;
	}
	void cast(unsigned smCount = 132)
	{
		parameters.castBlocks = gridSize(parameters, smCount);
		launch("autoamp_cast_half", parameters.castBlocks, parameters);
	}
	void settle(unsigned smCount = 132)
	{
		launch("autoamp_settle", settleBlocks(parameters.castBlocks, smCount), parameters);
	}
	void run()
	{
		cast();
		settle();
	}
	// After the cast alone:
	uint32_t amax(int operand) const { return Memory::amax(parameters, operand); }
	uint32_t nonfinite(int operand) const { return Memory::nonfinite(parameters, operand); }
	int used(int operand) const { return records[0].used[operand]; }
};

// x * 2^exponent rounded to nearest, ties to even, in integers alone. mantissaBits and bias name the format.
struct Format {
	int mantissaBits, bias;
};
constexpr Format half = {10, 15}, bfloat16 = {7, 127};
uint16_t rounded(float x, int exponent, Format format);
float widened(uint16_t halfBits);

} // namespace kernels_host
