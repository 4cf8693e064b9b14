// KiB that the conversion kernels of one product load and store, as a Markdown table: with conversion at each call, and
// with a kept copy of the weight. They are counted on the host (tests/unit/kernels_traffic.h), so they do not depend on
// the machine. Arguments: M N K of products x[M, K] * W[K, N].
#include "tests/unit/counted_product.h"

#include <cstdio>
#include <cstdlib>

using autoamp::kernels::Keeping;

namespace {

void measure(int64_t m, int64_t n, int64_t k, bool isHalf)
{
	struct Row {
		const char *name;
		Keeping how;
		uint32_t share;
		bool isChanged; // before this call
	};
	constexpr uint32_t sample = autoamp::kernels::sampleShare, all = 1;
	constexpr Row rows[] = {
	    {"conversion", Keeping::none, sample, false},        {"observed", Keeping::observed, sample, false},
	    {"copy made", Keeping::checked, sample, false},      {"checked, hit", Keeping::checked, sample, false},
	    {"frozen, hit", Keeping::frozen, sample, false},     {"checked, audit", Keeping::checked, all, false},
	    {"checked, changed", Keeping::checked, sample, true}};
	CountedProduct product(k, n, m, isHalf);
	product.call(Keeping::none); // the exponents are predicted from now on
	for (const Row &row : rows) {
		if (row.isChanged)
			for (int64_t column = 0; column < n; column++)
				for (int64_t line = 0; line < k; line++)
					product.weightAt(line, column) += 1;
		const Traffic t = product.call(row.how, row.share);
		std::printf("| %ldx%ldx%ld | %s | %s | %d |", long(m), long(n), long(k), isHalf ? "float16" : "bfloat16",
		            row.name, t.settleBlocks ? 2 : 1);
		for (const uint64_t bytes :
		     {t.weight.loaded, t.copy.loaded, t.copy.stored, t.input.loaded, t.converted.stored,
		      t.weight.loaded + t.copy.loaded + t.copy.stored + t.input.loaded + t.converted.stored, t.device.loaded})
			std::printf(" %.0f |", static_cast<double>(bytes) / 1024);
		std::printf("\n");
		std::fflush(stdout);
	}
}

} // namespace

int main(int count, char **arguments)
{
	if (count < 4 || count % 3 != 1) {
		std::fprintf(stderr, "usage: kept_traffic M N K...\n");
		return 2;
	}
	std::printf("| product | type | call | launches | weight read | copy read | copy written | x read | x written | "
	            "sum "
	            "| records read |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
	for (const bool isHalf : {true, false})
		for (int i = 1; i < count; i += 3)
			measure(std::atol(arguments[i]), std::atol(arguments[i + 1]), std::atol(arguments[i + 2]), isHalf);
}
