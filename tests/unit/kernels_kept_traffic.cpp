#include "tests/unit/counted_product.h"

#include <catch2/catch.hpp>

using autoamp::kernels::Keeping, autoamp::kernels::lineElements, autoamp::kernels::sampleShare;

namespace {

constexpr int64_t rows = 4104, columns = 70, inputs = 3; // the last line of a column is not full
constexpr uint64_t elements = rows * columns, inputElements = rows * inputs;
constexpr int64_t lines = (rows + lineElements - 1) / lineElements, share = sampleShare;
constexpr uint64_t mostSampled = columns * ((lines + share - 1) / share) * lineElements;

} // namespace

TEST_CASE("a conversion reads each element once and writes it once")
{
	for (const bool isHalf : {false, true})
		for (const Keeping how : {Keeping::none, Keeping::observed, Keeping::checked, Keeping::frozen}) {
			CountedProduct product(rows, columns, inputs, isHalf);
			if (isHalf)
				product.call(Keeping::none); // the exponents are predicted from now on
			const Traffic traffic = product.call(how);
			CAPTURE(isHalf, static_cast<int>(how));
			CHECK(traffic.weight.loaded == 4 * elements);
			CHECK(traffic.copy.stored == 2 * elements);
			CHECK(traffic.input.loaded == 4 * inputElements);
			CHECK(traffic.converted.stored == 2 * inputElements);
		}
}

TEST_CASE("a hit writes no byte of the copy and reads one line in 64 of the weight")
{
	for (const bool isHalf : {false, true})
		for (const Keeping how : {Keeping::checked, Keeping::frozen}) {
			CountedProduct product(rows, columns, inputs, isHalf);
			product.call(how);
			uint64_t read = 0;
			for (int hit = 0; hit < 64; ++hit) {
				const Traffic traffic = product.call(how);
				CAPTURE(isHalf, static_cast<int>(how), hit);
				CHECK(traffic.copy.stored == 0);
				CHECK(traffic.weight.loaded <= 4 * mostSampled);
				CHECK(traffic.copy.loaded == traffic.weight.loaded / 2);
				CHECK(traffic.input.loaded == 4 * inputElements);
				CHECK(traffic.converted.stored == 2 * inputElements);
				CHECK(traffic.weight.stored + traffic.input.stored == 0);
				read += traffic.weight.loaded;
			}
			CHECK(read == 4 * elements); // 64 calls in a row read each element once
		}
}

TEST_CASE("an audit reads the weight and the copy, and a changed weight is converted once")
{
	for (const bool isHalf : {false, true})
		for (const Keeping how : {Keeping::checked, Keeping::frozen}) {
			CountedProduct product(rows, columns, inputs, isHalf);
			product.call(how);
			const Traffic audit = product.call(how, 1);
			CAPTURE(isHalf, static_cast<int>(how));
			CHECK(audit.weight.loaded == 4 * elements);
			CHECK(audit.copy.loaded == 2 * elements);
			CHECK(audit.copy.stored == 0);
			product.weightAt(99, 9) += 1;
			const Traffic finds = product.call(how, 1), next = product.call(how, 1);
			const bool isChecked = how == Keeping::checked;
			CHECK(finds.copy.stored == (isChecked ? 2 * elements : 0));
			CHECK(finds.weight.loaded == (isChecked ? 8 : 4) * elements);
			CHECK(next.copy.stored == (isChecked ? 0 : 2 * elements));
		}
}
