// The torch.autocast, paddle.amp and MindSpore op lists by level and type, and the library calls that each op reaches.
// Constant data. Any thread.
#pragma once

#include "src/op/op.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autoamp::policy {

// In the order of the values of AUTOAMP_LEVEL and AUTOAMP_LISTS.
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

// Names as spelled by the framework, separated by spaces. Names of Cells, Primitives and functions are in one list.
struct OpList {
	Category category;
	uint8_t levels; // bits
	bool isFloat16Only;
	const char *names;
};

struct ListSystem {
	const char *prefix;     // prefix of a name
	const char *source;     // source of the data
	uint8_t levels;         // bits: levels that the framework defines
	uint8_t lowersUnlisted; // bits: levels where ops on no list are lowered too; elsewhere they stay fp32
	uint8_t promotes;       // bits: the levels among these where AUTOAMP_USE_PROMOTE=1 leaves such ops unchanged
	std::span<const OpList> lists;
};
extern const ListSystem torchLists, torchCpuLists, paddleLists, mindsporeLists;
// torch has other lists for calls on a CPU; the other systems have one for all devices.
const ListSystem &listSystem(Lists lists, bool isCpu = false);

// One op as a library call. `none` is first (entry points that no framework op reaches), then the ops of op::Kind in
// order, then the others.
struct CallRow {
	const char *op; // name in reports: torch's name
	// Entry points that it calls; NAME also stands for NAME_64, and sgemm for all its spellings in a CPU BLAS.
	const char *entries;
	// By Lists: the names that reach these entry points, including backward calls. The first name decides the category.
	// x=y are two spellings of a name; the first one that is listed counts.
	const char *names[listsCount];
	bool hasLowForm = true; // some of the entry points take 16-bit data
};
std::span<const CallRow> callRows();
constexpr size_t callRowCount = 52;
constexpr unsigned kindCount = static_cast<unsigned>(op::Kind::affine_grid_generator) + 1;
const char *name(op::Kind kind);

// Settings for a list lookup. For O0 the lists of O1 are used, to report their effect.
struct ListChoice {
	Lists lists = Lists::torch;
	Level level = Level::O1;
	op::Dtype dtype = op::Dtype::float16;
	bool usePromote = true;
	bool isCpu = false; // the call is one of a CPU BLAS

	Category category(std::string_view op) const;
	Category category(const CallRow &row) const;
	bool lowers(Category category) const; // whether fp32 data is lowered
};

// Bits of the rows that an op of the framework reaches.
uint64_t rowsOf(Lists lists, std::string_view op);
// MindSpore names may include their module: nn.Dense, ops.MatMul. Names of other frameworks are returned unchanged.
std::string_view withoutModule(Lists lists, std::string_view op);
bool hasLowForm(uint64_t rows); // for any of the rows
// Every op in the lists of the framework or in the rows, once each, sorted.
std::vector<std::string_view> opsOf(Lists lists);
// The routine of an entry point of a CPU BLAS, sgemm for scipy_cblas_sgemm64_ or SGEMM; other names do not match any.
std::string routineOf(std::string_view entry);
// The rows that an entry point may belong to, the most common first; if there is no row, `none`.
std::vector<const CallRow *> rowsAt(std::string_view entry);

} // namespace autoamp::policy
