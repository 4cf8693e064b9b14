// Interface between host and audit kernels (audit.cuh): the parameters of an audited product and its scratch memory.
// Plain data. Formulas: docs/adr/0049. The same text compiles for the GPU and as host C++.
#pragma once

#include "kernels/cast.h"

namespace autoamp::kernels {

// The indices of a product D = alpha op(A) op(B) + beta C: rows and columns of D, and the depth, over which it sums.
// Each consists of levels, innermost first: those of a matrix have one, those of a convolution up to four.
constexpr int axisLevels = 4, mostGathered = 3;
struct Axis {
	int64_t size;
	int64_t extent[axisLevels]; // levels beyond `levels` have extent 1
	int levels;
};

// Addresses of the elements of one operand, for its two axes in this order: A row, depth; B depth, column; C and D row,
// column. Strides in elements.
struct AuditOperand {
	const float *source; // 4-byte aligned; for a batch by pointers: `const float *const *`
	int64_t matrixStride;
	int64_t stride[2][axisLevels];
	bool isArray;
};

// For a convolution, an element of A also has spatial coordinates: base + the sums over both axes of factor * index at
// the level with the same number. The coordinate counts in units of `divisor`. The element is 0 if the coordinate is
// between two units, or outside of [0, extent). This adds coordinate * stride to the address.
struct Gather {
	int dimensions; // 0: A is a matrix
	int64_t base[mostGathered], factor[2][mostGathered], divisor[mostGathered], extent[mostGathered],
	    stride[mostGathered];
};

enum class BiasOf : uint32_t { none, rows, columns };

// Decisions and progress of one audited call, in its scratch memory. Not cleared before the call.
constexpr uint32_t mostAuditBlocks = 512;
struct AuditState {
	uint32_t finished;                // blocks of `after` that have stored their sums
	uint32_t counts[mostAuditBlocks]; // calls of the site that each block of `before` read; for captured calls
};

// Sums with four random signs, for one k or one line of D. For a direct comparison of a line: the square sums of the
// difference and of the reference, then two zeros.
struct alignas(16) AuditSums {
	double value[probes];
};

// One audited product. `before` is launched before C may be overwritten, `after` when D is complete.
struct AuditCall : Events {
	AuditOperand a, b, c, d;
	Axis row, column, depth;
	Gather gather;
	int64_t batch, matrices;   // matrices: audited ones, at regular distances in the batch
	const float *alpha, *beta; // device pointers, or null: alphaValue and betaValue
	float alphaValue, betaValue;
	const float *bias; // one number for each row or column, added to D
	int64_t biasMatrixStride;
	BiasOf biasOf;
	const float *reference; // null, or D in fp32, in the layout of d: the two are compared directly
	AuditState *state;
	AuditSums *sums;       // auditSumCount(), 16-byte aligned
	uint32_t period;       // every period-th replay is audited, counted in SiteState::replays; 0: this call
	uint32_t beforeBlocks; // blocks of `before`
};

// The passes over operands, in the order of their sums in memory. Each makes sums for one axis, over another one.
enum AuditPass {
	ofColumnSigns,
	ofRowSigns,
	sourceRows,
	sourceColumns,
	productRows,
	productColumns,
	rowsOfD,
	columnsOfD
};
constexpr int auditPasses = 8, passesBefore = 4;

AUTOAMP_HOST_DEVICE inline const Axis &keptBy(const AuditCall &p, int pass)
{
	return pass <= ofRowSigns ? p.depth : pass % 2 == 0 ? p.row : p.column;
}
AUTOAMP_HOST_DEVICE inline const Axis &summedBy(const AuditCall &p, int pass)
{
	if (pass == productRows || pass == productColumns)
		return p.depth;
	return pass % 2 == 0 ? p.column : p.row;
}
// A pass is made in parts, each over some of the indices that it sums over. The number depends on the shape alone, so
// that sums do not depend on the device.
AUTOAMP_HOST_DEVICE inline int64_t auditParts(const AuditCall &p, int pass)
{
	return partsOf(keptBy(p, pass).size, summedBy(p, pass).size, p.matrices);
}
AUTOAMP_HOST_DEVICE inline int64_t sumsOfPass(const AuditCall &p, int pass)
{
	return auditParts(p, pass) * keptBy(p, pass).size * p.matrices;
}
// True if the call needs this pass. A beta on the device may be 0: then nothing is read.
AUTOAMP_HOST_DEVICE inline bool hasPass(const AuditCall &p, int pass)
{
	if (p.reference)
		return pass >= rowsOfD;
	return (pass != sourceRows && pass != sourceColumns) || p.beta || p.betaValue != 0;
}
AUTOAMP_HOST_DEVICE inline int64_t auditSumCount(const AuditCall &p)
{
	int64_t count = 0;
	for (int pass = 0; pass < auditPasses; ++pass)
		count += hasPass(p, pass) ? sumsOfPass(p, pass) : 0;
	return count;
}
// Blocks that a launch can use, for the passes [first, end).
AUTOAMP_HOST_DEVICE inline int64_t auditUnits(const AuditCall &p, int first, int end)
{
	int64_t units = 0;
	for (int pass = first; pass < end; ++pass)
		units +=
		    hasPass(p, pass) ? (keptBy(p, pass).size + tileWide - 1) / tileWide * p.matrices * auditParts(p, pass) : 0;
	return units;
}

// Kernels (parameter: AuditCall, by value), blocks of blockSize threads:
//   autoamp_audit_before     sums of A, B and the C that the product reads, with random signs
//   autoamp_audit_after      the same of D and of the product of these sums; the last block compares both, and reports

} // namespace autoamp::kernels
