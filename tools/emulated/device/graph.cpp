#include "core.h"

#include <algorithm>
#include <cstring>
#include <queue>

namespace emulated {
namespace {

// ---- user objects: their destructors run on a separate thread, where CUDA calls fail

struct UserObject {
	void *pointer;
	cudaHostFn_t destroy;
	std::atomic<long> references;
};

struct Reaper {
	std::mutex mutex;
	std::deque<UserObject *> dead;
	bool isRunning = false;

	void run() // until no object is left
	{
		thread().callback = true;
		for (std::unique_lock lock(mutex);;) {
			if (!(isRunning = !dead.empty()))
				return;
			UserObject *object = dead.front();
			dead.pop_front();
			lock.unlock();
			object->destroy(object->pointer);
			delete object;
			lock.lock();
		}
	}
};

void dropReferences(UserObject *object, long count)
{
	static auto *reaper = new Reaper;
	if (object->references.fetch_sub(count) != count)
		return;
	std::lock_guard guard(reaper->mutex);
	reaper->dead.push_back(object);
	if (!std::exchange(reaper->isRunning, true))
		std::thread([] { reaper->run(); }).detach();
}

// References held by a graph or an executable graph.
struct References {
	std::map<UserObject *, long> counts;

	References() = default;
	References(const References &other) : counts(other.counts)
	{
		for (const auto &[object, count] : counts)
			object->references += count;
	}
	References &operator=(const References &) = delete;
	~References()
	{
		for (const auto &[object, count] : counts)
			dropReferences(object, count);
	}
};

// Numbers a node and reports it to the watcher; `original` is null unless the node is a copy.
void enrol(Node &node, const Node *original)
{
	static std::atomic<uint64_t> count{0};
	node.number = ++count;
	const Watcher *const watching = watcher;
	const auto handle = [](const Node *one) { return reinterpret_cast<cudaGraphNode_t>(const_cast<Node *>(one)); };
	if (watching && original)
		watching->cloned(handle(&node), handle(original));
	else if (watching)
		watching->created(handle(&node));
}

} // namespace

uint64_t nodeNumber(cudaGraphNode_t node)
{
	return reinterpret_cast<Node *>(node)->number;
}

struct Graph {
	std::deque<Node> nodes;
	References references;

	Graph() = default;
	Graph(const Graph &other) : nodes(other.nodes), references(other.references)
	{
		for (Node &node : nodes) {
			for (const auto &[from, data] : std::exchange(node.edges, {}))
				node.edges[&nodes[from->index]] = data;
			for (Node *&before : node.after)
				before = &nodes[before->index];
			enrol(node, &other.nodes[node.index]);
			copyChild(node);
		}
	}

private:
	static void copyChild(Node &);
};

namespace {

std::vector<const Node *> orderOf(const Graph &, bool inTurns);

} // namespace

// Shared by all launches of an executable graph. A launch in flight keeps it alive after the handle is destroyed. The
// program of a child node does not run itself: its graph can change until the node is copied.
struct Program {
	Graph graph;
	const std::vector<const Node *> orders[2]; // used by launches in turn
	mutable std::atomic<unsigned> launches{0};
	bool host = false;
	OpPointer last;

	explicit Program(const Graph &other) : graph(other), orders{orderOf(graph, false), orderOf(graph, true)}
	{
		for (const Node &node : graph.nodes)
			host |= node.type == cudaGraphNodeTypeHost || (node.inside && node.inside->host);
	}
	cudaError_t run() const
	{
		for (const Node *node : orders[launches++ % 2])
			if (const cudaError_t error =
			        node->body ? runWatched(node->type, node->name, node->body, node->number) : cudaSuccess)
				return error;
		return cudaSuccess;
	}
};

namespace {

Body bodyOf(const std::shared_ptr<Program> &program)
{
	return [program] { return program->run(); };
}

void setChild(Node &node, const Graph &child)
{
	node.inside = std::make_shared<Program>(child);
	node.body = bodyOf(node.inside);
}

struct Exec {
	std::shared_ptr<Program> program;
	std::vector<uint64_t> from; // numbers of the nodes of the graph that was instantiated
};

// Live handles; under State::mutex.
struct Handles {
	std::unordered_map<Graph *, std::shared_ptr<Graph>> graphs;
	std::unordered_map<Exec *, std::unique_ptr<Exec>> execs;
};

Handles &handles()
{
	static auto *all = new Handles;
	return *all;
}

// Searches the program's graphs, the graphs under capture (cudaStreamGetCaptureInfo returns them) and the child graphs
// of both. Null if `isWanted` is false for all.
template <typename Predicate>
Graph *findGraph(const Predicate &isWanted)
{
	std::vector<Graph *> open;
	for (const auto &[graph, owner] : handles().graphs)
		open.push_back(graph);
	for (const auto &capture : state().captures)
		if (capture->graph)
			open.push_back(capture->graph.get());
	while (!open.empty()) {
		Graph *graph = open.back();
		open.pop_back();
		if (isWanted(*graph))
			return graph;
		for (Node &node : graph->nodes)
			if (node.inside)
				open.push_back(&node.inside->graph);
	}
	return nullptr;
}

Graph *graphOf(cudaGraph_t handle)
{
	auto *graph = reinterpret_cast<Graph *>(handle);
	if (handles().graphs.count(graph))
		return graph;
	return findGraph([graph](const Graph &one) { return &one == graph; });
}

// The graph that contains the node.
Graph *graphWith(cudaGraphNode_t handle)
{
	return findGraph([handle](const Graph &graph) {
		return std::any_of(graph.nodes.begin(), graph.nodes.end(), [handle](const Node &node) {
			return reinterpret_cast<cudaGraphNode_t>(const_cast<Node *>(&node)) == handle;
		});
	});
}

Node *nodeOf(cudaGraphNode_t handle)
{
	return graphWith(handle) ? reinterpret_cast<Node *>(handle) : nullptr;
}

// An order that respects only the edges, so that a missing dependency has a visible effect: the youngest of the
// possible nodes comes first. `inTurns`: one step of each branch in turn, so that forbidden sharing between branches
// has a visible effect too.
std::vector<const Node *> orderOf(const Graph &graph, bool inTurns)
{
	std::vector<size_t> missing(graph.nodes.size()), depth(graph.nodes.size());
	std::vector<std::vector<size_t>> followers(graph.nodes.size());
	const auto isLater = [&](size_t a, size_t b) {
		return inTurns && depth[a] != depth[b] ? depth[a] > depth[b] : a < b;
	};
	std::priority_queue<size_t, std::vector<size_t>, decltype(isLater)> open(isLater);
	for (const Node &node : graph.nodes) {
		missing[node.index] = node.after.size();
		for (const Node *before : node.after)
			followers[before->index].push_back(node.index);
		if (node.after.empty())
			open.push(node.index);
	}
	std::vector<const Node *> order;
	while (!open.empty()) {
		const size_t index = open.top();
		open.pop();
		order.push_back(&graph.nodes[index]);
		for (const size_t next : followers[index]) {
			depth[next] = std::max(depth[next], depth[index] + 1);
			if (--missing[next] == 0)
				open.push(next);
		}
	}
	return order;
}

void merge(std::vector<Node *> &into, const std::vector<Node *> &more)
{
	for (Node *node : more)
		if (std::find(into.begin(), into.end(), node) == into.end())
			into.push_back(node);
}

// All nodes on which `nodes` depend, and `nodes` themselves.
std::unordered_set<const Node *> ancestors(const std::vector<Node *> &nodes)
{
	std::unordered_set<const Node *> seen;
	std::vector<const Node *> open(nodes.begin(), nodes.end());
	while (!open.empty()) {
		const Node *node = open.back();
		open.pop_back();
		if (seen.insert(node).second)
			open.insert(open.end(), node->after.begin(), node->after.end());
	}
	return seen;
}

} // namespace

void Graph::copyChild(Node &node)
{
	if (node.inside)
		setChild(node, node.inside->graph);
}

// ---- capture

cudaError_t invalidate(Capture &capture, cudaError_t error)
{
	capture.invalid = true;
	return error;
}

cudaError_t refuseUnsafe()
{
	const cudaStreamCaptureMode mine = thread().mode;
	cudaError_t refused = cudaSuccess;
	if (mine == cudaStreamCaptureModeRelaxed)
		return refused;
	for (const auto &capture : state().captures) {
		const bool own = capture->thread == std::this_thread::get_id();
		if (own ? capture->mode != cudaStreamCaptureModeRelaxed
		        : mine == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal)
			refused = invalidate(*capture, cudaErrorStreamCaptureUnsupported);
	}
	return refused;
}

cudaError_t unsafeCall()
{
	Lock lock(state().mutex);
	return refuseUnsafe();
}

cudaError_t guardLegacy(Stream &stream)
{
	if (!stream.isLegacy())
		return cudaSuccess;
	for (const auto &capture : state().captures)
		for (const auto &other : capture->streams)
			if (other->isBlocking() && other->context == stream.context)
				return invalidate(*capture, cudaErrorStreamCaptureImplicit);
	return cudaSuccess;
}

cudaError_t addNode(Stream &stream, const char *name, cudaGraphNodeType type, Body body, uint64_t fixed)
{
	Capture &capture = *stream.capture;
	if (capture.invalid)
		return cudaErrorStreamCaptureInvalidated;
	Node &node = capture.graph->nodes.emplace_back();
	node.type = type;
	node.name = name;
	node.body = std::move(body);
	node.fixed = fixed * 31 + uintptr_t(stream.context);
	node.after = stream.frontier;
	node.edges = std::exchange(stream.edges, {});
	node.index = capture.graph->nodes.size() - 1;
	stream.frontier = {&node};
	enrol(node, nullptr);
	return cudaSuccess;
}

cudaError_t joinCapture(Stream &stream, Event &event)
{
	if (!event.capture || !event.capture->origin) { // the event is not captured, or its capture has ended
		if (stream.capture)
			return invalidate(*stream.capture, cudaErrorStreamCaptureIsolation);
		return cudaErrorCapturedEvent;
	}
	if (event.capture->invalid)
		return cudaErrorStreamCaptureInvalidated;
	if (stream.capture && stream.capture != event.capture) {
		invalidate(*stream.capture, cudaErrorStreamCaptureMerge);
		return invalidate(*event.capture, cudaErrorStreamCaptureMerge);
	}
	if (!stream.capture) {
		if (stream.isLegacy())
			return invalidate(*event.capture, cudaErrorStreamCaptureImplicit);
		stream.capture = event.capture;
		stream.frontier.clear();
		stream.edges.clear();
		event.capture->streams.push_back(stream.shared_from_this());
	}
	merge(stream.frontier, event.frontier);
	return cudaSuccess;
}

// The data of each edge from `nodes`.
static std::vector<cudaGraphEdgeData> edgesOf(const std::vector<Node *> &nodes, const Edges &edges)
{
	std::vector<cudaGraphEdgeData> all;
	for (const Node *node : nodes) {
		const auto found = edges.find(node);
		all.push_back(found == edges.end() ? cudaGraphEdgeData{} : found->second);
	}
	return all;
}

// Sets the data of the edges from `nodes` as documented; false if they are invalid. `given` may be null.
static bool takeEdges(const cudaGraphNode_t *nodes, const cudaGraphEdgeData *given, size_t count, Edges &edges)
{
	constexpr cudaGraphEdgeData plain = {};
	for (size_t i = 0; i < count; ++i) {
		const auto *node = reinterpret_cast<const Node *>(nodes[i]);
		edges.erase(node);
		if (!given || std::memcmp(&given[i], &plain, sizeof plain) == 0)
			continue;
		const bool isProgrammatic = given[i].type == cudaGraphDependencyTypeProgrammatic;
		if (given[i].type > cudaGraphDependencyTypeProgrammatic || given[i].to_port ||
		    given[i].from_port > cudaGraphKernelNodePortLaunchCompletion ||
		    isProgrammatic != (given[i].from_port != 0) || node->type != cudaGraphNodeTypeKernel ||
		    std::memcmp(given[i].reserved, plain.reserved, sizeof plain.reserved) != 0)
			return false;
		edges[node] = given[i];
	}
	return true;
}

cudaError_t captureFacts(cudaStream_t handle, CaptureFacts *facts)
{
	ON_STREAM(handle);
	*facts = {};
	if (stream->isLegacy()) {
		for (const auto &capture : state().captures)
			for (const auto &other : capture->streams)
				if (other->isBlocking() && other->context == stream->context)
					return cudaErrorStreamCaptureImplicit; // the query does not invalidate the capture
		return cudaSuccess;
	}
	if (!stream->capture)
		return cudaSuccess;
	const Capture &capture = *stream->capture;
	facts->status = capture.invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
	facts->id = capture.id;
	if (!capture.invalid) {
		facts->graph = reinterpret_cast<cudaGraph_t>(capture.graph.get());
		facts->dependencies = reinterpret_cast<const cudaGraphNode_t *>(stream->frontier.data());
		facts->count = stream->frontier.size();
		stream->given = edgesOf(stream->frontier, stream->edges);
		facts->edges = stream->edges.empty() ? nullptr : stream->given.data();
	}
	return cudaSuccess;
}

cudaError_t giveCapture(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id,
                        cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                        size_t *count)
{
	CaptureFacts facts;
	if (!status)
		return cudaErrorInvalidValue;
	if (const cudaError_t error = captureFacts(stream, &facts))
		return error;
	*status = facts.status;
	if (id)
		*id = facts.id;
	if (graph)
		*graph = facts.graph;
	if (dependencies)
		*dependencies = facts.dependencies;
	if (dependencies && facts.edges && !edges)
		return cudaErrorLossyQuery;
	if (edges)
		*edges = facts.edges;
	if (count)
		*count = facts.count;
	return cudaSuccess;
}

bool isCapturing(cudaStream_t stream)
{
	CaptureFacts facts;
	return captureFacts(stream, &facts) == cudaSuccess && facts.status == cudaStreamCaptureStatusActive;
}

static cudaError_t begin(const OnStream &on, std::shared_ptr<Graph> graph, std::vector<Node *> after,
                         cudaStreamCaptureMode mode)
{
	Stream *const stream = on.stream;
	if (on.error)
		return on.error;
	if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed)
		return cudaErrorInvalidValue;
	if (stream->isLegacy())
		return cudaErrorStreamCaptureUnsupported;
	if (stream->capture)
		return cudaErrorIllegalState;
	auto capture = std::make_shared<Capture>();
	capture->graph = std::move(graph);
	capture->id = ++state().ids;
	capture->mode = mode;
	capture->thread = std::this_thread::get_id();
	capture->origin = stream;
	capture->streams.push_back(stream->shared_from_this());
	stream->capture = capture;
	stream->frontier = std::move(after);
	stream->edges.clear();
	state().captures.push_back(capture);
	return cudaSuccess;
}

cudaError_t beginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
	return begin(OnStream(stream), std::make_shared<Graph>(), {}, mode);
}

// Finds the nodes of a graph by their handles, without duplicates.
static bool findNodes(const Graph &graph, const cudaGraphNode_t *named, size_t count, std::vector<Node *> &found)
{
	for (size_t i = 0; named && i < count; ++i) {
		Node *node = nodeOf(named[i]);
		if (!node || node->index >= graph.nodes.size() || &graph.nodes[node->index] != node)
			return false;
		merge(found, {node});
	}
	return found.size() == count;
}

cudaError_t captureTo(cudaStream_t stream, cudaGraph_t handle, const cudaGraphNode_t *named,
                      const cudaGraphEdgeData *given, size_t count, cudaStreamCaptureMode mode)
{
	const OnStream on(stream);
	if (on.error)
		return on.error;
	const auto found = handles().graphs.find(reinterpret_cast<Graph *>(handle));
	std::vector<Node *> after;
	Edges edges;
	if (found == handles().graphs.end() || !findNodes(*found->second, named, count, after) ||
	    !takeEdges(named, given, count, edges))
		return cudaErrorInvalidValue;
	const cudaError_t error = begin(on, found->second, std::move(after), mode);
	if (!error)
		on.stream->edges = std::move(edges);
	return error;
}

cudaError_t endCapture(cudaStream_t handle, cudaGraph_t *out)
{
	ON_STREAM(handle);
	if (!out)
		return cudaErrorInvalidValue;
	*out = nullptr;
	const auto capture = stream->capture;
	if (!capture)
		return cudaErrorIllegalState;
	if (capture->origin != stream)
		return invalidate(*capture, cudaErrorStreamCaptureUnmatched);
	if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
		return cudaErrorStreamCaptureWrongThread;
	cudaError_t error = capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
	const auto joined = ancestors(stream->frontier);
	for (const auto &other : capture->streams) {
		if (!error)
			for (const Node *node : other->frontier)
				if (!joined.count(node))
					error = cudaErrorStreamCaptureUnjoined;
		other->capture.reset();
		other->frontier.clear();
		other->edges.clear();
	}
	capture->origin = nullptr;
	capture->streams.clear();
	state().captures.remove(capture);
	const std::shared_ptr<Graph> graph = std::move(capture->graph);
	if (!error) {
		*out = reinterpret_cast<cudaGraph_t>(graph.get());
		handles().graphs.emplace(graph.get(), graph);
	}
	on.lock.unlock(); // an unwanted graph is destroyed without the lock
	return error;
}

cudaError_t updateCapture(cudaStream_t handle, cudaGraphNode_t *nodes, const cudaGraphEdgeData *given, size_t count,
                          unsigned flags)
{
	ON_STREAM(handle);
	if (flags > cudaStreamSetCaptureDependencies || (count && !nodes))
		return cudaErrorInvalidValue;
	if (!stream->capture)
		return cudaErrorIllegalState;
	if (stream->capture->invalid)
		return cudaErrorStreamCaptureInvalidated;
	std::vector<Node *> wanted;
	for (size_t i = 0; i < count; ++i) {
		wanted.push_back(reinterpret_cast<Node *>(nodes[i]));
		const auto &own = stream->capture->graph->nodes;
		if (std::none_of(own.begin(), own.end(), [&](const Node &node) { return &node == wanted.back(); }))
			return cudaErrorInvalidValue;
	}
	Edges edges = flags == cudaStreamSetCaptureDependencies ? Edges() : stream->edges;
	if (!takeEdges(nodes, given, count, edges))
		return cudaErrorInvalidValue;
	stream->edges = std::move(edges);
	if (flags == cudaStreamSetCaptureDependencies)
		stream->frontier.clear();
	merge(stream->frontier, wanted);
	return cudaSuccess;
}

cudaError_t exchangeMode(cudaStreamCaptureMode *mode)
{
	if (!mode || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed)
		return cudaErrorInvalidValue;
	std::swap(*mode, thread().mode);
	return cudaSuccess;
}

// ---- graphs

cudaError_t createGraph(cudaGraph_t *out)
{
	if (!out)
		return cudaErrorInvalidValue;
	auto graph = std::make_shared<Graph>();
	Lock lock(state().mutex);
	*out = reinterpret_cast<cudaGraph_t>(graph.get());
	handles().graphs.emplace(graph.get(), std::move(graph));
	return cudaSuccess;
}

cudaError_t destroyGraph(cudaGraph_t handle)
{
	std::shared_ptr<Graph> graph; // destroyed after the lock is released
	Lock lock(state().mutex);
	const auto found = handles().graphs.find(reinterpret_cast<Graph *>(handle));
	if (found == handles().graphs.end())
		return cudaErrorInvalidValue;
	graph = std::move(found->second);
	handles().graphs.erase(found);
	lock.unlock();
	return cudaSuccess;
}

static bool isUsingMemory(const Graph &graph)
{
	return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) {
		return node.type == cudaGraphNodeTypeMemAlloc || node.type == cudaGraphNodeTypeMemFree;
	});
}

cudaError_t cloneGraph(cudaGraph_t *out, cudaGraph_t handle)
{
	Lock lock(state().mutex);
	const Graph *graph = graphOf(handle);
	if (!graph || !out)
		return cudaErrorInvalidValue;
	if (isUsingMemory(*graph))
		return cudaErrorNotSupported;
	auto clone = std::make_shared<Graph>(*graph);
	*out = reinterpret_cast<cudaGraph_t>(clone.get());
	handles().graphs.emplace(clone.get(), std::move(clone));
	return cudaSuccess;
}

// Writes as many of `found` as fit, and their number. If `nodes` is null, writes the total number.
static cudaError_t giveNodes(const std::vector<Node *> &found, cudaGraphNode_t *nodes, size_t *count)
{
	if (nodes)
		for (size_t i = 0; i < *count; ++i)
			nodes[i] = i < found.size() ? reinterpret_cast<cudaGraphNode_t>(found[i]) : nullptr;
	*count = nodes ? std::min(*count, found.size()) : found.size();
	return cudaSuccess;
}

// Both graphs must have the same nodes; those of the first graph take the work of those of the second.
cudaError_t takeWork(cudaGraph_t toHandle, cudaGraph_t fromHandle)
{
	Lock lock(state().mutex);
	Graph *to = graphOf(toHandle), *from = graphOf(fromHandle);
	const auto isSame = [](const Node &one, const Node &other) {
		return one.type == other.type && std::strcmp(one.name, other.name) == 0;
	};
	if (!to || !from || !std::equal(to->nodes.begin(), to->nodes.end(), from->nodes.begin(), from->nodes.end(), isSame))
		return cudaErrorInvalidValue;
	for (size_t i = 0; i < to->nodes.size(); ++i)
		to->nodes[i].body = from->nodes[i].body;
	return cudaSuccess;
}

cudaError_t graphNodes(cudaGraph_t handle, cudaGraphNode_t *nodes, size_t *count)
{
	Lock lock(state().mutex);
	Graph *graph = graphOf(handle);
	if (!graph || !count)
		return cudaErrorInvalidValue;
	std::vector<Node *> all;
	for (Node &node : graph->nodes)
		all.push_back(&node);
	return giveNodes(all, nodes, count);
}

cudaError_t giveRootNodes(cudaGraph_t handle, cudaGraphNode_t *nodes, size_t *count)
{
	Lock lock(state().mutex);
	Graph *graph = graphOf(handle);
	if (!graph || !count)
		return cudaErrorInvalidValue;
	std::vector<Node *> roots;
	for (Node &node : graph->nodes)
		if (node.after.empty())
			roots.push_back(&node);
	return giveNodes(roots, nodes, count);
}

cudaError_t nodeDependencies(cudaGraphNode_t handle, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges, size_t *count)
{
	Lock lock(state().mutex);
	const Node *node = nodeOf(handle);
	if (!node || !count || (edges && !nodes))
		return cudaErrorInvalidValue;
	if (nodes && !edges && !node->edges.empty())
		return cudaErrorLossyQuery;
	const auto data = edgesOf(node->after, node->edges);
	if (edges)
		std::copy_n(data.begin(), std::min(*count, data.size()), edges);
	return giveNodes(node->after, nodes, count);
}

cudaError_t giveDependents(cudaGraphNode_t handle, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges, size_t *count)
{
	Lock lock(state().mutex);
	Graph *graph = graphWith(handle);
	if (!graph || !count || (edges && !nodes))
		return cudaErrorInvalidValue;
	auto *const from = reinterpret_cast<Node *>(handle);
	std::vector<Node *> followers;
	std::vector<cudaGraphEdgeData> data;
	for (Node &node : graph->nodes) {
		if (std::find(node.after.begin(), node.after.end(), from) == node.after.end())
			continue;
		if (nodes && !edges && node.edges.count(from))
			return cudaErrorLossyQuery;
		followers.push_back(&node);
		data.push_back(edgesOf({from}, node.edges)[0]);
	}
	if (edges)
		std::copy_n(data.begin(), std::min(*count, data.size()), edges);
	return giveNodes(followers, nodes, count);
}

// An edge is identified by both ends and its data.
static bool hasEdge(const Node &node, Node *from, const cudaGraphEdgeData &data)
{
	const auto found = std::find(node.after.begin(), node.after.end(), from);
	return found != node.after.end() && std::memcmp(&edgesOf({from}, node.edges)[0], &data, sizeof data) == 0;
}

cudaError_t removeDependencies(cudaGraph_t handle, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                               const cudaGraphEdgeData *given, size_t count)
{
	Lock lock(state().mutex);
	const Graph *graph = graphOf(handle);
	if (!graph || (count && (!from || !to)))
		return cudaErrorInvalidValue;
	if (isUsingMemory(*graph))
		return cudaErrorNotSupported;
	for (size_t i = 0; i < count; ++i) {
		Node *node = nodeOf(to[i]);
		if (!node || node->index >= graph->nodes.size() || &graph->nodes[node->index] != node ||
		    !hasEdge(*node, reinterpret_cast<Node *>(from[i]), given ? given[i] : cudaGraphEdgeData{}))
			return cudaErrorInvalidValue;
		std::erase(node->after, reinterpret_cast<Node *>(from[i]));
		node->edges.erase(reinterpret_cast<Node *>(from[i]));
	}
	return cudaSuccess;
}

cudaError_t nodeType(cudaGraphNode_t node, cudaGraphNodeType *type)
{
	if (!node || !type)
		return cudaErrorInvalidValue;
	Lock lock(state().mutex);
	*type = reinterpret_cast<Node *>(node)->type;
	return cudaSuccess;
}

static cudaError_t addTo(Graph *graph, const cudaGraphNode_t *named, size_t count, Node node, cudaGraphNode_t *out)
{
	if (!out || !graph || !findNodes(*graph, named, count, node.after))
		return cudaErrorInvalidValue;
	node.index = graph->nodes.size();
	Node &added = graph->nodes.emplace_back(std::move(node));
	enrol(added, nullptr);
	*out = reinterpret_cast<cudaGraphNode_t>(&added);
	return cudaSuccess;
}

cudaError_t addEmptyNode(cudaGraphNode_t *out, cudaGraph_t handle, const cudaGraphNode_t *after, size_t count)
{
	Lock lock(state().mutex);
	return addTo(graphOf(handle), after, count, {}, out);
}

cudaError_t addChildNode(cudaGraphNode_t *out, cudaGraph_t handle, const cudaGraphNode_t *after, size_t count,
                         cudaGraph_t childHandle)
{
	Lock lock(state().mutex);
	const Graph *child = graphOf(childHandle);
	if (!child)
		return cudaErrorInvalidValue;
	if (isUsingMemory(*child))
		return cudaErrorNotSupported;
	Node node;
	node.type = cudaGraphNodeTypeGraph;
	node.name = "graph";
	setChild(node, *child);
	return addTo(graphOf(handle), after, count, std::move(node), out);
}

// The node still owns the returned graph.
cudaError_t giveChildGraph(cudaGraphNode_t handle, cudaGraph_t *out)
{
	Lock lock(state().mutex);
	const Node *node = nodeOf(handle);
	if (!node || !node->inside || !out)
		return cudaErrorInvalidValue;
	*out = reinterpret_cast<cudaGraph_t>(&node->inside->graph);
	return cudaSuccess;
}

cudaError_t instantiate(cudaGraphExec_t *out, cudaGraph_t handle)
{
	Context *current = nullptr;
	if (const cudaError_t error = requireContext(&current))
		return error;
	Lock lock(state().mutex);
	const Graph *graph = graphOf(handle);
	if (!graph || !out)
		return cudaErrorInvalidValue;
	auto exec = std::make_unique<Exec>();
	exec->program = std::make_shared<Program>(*graph);
	for (const Node &node : graph->nodes)
		exec->from.push_back(node.number);
	*out = reinterpret_cast<cudaGraphExec_t>(exec.get());
	handles().execs.emplace(exec.get(), std::move(exec));
	return cudaSuccess;
}

// The reason why an executable graph cannot be updated to another graph; `info` names the node. Nodes are paired by
// index.
static cudaGraphExecUpdateResult compare(const Graph &before, const Graph &now, cudaGraphExecUpdateResultInfo &info)
{
	if (before.nodes.size() != now.nodes.size())
		return cudaGraphExecUpdateErrorTopologyChanged;
	for (const Node &node : now.nodes) {
		const Node &old = before.nodes[node.index];
		info.errorNode = reinterpret_cast<cudaGraphNode_t>(const_cast<Node *>(&node));
		if (node.type != old.type)
			return cudaGraphExecUpdateErrorNodeTypeChanged;
		if (node.after.size() != old.after.size())
			return cudaGraphExecUpdateErrorTopologyChanged;
		for (size_t i = 0; i < node.after.size(); ++i)
			if (node.after[i]->index != old.after[i]->index) {
				info.errorFromNode = reinterpret_cast<cudaGraphNode_t>(node.after[i]);
				return cudaGraphExecUpdateErrorTopologyChanged;
			}
		if (node.fixed != old.fixed)
			return node.type == cudaGraphNodeTypeKernel ? cudaGraphExecUpdateErrorUnsupportedFunctionChange
			                                            : cudaGraphExecUpdateErrorParametersChanged;
		if (node.inside)
			if (const auto result = compare(old.inside->graph, node.inside->graph, info))
				return result;
	}
	info = {};
	return cudaGraphExecUpdateSuccess;
}

// Returns the old program; release it without the lock.
static std::shared_ptr<Program> replaceProgram(Exec &exec, const Graph &graph)
{
	auto replaced = std::exchange(exec.program, std::make_shared<Program>(graph));
	exec.program->last = replaced->last; // launches of one graph stay ordered
	return replaced;
}

cudaError_t updateExec(cudaGraphExec_t handle, cudaGraph_t graphHandle, cudaGraphExecUpdateResultInfo *out)
{
	cudaGraphExecUpdateResultInfo info{};
	std::shared_ptr<Program> replaced; // destroyed without the lock
	Lock lock(state().mutex);
	const auto found = handles().execs.find(reinterpret_cast<Exec *>(handle));
	const Graph *graph = graphOf(graphHandle);
	if (!out || found == handles().execs.end() || !graph)
		return cudaErrorInvalidValue;
	info.result = compare(found->second->program->graph, *graph, info);
	*out = info;
	if (info.result)
		return cudaErrorGraphExecUpdateFailure;
	replaced = replaceProgram(*found->second, *graph);
	lock.unlock();
	return cudaSuccess;
}

// The node must belong to the graph that was instantiated; the executable node with the same index changes.
cudaError_t setExecChild(cudaGraphExec_t handle, cudaGraphNode_t nodeHandle, cudaGraph_t childHandle)
{
	std::shared_ptr<Program> replaced; // destroyed without the lock
	Lock lock(state().mutex);
	const auto found = handles().execs.find(reinterpret_cast<Exec *>(handle));
	const Node *node = nodeOf(nodeHandle);
	const Graph *child = graphOf(childHandle);
	if (found == handles().execs.end() || !node || !child)
		return cudaErrorInvalidValue;
	Graph changed(found->second->program->graph);
	cudaGraphExecUpdateResultInfo info{};
	const auto &from = found->second->from;
	if (node->index >= from.size() || from[node->index] != node->number || !changed.nodes[node->index].inside ||
	    compare(changed.nodes[node->index].inside->graph, *child, info))
		return cudaErrorInvalidValue;
	setChild(changed.nodes[node->index], *child);
	replaced = replaceProgram(*found->second, changed);
	lock.unlock();
	return cudaSuccess;
}

cudaError_t destroyExec(cudaGraphExec_t handle)
{
	std::unique_ptr<Exec> exec;
	Lock lock(state().mutex);
	const auto found = handles().execs.find(reinterpret_cast<Exec *>(handle));
	if (found == handles().execs.end())
		return cudaErrorInvalidValue;
	exec = std::move(found->second);
	handles().execs.erase(found);
	lock.unlock();
	return cudaSuccess;
}

cudaError_t launchGraph(cudaGraphExec_t handle, cudaStream_t streamHandle)
{
	ON_STREAM(streamHandle);
	const auto found = handles().execs.find(reinterpret_cast<Exec *>(handle));
	if (found == handles().execs.end())
		return cudaErrorInvalidValue;
	const auto program = found->second->program;
	if (stream->capture) {
		const cudaError_t error = addNode(*stream, "graph", cudaGraphNodeTypeGraph, {});
		if (!error)
			setChild(*stream->frontier.front(), program->graph);
		return error;
	}
	if (const cudaError_t error = guardLegacy(*stream))
		return error;
	program->last =
	    enqueue(*stream, "graph", bodyOf(program), program->host, {program->last}); // launches run in sequence
	if (const Watcher *watching = watcher)
		program->last->launched = watching->launched(cudaGraphNodeTypeGraph, thread().driver);
	return cudaSuccess;
}

// ---- user objects

cudaError_t createUserObject(cudaUserObject_t *out, void *pointer, cudaHostFn_t destroy, unsigned count, unsigned flags)
{
	if (!out || !destroy || count == 0 || count > 0x7fffffff || flags != cudaUserObjectNoDestructorSync)
		return cudaErrorInvalidValue;
	*out = reinterpret_cast<cudaUserObject_t>(new UserObject{pointer, destroy, long(count)});
	return cudaSuccess;
}

cudaError_t retainUserObject(cudaUserObject_t object, unsigned count)
{
	if (!object || count == 0)
		return cudaErrorInvalidValue;
	reinterpret_cast<UserObject *>(object)->references += count;
	return cudaSuccess;
}

cudaError_t releaseUserObject(cudaUserObject_t object, unsigned count)
{
	if (!object || count == 0)
		return cudaErrorInvalidValue;
	dropReferences(reinterpret_cast<UserObject *>(object), count);
	return cudaSuccess;
}

cudaError_t graphRetain(cudaGraph_t handle, cudaUserObject_t object, unsigned count, unsigned flags)
{
	Lock lock(state().mutex);
	Graph *graph = graphOf(handle);
	if (!graph || !object || count == 0 || flags & ~unsigned(cudaGraphUserObjectMove))
		return cudaErrorInvalidValue;
	auto *user = reinterpret_cast<UserObject *>(object);
	if (!(flags & cudaGraphUserObjectMove))
		user->references += count;
	graph->references.counts[user] += count;
	return cudaSuccess;
}

cudaError_t graphRelease(cudaGraph_t handle, cudaUserObject_t object, unsigned count)
{
	Lock lock(state().mutex);
	Graph *graph = graphOf(handle);
	auto *user = reinterpret_cast<UserObject *>(object);
	if (!graph || !object || count == 0)
		return cudaErrorInvalidValue;
	const auto held = graph->references.counts.find(user);
	if (held == graph->references.counts.end() || held->second < long(count))
		return cudaErrorInvalidValue;
	if ((held->second -= count) == 0)
		graph->references.counts.erase(held);
	lock.unlock();
	dropReferences(user, count);
	return cudaSuccess;
}

} // namespace emulated
