#include "src/cpu/packed_product.h"

#include "src/cpu/vectors.h"

#include <algorithm>
#include <array>
#include <utility>

namespace autoamp::cpu {

namespace {

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

// Where a tile stores its sums after the last pair, instead of in memory for sums.
struct Target {
	float *C;
	int64_t ldc;
	Store store;
	const float *totals; // sums of earlier chains, or null
	__mmask16 lastMask;  // columns of the last vector
};

// A tile keeps its sums, the vectors of the weight and one of a row in registers. The processor needs 12 sums to be
// busy, which a tile of one vector reaches with more rows.
constexpr int mostVectors = panelWidth / 16;
constexpr int tileRows(int vectors)
{
	return vectors == 1 ? 12 : 6;
}

// Adds the products of a pair of each row, rows[i * stride] and its neighbour, to the sums of the row. The pairs of the
// weight are one vector after the other.
template <int vectors, int count>
AUTOAMP_AVX512 void addPairs(const uint16_t *rows, int64_t stride, const uint16_t *pairs, __m512 (&sum)[count][vectors])
{
	__m512bh weight[vectors];
#pragma GCC unroll 12
	for (int j = 0; j < vectors; ++j)
		weight[j] = reinterpret_cast<__m512bh>(_mm512_load_si512(pairs + j * 32));
#pragma GCC unroll 12
	for (int i = 0; i < count; ++i) {
		int32_t both;
		__builtin_memcpy(&both, rows + i * stride, 4);
		const auto row = reinterpret_cast<__m512bh>(_mm512_set1_epi32(both));
#pragma GCC unroll 12
		for (int j = 0; j < vectors; ++j)
			sum[i][j] = _mm512_dpbf16_ps(sum[i][j], row, weight[j]);
	}
}

// The same in fp32. Like VDPBF16PS, adds the second product of a pair first, rounds after each of the two, and is
// independent of the floating-point environment. So the sums have the same bits, except for denormal ones.
template <int vectors, int count>
AUTOAMP_AVX512 void addPairs(const float *rows, int64_t stride, const uint16_t *pairs, __m512 (&sum)[count][vectors])
{
#pragma GCC unroll 2
	for (int element = 1; element >= 0; --element) {
		__m512 weight[vectors];
#pragma GCC unroll 12
		for (int j = 0; j < vectors; ++j) {
			const __m512i both = _mm512_load_si512(pairs + j * 32);
			weight[j] = _mm512_castsi512_ps(element ? _mm512_and_si512(both, _mm512_set1_epi32(-0x10000))
			                                        : _mm512_slli_epi32(both, 16));
		}
#pragma GCC unroll 12
		for (int i = 0; i < count; ++i) {
			const __m512 row = _mm512_set1_ps(rows[i * stride + element]);
#pragma GCC unroll 12
			for (int j = 0; j < vectors; ++j)
				sum[i][j] =
				    _mm512_fmadd_round_ps(row, weight[j], sum[i][j], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
		}
	}
}

// Adds the products of `pairs` pairs to `count` rows of sums, which are panelWidth apart and have `vectors` vectors.
// With a target, the sums go there.
template <int vectors, int count, class Element>
AUTOAMP_AVX512 void addTile(const Element *rows, int64_t stride, const uint16_t *panel, int64_t pairs, bool isFirst,
                            float *sums, const Target *target)
{
	__m512 sum[count][vectors];
#pragma GCC unroll 12
	for (int i = 0; i < count; ++i)
#pragma GCC unroll 12
		for (int j = 0; j < vectors; ++j)
			sum[i][j] = isFirst ? _mm512_setzero_ps() : _mm512_load_ps(sums + i * panelWidth + j * 16);
	for (int64_t pair = 0; pair < pairs; ++pair, panel += pairElements, rows += 2) {
#pragma GCC unroll 12
		for (int j = 0; j < vectors; ++j)
			_mm_prefetch(panel + 16 * pairElements + j * 32, _MM_HINT_T0);
		addPairs(rows, stride, panel, sum);
	}
	if (!target) {
#pragma GCC unroll 12
		for (int i = 0; i < count; ++i)
#pragma GCC unroll 12
			for (int j = 0; j < vectors; ++j)
				_mm512_store_ps(sums + i * panelWidth + j * 16, sum[i][j]);
		return;
	}
	const Target to = *target; // the compiler would read it again after each store
	if (to.totals)
#pragma GCC unroll 12
		for (int i = 0; i < count; ++i)
#pragma GCC unroll 12
			for (int j = 0; j < vectors; ++j)
				sum[i][j] = _mm512_add_ps(_mm512_load_ps(to.totals + i * panelWidth + j * 16), sum[i][j]);
#pragma GCC unroll 12
	for (int i = 0; i < count; ++i)
#pragma GCC unroll 12
		for (int j = 0; j < vectors; ++j)
			to.store(to.C + i * to.ldc + j * 16, sum[i][j], j == vectors - 1 ? to.lastMask : 0xffff);
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

// Fetches a part of the result to which sums are added. If it is not inlined, g++ 12 removes its calls, because they
// seem to have no effect.
[[gnu::always_inline]] AUTOAMP_AVX512 inline void prefetch(const Result &result, int64_t row, int64_t end,
                                                           int64_t outer)
{
	for (; row < end; ++row)
		for (int64_t i = 0; i < panelWidth; i += 16)
			__builtin_prefetch(result.C + row * result.ldc + outer + i, 1);
}

template <class Element>
using Tile = void(const Element *, int64_t, const uint16_t *, int64_t, bool, float *, const Target *);
template <class Element>
using Tiles = std::array<Tile<Element> *, tileRows(1)>; // for each number of rows
template <class Element, int vectors, size_t... counts>
constexpr Tiles<Element> tilesOf(std::index_sequence<counts...>)
{
	return {addTile<vectors, counts + 1, Element>...};
}
template <class Element, int vectors>
constexpr Tiles<Element> tilesWith = tilesOf<Element, vectors>(std::make_index_sequence<tileRows(vectors)>());
template <class Element>
constexpr Tiles<Element> tiles[mostVectors] = {tilesWith<Element, 1>, tilesWith<Element, 2>, tilesWith<Element, 3>,
                                               tilesWith<Element, 4>};

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
	float *rows;          // for the rows of a tile in fp32, or null: they are multiplied in bfloat16
};

// Inner indices of a part of a panel.
struct Part {
	int64_t begin, end, inner;

	int64_t pairs() const { return (end - begin + 1) / 2; }
	bool isLast() const { return end == inner; }
	bool beginsChain() const { return begin % chainInner == 0; }
	bool endsChain() const { return end % chainInner == 0 || isLast(); }
};

// Elements from a row of a tile in fp32 to the next one, which begins in another set of the first-level cache.
constexpr int64_t wideStride = chainInner + 16;

// Converts `count` rows of `elements` elements. Those up to the next multiple of 16 are read and written as well.
AUTOAMP_AVX512 void widen(const uint16_t *rows, int64_t stride, int64_t count, int64_t elements, float *target)
{
	for (int64_t i = 0; i < count; ++i)
		for (int64_t j = 0; j < elements; j += 16) {
			const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(rows + i * stride + j));
			_mm512_store_si512(target + i * wideStride + j, _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
		}
}

// All rows with a part of one panel. After the last part, the sums are stored.
AUTOAMP_AVX512 void addPanel(const uint16_t *rows, int64_t stride, int64_t count, const uint16_t *panel,
                             const Part &part, const Panel &of)
{
	const auto &[outer, width, result, sums, totals, wideRows] = of;
	const auto vectors = static_cast<int>((width + 15) / 16);
	const int64_t tileCount = (count + tileRows(vectors) - 1) / tileRows(vectors);
	const auto beginOf = [&](int64_t tile) { return count * std::min(tile, tileCount) / tileCount; }; // of similar size
	const bool isStored = part.isLast() && !result.isTransposed, isRead = isStored && result.beta != 0;
	constexpr int64_t ahead = 2; // tiles
	if (isRead)
		prefetch(result, 0, beginOf(ahead), outer);
	Target target = {nullptr, result.ldc, Store(result), nullptr, firstOf16(width - 16 * (vectors - 1))};
	for (int64_t tile = 0; tile < tileCount; ++tile) {
		const int64_t begin = beginOf(tile), end = beginOf(tile + 1), first = begin * panelWidth;
		if (isRead)
			prefetch(result, beginOf(tile + ahead), beginOf(tile + ahead + 1), outer);
		target.C = result.C + begin * result.ldc + outer;
		target.totals = totals ? totals + first : nullptr;
		const auto add = [&, to = sums + first]<class Element>(const Element *from, int64_t rowStride) {
			tiles<Element>[vectors - 1][end - begin - 1](from, rowStride, panel, part.pairs(), part.beginsChain(), to,
			                                             isStored ? &target : nullptr);
		};
		const uint16_t *const halfRows = rows + begin * stride + part.begin;
		if (wideRows) {
			widen(halfRows, stride, end - begin, 2 * part.pairs(), wideRows);
			add(wideRows, wideStride);
		} else {
			add(halfRows, stride);
		}
		if (totals && !isStored && part.endsChain())
			addChain(sums + first, (end - begin) * panelWidth, part.begin < chainInner, totals + first);
	}
	if (part.isLast() && result.isTransposed)
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
constexpr int64_t wideBytes = tileRows(1) * wideStride * 4;
constexpr int64_t packedInner = 256; // this part of a packed panel stays in the first-level cache for all rows

// Elements of the sums of a panel.
int64_t elementsOf(int64_t count, int64_t inner)
{
	return count * panelWidth * (inner > chainInner ? 2 : 1);
}

} // namespace

int64_t bytesForThread(int64_t count, const Operand &weight, bool isPacked, bool usesFma)
{
	const int64_t bytes = elementsOf(count, weight.inner()) * 4;
	return (usesFma ? wideBytes : 0) + (isPacked ? bytes : blockBytes + blockOf(weight).outer / panelWidth * bytes);
}

void multiply(const PackedProduct &product, const Result &result, int64_t begin, int64_t end, void *memory)
{
	const auto &[rows, count, weight, packed, usesFma] = product;
	const int64_t inner = weight.inner(), stride = rowStride(inner), packedStride = panelStride(weight.pairs());
	auto *const wideRows = usesFma ? static_cast<float *>(memory) : nullptr;
	auto *const buffer = static_cast<uint16_t *>(memory) + (usesFma ? wideBytes / 2 : 0);
	auto *const sums = reinterpret_cast<float *>(packed ? buffer : buffer + blockBytes / 2);
	const Block block =
	    packed ? Block{panelWidth, count <= tileRows(mostVectors) ? chainInner : packedInner} : blockOf(weight);
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
				          inner > chainInner ? mine + count * panelWidth : nullptr, wideRows});
			}
		}
	}
}

} // namespace autoamp::cpu
