// cast_bandwidth BYTES...: autoamp's conversion kernels for matrices and tensors, launched as autoamp launches them,
// compared with a copy that moves the same number of bytes (6 per element: 4 read, 2 written). BYTES: size of the fp32
// source, both operands together. bfloat16_sample: both operands have a kept copy, so only the sample is compared.
#include "kernels/images.h"
#include "kernels/launch.h"
#include "src/cuda/driver.h"
#include "tests/gpu/timing.h"

#include <cmath>

namespace {

using namespace client;
namespace kernels = autoamp::kernels;

constexpr size_t beyondCaches = 256u << 20;
constexpr int rounds = 5;

// A matrix, or a tensor with 64 channels in that order. It needs at most `pad` more elements per column.
struct Layout {
	const char *name;
	bool isTensor;
	int64_t pad;
};
constexpr Layout layouts[] = {
    {"contiguous", false, 0}, {"ld%4", false, 4}, {"odd_ld", false, 1}, {"nchw", true, 0}, {"nhwc", true, 0}};
constexpr int64_t channels = 64;

// One conversion: the kernels and the parameters for operands of `each` elements. sourceCount: elements of both
// sources.
template <typename Call>
struct Conversion;

template <>
struct Conversion<kernels::Parameters> {
	static constexpr const char *names[] = {"autoamp_cast_half", "autoamp_cast_bfloat16", "autoamp_settle",
	                                        "autoamp_cast_kept_bfloat16"};
	Conversion(const Layout &layout, int64_t each)
	    : rows(std::min<int64_t>(4096, int64_t(1) << (std::ilogb(double(each)) / 2))), columns(each / rows),
	      ld(rows + layout.pad)
	{
	}
	int64_t sourceCount() const { return 2 * ld * columns; }
	void set(kernels::Parameters &p, const float *source, uint16_t *target) const
	{
		p.operand[0] = {source, target, rows, columns, ld, rows, 0, 0, 1};
		p.operand[1] = {source + ld * columns, target + rows * columns, rows, columns, ld, rows, 0, 0, 1};
	}
	const int64_t rows, columns, ld;
};

template <>
struct Conversion<kernels::TensorParameters> {
	static constexpr const char *names[] = {"autoamp_cast_tensor_half", "autoamp_cast_tensor_bfloat16",
	                                        "autoamp_settle_tensor", "autoamp_cast_kept_bfloat16_tensor"};
	Conversion(const Layout &layout, int64_t each)
	    : isLast(!std::strcmp(layout.name, "nhwc")), each(each), columns(each / channels),
	      pixels(std::min<int64_t>(columns, 4096))
	{
	}
	int64_t sourceCount() const { return 2 * each; }
	void set(kernels::TensorParameters &p, const float *source, uint16_t *target) const
	{
		const kernels::TensorLayout first = {
		    channels, pixels, 2, {pixels, columns / pixels, 1, 1}, {1, channels * pixels}};
		const kernels::TensorLayout last = {channels, 1, 1, {columns, 1, 1, 1}, {channels}};
		for (int i = 0; i < kernels::operands; i++)
			p.tensor[i] = {source + i * each, target + i * each, isLast ? last : first, channels, 0};
	}
	const bool isLast;
	const int64_t each, columns, pixels;
};

struct Launcher {
	explicit Launcher(const char *const (&names)[4])
	{
		CUlib_st *library = nullptr;
		int major = 0, minor = 0;
		CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
		CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
		const kernels::Image *const image = kernels::imageFor(10 * major + minor);
		if (!driver || !image ||
		    driver->cuLibraryLoadData(&library, autoamp_kernel_images + image->offset, nullptr, nullptr, 0, nullptr,
		                              nullptr, 0))
			fail("loading the kernels", "refused");
		CUkern_st **const kernels[] = {&half, &bfloat16, &settle, &kept};
		for (int i = 0; i < 4; i++)
			if (driver->cuLibraryGetKernel(kernels[i], library, names[i]))
				fail(names[i], "not in the image");
		CHECK(cudaDeviceGetAttribute(&smCount, cudaDevAttrMultiProcessorCount, 0));
	}

	void operator()(CUkern_st *kernel, unsigned blocks, cudaStream_t stream, kernels::Scaling &parameters) const
	{
		void *arguments[] = {&parameters};
		if (driver->cuLaunchKernel(reinterpret_cast<CUfunc_st *>(kernel), blocks, 1, 1, kernels::blockSize, 1, 1, 0,
		                           stream, arguments, nullptr))
			fail("cuLaunchKernel", "refused");
	}

	const autoamp::cuda::Driver *const driver = autoamp::cuda::driver();
	CUkern_st *half = nullptr, *bfloat16 = nullptr, *settle = nullptr, *kept = nullptr;
	int smCount = 0;
};

template <typename Call>
void measure(cudaStream_t stream, const Layout &layout, size_t bytes)
{
	static const Launcher launch(Conversion<Call>::names);
	const auto elements = static_cast<int64_t>(bytes / sizeof(float)), each = elements / 2;
	const Conversion<Call> conversion(layout, each);
	const auto sourceCount = static_cast<size_t>(conversion.sourceCount());
	const size_t moved = static_cast<size_t>(elements) * 6;
	const size_t sets =
	    gpu::isEmulated() ? 1 : std::clamp<size_t>(beyondCaches / moved, 1, kernels::predictionCount / 2);

	char *source = nullptr, *target = nullptr, *rest = nullptr, *copies = nullptr, *states = nullptr;
	struct Weight {
		kernels::WeightState state;
		kernels::WeightFacts facts;
	};
	const size_t stateBytes = sets * kernels::operands * sizeof(Weight);
	const size_t sourceBytes = (sourceCount * sizeof(float) + 255) / 256 * 256,
	             targetBytes = (moved / 2 + 255) / 256 * 256;
	const size_t tableBytes = kernels::predictionCount * sizeof(kernels::Prediction);
	const size_t recordBytes = kernels::mostCastBlocks * sizeof(kernels::CastRecord);
	CHECK(cudaMalloc(reinterpret_cast<void **>(&source), sets * sourceBytes));
	CHECK(cudaMalloc(reinterpret_cast<void **>(&target), sets * targetBytes));
	CHECK(cudaMalloc(reinterpret_cast<void **>(&rest), tableBytes + 256 + recordBytes));
	CHECK(cudaMalloc(reinterpret_cast<void **>(&copies), sets * targetBytes));
	CHECK(cudaMalloc(reinterpret_cast<void **>(&states), stateBytes));
	CHECK(cudaMemset(rest, 0, tableBytes));
	CHECK(cudaMemset(states, 0, stateBytes));            // the first call converts
	CHECK(cudaMemset(source, 0x3f, sets * sourceBytes)); // 0.747: nothing here depends on the values
	CHECK(cudaDeviceSynchronize());                      // the stream does not wait for the legacy one

	const auto parametersOf = [&](int i) {
		const size_t set = static_cast<size_t>(i) % sets;
		Call p = {};
		conversion.set(p, reinterpret_cast<const float *>(source + set * sourceBytes),
		               reinterpret_cast<uint16_t *>(target + set * targetBytes));
		p.scratch = reinterpret_cast<kernels::Scratch *>(rest + tableBytes);
		p.records = reinterpret_cast<kernels::CastRecord *>(rest + tableBytes + 256);
		p.castBlocks = kernels::gridSize(p, static_cast<unsigned>(launch.smCount));
		p.predictions = reinterpret_cast<kernels::Prediction *>(rest);
		p.signatureKey = 1;
		p.pairKey = set + 2;
		p.alphaValue = 1;
		return p;
	};
	const auto half = [&](int i, bool isSettled) {
		Call p = parametersOf(i);
		launch(launch.half, p.castBlocks, stream, p);
		if (isSettled)
			launch(launch.settle, kernels::settleBlocks(p.castBlocks, static_cast<unsigned>(launch.smCount)), stream,
			       p);
	};
	const auto sample = [&](int i) {
		Call p = parametersOf(i);
		const size_t set = static_cast<size_t>(i) % sets;
		conversion.set(p, reinterpret_cast<const float *>(source + set * sourceBytes),
		               reinterpret_cast<uint16_t *>(copies + set * targetBytes));
		for (int operand = 0; operand < kernels::operands; operand++) {
			Weight &weight = reinterpret_cast<Weight *>(states)[set * kernels::operands + size_t(operand)];
			p.kept[operand] = {&weight.state, &weight.facts, 1, kernels::Keeping::frozen, kernels::sampleShare};
		}
		p.castBlocks = kernels::gridSize(p, static_cast<unsigned>(launch.smCount));
		launch(launch.kept, p.castBlocks, stream, p);
	};
	// All predictions are right and all copies exist, as after a site's first calls.
	for (size_t set = 0; set < sets; set++) {
		half(static_cast<int>(set), true);
		sample(static_cast<int>(set));
	}

	const struct {
		const char *name;
		std::function<void(int)> call;
	} kinds[] = {
	    {"copy",
	     [&](int i) {
		     // source holds at least 4 bytes an element, the copy reads 3
		     CHECK(cudaMemcpyAsync(target + size_t(i) % sets * targetBytes, source + size_t(i) % sets * sourceBytes,
		                           moved / 2, cudaMemcpyDeviceToDevice, stream));
	     }},
	    {"bfloat16",
	     [&](int i) {
		     Call p = parametersOf(i);
		     launch(launch.bfloat16, kernels::gridSize(p, static_cast<unsigned>(launch.smCount)), stream, p);
	     }},
	    {"bfloat16_sample", sample},
	    {"float16_unsettled", [&](int i) { half(i, false); }},
	    {"float16", [&](int i) { half(i, true); }},
	};
	for (int round = 0; round < rounds; round++)
		for (const auto &[name, call] : kinds)
			std::printf("%s %zu %s %zu %d %s\n", layout.name, bytes, name, moved, round,
			            gpu::text(gpu::timeOnDevice(stream, call)).c_str());
	CHECK(cudaStreamSynchronize(stream));
	// The last kind was float16: the first set holds 0.747 as half, scaled by the power of two that it settled on.
	kernels::Scratch scratch;
	uint16_t bits = 0;
	CHECK(cudaMemcpy(&scratch, rest + tableBytes, sizeof scratch, cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(&bits, target, sizeof bits, cudaMemcpyDeviceToHost));
	const int exponent = ((bits >> 10) & 31) - 15;
	if (scratch.used[0] != scratch.right[0] || exponent != scratch.right[0] - 1)
		fail(layout.name, "the converted operand is wrong");
	for (char *memory : {source, target, rest, copies, states})
		CHECK(cudaFree(memory));
}

} // namespace

int main(int count, char **arguments)
{
	cudaStream_t stream;
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (int i = 1; i < count; i++)
		for (const Layout &layout : layouts)
			(layout.isTensor ? measure<kernels::TensorParameters>
			                 : measure<kernels::Parameters>)(stream, layout, std::strtoull(arguments[i], nullptr, 10));
	CHECK(cudaStreamDestroy(stream));
}
