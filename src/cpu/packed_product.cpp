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

// Stores to C. Copies what it needs, because the compiler would read it again after each store.
class Store
{
public:
	AUTOAMP_AVX512 explicit Store(const Result &result)
	    : alpha_(_mm512_set1_ps(result.alpha)), beta_(_mm512_set1_ps(result.beta)), isAdded_(result.beta != 0)
	{
	}

	AUTOAMP_AVX512 void operator()(float *target, __m512 sum, __mmask16 mask) const
	{
		sum = _mm512_mul_ps(sum, alpha_);
		if (isAdded_)
			sum = _mm512_fmadd_ps(beta_, _mm512_maskz_loadu_ps(mask, target), sum);
		_mm512_mask_storeu_ps(target, mask, sum);
	}

private:
	const __m512 alpha_, beta_;
	const bool isAdded_;
};

// `width` outer indices from `outer`.
AUTOAMP_AVX512 void storeRows(const float *sums, int64_t row, int64_t end, int64_t outer, int64_t width,
                              const Result &result)
{
	const Store store(result);
	const int64_t ldc = result.ldc;
	for (float *target = result.C + row * ldc + outer; row < end; ++row, sums += panelWidth, target += ldc)
		if (width == panelWidth)
#pragma GCC unroll 4
			for (int64_t i = 0; i < panelWidth; i += 16)
				store(target + i, _mm512_load_ps(sums + i), 0xffff);
		else
			for (int64_t i = 0; i < width; i += 16)
				store(target + i, _mm512_load_ps(sums + i), firstOf16(width - i));
}

AUTOAMP_AVX512 void storeTransposed(const float *sums, int64_t count, int64_t outer, int64_t width,
                                    const Result &result)
{
	const Store store(result);
	for (int64_t row = 0; row < count; row += 16)
		for (int64_t i = 0; i < width; i += 16) {
			__m512i tile[16];
			for (int64_t j = 0; j < 16; ++j)
				tile[j] =
				    row + j < count ? _mm512_load_si512(sums + (row + j) * panelWidth + i) : _mm512_setzero_si512();
			transpose(tile);
			for (int64_t j = 0, end = std::min<int64_t>(16, width - i); j < end; ++j)
				store(result.C + (outer + i + j) * result.ldc + row, _mm512_castsi512_ps(tile[j]),
				      firstOf16(count - row));
		}
}

// Fetches a part of the result to which sums are added. In a function of its own, g++ 12 would remove it, as one
// without effect.
[[gnu::always_inline]] AUTOAMP_AVX512 inline void prefetch(const Result &result, int64_t row, int64_t end,
                                                           int64_t outer)
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
AUTOAMP_AVX512 void addPanel(const uint16_t *rows, int64_t stride, int64_t count, const uint16_t *panel, const Part &of,
                             const Panel &target)
{
	using Tile = void(const uint16_t *, int64_t, const uint16_t *, int64_t, bool, float *);
	static constexpr Tile *tiles[tileRows] = {addTile<1>, addTile<2>, addTile<3>, addTile<4>, addTile<5>, addTile<6>};
	const auto &[outer, width, result, sums, totals] = target;
	const int64_t parts = (count + tileRows - 1) / tileRows; // of similar size
	const bool isStored = of.isLast() && !result.isTransposed;
	const auto beginOf = [&](int64_t part) { return count * std::min(part, parts) / parts; };
	constexpr int64_t ahead = 2; // tiles
	const bool isRead = isStored && result.beta != 0;
	if (isRead)
		prefetch(result, 0, beginOf(ahead), outer);
	for (int64_t part = 0; part < parts; ++part) {
		const int64_t begin = beginOf(part), end = beginOf(part + 1), first = begin * panelWidth;
		if (isRead)
			prefetch(result, beginOf(part + ahead), beginOf(part + ahead + 1), outer);
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
