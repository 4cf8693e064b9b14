#include "tests/unit/kernels_host.h"

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace {

std::vector<emulated::Kernel> &table()
{
	static std::vector<emulated::Kernel> kernels;
	return kernels;
}

} // namespace

// The parts of the emulated device that a plug-in uses: here all memory is the host's own.
void emulated::registerKernels(const Kernel *kernels, size_t count)
{
	table().insert(table().end(), kernels, kernels + count);
}

void *emulated::deviceAddress(const volatile void *pointer)
{
	return const_cast<void *>(pointer);
}

namespace kernels_host {

std::vector<std::string> registered()
{
	std::vector<std::string> names;
	for (const emulated::Kernel &kernel : table())
		names.push_back(kernel.name);
	return names;
}

void launchWith(const std::string &name, unsigned blocks, void *parameters)
{
	for (const emulated::Kernel &kernel : table())
		if (kernel.name == name) {
			void *arguments[] = {parameters};
			kernel.run({dim3(blocks), dim3(blockSize), 0}, arguments);
			return;
		}
	throw std::runtime_error("no kernel " + name);
}

Prediction *predicting(uint64_t key, int first, int second)
{
	static std::vector<Prediction> table(predictionCount);
	table[bucketOf(key)] = {key, {first, second}};
	return table.data();
}

Source::Source(size_t count, unsigned skew)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	bytes_ = ((count + 4) * sizeof(float) + page - 1) / page * page + page;
	pages_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	float *const end = reinterpret_cast<float *>(static_cast<char *>(pages_) + bytes_ - page);
	std::fill(static_cast<float *>(pages_), end, NAN);
	mprotect(end, page, PROT_NONE);
	data_ = end - (count + skew + 3) / 4 * 4 + skew;
}

Source::~Source()
{
	munmap(pages_, bytes_);
}

Matrix::Matrix(const Shape &shape, unsigned skew)
    : operand_{nullptr, nullptr, shape.rows, shape.columns, shape.sourceLd, shape.targetLd, 0, 0, shape.batch},
      source_(std::max<int64_t>(0, (shape.batch * shape.columns - 1) * shape.sourceLd +
                                       (shape.batch - 1) * shape.sourceGap + shape.rows),
              skew),
      memory_(nullptr, [](uint16_t *memory) { free(memory); })
{
	operand_.sourceStride = shape.columns * shape.sourceLd + shape.sourceGap;
	operand_.targetStride = shape.columns * shape.targetLd + 8;
	operand_.source = source_.data();
	targetCount_ = front + shape.batch * operand_.targetStride + front;
	memory_.reset(static_cast<uint16_t *>(aligned_alloc(64, (targetCount_ * sizeof(uint16_t) + 63) / 64 * 64)));
	targets_ = memory_.get();
	std::fill(targets_, targets_ + targetCount_, guard);
	operand_.target = targets_ + front;
}

bool Matrix::isPaddingIntact() const
{
	std::vector<uint16_t> seen(targets_, targets_ + targetCount_);
	for (int64_t matrix = 0; matrix < operand_.batch; ++matrix)
		for (int64_t column = 0; column < operand_.columns; ++column) {
			uint16_t *const begin = seen.data() + front + matrix * operand_.targetStride + column * operand_.targetLd;
			for (int64_t row = 0; row < (operand_.rows + 7) / 8 * 8; ++row)
				if (row < operand_.rows || begin[row] == 0)
					begin[row] = guard;
		}
	return std::all_of(seen.begin(), seen.end(), [](uint16_t word) { return word == guard; });
}

uint16_t rounded(float x, int exponent, Format format)
{
	const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffff;
	const uint16_t sign = bits >> 16 & 0x8000;
	const uint32_t infinity = ((2u * format.bias + 1) << format.mantissaBits);
	if (magnitude > 0x7f800000)
		return 0x7fff;
	if (magnitude == 0x7f800000)
		return sign | infinity;
	if (magnitude == 0)
		return sign;
	// |x| = whole * 2^unit, to be written as a multiple of the last digit's weight, 2^place.
	const int field = magnitude >> 23;
	const uint64_t whole = field ? (magnitude & 0x7fffff) | 0x800000 : magnitude;
	const int unit = (field ? field - 150 : -149) + exponent;
	const int lowest = 1 - format.bias - format.mantissaBits;
	const int place = std::max(lowest, unit + static_cast<int>(std::bit_width(whole)) - 1 - format.mantissaBits);
	const int drop = place - unit;
	uint64_t kept = drop <= 0 ? whole << -drop : drop > 40 ? 0 : whole >> drop;
	if (drop > 0 && drop <= 40) {
		const uint64_t rest = whole - (kept << drop), middle = uint64_t{1} << (drop - 1);
		kept += rest > middle || (rest == middle && kept & 1);
	}
	const uint64_t result = (static_cast<uint64_t>(place - lowest) << format.mantissaBits) + kept;
	return sign | static_cast<uint16_t>(std::min<uint64_t>(result, infinity));
}

float widened(uint16_t bits)
{
	const int field = bits >> 10 & 31, mantissa = bits & 0x3ff;
	const float magnitude = field == 31 ? (mantissa ? NAN : INFINITY)
	                        : field     ? std::ldexp(static_cast<float>(mantissa + 1024), field - 25)
	                                    : std::ldexp(static_cast<float>(mantissa), -24);
	return bits & 0x8000 ? -magnitude : magnitude;
}

} // namespace kernels_host
