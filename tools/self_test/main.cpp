// autoamp-self-test OUT products|small-products|convolutions: computes fp32 calls with the vendor's libraries, and
// writes the relative error of each call against fp64 to the file OUT, one line "CALL ERROR" for each. `autoamp doctor
// --self-test` runs it with autoamp preloaded. Like any application, it knows nothing of autoamp.
#include "tools/self_test/session.h"

#include <cmath>
#include <cstring>
#include <unistd.h>

namespace self_test {

const Driver &driver()
{
	static const Driver *const opened = [] {
		auto *const made = new Driver;
		CUcontext context = nullptr;
		NEED(made->cuInit(0));
		NEED(made->cuDevicePrimaryCtxRetain(&context, 0));
		NEED(made->cuCtxSetCurrent(context));
		return made;
	}();
	return *opened;
}

void fill(std::vector<float> &values, int exponent)
{
	static uint32_t random = 1;
	for (float &value : values) { // with the 24 bits of a float
		random = random * 1664525 + 1013904223;
		value = std::ldexp(static_cast<float>(static_cast<int32_t>(random) >> 8), exponent - 23);
	}
}

} // namespace self_test

int main(int count, char **words)
{
	const std::string kind = count == 3 ? words[2] : "";
	std::FILE *const out = kind.empty() ? nullptr : std::fopen(words[1], "w");
	if (!out)
		self_test::fail("usage: autoamp-self-test OUT products|small-products|convolutions");
	constexpr unsigned longest = 120; // seconds; the kernels of a healthy device need less than one
	::alarm(longest);
	const auto report = [out](const char *call, double error) {
		std::fprintf(out, "%s %g\n", call, std::isfinite(error) ? error : 1e30);
	};
	if (kind == "convolutions")
		self_test::convolve(report);
	else
		self_test::multiply(kind == "products", report);
	return std::fclose(out) == 0 ? 0 : 2;
}
