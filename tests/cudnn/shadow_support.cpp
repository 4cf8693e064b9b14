// Is there a tensor-core form of a convolution exactly where the real libcudnn has an engine for it?
#include "src/op/shadow.h"
#include "tests/cudnn/real.h"

#include <cstring>
#include <vector>

using namespace autoamp;

namespace {

struct Case {
	const char *name;
	int spatial = 2;
	int64_t n = 32, c = 64, k = 64, size = 28, filter = 3;
	int stride = 1, dilation = 1, groups = 1, pad = 1;
};

// Everything that a row of the reference changes, and what our padding mends.
constexpr Case cases[] = {
    {.name = "plain"},
    {.name = "c3", .c = 3},
    {.name = "c3 7x7 s2", .c = 3, .size = 224, .filter = 7, .stride = 2, .pad = 3},
    {.name = "k7", .k = 7},
    {.name = "c1 k8", .c = 1, .k = 8},
    {.name = "s2", .stride = 2},
    {.name = "s3 d2", .size = 15, .filter = 5, .stride = 3, .dilation = 2, .pad = 2},
    {.name = "g2", .groups = 2},
    {.name = "g2 s2", .stride = 2, .groups = 2},
    {.name = "g4 c48", .c = 48, .k = 48, .groups = 4},
    {.name = "g16", .groups = 16},
    {.name = "g4 c8", .n = 4, .c = 8, .k = 8, .groups = 4},
    {.name = "g4 c32 k12", .n = 4, .c = 32, .k = 12, .groups = 4},
    {.name = "g4 c20", .n = 4, .c = 20, .k = 16, .groups = 4},
    {.name = "g4 c64 k32 d2", .n = 4, .k = 32, .dilation = 2, .groups = 4, .pad = 2},
    {.name = "depthwise", .groups = 64},
    {.name = "depthwise s2", .stride = 2, .groups = 64},
    {.name = "depthwise k128", .k = 128, .groups = 64},
    {.name = "1-d", .spatial = 1, .size = 100},
    {.name = "1-d g2", .spatial = 1, .size = 100, .groups = 2},
    {.name = "3-d", .spatial = 3, .n = 4, .size = 10},
    {.name = "3-d s2", .spatial = 3, .n = 4, .size = 10, .stride = 2},
    {.name = "3-d d2", .spatial = 3, .n = 4, .size = 10, .dilation = 2, .pad = 2},
    {.name = "3-d g2", .spatial = 3, .n = 4, .size = 10, .groups = 2},
    {.name = "3-d g2 s2", .spatial = 3, .n = 4, .size = 10, .stride = 2, .groups = 2},
    {.name = "3-d depthwise", .spatial = 3, .n = 4, .size = 10, .groups = 64},
};

op::Convolution convolutionOf(const Case &from, op::Direction direction)
{
	op::Convolution convolution;
	convolution.direction = direction;
	convolution.spatial = static_cast<uint8_t>(from.spatial);
	convolution.groups = from.groups;
	const auto fill = [&](op::Tensor &tensor, int64_t outer, int64_t channels, int64_t size) {
		tensor.rank = 2 + from.spatial;
		tensor.type = op::Dtype::float32;
		tensor.dims[0] = outer, tensor.dims[1] = channels;
		for (int i = 0; i < from.spatial; i++)
			tensor.dims[2 + i] = size;
	};
	const int64_t span = from.dilation * (from.filter - 1) + 1;
	fill(convolution.x, from.n, from.c, from.size);
	fill(convolution.w, from.k, from.c / from.groups, from.filter);
	fill(convolution.y, from.n, from.k, (from.size + 2 * from.pad - span) / from.stride + 1);
	for (int i = 0; i < from.spatial; i++) {
		convolution.padBefore[i] = convolution.padAfter[i] = from.pad;
		convolution.stride[i] = from.stride, convolution.dilation[i] = from.dilation;
	}
	return convolution;
}

constexpr const char *directions[] = {"forward", "backward data", "backward filter"};
constexpr const char *forms[] = {"none", "wide", "narrow"};

} // namespace

int main(int argc, char **argv)
{
	const op::CudnnGraph *const cudnn = argc > 1 ? real::load(argv[1]) : nullptr;
	if (!cudnn) {
		std::puts("no libcudnn 9 here, or no stub of the driver");
		return 77;
	}
	const bool isListing = argc > 2;
	int wrong = 0, asked = 0;
	for (const real::Device &device : real::devices) {
		if (device.capability == 86 || device.capability == 89 || device.capability == 120) // as sm_80, row by row
			continue;
		const reroute::DnnDescriptor properties = real::propertiesDescriptor(*cudnn, device);
		if (!properties.get()) {
			std::puts("this libcudnn takes no device properties");
			return 77;
		}
		const reroute::DnnTarget target = {nullptr, properties.get()};
		for (const Case &it : cases)
			for (const op::Direction direction :
			     {op::Direction::forward, op::Direction::backwardData, op::Direction::backwardFilter}) {
				const op::Convolution convolution = convolutionOf(it, direction);
				for (const op::Dtype precision : {op::Dtype::float16, op::Dtype::bfloat16}) {
					op::Form there = op::Form::none;
					for (const op::Form form : {op::Form::wide, op::Form::narrow}) {
						if (form == op::Form::narrow && precision == op::Dtype::float16)
							continue; // would overflow
						const reroute::DnnAnswer answer =
						    reroute::chooseEngine(*cudnn, target, op::graphOf(convolution, form, precision));
						if (answer.status == 0) {
							there = form;
							break;
						}
						if (answer.status / 1000 != 3) {
							std::printf("%s: status %d of %s\n", it.name, answer.status, answer.what);
							return 1;
						}
					}
					const op::Form said = op::formOf(convolution, precision, device.capability);
					asked++;
					wrong += said != there;
					if (said != there || isListing)
						std::printf("sm_%d %s, %s, %s: libcudnn has %s, decide() assumes %s\n", device.capability,
						            it.name, directions[static_cast<int>(direction)], op::name(precision),
						            forms[static_cast<int>(there)], forms[static_cast<int>(said)]);
				}
			}
	}
	std::printf("%d asked, %d wrong\n", asked, wrong);
	return wrong != 0;
}
