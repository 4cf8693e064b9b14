// CUPTI callbacks and records, used as in autoamp's collector. Each row has its own process, because a process has one
// CUPTI client.
#include "hardware.h"
#include "src/trace/cupti/library.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hardware {
namespace {

using autoamp::trace::Cupti;
using autoamp::trace::KernelRecord;

// All that CUPTI has reported. Its callbacks have no argument for the client, so there is one object.
struct Collected {
	Cupti cupti;
	CUpti_SubscriberHandle subscriber = nullptr;
	std::mutex mutex;
	std::set<uint32_t> launches;         // correlation ids of outermost launch functions
	int nested = 0, nestedWithOther = 0; // launch functions inside another one; those with another id
	std::vector<uint32_t> open;
	std::set<uint64_t> created, cloned;
	int clonesOfUnknown = 0;
	std::map<uint32_t, int> records; // kernels, by correlation id
	std::set<uint64_t> nodes;        // graph nodes of kernels
	int kernels = 0;
};
Collected &all()
{
	static auto *const collected = new Collected;
	return *collected;
}

#define CUPTI(name, ...)                                                                                               \
	if (const CUptiResult result = all().cupti.name(__VA_ARGS__))                                                      \
	fail(#name, std::to_string(result).c_str())

void onLaunch(const CUpti_CallbackData &call)
{
	const std::lock_guard lock(all().mutex);
	if (call.callbackSite == CUPTI_API_EXIT) {
		all().open.pop_back();
		return;
	}
	if (all().open.empty())
		all().launches.insert(call.correlationId);
	else
		all().nested++, all().nestedWithOther += all().open.back() != call.correlationId;
	all().open.push_back(call.correlationId);
}

void onNode(const CUpti_GraphData &graph, bool isClone)
{
	uint64_t node = 0, original = 0;
	CUPTI(cuptiGetGraphNodeId, graph.node, &node);
	if (isClone)
		CUPTI(cuptiGetGraphNodeId, graph.originalNode, &original);
	const std::lock_guard lock(all().mutex);
	(isClone ? all().cloned : all().created).insert(node);
	all().clonesOfUnknown += isClone && !all().created.count(original);
}

void CUPTIAPI onEvent(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	if (domain == CUPTI_CB_DOMAIN_RESOURCE)
		onNode(*static_cast<const CUpti_GraphData *>(static_cast<const CUpti_ResourceData *>(data)->resourceDescriptor),
		       id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
	else
		onLaunch(*static_cast<const CUpti_CallbackData *>(data));
}

void CUPTIAPI requestBuffer(uint8_t **data, size_t *size, size_t *most)
{
	*size = 1 << 20;
	*data = static_cast<uint8_t *>(std::malloc(*size));
	*most = 0;
}

void CUPTIAPI readBuffer(CUcontext, uint32_t, uint8_t *data, size_t, size_t valid)
{
	const std::lock_guard lock(all().mutex);
	CUpti_Activity *one = nullptr;
	while (valid && all().cupti.cuptiActivityGetNextRecord(data, valid, &one) == CUPTI_SUCCESS) {
		if (one->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
			continue;
		const auto &record = *reinterpret_cast<const KernelRecord *>(one);
		all().kernels++;
		all().records[record.correlationId]++;
		if (record.graphNodeId)
			all().nodes.insert(record.graphNodeId);
	}
	std::free(data);
}

bool hasCupti()
{
	char why[160] = "";
	return autoamp::trace::loadCupti("", all().cupti, why);
}

// Begins as autoamp's collector does.
void begin()
{
	CUPTI(cuptiSubscribe, &all().subscriber, onEvent, nullptr);
	for (const CUpti_CallbackId id : {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED})
		CUPTI(cuptiEnableCallback, 1, all().subscriber, CUPTI_CB_DOMAIN_RESOURCE, id);
	for (const CUpti_CallbackId id :
	     {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
	      CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000, CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
	      CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
	      CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
	      CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000})
		all().cupti.cuptiEnableCallback(1, all().subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, id);
	for (const CUpti_CallbackId id :
	     {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
	      CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
	      CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz})
		all().cupti.cuptiEnableCallback(1, all().subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id);
	CUPTI(cuptiActivityRegisterCallbacks, requestBuffer, readBuffer);
	CUPTI(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
}

void flush()
{
	CUPTI(cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

// Products of several shapes, some of which cuBLAS computes in more than one kernel.
class Products
{
public:
	Products()
	{
		for (const auto &[m, n, k] : std::initializer_list<std::tuple<int, int, int>>{
		         {64, 64, 64}, {256, 256, 512}, {32, 32, 8192}, {1, 512, 512}, {129, 65, 33}}) {
			problems_.emplace_back(Spec{.m = m, .n = n, .k = k});
			problems_.back().upload();
		}
	}
	void enqueue()
	{
		for (Problem &problem : problems_)
			CHECK(static_cast<cublasStatus_t>(problem.call(session.handle)));
	}
	Session session;

private:
	std::vector<Problem> problems_;
};

// Each launch has one record, and each record a launch.
bool hasOneRecordForEachLaunch(Line &line)
{
	const std::lock_guard lock(all().mutex);
	line.put("launches", static_cast<long long>(all().launches.size())).put("kernels", all().kernels);
	bool isSo = !all().launches.empty() && all().records.size() == all().launches.size();
	for (const auto &[id, count] : all().records)
		isSo = isSo && count == 1 && all().launches.count(id);
	return isSo;
}

std::string launchesHaveRecords(Line &line)
{
	if (!hasCupti())
		return absent;
	begin();
	Products products;
	for (int i = 0; i < 20; i++)
		products.enqueue();
	CHECK(cudaDeviceSynchronize());
	flush();
	return answer(hasOneRecordForEachLaunch(line));
}

std::string innerCallsHaveTheSameId(Line &line)
{
	if (!hasCupti())
		return absent;
	begin();
	Products products;
	products.enqueue();
	CHECK(cudaDeviceSynchronize());
	line.put("nested", all().nested).put("other", all().nestedWithOther);
	return all().nested ? answer(!all().nestedWithOther) : "never_nested";
}

std::string disabledWorkHasRecords(Line &line)
{
	if (!hasCupti())
		return absent;
	begin();
	Products products;
	products.enqueue();
	CHECK(cudaDeviceSynchronize());
	Gate gate(products.session.stream);
	products.enqueue();
	CUPTI(cuptiActivityDisable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	gate.open();
	CHECK(cudaDeviceSynchronize());
	flush();
	return answer(hasOneRecordForEachLaunch(line) && !gate.hasExpired());
}

// A captured graph, instantiated and run twice.
void replay()
{
	Products products;
	products.enqueue();
	CHECK(cudaDeviceSynchronize());
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaStreamBeginCapture(products.session.stream, cudaStreamCaptureModeRelaxed));
	products.enqueue();
	CHECK(cudaStreamEndCapture(products.session.stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	for (int i = 0; i < 2; i++)
		CHECK(cudaGraphLaunch(executable, products.session.stream));
	CHECK(cudaDeviceSynchronize());
	flush();
	CHECK(cudaGraphExecDestroy(executable));
	CHECK(cudaGraphDestroy(graph));
}

std::string nodesAreReported(Line &line)
{
	if (!hasCupti())
		return absent;
	begin();
	replay();
	const auto created = static_cast<long long>(all().created.size()),
	           cloned = static_cast<long long>(all().cloned.size());
	line.put("created", created).put("cloned", cloned).put("unknown", all().clonesOfUnknown);
	return answer(created && cloned && !all().clonesOfUnknown);
}

std::string replayedKernelsHaveClones(Line &line)
{
	if (!hasCupti())
		return absent;
	begin();
	replay();
	const auto &cloned = all().cloned, &nodes = all().nodes;
	line.put("cloned", static_cast<long long>(cloned.size())).put("recorded", static_cast<long long>(nodes.size()));
	return answer(!nodes.empty() && std::includes(cloned.begin(), cloned.end(), nodes.begin(), nodes.end()));
}

// ---- at exit

int exitPipe = -1;

void writeAtExit()
{
	CUPTI(cuptiActivityDisable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	flush();
	Line line("");
	const int counts[] = {static_cast<int>(all().launches.size()), all().kernels, hasOneRecordForEachLaunch(line)};
	if (write(exitPipe, counts, sizeof counts) != sizeof counts)
		std::_Exit(4);
}

enum class Registered { beforeCupti, afterCupti, afterLaunches };

// Another process ends with work that is finished. CUPTI and CUDA register exit handlers of their own.
std::string flushAtExit(Line &line, Registered registered)
{
	int ends[2];
	if (pipe(ends))
		fail("pipe", std::strerror(errno));
	const pid_t process = fork();
	if (process == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exitPipe = ends[1];
		const auto reach = [registered](Registered now) {
			if (now == registered)
				std::atexit(writeAtExit);
		};
		reach(Registered::beforeCupti);
		if (!hasCupti())
			std::_Exit(77);
		begin();
		reach(Registered::afterCupti);
		{
			Products products;
			products.enqueue();
			reach(Registered::afterLaunches);
			CHECK(cudaDeviceSynchronize());
		}
		std::exit(0);
	}
	close(ends[1]);
	int counts[3] = {}, status = 0;
	const bool hasAnswer = read(ends[0], counts, sizeof counts) == sizeof counts;
	close(ends[0]);
	if (process < 0 || waitpid(process, &status, 0) != process)
		fail("fork", std::strerror(errno));
	line.put("launches", counts[0]).put("kernels", counts[1]).put("end", status);
	return WIFEXITED(status) && WEXITSTATUS(status) == 77 ? absent : answer(hasAnswer && counts[2]);
}

// ---- device memory

// A million fills in graphs, with a limit of 3 buffers or of 250, the default. The buffers that CUPTI makes at first
// are not counted. The row with a limit means something only if the memory grows without one.
std::string buffersGrow(Line &line, bool isLimited)
{
	if (!hasCupti())
		return absent;
	constexpr int nodes = 10000, launches = 100;
	Session session;
	Array memory(4);
	CHECK(cudaDeviceSynchronize()); // CUDA is initialised
	size_t size = sizeof(size_t), limit = 3;
	if (isLimited)
		CUPTI(cuptiActivitySetAttribute, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size, &limit);
	CUPTI(cuptiActivityRegisterCallbacks, requestBuffer, readBuffer);
	CUPTI(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_MEMSET);
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeRelaxed));
	for (int i = 0; i < nodes; i++)
		CHECK(cudaMemsetAsync(memory.data(), i % 256, 4, session.stream));
	CHECK(cudaStreamEndCapture(session.stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphLaunch(executable, session.stream));
	CHECK(cudaStreamSynchronize(session.stream));
	size_t before = 0, after = 0, total = 0, dropped = 0;
	CHECK(cudaMemGetInfo(&before, &total));
	Gate gate(session.stream);
	for (int i = 0; i < launches; i++)
		CHECK(cudaGraphLaunch(executable, session.stream));
	gate.open();
	CHECK(cudaStreamSynchronize(session.stream));
	CHECK(cudaMemGetInfo(&after, &total));
	const long long grown = static_cast<long long>(before) - static_cast<long long>(after);
	CUPTI(cuptiActivityGetNumDroppedRecords, nullptr, 0, &dropped);
	line.put("bytes", grown).put("dropped", static_cast<long long>(dropped));
	CHECK(cudaGraphExecDestroy(executable));
	CHECK(cudaGraphDestroy(graph));
	return answer(grown > 2 * 3'200'000);
}

} // namespace

Rows cuptiRows()
{
	return {
	    {"cupti.each_launch_has_one_record", yes, recorded, own, launchesHaveRecords},
	    {"cupti.a_driver_call_of_a_runtime_call_has_its_id", yes, recorded, own, innerCallsHaveTheSameId},
	    {"cupti.work_before_a_disable_has_its_record", yes, recorded, own, disabledWorkHasRecords},
	    {"cupti.graph_nodes_are_reported_when_created_and_cloned", yes, recorded, own, nodesAreReported},
	    {"cupti.replayed_kernels_have_the_ids_of_clones", yes, recorded, own, replayedKernelsHaveClones},
	    {"cupti.flush_at_exit_returns_all_records", yes, recorded, own,
	     [](Line &line) { return flushAtExit(line, Registered::afterLaunches); }},
	    {"cupti.flush_in_an_exit_handler_older_than_launches_returns_all_records", yes, recorded, own,
	     [](Line &line) { return flushAtExit(line, Registered::afterCupti); }},
	    {"cupti.flush_in_an_exit_handler_older_than_cupti_returns_all_records", no, recorded, own,
	     [](Line &line) { return flushAtExit(line, Registered::beforeCupti); }},
	    {"cupti.device_buffers_grow_without_a_limit", no, recorded, own,
	     [](Line &line) { return buffersGrow(line, false); }},
	    {"cupti.device_buffers_grow_beyond_a_limit_set_after_cuda", no, recorded, own,
	     [](Line &line) { return buffersGrow(line, true); }},
	};
}

} // namespace hardware
