#include "src/site/site.h"

#include "inject/entry_table.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/lists/lists.h"
#include "src/op/convolution.h"
#include "src/place/capture_range.h"
#include "src/place/policy_context.h"
#include "src/scale/slots.h"
#include "src/state/caller.h"

#include <pthread.h>

namespace autoamp::core {

namespace {

constexpr unsigned bucketCount = 4096;
std::atomic<Site *> buckets[bucketCount]; // read without the lock
std::atomic<const Site *> places[kernels::siteCount];
unsigned rangeRowCount = 0;                        // contexts of sites in addition to their first; under the lock
constexpr unsigned rangeRowLimit = 1u << 14;       // a quarter of the rows that a trace can have
uint32_t siteCount = 1;                            // place 0: totals of all sites without a place
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // never held during calls to CUDA or a vendor library

Site *lookUp(const op::Op &op, uint32_t context, uint64_t hash)
{
	Site *site = buckets[hash % bucketCount].load(std::memory_order_acquire);
	while (site && !(site->hash == hash && site->context == context && site->op == op))
		site = site->next;
	return site;
}

} // namespace

void logDecision(const Site &site, policy::Verdict verdict, policy::Reason reason)
{
	if (!base::logs(base::LogLevel::debug))
		return;
	const op::Op &op = site.op;
	const policy::Decision &decision = site.decision;
	const char *const cause = op::name(policy::causeOf(op, reason));
	const bool isKept = verdict == policy::Verdict::kept;
	const char *const region = regionOf(site.context).name;
	base::log(base::LogLevel::debug,
	          "%s %c%c %ldx%ldx%ld b%d of %s from %s%s%s: %s in %s by %s, %s%s%s; model %.1f us, lowered %.1f us",
	          entry::entryTable[op.entry].name, letter(op.transa), letter(op.transb), static_cast<long>(op.m),
	          static_cast<long>(op.n), static_cast<long>(op.k), op.batch, op::name(op.a) ? op::name(op.a) : "?",
	          callerName(op.caller), region ? " in " : "", region ? region : "", policy::name(verdict),
	          op::name(isKept ? op.asked : decision.precision),
	          policy::name(isKept ? policy::Strategy::fp32 : decision.strategy), policy::name(reason),
	          cause ? ": " : "", cause ? cause : "", static_cast<double>(decision.estimate) / 1e3,
	          static_cast<double>(decision.estimateLowered) / 1e3);
}

Site &findSite(const op::Op &op, uint32_t context, const policy::Device &device)
{
	uint64_t hash = base::hashBytes(&op, sizeof op);
	if (context)
		hash = base::hashBytes(&context, sizeof context, hash);
	hash |= 1;
	if (Site *const known = lookUp(op, context, hash))
		return *known;
	const policy::Decision decision = policy::decide(op, regionOf(context).policy->state, whereOf(context, op), device);
	pthread_mutex_lock(&mutex);
	Site *site = lookUp(op, context, hash);
	const bool isNew = !site;
	if (isNew) {
		site = new Site;
		site->op = op;
		site->context = context;
		site->hash = hash;
		site->decision = decision;
		site->rows.site = site, site->rows.context = context;
		site->cache.hash = hash;
		if (!decision.isUnchanged()) { // other sites have neither scaler events nor audits
			site->cache.site = siteCount < kernels::siteCount ? siteCount++ : kernels::siteCount;
			if (site->cache.site < kernels::siteCount)
				places[site->cache.site].store(site, std::memory_order_release);
		}
		site->next = buckets[hash % bucketCount].load(std::memory_order_relaxed);
		buckets[hash % bucketCount].store(site, std::memory_order_release);
	}
	pthread_mutex_unlock(&mutex);
	if (isNew && decision.needsSaved())
		logDecision(*site, policy::Verdict::kept, policy::Reason::not_profitable);
	else if (isNew)
		logDecision(*site, decision.verdict, decision.reason);
	return *site;
}

Rows &rowsOf(Site &site, uint32_t context)
{
	const auto find = [&site](uint32_t wanted) {
		Rows *rows = &site.rows;
		while (rows && rows->context != wanted)
			rows = rows->next.load(std::memory_order_acquire);
		return rows;
	};
	if (Rows *const known = find(context))
		return *known;
	pthread_mutex_lock(&mutex);
	if (rangeRowCount >= rangeRowLimit)
		context = withoutRange(context);
	Rows *rows = find(context);
	if (!rows) {
		rangeRowCount++;
		rows = new Rows;
		rows->site = &site, rows->context = context;
		rows->next.store(site.rows.next.load(std::memory_order_relaxed), std::memory_order_relaxed);
		site.rows.next.store(rows, std::memory_order_release);
	}
	pthread_mutex_unlock(&mutex);
	return *rows;
}

const Site *siteAt(uint32_t place)
{
	return place < kernels::siteCount ? places[place].load(std::memory_order_acquire) : nullptr;
}

void lockSites()
{
	pthread_mutex_lock(&mutex);
}

void unlockSites()
{
	pthread_mutex_unlock(&mutex);
}

} // namespace autoamp::core
