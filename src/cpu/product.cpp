#include "src/cpu/product.h"

#include "src/cpu/convert.h"
#include "src/cpu/packed_product.h"
#include "src/cpu/scratch.h"
#include "src/cpu/stay.h"
#include "src/cpu/team.h"

#include <algorithm>
#include <atomic>

namespace autoamp::cpu {

namespace {

Matrix operand(const float *source, int64_t rows, int64_t columns, bool isTransposed, int64_t ld)
{
	return isTransposed ? Matrix{source, columns, rows, ld} : Matrix{source, rows, columns, ld};
}

// Valid for BLAS, and sums of its sizes in bytes fit in 63 bits. `lines` may be 0.
bool isValid(const Matrix &matrix)
{
	int64_t elements;
	return matrix.length >= 0 && matrix.lines >= 0 && matrix.ld >= std::max<int64_t>(matrix.length, 1) &&
	       !__builtin_mul_overflow(matrix.ld, matrix.lines, &elements) && elements < int64_t{1} << 58;
}

// Compares the address ranges. Blocks of one parent matrix may interleave without a common element; the program's
// function multiplies these too.
bool overlap(const Matrix &a, const Matrix &b)
{
	const auto end = [](const Matrix &matrix) {
		return matrix.source + (matrix.lines - 1) * matrix.ld + matrix.length;
	};
	return a.source < end(b) && b.source < end(a);
}

int64_t cacheLines(int64_t bytes)
{
	return (bytes + 63) & ~int64_t{63};
}

// The boundaries are multiples of a vector, so that only the last part has a tail.
int64_t boundary(int64_t elements, unsigned part, unsigned parts)
{
	return part == parts ? elements : elements / parts * part & ~int64_t{31};
}

Threads threadsFor(const Product &product, Threads most)
{
	const double parts = static_cast<double>(product.m) * static_cast<double>(product.n) *
	                     static_cast<double>(product.k) / leastPerThread(most.pool);
	return {parts < most.most ? static_cast<unsigned>(parts) : most.most, most.pool, most.openMp};
}

// The weight of a product is the operand with more rows or columns of the result. Only if it is large, and the other
// one is not, a kept copy is a gain. CPUs with AMX, which packed_product.h does not use, were not measured.
WeightReason reasonAgainstKeeping(const Product &product, Bf16Unit unit)
{
	const int64_t outer = std::max(product.m, product.n), rows = std::min(product.m, product.n);
	if (outer < 256 || product.k < 128 || outer * product.k < 64 << 10)
		return WeightReason::tooSmall;
	return rows > (unit == Bf16Unit::amx ? 32 : 256) || 2 * rows > outer ? WeightReason::manyRows : WeightReason::none;
}

Reason multiplyFewRows(const Product &product, const Matrix &a, const Matrix &b, Team &team, size_t budget,
                       const Keeping &keeping, WeightUse &use, bool usesFma)
{
	const bool isWeightA = product.m >= product.n;
	const Operand operandA{a, product.transA}, operandB{b, !product.transB};
	const Operand &weight = isWeightA ? operandA : operandB, &rows = isWeightA ? operandB : operandA;
	const KeptWeight kept(weight, keeping.mode, budget, keeping.patience, use);
	if (keeping.onlyIfKept && !kept.isSteady())
		return Reason::notKept;

	const int64_t bytesRows = cacheLines(rows.outer() * rowStride(rows.inner()) * 2);
	PackedProduct few{nullptr, rows.outer(), weight, kept.packed(), usesFma};
	const int64_t bytesThread = bytesForThread(few.count, weight, few.packed, usesFma);
	Reason reason;
	auto *const memory = static_cast<char *>(
	    scratch(static_cast<size_t>(bytesRows + bytesThread * static_cast<int64_t>(team.mostParts())), budget, reason));
	if (!memory)
		return reason;
	auto *const packedRows = reinterpret_cast<uint16_t *>(memory);
	packRows(rows, packedRows);
	few.rows = packedRows;
	const Result result{product.C, product.ldc, !isWeightA, product.alpha, product.beta};
	team.run([&](unsigned part, unsigned parts) {
		const int64_t panels = panelsOf(weight.outer());
		multiply(few, result, panels * part / parts * panelWidth,
		         std::min(panels * (part + 1) / parts * panelWidth, weight.outer()),
		         memory + bytesRows + bytesThread * part);
	});
	return Reason::none;
}

// Ranges of rows and of panels whose blocks of the result are shared out to the threads.
struct Grid {
	int64_t rows, panels;
};

// If the panels cannot be shared out evenly, the rows are. A block has at least the rows of a tile.
Grid gridOf(int64_t count, int64_t outer, const Team &team)
{
	const int64_t parts = team.mostParts(), threads = team.size(), panels = panelsOf(outer);
	const bool isEven = 7 * threads * ((panels + threads - 1) / threads * panelWidth) <= 8 * outer;
	if (panels >= parts && (isEven || count < 6 * parts))
		return {1, parts};
	if (panels >= parts || count >= 12 * parts)
		return {parts, 1};
	const int64_t rows = std::min(count / 6, (parts + panels - 1) / panels);
	return {std::max<int64_t>(rows > threads ? rows - rows % threads : rows, 1), panels};
}

// Both operands are packed at each call. A weight that leaves the caches before it is used is packed in parts, if each
// part is used once.
Reason multiplyPacked(const Product &product, const Matrix &a, const Matrix &b, Team &team, size_t budget, bool usesFma)
{
	// A panel of a few rows of A would be mostly empty.
	const bool isWeightA = product.n < 4 * product.m || 4 * ((product.m + 15) & ~int64_t{15}) < 5 * product.m;
	const Operand operandA{a, product.transA}, operandB{b, !product.transB};
	const Operand &weight = isWeightA ? operandA : operandB, &rows = isWeightA ? operandB : operandA;
	const int64_t inner = weight.inner(), panels = panelsOf(weight.outer()), count = rows.outer();
	const Grid grid = gridOf(count, weight.outer(), team);
	// With their sums, so many rows stay in the second-level cache. With few terms in the sums of a large result, its
	// stores take the time: with fewer rows, they follow each other on its lines, instead of being pages apart.
	const bool isThin = inner <= 128 && weight.outer() * inner <= 1 << 18 && weight.outer() * count > 1 << 20;
	const int64_t mostRows = isThin ? 24 : 768;
	const int64_t rowSize = rowStride(inner), panelSize = panelStride(weight.pairs());
	const bool isWhole = count > mostRows || grid.rows > 1 || weight.outer() * inner <= 1 << 20;
	const int64_t bytesRows = cacheLines(count * rowSize * 2),
	              bytesWeight = isWhole ? cacheLines(panels * panelSize * 2) : 0,
	              bytesThread = bytesForThread(std::min(count, mostRows), weight, isWhole, usesFma);
	Reason reason;
	auto *const memory = static_cast<char *>(
	    scratch(static_cast<size_t>(bytesRows + bytesWeight + bytesThread * static_cast<int64_t>(team.mostParts())),
	            budget, reason));
	if (!memory)
		return reason;
	auto *const packedRows = reinterpret_cast<uint16_t *>(memory);
	auto *const packed = isWhole ? reinterpret_cast<uint16_t *>(memory + bytesRows) : nullptr;
	const auto endOf = [&](int64_t panel) { // the last one is not full
		return std::min(panel * panelWidth, weight.outer());
	};
	team.run([&](unsigned part, unsigned parts) {
		const int64_t row = count * part / parts;
		packRows(rows.part(row, count * (part + 1) / parts, 0, inner), packedRows + row * rowSize);
		if (!packed)
			return;
		// With too few panels, their terms are shared out, too.
		const int64_t slices = (parts + panels - 1) / panels, length = (inner / slices + 63) & ~int64_t{63};
		const int64_t begin = panels * slices * part / parts, end = panels * slices * (part + 1) / parts;
		if (slices == 1)
			return packPanels(weight.part(endOf(begin), endOf(end), 0, inner), packed + begin * panelSize, panelSize);
		for (int64_t i = begin; i < end; ++i) {
			const int64_t panel = i / slices, slice = i % slices, first = std::min(slice * length, inner);
			packPanels(weight.part(endOf(panel), endOf(panel + 1), first,
			                       slice + 1 == slices ? inner : std::min(first + length, inner)),
			           packed + panel * panelSize + first / 2 * pairElements, panelSize);
		}
	});
	team.run([&](unsigned part, unsigned parts) {
		const int64_t blocks = grid.rows * grid.panels;
		for (int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block) {
			const int64_t i = block / grid.panels, j = block % grid.panels, end = count * (i + 1) / grid.rows;
			for (int64_t row = count * i / grid.rows; row < end; row += mostRows)
				multiply({packedRows + row * rowSize, std::min(mostRows, end - row), weight, packed, usesFma},
				         {product.C + row * (isWeightA ? product.ldc : 1), product.ldc, !isWeightA, product.alpha,
				          product.beta},
				         endOf(panels * j / grid.panels), endOf(panels * (j + 1) / grid.panels),
				         memory + bytesRows + bytesWeight + bytesThread * part);
		}
	});
	return Reason::none;
}

void convertPart(const Matrix &matrix, unsigned part, unsigned parts, uint16_t *target)
{
	convert(matrix, boundary(matrix.elements(), part, parts), boundary(matrix.elements(), part + 1, parts), target);
}

// oneDNN may use other static data for each of these kinds.
void noteKind(const Product &product, unsigned threads, bool isOverwritten)
{
	static constinit std::atomic<uint64_t> known[2] = {};
	const unsigned kind = product.transA | product.transB << 1 | (product.m == 1) << 2 | (product.n == 1) << 3 |
	                      (product.k == 1) << 4 | (threads > 1) << 5;
	const uint64_t bit = uint64_t{1} << kind;
	if (!(known[isOverwritten].load(std::memory_order_relaxed) & bit)) {
		guardExit();
		known[isOverwritten].fetch_or(bit, std::memory_order_relaxed);
	}
}

} // namespace

Engine engine()
{
	static constexpr Dnnl none;
	const Bf16Unit unit = bf16Unit();
	return {unit, unit == Bf16Unit::amx ? dnnl() : none};
}

Reason multiply(const Product &product, Threads threads, size_t budget, const Engine &on)
{
	WeightUse use;
	return multiply(product, threads, budget, {WeightMode::off, false}, use, on);
}

Reason multiply(const Product &product, Threads threads, size_t budget, const Keeping &keeping, WeightUse &use,
                const Engine &on)
{
	use = {};
	const auto &[transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc] = product;
	if (on.unit == Bf16Unit::none)
		return Reason::cpuTooOld;
	const Matrix a = operand(A, m, k, transA, lda), b = operand(B, k, n, transB, ldb), c{C, m, n, ldc};
	if (!isValid(a) || !isValid(b) || !isValid(c))
		return Reason::invalidArguments;
	if (m == 0 || n == 0 || k == 0 || alpha == 0)
		return Reason::nothingToDo;
	if (overlap(a, c) || overlap(b, c))
		return Reason::overlap;

	Team team(on.dnnl, threadsFor(product, threads));
	// If oneDNN cannot use AMX, because it is missing or the kernel refuses the registers, the CPU counts as one
	// without. It is not asked for products that do not need it.
	const bool isAsked = on.unit == Bf16Unit::amx && reasonAgainstKeeping(product, on.unit) != WeightReason::none;
	const Bf16Unit inDnnl = isAsked ? on.unitInDnnl(on.dnnl) : on.unit;
	const Bf16Unit unit = inDnnl == Bf16Unit::none ? Bf16Unit::avx512 : inDnnl;
	use.reason = reasonAgainstKeeping(product, unit);
	if (use.reason == WeightReason::none)
		return multiplyFewRows(product, a, b, team, budget, keeping, use, on.usesFma);
	if (keeping.mode == WeightMode::off)
		use.reason = WeightReason::weightsOff;
	if (keeping.onlyIfKept)
		return Reason::notKept;
	if (unit != Bf16Unit::amx)
		return multiplyPacked(product, a, b, team, budget, on.usesFma);
	const Stay stay;
	if (!stay)
		return Reason::noLibrary;
	if (stay.mayHang())
		return Reason::forkedInside;

	// If oneDNN has no memory for its own blocks, an unknown part of C may be written: by threads that had memory, or
	// scaled by beta. The program's function could not add to it any more, so such a product is added afterwards.
	const bool isAdded = beta != 0 && (beta != 1 || team.size() > 1);
	const int64_t bytesA = cacheLines(a.elements() * 2), bytesB = cacheLines(b.elements() * 2),
	              bytesC = isAdded ? c.elements() * 4 : 0;
	Reason reason;
	auto *const memory = static_cast<char *>(scratch(static_cast<size_t>(bytesA + bytesB + bytesC), budget, reason));
	if (!memory)
		return reason;

	auto *const lowA = reinterpret_cast<uint16_t *>(memory);
	auto *const lowB = reinterpret_cast<uint16_t *>(memory + bytesA);
	team.run([&](unsigned part, unsigned parts) {
		convertPart(a, part, parts, lowA);
		convertPart(b, part, parts, lowB);
	});

	// oneDNN is row-major: transposed, this is B' A' = C'.
	float *const result = isAdded ? reinterpret_cast<float *>(memory + bytesA + bytesB) : C;
	const int64_t resultLd = isAdded ? m : ldc;
	const bool isDone = team.gemm(transB ? 'T' : 'N', transA ? 'T' : 'N', n, m, k, alpha, lowB, b.length, lowA,
	                              a.length, isAdded ? 0 : beta, result, resultLd);
	noteKind(product, team.size(), isAdded || beta == 0);
	if (!isDone)
		return Reason::engineFailed;
	if (isAdded)
		team.run([&, m = m, n = n, beta = beta, C = C, ldc = ldc](unsigned part, unsigned parts) {
			for (int64_t j = n * part / parts, end = n * (part + 1) / parts; j < end; ++j)
				addScaled(C + j * ldc, beta, result + j * m, m);
		});
	return Reason::none;
}

} // namespace autoamp::cpu
