// The memory traffic of a product with a weight: the bytes that its conversion kernels load and store. Tests and
// benchmarks, one thread.
#pragma once

#include "kernels/launch.h"
#include "tests/unit/kernels_traffic.h"

#include <memory>
#include <string>
#include <vector>

// The regions of memory of one call. Records, the state of a copy, predictions and scratch memory are in the last two.
struct Traffic {
	Region weight, input, copy, converted, device, ring;
	unsigned castBlocks = 0, settleBlocks = 0;
};

// A weight of rows×columns and an operand of rows×inputs, on a device with the multiprocessors of an H100. There is no
// loss check.
class CountedProduct
{
public:
	using Keeping = autoamp::kernels::Keeping;

	CountedProduct(int64_t rows, int64_t columns, int64_t inputs, bool isHalf)
	    : rows_(rows), columns_(columns), inputs_(inputs), isHalf_(isHalf), weight_(size_t(rows * columns)),
	      input_(size_t(rows * inputs)), copy_(weight_.size()), converted_(input_.size())
	{
		fill(weight_), fill(input_);
	}

	float &weightAt(int64_t row, int64_t column) { return weight_[size_t(column * rows_ + row)]; }

	// none: converts both operands. share: 1 for an audit.
	Traffic call(Keeping how, uint32_t share = autoamp::kernels::sampleShare)
	{
		using namespace autoamp::kernels;
		constexpr unsigned smCount = 132;
		const bool isKept = how != Keeping::none,
		           hasSettle = isHalf_ || how == Keeping::observed || how == Keeping::checked;
		Device &device = *device_;
		Parameters p = {};
		p.operand[0] = operandOf(weight_, copy_, columns_);
		p.operand[1] = operandOf(input_, converted_, inputs_);
		p.scratch = &device.scratch;
		p.records = device.records;
		p.predictions = isHalf_ ? device.predictions : nullptr;
		p.signatureKey = 1, p.pairKey = 2;
		p.ring = ring_.get();
		p.site = 1;
		p.alphaValue = 1;
		if (isKept)
			p.kept[0] = {how == Keeping::observed ? &device.observed : &device.state, &device.facts, 1, how, share};
		if (isKept && hasSettle)
			p.keptRecords = device.keptRecords;
		p.castBlocks = gridSize(p, smCount);

		Region regions[] = {regionOf(weight_),    regionOf(input_),         regionOf(copy_),
		                    regionOf(converted_), {&device, sizeof device}, {ring_.get(), sizeof(Ring)}};
		const unsigned settle = hasSettle ? autoamp::kernels::settleBlocks(p.castBlocks, smCount) : 0;
		const std::string kind = isKept ? "_kept" : "", type = isHalf_ ? "_half" : "_bfloat16";
		runCounted(("autoamp_cast" + kind + type).c_str(), p.castBlocks, p, regions);
		if (hasSettle)
			runCounted(("autoamp_settle" + (isKept ? kind + type : "")).c_str(), settle, p, regions);
		return {regions[0], regions[1], regions[2], regions[3], regions[4], regions[5], p.castBlocks, settle};
	}

private:
	struct Device {
		autoamp::kernels::Prediction predictions[autoamp::kernels::predictionCount];
		autoamp::kernels::CastRecord records[autoamp::kernels::mostCastBlocks];
		autoamp::kernels::KeptRecord keptRecords[autoamp::kernels::mostCastBlocks];
		autoamp::kernels::Scratch scratch;
		autoamp::kernels::WeightState state, observed; // states with and without a copy
		autoamp::kernels::WeightFacts facts;
	};
	struct alignas(16) Vector {
		uint16_t element[8];
	};
	class Copy // aligned for the kernels
	{
	public:
		explicit Copy(size_t count) : vectors_((count + 7) / 8), count_(count) {}
		uint16_t *data() { return vectors_[0].element; }
		size_t size() const { return count_; }

	private:
		std::vector<Vector> vectors_;
		size_t count_;
	};

	static void fill(std::vector<float> &all)
	{
		for (size_t i = 0; i < all.size(); ++i)
			all[i] = static_cast<float>(i * 2654435761u % 1021) - 510;
	}
	autoamp::kernels::Operand operandOf(const std::vector<float> &source, Copy &target, int64_t columns) const
	{
		return {source.data(), target.data(), rows_, columns, rows_, rows_, 0, 0, 1};
	}
	template <class Array>
	static Region regionOf(Array &array)
	{
		return {array.data(), array.size() * sizeof array.data()[0]};
	}

	const int64_t rows_, columns_, inputs_;
	const bool isHalf_;
	std::vector<float> weight_, input_;
	Copy copy_, converted_;
	std::unique_ptr<Device> device_ = std::make_unique<Device>();
	std::unique_ptr<autoamp::kernels::Ring> ring_ = std::make_unique<autoamp::kernels::Ring>();
};
