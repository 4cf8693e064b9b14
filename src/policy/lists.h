// Torch's autocast op lists, and which library calls an op reaches. Constant data.
// Any thread.
#pragma once

#include "src/op/op.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace autoamp::policy {

// interface.md section 4 (`category`): what the list system does with an op.
enum class Category : uint8_t { unlisted, lower_precision, fp32, promote, banned };
const char *name(Category category);

constexpr unsigned kindCount = static_cast<unsigned>(op::Kind::mv) + 1;
constexpr uint32_t bit(op::Kind kind)
{
	return uint32_t{1} << static_cast<unsigned>(kind);
}

// The op of torch that a call is reported as; "none" for a call that no op reaches.
const char *name(op::Kind kind);
Category category(op::Kind kind);

// One op that torch's users may name. `kinds`: the calls it reaches, backward calls included; 0: no library call that
// could be told apart (elementwise, convolutions, and ops whose products look like any other mm).
struct TorchOp {
	const char *name;
	Category category;
	uint32_t kinds;
};
std::span<const TorchOp> torchOps();
const TorchOp *
findTorchOp(std::string_view name); // null: torch has no such op, or no list and no library call knows it

} // namespace autoamp::policy
