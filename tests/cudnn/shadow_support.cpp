// Checks that a convolution has a tensor-core form exactly if the real libcudnn has an engine for it.
#include "src/op/shadow.h"
#include "tests/cudnn/real.h"

#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace autoamp;

namespace {

struct Case {
	const char *name;
	int spatial = 2;
	int64_t n = 32, c = 64, k = 64, size = 28, filter = 3;
	int stride = 1, dilation = 1, groups = 1, pad = 1;
};

// Every property that a row of the reference changes, and those that autoamp's padding corrects.
constexpr Case cases[] = {
    {.name = "plain"},
    {.name = "c3", .c = 3},
    {.name = "c3 7x7 s2", .c = 3, .size = 224, .filter = 7, .stride = 2, .pad = 3},
    {.name = "k7", .k = 7},
    {.name = "c1 k8", .c = 1, .k = 8},
    {.name = "s2", .stride = 2},
    {.name = "1x1 s2", .filter = 1, .stride = 2, .pad = 0},
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
    {.name = "3-d g8 c32", .spatial = 3, .n = 4, .c = 32, .k = 64, .size = 10, .groups = 8},
    {.name = "3-d g8 c16 k24", .spatial = 3, .n = 4, .c = 16, .k = 24, .size = 10, .groups = 8},
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
constexpr const char *forms[] = {"none", "wide", "narrow"}, *has[] = {"has not", "has"};
constexpr char noAnswer = 99;

// Returns whether this libcudnn has an engine for that form.
char isThere(const op::CudnnGraph &cudnn, const lower::DnnTarget &target, const op::Convolution &convolution,
             op::Form form, op::Dtype precision)
{
	const lower::DnnAnswer answer = lower::chooseEngine(cudnn, target, op::graphOf(convolution, form, precision));
	if (answer.status == 0 || answer.status / 1000 == 3)
		return answer.status == 0;
	std::printf("status %d of %s\n", answer.status, answer.what);
	return noAnswer;
}

struct Question {
	const Case *it;
	op::Direction direction;
	op::Dtype precision;
	op::Form form;
};

std::vector<Question> questions()
{
	std::vector<Question> all;
	for (const Case &it : cases)
		for (const op::Direction direction :
		     {op::Direction::forward, op::Direction::backwardData, op::Direction::backwardFilter})
			for (const op::Form form : {op::Form::wide, op::Form::narrow})
				for (const op::Dtype precision : {op::Dtype::float16, op::Dtype::bfloat16})
					if (form == op::Form::wide || precision == op::Dtype::bfloat16) // float16 would overflow
						all.push_back({&it, direction, precision, form});
	return all;
}

// Queries in a child process. If the child dies, the next child continues. Some versions divide by zero in their
// heuristics (9.10.2 for the gradient of a filter on an H100); this counts as an answer too.
std::vector<char> answersOf(const op::CudnnGraph &cudnn, const lower::DnnTarget &target,
                            const std::vector<Question> &asked)
{
	std::vector<char> answers;
	while (answers.size() < asked.size()) {
		int ends[2];
		if (pipe(ends))
			return {};
		if (fork() == 0) {
			for (size_t i = answers.size(); i < asked.size(); i++) {
				const auto &[it, direction, precision, form] = asked[i];
				const char answer = isThere(cudnn, target, convolutionOf(*it, direction), form, precision);
				if (write(ends[1], &answer, 1) != 1)
					_exit(1);
			}
			std::fflush(stdout);
			_exit(0);
		}
		close(ends[1]);
		for (char answer = 0; read(ends[0], &answer, 1) == 1;)
			answers.push_back(answer);
		close(ends[0]);
		int status = 0;
		wait(&status);
		if (answers.size() < asked.size()) {
			std::printf("%s: %s\n", asked[answers.size()].it->name,
			            WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ended");
			answers.push_back(noAnswer);
		}
	}
	return answers;
}

} // namespace

int main(int argc, char **argv)
{
	const op::CudnnGraph *const cudnn = argc > 1 ? real::load(argv[1]) : nullptr;
	if (!cudnn) {
		std::puts("no libcudnn 9 here, or no stub of the driver");
		return 77;
	}
	const bool isListing = argc > 2;
	const auto version = static_cast<size_t>(cudnn->cudnnGetVersion());
	int wrong = 0, asked = 0;
	for (const real::Device &device : real::devices) {
		if (device.capability == 86 || device.capability == 89 || device.capability == 120) // rows equal those of sm_80
			continue;
		const lower::DnnDescriptor properties = real::propertiesDescriptor(*cudnn, device);
		if (!properties.get()) {
			std::puts("this libcudnn takes no device properties");
			return 77;
		}
		const lower::DnnTarget target = {nullptr, properties.get(), device.capability};
		const std::vector<Question> all = questions();
		const std::vector<char> answers = answersOf(*cudnn, target, all);
		for (size_t i = 0; i < answers.size(); i++) {
			const auto &[it, direction, precision, form] = all[i];
			const op::Forms said = op::formsOf(convolutionOf(*it, direction), precision, device.capability, version);
			const bool isSaid = form == op::Form::wide ? said.isWide : said.isNarrow;
			asked++;
			wrong += isSaid != answers[i];
			if (isSaid != answers[i] || isListing)
				std::printf("sm_%d %s, %s, %s, %s: libcudnn %s it, decide() assumes that it %s\n", device.capability,
				            it->name, directions[static_cast<int>(direction)], op::name(precision),
				            forms[static_cast<int>(form)],
				            answers[i] == noAnswer ? "has no answer to" : has[int{answers[i]}], has[isSaid]);
		}
	}
	std::printf("%d asked, %d wrong\n", asked, wrong);
	return wrong != 0 || asked == 0;
}
