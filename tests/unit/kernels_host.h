// The conversion kernels as on the emulated device: called through the plug-in's own table, on plain host memory. Tests
// only, any thread.
#pragma once

#include "kernels/cast.h"
#include "kernels/launch.h"
#include "tools/emulated/kernel.h"

#include <bit>
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

// Device memory of a context and a call.
struct Call {
	Scratch scratch = {};
	Parameters parameters = {};

	Call(const Matrix &a, const Matrix &b, Prediction *predictions, Ring *ring = nullptr)
	{
		parameters.operand[0] = a.operand();
		parameters.operand[1] = b.operand();
		parameters.scratch = &scratch;
		parameters.predictions = predictions;
		parameters.pairKey = 0x1234567;
		parameters.signatureKey = 0x89abcdf;
		parameters.ring = ring;
		parameters.alphaValue = 1;
	}
	void begin() { launch("autoamp_begin", 1, parameters); }
	void cast(unsigned smCount = 132) { launch("autoamp_cast_half", gridSize(parameters, smCount), parameters); }
	void settle(unsigned smCount = 132) { launch("autoamp_settle", gridSize(parameters, smCount), parameters); }
	void run()
	{
		begin();
		cast();
		settle();
	}
};

// x * 2^exponent rounded to nearest, ties to even, in integers alone. mantissaBits and bias name the format.
struct Format {
	int mantissaBits, bias;
};
constexpr Format half = {10, 15}, bfloat16 = {7, 127};
uint16_t rounded(float x, int exponent, Format format);
float widened(uint16_t halfBits);

} // namespace kernels_host
