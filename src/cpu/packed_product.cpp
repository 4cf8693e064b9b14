#include "src/cpu/packed_product.h"

#include "src/cpu/vectors.h"

#include <algorithm>

namespace autoamp::cpu {

namespace {

constexpr int64_t tileRows = 6; // 24 sums, 4 vectors of the weight and 1 of a row are in registers

// Adds the products of `pairs` pairs to `count` rows of sums, which are panelWidth apart.
template <int count>
AUTOAMP_AVX512 void addTile(const uint16_t *rows, int64_t stride, const uint16_t *panel, int64_t pairs, bool isFirst,
                            float *sums)
{
	__m512 sum[count][4];
#pragma GCC unroll 6
	for (int i = 0; i < count; ++i)
#pragma GCC unroll 6
		for (int j = 0; j < 4; ++j)
			sum[i][j] = isFirst ? _mm512_setzero_ps() : _mm512_load_ps(sums + i * panelWidth + j * 16);
	for (int64_t pair = 0; pair < pairs; ++pair, panel += pairElements, rows += 2) {
		__m512bh weight[4];
		_mm_prefetch(panel + 16 * pairElements, _MM_HINT_T0);
		_mm_prefetch(panel + 16 * pairElements + 32, _MM_HINT_T0);
		_mm_prefetch(panel + 16 * pairElements + 64, _MM_HINT_T0);
		_mm_prefetch(panel + 16 * pairElements + 96, _MM_HINT_T0);
#pragma GCC unroll 6
		for (int j = 0; j < 4; ++j)
			weight[j] = reinterpret_cast<__m512bh>(_mm512_load_si512(panel + j * 32));
#pragma GCC unroll 6
		for (int i = 0; i < count; ++i) {
			int32_t both;
			__builtin_memcpy(&both, rows + i * stride, 4);
			const auto row = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
#pragma GCC unroll 6
			for (int j = 0; j < 4; ++j)
				sum[i][j] = _mm512_dpbf16_ps(sum[i][j], row, weight[j]);
		}
	}
#pragma GCC unroll 6
	for (int i = 0; i < count; ++i)
#pragma GCC unroll 6
		for (int j = 0; j < 4; ++j)
			_mm512_store_ps(sums + i * panelWidth + j * 16, sum[i][j]);
}

AUTOAMP_AVX512 void storeVector(float *target, __m512 sum, __mmask16 mask, const Result &result)
{
	sum = _mm512_mul_ps(sum, _mm512_set1_ps(result.alpha));
	if (result.beta != 0)
		sum = _mm512_fmadd_ps(_mm512_set1_ps(result.beta), _mm512_maskz_loadu_ps(mask, target), sum);
	_mm512_mask_storeu_ps(target, mask, sum);
}

// `width` outer indices from `outer`.
AUTOAMP_AVX512 void storeRows(const float *sums, int64_t row, int64_t end, int64_t outer, int64_t width,
                              const Result &result)
{
	for (; row < end; ++row, sums += panelWidth)
		for (int64_t i = 0; i < width; i += 16)
			storeVector(result.C + row * result.ldc + outer + i, _mm512_load_ps(sums + i), firstOf16(width - i),
			            result);
}

AUTOAMP_AVX512 void storeTransposed(const float *sums, int64_t count, int64_t outer, int64_t width,
                                    const Result &result)
{
	for (int64_t row = 0; row < count; row += 16)
		for (int64_t i = 0; i < width; i += 16) {
			__m512i tile[16];
			for (int64_t j = 0; j < 16; ++j)
				tile[j] =
				    row + j < count ? _mm512_load_si512(sums + (row + j) * panelWidth + i) : _mm512_setzero_si512();
			transpose(tile);
			for (int64_t j = 0, end = std::min<int64_t>(16, width - i); j < end; ++j)
				storeVector(result.C + (outer + i + j) * result.ldc + row, _mm512_castsi512_ps(tile[j]),
				            firstOf16(count - row), result);
		}
}

// Fetches the part of the result that the next tile will write.
void prefetch(const Result &result, int64_t row, int64_t end, int64_t outer)
{
	for (; row < end; ++row)
		for (int64_t i = 0; i < panelWidth; i += 16)
			__builtin_prefetch(result.C + row * result.ldc + outer + i, 1);
}

// Products that are added one after the other; the sums of these chains are then added. The error of a sum in fp32
// grows with its length.
constexpr int64_t chainInner = 1024;

AUTOAMP_AVX512 void addChain(const float *sums, int64_t elements, bool isFirst, float *totals)
{
	for (int64_t i = 0; i < elements; i += 16) {
		const __m512 sum = _mm512_load_ps(sums + i);
		_mm512_store_ps(totals + i, isFirst ? sum : _mm512_add_ps(_mm512_load_ps(totals + i), sum));
	}
}

// Where the sums of a panel go.
struct Panel {
	int64_t outer, width; // outer indices of the weight
	const Result &result;
	float *sums, *totals; // those of the chain and those of all chains; no totals if there is one chain
};

// Inner indices of a part of a panel.
struct Part {
	int64_t begin, end, inner;

	int64_t pairs() const { return (end - begin + 1) / 2; }
	bool isLast() const { return end == inner; }
	bool beginsChain() const { return begin % chainInner == 0; }
	bool endsChain() const { return end % chainInner == 0 || isLast(); }
};

// All rows with a part of one panel. After the last part, the sums are stored.
void addPanel(const uint16_t *rows, int64_t stride, int64_t count, const uint16_t *panel, const Part &of,
              const Panel &target)
{
	using Tile = void(const uint16_t *, int64_t, const uint16_t *, int64_t, bool, float *);
	static constexpr Tile *tiles[tileRows] = {addTile<1>, addTile<2>, addTile<3>, addTile<4>, addTile<5>, addTile<6>};
	const auto &[outer, width, result, sums, totals] = target;
	const int64_t parts = (count + tileRows - 1) / tileRows; // of similar size
	for (int64_t part = 0, begin = 0, end; part < parts; ++part, begin = end) {
		end = count * (part + 1) / parts;
		const int64_t first = begin * panelWidth;
		const bool isStored = of.isLast() && !result.isTransposed;
		if (isStored)
			prefetch(result, begin, end, outer);
		tiles[end - begin - 1](rows + begin * stride + of.begin, stride, panel, of.pairs(), of.beginsChain(),
		                       sums + first);
		if (totals && of.endsChain())
			addChain(sums + first, (end - begin) * panelWidth, of.begin < chainInner, totals + first);
		if (isStored)
			storeRows((totals ? totals : sums) + first, begin, end, outer, width, result);
	}
	if (of.isLast() && result.isTransposed)
		storeTransposed(totals ? totals : sums, count, outer, width, result);
}

// A part of the weight that is packed at once, and then multiplied from the second-level cache. Its lines are as long
// as a page.
struct Block {
	int64_t outer, inner;
};
Block blockOf(const Operand &weight)
{
	return weight.isInnerContiguous ? Block{panelWidth, 1024} : Block{512, 128};
}
constexpr int64_t blockBytes = 8 * (panelWidth * 128 + 32) * 2;
constexpr int64_t packedInner = 256; // this part of a packed panel stays in the first-level cache for all rows

// Elements of the sums of a panel.
int64_t elementsOf(int64_t count, int64_t inner)
{
	return count * panelWidth * (inner > chainInner ? 2 : 1);
}

} // namespace

int64_t bytesForThread(int64_t count, const Operand &weight, bool isPacked)
{
	const int64_t bytes = elementsOf(count, weight.inner()) * 4;
	return isPacked ? bytes : blockBytes + blockOf(weight).outer / panelWidth * bytes;
}

void multiply(const PackedProduct &product, const Result &result, int64_t begin, int64_t end, void *memory)
{
	const auto &[rows, count, weight, packed] = product;
	const int64_t inner = weight.inner(), stride = rowStride(inner), packedStride = panelStride(weight.pairs());
	auto *const buffer = static_cast<uint16_t *>(memory);
	auto *const sums = reinterpret_cast<float *>(packed ? memory : buffer + blockBytes / 2);
	const Block block = packed ? Block{panelWidth, count <= tileRows ? chainInner : packedInner} : blockOf(weight);
	for (int64_t outer = begin; outer < end; outer += block.outer) {
		const int64_t outerEnd = std::min(outer + block.outer, end);
		for (int64_t at = 0; at < inner; at += block.inner) {
			const Part part = {at, std::min(at + block.inner, inner), inner};
			const int64_t partStride = panelStride(part.pairs());
			if (!packed)
				packPanels(weight.part(outer, outerEnd, at, part.end), buffer, partStride);
			for (int64_t panel = 0; panel < panelsOf(outerEnd - outer); ++panel) {
				const int64_t first = outer + panel * panelWidth;
				float *const mine = sums + panel * elementsOf(count, inner);
				addPanel(rows, stride, count,
				         packed ? packed + first / panelWidth * packedStride + at / 2 * pairElements
				                : buffer + panel * partStride,
				         part,
				         {first, std::min(panelWidth, outerEnd - first), result, mine,
				          inner > chainInner ? mine + count * panelWidth : nullptr});
			}
		}
	}
}

} // namespace autoamp::cpu
