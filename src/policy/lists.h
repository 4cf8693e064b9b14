// The op lists of torch.autocast, paddle.amp and MindSpore by level and type, and which library calls an op reaches.
// Constant data. Any thread.
#pragma once

#include "src/op/op.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace autoamp::policy {

// By the words of AUTOAMP_LEVEL and AUTOAMP_LISTS.
enum class Level : uint8_t { O0, O1, O2, O3, automatic, OD };
enum class Lists : uint8_t { torch, paddle, mindspore };
constexpr unsigned listsCount = static_cast<unsigned>(Lists::mindspore) + 1;
constexpr uint8_t bit(Level level)
{
	return static_cast<uint8_t>(1u << static_cast<unsigned>(level));
}

// The category of an op in the lists of a system; `category` of docs/report-json.md.
enum class Category : uint8_t { unlisted, lower_precision, fp32, promote, banned };
const char *name(Category category);

// Names are the system's own, with a space between two; those of Cells, Primitives and functions are one.
struct OpList {
	Category category;
	uint8_t levels; // bits
	bool isFloat16Only;
	const char *names;
};

struct ListSystem {
	const char *prefix;     // of a name
	const char *source;     // of the data
	uint8_t levels;         // bits: those that it defines
	uint8_t lowersUnlisted; // bits: levels where ops on no list are lowered too; elsewhere fp32 data stays as it is
	uint8_t promotes;       // bits: of those, the levels where AUTOAMP_USE_PROMOTE=1 leaves it too
	std::span<const OpList> lists;
};
extern const ListSystem torchLists, paddleLists, mindsporeLists;
const ListSystem &listSystem(Lists lists);

// One op at the border of a library; the first ones are those of op::Kind, `none` (entry points that no op of a
// framework reaches) before all.
struct CallRow {
	const char *op;      // as reports spell it: torch's name
	const char *entries; // that it arrives at; NAME stands for NAME_64 too
	// By Lists, the names that reach these entry points, backward calls included. The first decides the category; x=y
	// are two spellings of it, of which the first that is listed counts.
	const char *names[listsCount];
	bool hasLowForm = true; // some of the entry points take 16-bit data
};
std::span<const CallRow> callRows();
constexpr size_t callRowCount = 52;
constexpr unsigned kindCount = static_cast<unsigned>(op::Kind::affine_grid_generator) + 1;
const char *name(op::Kind kind);

// What the lists are looked up for. O0 looks at those of O1, to say what they would do.
struct ListChoice {
	Lists lists = Lists::torch;
	Level level = Level::O1;
	op::Dtype dtype = op::Dtype::float16;
	bool usePromote = true;

	Category category(std::string_view op) const;
	Category category(const CallRow &row) const;
	bool lowers(Category category) const; // what it means for fp32 data
};

// Bits of the rows that an op of the system reaches.
uint64_t rowsOf(Lists lists, std::string_view op);
// MindSpore's names may come with their module: nn.Dense, ops.MatMul. Of another system's nothing is taken off.
std::string_view withoutModule(Lists lists, std::string_view op);
bool hasLowForm(uint64_t rows); // any of them
// Every op that the system's lists or the rows know, once each, sorted.
std::vector<std::string_view> opsOf(Lists lists);
// The rows that an entry point may be, the most usual first; `none` if there is none.
std::vector<const CallRow *> rowsAt(std::string_view entry);

} // namespace autoamp::policy
