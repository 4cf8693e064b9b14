#include "src/lists/lists.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <string>

using namespace autoamp;
using namespace autoamp::policy;

namespace {

constexpr Lists systems[] = {Lists::torch, Lists::paddle, Lists::mindspore};
constexpr Level levels[] = {Level::O0, Level::O1, Level::O2, Level::O3, Level::automatic, Level::OD};

const CallRow &rowOf(std::string_view op)
{
	const auto rows = callRows();
	return *std::find_if(rows.begin(), rows.end(), [&](const CallRow &row) { return op == row.op; });
}

uint64_t bits(std::initializer_list<const char *> ops)
{
	uint64_t all = 0;
	for (const char *op : ops)
		all |= uint64_t{1} << (&rowOf(op) - callRows().data());
	return all;
}

} // namespace

TEST_CASE("an op has one category at a level and type")
{
	for (Lists lists : systems)
		for (Level level : levels)
			for (bool isFloat16Only : {false, true}) {
				std::set<std::string> names;
				for (const OpList &list : listSystem(lists).lists) {
					INFO(list.names);
					CHECK((list.levels & ~listSystem(lists).levels) == 0);
					if (!(list.levels & bit(level)) || (list.isFloat16Only && !isFloat16Only))
						continue;
					std::string text = list.names;
					for (size_t at = 0; at <= text.size();) {
						size_t end = std::min(text.find(' ', at), text.size());
						CHECK(end > at);
						CHECK(names.insert(text.substr(at, end - at)).second);
						at = end + 1;
					}
				}
			}
}

TEST_CASE("the rows are the kinds of products first, each op once")
{
	std::set<std::string> ops;
	for (const CallRow &row : callRows())
		CHECK(ops.insert(row.op).second);
	const std::string kinds[] = {"none",
	                             "mm",
	                             "addmm",
	                             "bmm",
	                             "mv",
	                             "conv2d",
	                             "conv3d",
	                             "conv_depthwise2d",
	                             "lstm",
	                             "gru",
	                             "rnn_tanh",
	                             "rnn_relu",
	                             "scaled_dot_product_attention",
	                             "softmax",
	                             "log_softmax",
	                             "batch_norm",
	                             "local_response_norm",
	                             "max_pool2d",
	                             "avg_pool2d",
	                             "relu",
	                             "sigmoid",
	                             "tanh",
	                             "elu",
	                             "silu",
	                             "add",
	                             "mul",
	                             "max",
	                             "min",
	                             "sum",
	                             "mean",
	                             "prod",
	                             "norm",
	                             "bias_add",
	                             "dropout",
	                             "ctc_loss",
	                             "grid_sampler",
	                             "affine_grid_generator"};
	REQUIRE(std::size(kinds) == kindCount);
	for (unsigned kind = 0; kind < kindCount; ++kind)
		CHECK(name(static_cast<op::Kind>(kind)) == kinds[kind]);
	for (Lists lists : systems) {
		CHECK(rowsOf(lists, "none") == 0);
		CHECK(rowsOf(lists, "") == 0);
		CHECK((ListChoice{lists}.category(callRows()[0]) == Category::unlisted));
	}
}

TEST_CASE("a name stands for every call that the op reaches")
{
	const struct {
		Lists lists;
		const char *name;
		uint64_t rows;
	} cases[] = {
	    {Lists::torch, "mm", bits({"mm"})},
	    {Lists::torch, "linear", bits({"mm", "addmm"})},
	    {Lists::torch, "matmul", bits({"mm", "bmm", "mv"})},
	    {Lists::torch, "baddbmm", bits({"bmm"})},
	    {Lists::torch, "mul", bits({"mul"})},
	    {Lists::torch, "cdist", 0}, // its products cannot be distinguished from the application's own
	    {Lists::torch, "prelu", 0},
	    {Lists::torch, "fft_fft", 0}, // in the CPU list
	    {Lists::torch, "inverse", bits({"linalg_solve"})},
	    {Lists::torch, "conv2d", bits({"conv2d", "conv_depthwise2d"})},
	    {Lists::paddle, "mul", bits({"mm"})}, // a matrix product in Paddle
	    {Lists::paddle, "matmul_v2", bits({"mm", "bmm", "mv"})},
	    {Lists::paddle, "bmm", bits({"bmm"})},
	    {Lists::paddle, "mm", 0},
	    {Lists::mindspore, "MatMul", bits({"mm"})},
	    {Lists::mindspore, "Dense", bits({"mm", "addmm"})},
	    {Lists::mindspore, "BatchNorm", bits({"batch_norm"})},
	};
	for (auto &each : cases) {
		INFO(each.name);
		CHECK(rowsOf(each.lists, each.name) == each.rows);
	}
	CHECK_FALSE(hasLowForm(0));
	CHECK_FALSE(hasLowForm(bits({"ctc_loss", "mv"})));
	CHECK(hasLowForm(bits({"ctc_loss", "mm"})));
}

TEST_CASE("an entry point is the op that it usually is, in the category of the chosen system")
{
	constexpr op::Dtype f16 = op::Dtype::float16, bf16 = op::Dtype::bfloat16;
	const struct {
		const char *entry, *op;
		ListChoice choice;
		Category category;
		bool isLowered;
	} cases[] = {
	    {"cublasSgemm_v2", "mm", {Lists::torch}, Category::lower_precision, true},
	    {"cublasSgemm_v2_64", "mm", {Lists::paddle, Level::OD, bf16}, Category::lower_precision, true},
	    {"cublasSgemm_v2", "mm", {Lists::mindspore, Level::O3}, Category::unlisted, true},
	    {"cublasSgemm_v2", "mm", {Lists::mindspore, Level::O0}, Category::lower_precision, true}, // the decision of O1
	    {"cublasSgemmBatched", "bmm", {Lists::paddle, Level::O1}, Category::lower_precision, true},
	    {"cublasSgemv_v2", "mv", {Lists::paddle, Level::O1}, Category::unlisted, false},
	    {"cublasSgemv_v2", "mv", {Lists::mindspore, Level::automatic}, Category::lower_precision, true},
	    {"cublasSsyrk_v2", "none", {Lists::torch}, Category::unlisted, false},
	    {"cublasSdot_v2", "dot", {Lists::torch}, Category::promote, false},
	    {"cublasSnrm2_v2", "norm", {Lists::mindspore, Level::automatic}, Category::fp32, false},
	    {"cudnnConvolutionBackwardData", "conv2d", {Lists::paddle, Level::O2}, Category::lower_precision, true},
	    {"cudnnConvolutionBackwardBias",
	     "conv2d",
	     {Lists::mindspore, Level::automatic},
	     Category::lower_precision,
	     true},
	    {"cudnnSoftmaxForward", "softmax", {Lists::paddle, Level::O1}, Category::fp32, false},
	    {"cudnnSoftmaxForward", "softmax", {Lists::paddle, Level::O2}, Category::unlisted, false},
	    {"cudnnSoftmaxForward", "softmax", {Lists::paddle, Level::O2, f16, false}, Category::unlisted, true},
	    {"cudnnSoftmaxForward", "softmax", {Lists::paddle, Level::O1, f16, false}, Category::fp32, false},
	    {"cudnnSoftmaxForward", "softmax", {Lists::mindspore, Level::automatic}, Category::fp32, false},
	    {"cudnnBatchNormalizationBackward", "batch_norm", {Lists::mindspore, Level::O2}, Category::fp32, false},
	    {"cudnnBatchNormalizationBackward", "batch_norm", {Lists::mindspore, Level::automatic}, Category::fp32, false},
	    {"cudnnBatchNormalizationBackward", "batch_norm", {Lists::mindspore, Level::O3}, Category::unlisted, true},
	    {"cudnnActivationForward", "relu", {Lists::mindspore, Level::O1}, Category::lower_precision, true},
	    {"cudnnTransformTensor", "none", {Lists::torch}, Category::unlisted, false},
	};
	for (auto &each : cases) {
		INFO(each.entry << " " << listSystem(each.choice.lists).prefix << " " << static_cast<int>(each.choice.level));
		const CallRow &row = *rowsAt(each.entry).front();
		CHECK(row.op == std::string(each.op));
		CHECK(name(each.choice.category(row)) == std::string(name(each.category)));
		CHECK(each.choice.lowers(each.choice.category(row)) == each.isLowered);
	}
	CHECK(rowsAt("cublasLtMatmul").size() == 3);
}

TEST_CASE("some names are on a list for one type only")
{
	CHECK(ListChoice{Lists::paddle, Level::O1, op::Dtype::float16}.category("fused_attention") ==
	      Category::lower_precision);
	CHECK(ListChoice{Lists::paddle, Level::O1, op::Dtype::bfloat16}.category("fused_attention") == Category::unlisted);
}

TEST_CASE("a level lowers or keeps the category of unlisted ops")
{
	for (Lists lists : systems)
		for (Level level : levels)
			for (bool usePromote : {false, true}) {
				const bool isLowered = (lists == Lists::mindspore && (level == Level::O2 || level == Level::O3)) ||
				                       (lists == Lists::paddle && level == Level::O2 && !usePromote);
				const ListChoice choice = {lists, level, op::Dtype::float16, usePromote};
				CHECK(choice.lowers(Category::unlisted) == isLowered);
				CHECK(choice.lowers(Category::lower_precision));
				for (Category kept : {Category::fp32, Category::promote, Category::banned})
					CHECK_FALSE(choice.lowers(kept));
			}
}

TEST_CASE("a routine of a CPU BLAS has one row under all its names")
{
	const struct {
		const char *entry, *routine, *op;
	} rows[] = {
	    {"cblas_sgemm", "sgemm", "mm"},
	    {"sgemm_", "sgemm", "mm"},
	    {"SGEMM_64", "sgemm", "mm"},
	    {"scipy_cblas_sgemm64_", "sgemm", "mm"},
	    {"scipy_sgemm_64_", "sgemm", "mm"},
	    {"cblas_sgemm_batch_strided_64", "sgemm_batch_strided", "bmm"},
	    {"sgemv_64_", "sgemv", "mv"},
	    {"cblas_dgemm", "dgemm", "none"},
	    {"cublasSgemm_v2_64", "cublassgemm_v2", "mm"},
	};
	for (const auto &row : rows) {
		INFO(row.entry);
		CHECK(routineOf(row.entry) == row.routine);
		CHECK(rowsAt(row.entry).front()->op == std::string(row.op));
	}
}

TEST_CASE("torch has other lists for a CPU")
{
	const ListChoice gpu = {}, cpu = {.isCpu = true};
	CHECK((gpu.category("mv") == Category::lower_precision && cpu.category("mv") == Category::unlisted));
	CHECK((gpu.category("inverse") == Category::unlisted && cpu.category("inverse") == Category::fp32));
	CHECK((gpu.category("cat") == Category::unlisted && cpu.category("cat") == Category::promote));
	CHECK(cpu.category("mm") == Category::lower_precision);
	for (const Lists lists : {Lists::paddle, Lists::mindspore})
		CHECK(&listSystem(lists, true) == &listSystem(lists));
}
