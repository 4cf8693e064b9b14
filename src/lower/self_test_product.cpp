#include "src/lower/self_test_product.h"

#include "src/base/hash.h"

#include <cmath>
#include <cstring>

namespace autoamp::lower {

namespace {

using op::Transpose;

struct Shape {
	int64_t m, n, k, lda, ldb, ldc;
	Transpose transa, transb;
	float alpha, beta;
	int exponent; // of A and C
};
// Odd sizes, and gaps between columns. Then two products of one signature: the first needs a scale, the second has the
// prediction of the first, which is wrong for it, so that its operand is converted again.
constexpr Shape shapes[] = {
    {33, 17, 40, 37, 43, 35, Transpose::none, Transpose::none, 1.5f, 0, 0},
    {48, 40, 64, 64, 40, 48, Transpose::transposed, Transpose::transposed, -0.75f, 0.5f, 20},
    {48, 40, 64, 64, 40, 48, Transpose::transposed, Transpose::transposed, -0.75f, 0.5f, -6},
    {33, 17, 40, 37, 43, 35, Transpose::none, Transpose::none, 1.5f, 0, 0},
};
constexpr unsigned siteOf[] = {0, 1, 1, 0};
// A product of cast float16 that loses small values and must be mended (docs/adr/0047): the columns of op(A) differ by
// as much as the rows of op(B), in reverse. Other methods do not run it.
constexpr unsigned mended = 3;
constexpr int mendedPower = 18;

op::Op opOf(const Shape &of, uint16_t device)
{
	op::Op op;
	op.kind = op::Kind::mm;
	op.a = op.b = op.out = op.asked = op::Dtype::float32;
	op.transa = of.transa, op.transb = of.transb;
	op.device = device;
	op.flags = of.beta == 0 ? op::flagBetaZero : 0;
	op.m = of.m, op.n = of.n, op.k = of.k;
	op.lda = of.lda, op.ldb = of.ldb, op.ldc = op.ldd = of.ldc;
	return op;
}

} // namespace

TestProducts::TestProducts(const LoweredCall &call, const op::CublasLt &lt, void *lightHandle, Multiply multiply)
    : TestProblems(call.isCast() && call.isHalf() ? mended + 1 : mended), call_(call), lt_(lt),
      lightHandle_(lightHandle), multiply_(multiply)
{
	static_assert(std::size(shapes) == mended + 1);
	// The vendor's conversion to float16 does not scale.
	const bool hasRange = call.isCast() || !call.isHalf();
	for (unsigned i = 0; i < count; i++) {
		const Shape &of = shapes[i];
		const int exponent = hasRange ? of.exponent : 0;
		places_[i].a = add(of.lda * (of.transa == Transpose::none ? of.k : of.m), exponent);
		places_[i].b = add(of.ldb * (of.transb == Transpose::none ? of.n : of.k), 0);
		places_[i].c = add(of.ldc * of.n, exponent);
	}
	if (count > mended)
		for (int64_t l = 0; l < shapes[mended].k; l++) {
			const Shape &of = shapes[mended];
			const float scale = std::ldexp(1.0f, l % 3 ? mendedPower : -mendedPower);
			for (int64_t row = 0; row < of.m; row++)
				given[places_[mended].a + static_cast<size_t>(l * of.lda + row)] *= scale;
			for (int64_t column = 0; column < of.n; column++)
				given[places_[mended].b + static_cast<size_t>(column * of.ldb + l)] /= scale;
		}
}

TestProducts::~TestProducts()
{
	for (SiteCache &cache : caches_)
		while (Engine *const engine = cache.engines.first.load()) {
			cache.engines.first.store(engine->next);
			destroyEngine(lt_, engine);
		}
}

Outcome TestProducts::enqueue(unsigned problem, cuda::Stream stream, cuda::Address operands)
{
	const Shape &of = shapes[problem];
	Settings settings = call_.settings;
	settings.isScaling = true, settings.isStrict = problem == mended;
	settings.reportsEvents = settings.roundsOutput = false;
	const op::Op op = opOf(of, call_.op.device);
	SiteCache &cache = caches_[siteOf[problem]];
	cache.hash = base::mix(base::mix(1, op.device), siteOf[problem]);
	policy::Decision decision;
	decision.verdict = policy::Verdict::lowered;
	decision.strategy = call_.decision.strategy, decision.precision = call_.decision.precision;
	LoweredCall test{op, decision, cache, settings, call_.original, stream};
	test.isTest = true;
	const auto at = [&](size_t index) { return reinterpret_cast<float *>(operands) + index; };
	const auto &[a, b, c] = places_[problem];
	return multiply_(test, lt_, lightHandle_, {at(a), at(b), at(c), &of.alpha, &of.beta});
}

double TestProducts::error(unsigned problem) const
{
	const Shape &of = shapes[problem];
	const auto &[placeA, placeB, placeC] = places_[problem];
	const float *const a = &given[placeA], *const b = &given[placeB], *const c = &given[placeC],
	                   *const d = &result[placeC];
	const int64_t rowA = of.transa == Transpose::none ? 1 : of.lda, stepA = of.lda + 1 - rowA;
	const int64_t columnB = of.transb == Transpose::none ? of.ldb : 1, stepB = of.ldb + 1 - columnB;
	RelativeError error;
	for (int64_t column = 0; column < of.n; column++)
		for (int64_t row = 0; row < of.ldc; row++) {
			const int64_t at = column * of.ldc + row;
			if (row >= of.m) {
				if (std::memcmp(&c[at], &d[at], sizeof(float)) != 0)
					return INFINITY;
				continue;
			}
			double sum = 0;
			for (int64_t l = 0; l < of.k; l++)
				sum += static_cast<double>(a[row * rowA + l * stepA]) *
				       static_cast<double>(b[column * columnB + l * stepB]);
			sum *= static_cast<double>(of.alpha);
			error.add(sum + static_cast<double>(of.beta) * static_cast<double>(c[at]), sum, d[at]);
		}
	return error.value();
}

} // namespace autoamp::lower
