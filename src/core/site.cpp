#include "src/core/site.h"

#include "inject/entry_table.h"
#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/core/caller.h"
#include "src/core/capture_range.h"
#include "src/core/context.h"
#include "src/op/convolution.h"
#include "src/policy/lists.h"

#include <pthread.h>

namespace autoamp::core {

namespace {

constexpr unsigned bucketCount = 4096;
std::atomic<Site *> buckets[bucketCount]; // read without the lock
std::atomic<const Site *> places[kernels::siteCount];
unsigned rangeRowCount = 0;                        // contexts of sites besides their first, under the lock
constexpr unsigned rangeRowLimit = 1u << 14;       // a quarter of the rows that a trace can have
uint32_t siteCount = 1;                            // 0: the totals of all that have no place
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // never held while anything of CUDA or the vendor is called

char letter(op::Transpose transpose)
{
	const auto index = static_cast<unsigned>(transpose); // as the application gave it: perhaps none
	return index < 3 ? "NTC"[index] : '?';
}

// `eligible` of docs/glossary.md: the data is fp32, and the op has a lower-precision form.
bool isEligible(const op::Op &op)
{
	using op::Kind, op::Obstacle;
	return op::isProduct(op.kind) && op.kind != Kind::mv && op.a == op::Dtype::float32 &&
	       (op.obstacle == Obstacle::none || op.obstacle == Obstacle::pedantic ||
	        op.obstacle == Obstacle::emulated_fp32 || op.obstacle == Obstacle::solver_caller ||
	        op.obstacle == Obstacle::grouped || op.obstacle == Obstacle::unsupported);
}

// AUTOAMP_LOG=debug: once for each signature, and once for each reason that its calls fell back for.
void logDecision(const Site &site, policy::Verdict verdict, policy::Reason reason)
{
	if (!base::logs(base::LogLevel::debug))
		return;
	const op::Op &op = site.op;
	const policy::Decision &decision = site.decision;
	const char *const cause = op::name(policy::causeOf(op, reason));
	const char *const region = regionOf(site.context).name;
	base::log(base::LogLevel::debug,
	          "%s %c%c %ldx%ldx%ld b%d of %s from %s%s%s: %s in %s by %s, %s%s%s; model %.1f us, lowered %.1f us",
	          entry::entryTable[op.entry].name, letter(op.transa), letter(op.transb), static_cast<long>(op.m),
	          static_cast<long>(op.n), static_cast<long>(op.k), op.batch, op::name(op.a) ? op::name(op.a) : "?",
	          callerName(op.caller), region ? " in " : "", region ? region : "", policy::name(verdict),
	          op::name(decision.precision), policy::name(decision.strategy), policy::name(reason), cause ? ": " : "",
	          cause ? cause : "", static_cast<double>(decision.estimate) / 1e3,
	          static_cast<double>(decision.estimateLowered) / 1e3);
}

trace::RowId makeRow(Process &process, const Rows &rows, const policy::Decision &decision)
{
	const Site &site = *rows.site;
	const op::Op &op = site.op;
	const char *compute = op::name(decision.isAsAsked() ? op.asked : decision.precision);
	trace::Row row;
	row.entry = entry::entryTable[op.entry].name;
	row.library = op::name(op.library);
	row.op = policy::name(op.kind);
	row.m = op.m, row.n = op.n, row.k = op.k, row.batch = op.batch;
	row.transa = letter(op.transa), row.transb = letter(op.transb);
	row.dtypeIn = op::name(op.a);
	row.dtypeAsked = op::name(op.asked);
	row.dtypeCompute = compute;
	const bool isHalf = op.flags & op::flagHalfSums && decision.verdict != policy::Verdict::raised;
	row.dtypeAccumulate = op::name(isHalf || op.a == op::Dtype::float64 ? op.a : op::Dtype::float32);
	row.dtypeOut = op::name(op.out);
	row.decision = policy::name(decision.verdict);
	row.reason = policy::name(decision.reason);
	row.cause = op::name(policy::causeOf(op, decision.reason));
	row.strategy = policy::name(decision.strategy);
	row.caller = callerName(op.caller);
	const Region &region = regionOf(rows.context);
	row.region = region.range ? region.range : region.name;
	const std::string shape = op::shapeOf(op);
	const op::Entry &entry = entry::entryTable[op.entry];
	const bool isProduct = op.kind == op::Kind::mm || op.kind == op::Kind::bmm; // a cuDNN plan has these too
	const bool hasNoSizes =
	    (op.library == op::Library::cudnn && !isProduct) || (op::isOnlyCounted(entry) && entry.kind == op::Kind::none);
	row.shape = !shape.empty() ? shape.c_str() : hasNoSizes ? "unknown" : nullptr;
	row.eligible = isEligible(op);
	row.isCounted = op::isOnlyCounted(entry) && !isEachDescribed(process);
	row.device = op.device;
	row.estNs = decision.estimate;
	row.estLoweredNs = decision.estimateLowered;
	return process.recorder.row(row);
}

trace::RowId rowAt(Process &process, Rows &rows, unsigned place, const policy::Decision &decision)
{
	trace::RowId row = rows.rows[place].load(std::memory_order_relaxed);
	if (__builtin_expect(!row, 0)) {
		const trace::RowId mine = makeRow(process, rows, decision);
		// Another thread was faster: its row, or the calls of one signature would stand in two.
		if (rows.rows[place].compare_exchange_strong(row, mine, std::memory_order_relaxed))
			row = mine;
	}
	return row;
}

Site *lookUp(const op::Op &op, uint32_t context, uint64_t hash)
{
	Site *site = buckets[hash % bucketCount].load(std::memory_order_acquire);
	while (site && !(site->hash == hash && site->context == context && site->op == op))
		site = site->next;
	return site;
}

} // namespace

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
		site->plan.hash = hash;
		if (decision.verdict == policy::Verdict::lowered &&
		    decision.strategy == policy::Strategy::cast) { // who converts nothing has nothing to tell
			site->plan.site = siteCount < kernels::siteCount ? siteCount++ : kernels::siteCount;
			if (site->plan.site < kernels::siteCount)
				places[site->plan.site].store(site, std::memory_order_release);
		}
		site->next = buckets[hash % bucketCount].load(std::memory_order_relaxed);
		buckets[hash % bucketCount].store(site, std::memory_order_release);
	}
	pthread_mutex_unlock(&mutex);
	if (isNew)
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

trace::RowId makeDecidedRow(Process &process, Rows &rows)
{
	return rowAt(process, rows, static_cast<unsigned>(policy::Reason::count), rows.site->decision);
}

trace::RowId fallbackRowOf(Process &process, Rows &rows, policy::Reason reason)
{
	if (!rows.rows[static_cast<unsigned>(reason)].load(std::memory_order_relaxed))
		logDecision(*rows.site, policy::Verdict::fallback, reason);
	policy::Decision decision = rows.site->decision;
	decision.verdict = policy::Verdict::fallback;
	decision.strategy = policy::Strategy::fp32;
	decision.reason = reason;
	return rowAt(process, rows, static_cast<unsigned>(reason), decision);
}

trace::RowId substituteRowOf(Process &process, Rows &rows, policy::Reason shortage)
{
	const unsigned place = static_cast<unsigned>(policy::Reason::count) + 1 + policy::shortageIndex(shortage);
	return rowAt(process, rows, place, rows.site->decision.substituted(shortage));
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
