#include "src/policy/lists.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>
#include <string>

using namespace autoamp;
using namespace autoamp::policy;

TEST_CASE("every op is named once, and every kind of product is an op")
{
	std::set<std::string> names;
	std::map<Category, int> count;
	for (const TorchOp &op : torchOps()) {
		INFO(op.name);
		CHECK(names.insert(op.name).second);
		CHECK(findTorchOp(op.name) == &op);
		++count[op.category];
	}
	// The registrations for CUDA (34, 65, 11, 1), the documentation's other spellings (6, 7, 1, 1).
	CHECK(count[Category::lower_precision] == 34 + 6);
	CHECK(count[Category::fp32] == 65 + 7);
	CHECK(count[Category::promote] == 11 + 1);
	CHECK(count[Category::banned] == 1 + 1);
	CHECK(findTorchOp("") == nullptr);
	CHECK(findTorchOp("matmul_v2") == nullptr); // Paddle's
	CHECK(findTorchOp("none") == nullptr);
}

TEST_CASE("torch lowers its products")
{
	for (op::Kind kind : {op::Kind::mm, op::Kind::addmm, op::Kind::bmm, op::Kind::mv}) {
		INFO(name(kind));
		CHECK(category(kind) == Category::lower_precision);
		CHECK((findTorchOp(name(kind))->kinds & bit(kind)));
	}
	CHECK(category(op::Kind::none) == Category::unlisted);
}

TEST_CASE("a name stands for every call that the op reaches")
{
	CHECK(findTorchOp("mm")->kinds == bit(op::Kind::mm));
	CHECK(findTorchOp("linear")->kinds == (bit(op::Kind::mm) | bit(op::Kind::addmm)));
	CHECK(findTorchOp("matmul")->kinds == (bit(op::Kind::mm) | bit(op::Kind::bmm) | bit(op::Kind::mv)));
	CHECK(findTorchOp("baddbmm")->kinds == bit(op::Kind::bmm));
	// Its products cannot be told from the application's own.
	CHECK(findTorchOp("cdist")->kinds == 0);
	CHECK(findTorchOp("conv2d")->kinds == 0);

	const char *const sample[][2] = {{"softmax", "fp32"},  {"layer_norm", "fp32"},
	                                 {"dot", "promote"},   {"binary_cross_entropy", "banned"},
	                                 {"gelu", "unlisted"}, {"conv2d", "lower_precision"}};
	for (auto &[op, category] : sample)
		CHECK(std::string(name(findTorchOp(op)->category)) == category);
}
