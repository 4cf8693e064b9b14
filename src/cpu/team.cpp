#include "src/cpu/team.h"

#include <algorithm>
#include <atomic>

namespace autoamp::cpu {

namespace {

unsigned sizeFor(const Dnnl &dnnl, const OpenMp &openMp, Threads wanted)
{
	switch (wanted.pool) {
	case Pool::none:
	case Pool::otherOpenMp: // its idle threads spin, where ours would have to run
		return 1;
	case Pool::openMp:
		if (!hasOpenMpThreads() || (dnnl.reason == Reason::none && dnnl.openMp.parallel != openMp.parallel))
			return 1;
		break;
	case Pool::own:
		break;
	}
	return wanted.most > 1 && !isInParallel() ? wanted.most : 1;
}

// Parts have whole vectors, except that the last one has the rest as well: oneDNN sums a single row or column in
// another order.
constexpr int64_t blockLength = 16;

int64_t boundary(int64_t length, unsigned part, unsigned parts)
{
	return part == parts ? length : length / blockLength * part / parts * blockLength;
}

} // namespace

Team::Team(const Dnnl &dnnl, Threads wanted)
    : dnnl_(dnnl), openMp_(wanted.openMp ? *wanted.openMp : dnnl.openMp),
      workers_(wanted.pool == Pool::own ? sizeFor(dnnl, openMp_, wanted) - 1 : 0), before_(dnnl.openMp.maxThreads()),
      openMpThreads_(wanted.pool == Pool::openMp ? static_cast<int>(sizeFor(dnnl, openMp_, wanted)) : 1)
{
	if (openMpThreads_ > 1)
		noteOpenMpRegion();
	if (openMpThreads_ != before_)
		dnnl_.openMp.setThreads(openMpThreads_);
}

Team::~Team()
{
	if (openMpThreads_ != before_)
		dnnl_.openMp.setThreads(before_);
}

bool Team::gemm(char transA, char transB, int64_t m, int64_t n, int64_t k, float alpha, const uint16_t *A, int64_t lda,
                const uint16_t *B, int64_t ldb, float beta, float *C, int64_t ldc)
{
	if (workers_.count() == 0)
		return callGemm(dnnl_, transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
	// Each part is a product of its own that oneDNN computes on one thread. It copies the operand that the parts share
	// once per part, so the longer side of C is split, and into one part per thread.
	const bool isByRows = m >= n;
	const int64_t length = isByRows ? m : n, most = size();
	const auto parts = static_cast<unsigned>(std::clamp<int64_t>(length / blockLength, 1, most));
	std::atomic<bool> isComplete{true};
	runParts(parts, [&](unsigned part, unsigned) {
		const int64_t begin = boundary(length, part, parts), count = boundary(length, part + 1, parts) - begin;
		dnnl_.openMp.setThreads(1); // on this thread
		const bool isDone =
		    isByRows ? callGemm(dnnl_, transA, transB, count, n, k, alpha, A + begin * (transA == 'N' ? lda : 1), lda,
		                        B, ldb, beta, C + begin * ldc, ldc)
		             : callGemm(dnnl_, transA, transB, m, count, k, alpha, A, lda,
		                        B + begin * (transB == 'N' ? 1 : ldb), ldb, beta, C + begin, ldc);
		if (!isDone)
			isComplete.store(false, std::memory_order_relaxed);
	});
	return isComplete.load(std::memory_order_relaxed);
}

} // namespace autoamp::cpu
