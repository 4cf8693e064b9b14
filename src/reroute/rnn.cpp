#include "src/reroute/rnn.h"

#include "src/base/faults.h"
#include "src/reroute/call.h"

#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <vector>

namespace autoamp::reroute {

// Positions of the weights, matrix by matrix: offsets in the application's and in autoamp's weight space, in elements.
struct RnnWeights {
	struct Piece {
		int64_t from, to, count;
	};
	size_t bytes = 0, asked = 0; // sizes of our and of the application's weight space
	std::vector<Piece> pieces;
};

namespace {

using op::Direction;
using policy::Reason;

// ---- contents of reserve spaces

// By address, kept for the lifetime of the process: each forward pass overwrites the contents of a space. An RNN whose
// space has no entry because the table is full is not lowered.
constexpr unsigned reserveCount = 1u << 14, mostProbes = 64;
struct Reserve {
	std::atomic<uintptr_t> address{0};
	std::atomic<uint32_t> geometry{0}; // geometry of the RNN that wrote it in bfloat16; 0: any other
	// The RNN whose forward pass was captured last, and the op::Flag of its forward passes since then. Replays of the
	// graph are not intercepted.
	std::atomic<uint64_t> fixed{0};
};
constinit Reserve reserves[reserveCount];

// Null: no entry, or no room for one.
Reserve *reserveAt(const void *space, bool isNew)
{
	const auto address = reinterpret_cast<uintptr_t>(space);
	uint64_t place = base::mix(address, 0) >> 1; // mix() returns odd numbers
	for (unsigned probe = 0; address && probe < mostProbes; probe++, place++) {
		Reserve &reserve = reserves[place % reserveCount];
		uintptr_t known = reserve.address.load(std::memory_order_acquire);
		if (!known && isNew && reserve.address.compare_exchange_strong(known, address, std::memory_order_acq_rel))
			known = address;
		if (known == address)
			return &reserve;
		if (!known)
			return nullptr;
	}
	return nullptr;
}

// ---- the vendor's descriptors

enum DescriptorKind { tensorKind, netKind, dataKind };

// A cuDNN descriptor made by autoamp, destroyed with this object.
class Descriptor
{
public:
	Descriptor(const op::CudnnRnn &cudnn, DescriptorKind kind) : cudnn_(cudnn), kind_(kind)
	{
		op::Status (*const create[])(void **) = {cudnn.cudnnCreateTensorDescriptor, cudnn.cudnnCreateRNNDescriptor,
		                                         cudnn.cudnnCreateRNNDataDescriptor};
		status = create[kind](&descriptor_);
		if (status)
			descriptor_ = nullptr;
	}
	~Descriptor()
	{
		op::Status (*const destroy[])(void *) = {cudnn_.cudnnDestroyTensorDescriptor, cudnn_.cudnnDestroyRNNDescriptor,
		                                         cudnn_.cudnnDestroyRNNDataDescriptor};
		if (descriptor_ && destroy[kind_](descriptor_))
			base::leaveFault("destroying a cuDNN descriptor");
	}
	Descriptor(const Descriptor &) = delete;
	void *get() const { return descriptor_; }

	op::Status status;

private:
	const op::CudnnRnn &cudnn_;
	const DescriptorKind kind_;
	void *descriptor_ = nullptr;
};

// First vendor call that failed; after it, the remaining steps do nothing.
struct Steps {
	const char *failed = nullptr;
	op::Status status = 0;

	explicit operator bool() const { return !failed; }
	bool take(op::Status of, const char *name)
	{
		if (of)
			failed = name, status = of;
		return !of;
	}
};
#define TAKE(steps, from, name, ...) ((steps) && (steps).take((from).name(__VA_ARGS__), #name))

struct Data {
	int type = 0, layout = 0, steps = 0, batch = 0, width = 0;
	std::vector<int> lengths;
	uint32_t fill = 0;
	bool isPadded = false;
	int64_t count = 0; // elements

	bool isFillRounded() const { return isPadded && (fill & 0xffff); }
};

// An RNN as the application's descriptors define it, and autoamp's bfloat16 copies of these descriptors.
class Net
{
public:
	Net(const op::CudnnRnn &rnn, const op::CudnnAdv &adv, const op::CudnnOps &ops, const op::RnnCall &call)
	    : rnn_(rnn), adv_(adv), ops_(ops), call_(call), net(rnn, netKind), x(rnn, dataKind), y(rnn, dataKind),
	      h(rnn, tensorKind), c(rnn, tensorKind)
	{
		for (const Descriptor *const each : {&net, &x, &y, &h, &c})
			steps.take(each->status, "creating cuDNN descriptors");
		copyNet();
		copyData(call.xDesc, x, xData);
		copyData(call.yDesc, y, yData);
		isKnown = isKnown && yData.layout == xData.layout && yData.steps == xData.steps &&
		          yData.lengths == xData.lengths && yData.width == projection * directions && xData.width == input;
		copyState(call.hDesc, call.hx || call.hy || call.dhy || call.dhx, h, projection, hCount);
		if (isLstm())
			copyState(call.cDesc, call.cx || call.cy || call.dcy || call.dcx, c, hidden, cCount);
	}

	bool isLstm() const { return cell == CUDNN_LSTM; }
	void *hDesc() const { return hCount ? h.get() : nullptr; }
	void *cDesc() const { return cCount ? c.get() : nullptr; }

	// Positions of the weights in both RNNs. Null: a step failed, or (without a failure in `steps`) the two layouts do
	// not allow a copy.
	RnnWeights *makeWeights(const void *space)
	{
		auto weights = std::make_unique<RnnWeights>();
		TAKE(steps, rnn_, cudnnGetRNNWeightSpaceSize, call_.handle, net.get(), &weights->bytes);
		TAKE(steps, rnn_, cudnnGetRNNWeightSpaceSize, call_.handle, call_.rnnDesc, &weights->asked);
		Descriptor theirs[] = {{rnn_, tensorKind}, {rnn_, tensorKind}},
		           ours[] = {{rnn_, tensorKind}, {rnn_, tensorKind}};
		for (int i = 0; i < 2; i++) {
			steps.take(theirs[i].status, "creating cuDNN descriptors");
			steps.take(ours[i].status, "creating cuDNN descriptors");
		}
		const int gates = cell == CUDNN_LSTM ? 4 : cell == CUDNN_GRU ? 3 : 1;
		const int matrices = 2 * gates + (projection != hidden);
		bool isKnown = true;
		for (int layer = 0; layer < layers * directions; layer++)
			for (int matrix = 0; matrix < matrices && isKnown && steps; matrix++) {
				void *from[2] = {}, *to[2] = {}; // [1]: the bias
				// The vendor only computes addresses here, so both RNNs use the same base.
				TAKE(steps, rnn_, cudnnGetRNNWeightParams, call_.handle, call_.rnnDesc, layer, call_.weightSpaceSize,
				     space, matrix, theirs[0].get(), &from[0], theirs[1].get(), &from[1]);
				TAKE(steps, rnn_, cudnnGetRNNWeightParams, call_.handle, net.get(), layer, weights->bytes, space,
				     matrix, ours[0].get(), &to[0], ours[1].get(), &to[1]);
				for (int i = 0; i < 2 && steps && isKnown; i++)
					isKnown =
					    add(*weights, static_cast<const char *>(space), theirs[i].get(), from[i], ours[i].get(), to[i]);
			}
		if (!steps || !isKnown)
			return nullptr;
		merge(weights->pieces);
		return weights.release();
	}

	// Bytes that a call needs.
	struct Spaces {
		size_t work = 0, reserve = 0;
	};
	Spaces askSpaces(int mode, void *of, void *data)
	{
		Spaces spaces;
		TAKE(steps, rnn_, cudnnGetRNNTempSpaceSizes, call_.handle, of, mode, data, &spaces.work, &spaces.reserve);
		return spaces;
	}

private:
	const op::CudnnRnn &rnn_;
	const op::CudnnAdv &adv_;
	const op::CudnnOps &ops_;
	const op::RnnCall &call_;

public:
	Steps steps;
	bool isKnown = true; // false: the descriptors do not match, and the vendor refuses the call
	Descriptor net, x, y, h, c;
	Data xData, yData;
	int cell = 0, directions = 1;
	int32_t input = 0, hidden = 0, projection = 0, layers = 0;
	int64_t hCount = 0, cCount = 0;

private:
	void copyNet()
	{
		int algo, bias, direction, inputMode, type, precision, math, clip, nan;
		void *dropout; // shared with the application's RNN, so its state advances as usual
		uint32_t flags;
		double low, high;
		if (!TAKE(steps, adv_, cudnnGetRNNDescriptor_v8, call_.rnnDesc, &algo, &cell, &bias, &direction, &inputMode,
		          &type, &precision, &math, &input, &hidden, &projection, &layers, &dropout, &flags))
			return;
		directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1;
		TAKE(steps, rnn_, cudnnSetRNNDescriptor_v8, net.get(), algo, cell, bias, direction, inputMode,
		     CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, input, hidden, projection, layers, dropout,
		     flags);
		if (isLstm() && TAKE(steps, rnn_, cudnnRNNGetClip_v8, call_.rnnDesc, &clip, &nan, &low, &high) &&
		    clip != CUDNN_RNN_CLIP_NONE)
			TAKE(steps, rnn_, cudnnRNNSetClip_v8, net.get(), clip, nan, low, high);
	}
	void copyData(void *from, const Descriptor &to, Data &data)
	{
		if (!TAKE(steps, adv_, cudnnGetRNNDataDescriptor, from, &data.type, &data.layout, &data.steps, &data.batch,
		          &data.width, 0, nullptr, &data.fill))
			return;
		isKnown = isKnown && data.type == CUDNN_DATA_FLOAT;
		data.lengths.resize(static_cast<size_t>(data.batch));
		if (!TAKE(steps, adv_, cudnnGetRNNDataDescriptor, from, &data.type, &data.layout, &data.steps, &data.batch,
		          &data.width, data.batch, data.lengths.data(), &data.fill))
			return;
		int64_t vectors = 0;
		for (const int length : data.lengths)
			vectors += length;
		const int64_t all = int64_t{data.steps} * data.batch;
		const bool isPacked = data.layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
		data.isPadded = !isPacked && vectors < all;
		data.count = (isPacked ? vectors : all) * data.width;
		auto fill = static_cast<uint16_t>(data.fill >> 16);
		TAKE(steps, rnn_, cudnnSetRNNDataDescriptor, to.get(), CUDNN_DATA_BFLOAT16, data.layout, data.steps, data.batch,
		     data.width, data.lengths.data(), &fill);
	}
	// The vendor requires packed tensors. The number of elements of other ones is unknown.
	void copyState(const void *from, bool isUsed, const Descriptor &to, int width, int64_t &count)
	{
		isKnown = isKnown && (from || !isUsed);
		int type = 0, rank = 0, dims[CUDNN_DIM_MAX] = {}, strides[CUDNN_DIM_MAX] = {};
		if (!from || !TAKE(steps, ops_, cudnnGetTensorNdDescriptor, from, CUDNN_DIM_MAX, &type, &rank, dims, strides))
			return;
		const int wanted[] = {layers * directions, xData.batch, width}, packed[] = {xData.batch * width, width, 1};
		isKnown = isKnown && type == CUDNN_DATA_FLOAT && rank == 3 && std::equal(wanted, wanted + 3, dims) &&
		          std::equal(packed, packed + 3, strides);
		count = int64_t{wanted[0]} * packed[0];
		TAKE(steps, rnn_, cudnnSetTensorNdDescriptor, to.get(), CUDNN_DATA_BFLOAT16, 3, wanted, packed);
	}

	// Adds one matrix or bias. False: its layout differs between the RNNs, or has gaps.
	bool add(RnnWeights &weights, const char *space, const void *fromDesc, const void *from, const void *toDesc,
	         const void *to)
	{
		if (!from && !to)
			return true;
		struct {
			int type, rank, dims[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX];
		} a = {}, b = {};
		if (!from || !to ||
		    !TAKE(steps, ops_, cudnnGetTensorNdDescriptor, fromDesc, CUDNN_DIM_MAX, &a.type, &a.rank, a.dims,
		          a.strides) ||
		    !TAKE(steps, ops_, cudnnGetTensorNdDescriptor, toDesc, CUDNN_DIM_MAX, &b.type, &b.rank, b.dims, b.strides))
			return false;
		int64_t count = 1, reach = 1;
		for (int i = 0; i < a.rank; i++) {
			count *= a.dims[i];
			reach += int64_t{a.dims[i] - 1} * a.strides[i];
		}
		const ptrdiff_t source = static_cast<const char *>(from) - space,
		                target = static_cast<const char *>(to) - space;
		weights.pieces.push_back({source / 4, target / 2, count});
		return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims) &&
		       std::equal(a.strides, a.strides + a.rank, b.strides) && reach == count && source % 4 == 0 &&
		       target % 2 == 0;
	}
	// Merges pieces that are contiguous in both weight spaces.
	static void merge(std::vector<RnnWeights::Piece> &pieces)
	{
		std::sort(pieces.begin(), pieces.end(), [](auto &a, auto &b) { return a.from < b.from; });
		size_t last = 0;
		for (size_t i = 1; i < pieces.size(); i++) {
			RnnWeights::Piece &before = pieces[last];
			if (before.from + before.count == pieces[i].from && before.to + before.count == pieces[i].to)
				before.count += pieces[i].count;
			else
				pieces[++last] = pieces[i];
		}
		pieces.resize(std::min(pieces.size(), last + 1));
	}
};

// ---- one call

// A copy from application memory to scratch memory, or back.
struct Transfer {
	const void *from; // null: zeros
	void *to;
	int64_t count;
	bool isWeight = false; // the last ones of the transfers that narrow
};

bool transfer(const std::vector<Transfer> &all, bool isWidening, bool isAdded, const kernels::Events &events,
              const cuda::Driver &driver, const Context &context, cuda::Stream stream)
{
	const Kernels *const kernels = conversionKernels(driver);
	kernels::Runs runs = {};
	static_cast<kernels::Events &>(runs) = events;
	runs.isWidening = isWidening, runs.isAdded = isAdded;
	for (size_t i = 0; i < all.size(); i++) {
		runs.weights += !all[i].isWeight;
		runs.run[runs.count++] = {all[i].from, all[i].to, all[i].count};
		if (runs.count < kernels::mostRuns && i + 1 < all.size())
			continue;
		const unsigned blocks = kernels::gridSize(runs, static_cast<unsigned>(context.facts->smCount));
		if (!kernels || !launch(driver, kernels->runs, blocks, stream, runs))
			return false;
		runs.count = runs.weights = 0;
	}
	return true;
}

// Addresses of one call in scratch memory, and the copies to and from them.
class Call
{
public:
	Call(const op::RnnCall &call, const Net &net, const RnnWeights &weights, size_t workBytes, cuda::Address base)
	    : call_(call), net_(net), weights_(weights), workBytes_(workBytes), next_(base)
	{
		const bool isThere = call.direction == Direction::forward, isData = call.direction == Direction::backwardData;
		const bool isWeights = call.direction == Direction::backwardFilter;
		const int64_t xs = net.xData.count, ys = net.yData.count, hs = net.hCount, cs = net.cCount;
		x = isData ? result(call.x, xs, net.xData.isPadded) : operand(call.x, xs);
		y = isThere ? result(call.y, ys, net.yData.isPadded) : operand(call.y, ys);
		dy = operand(isData ? call.dy : nullptr, ys);
		hx = operand(call.hx, hs);
		dhy = operand(call.dhy, hs);
		hy = result(call.hy, hs, false);
		dhx = result(call.dhx, hs, false);
		cx = operand(call.cx, cs);
		dcy = operand(call.dcy, cs);
		cy = result(call.cy, cs, false);
		dcx = result(call.dcx, cs, false);
		weights_16 = take(weights.bytes);
		if (isWeights)
			in.push_back({nullptr, weights_16, static_cast<int64_t>(weights.bytes / 2)});
		for (const RnnWeights::Piece &piece : weights.pieces) {
			uint16_t *const ours = static_cast<uint16_t *>(weights_16) + piece.to;
			if (isWeights)
				out.push_back({ours, static_cast<float *>(call.dweightSpace) + piece.from, piece.count});
			else
				in.push_back({static_cast<const float *>(call.weightSpace) + piece.from, ours, piece.count, true});
		}
		work_ = take(workBytes);
	}
	cuda::Address end() const { return next_; }

	op::Status run(const op::CudnnRnn &cudnn, const char *&name) const
	{
		void *const hDesc = net_.hDesc(), *const cDesc = net_.cDesc();
		switch (call_.direction) {
		case Direction::forward:
			name = "cudnnRNNForward";
			return cudnn.cudnnRNNForward(call_.handle, net_.net.get(), call_.fwdMode, call_.devSeqLengths, net_.x.get(),
			                             x, net_.y.get(), y, hDesc, hx, hy, cDesc, cx, cy, weights_.bytes, weights_16,
			                             workBytes_, work_, call_.reserveSpaceSize, call_.reserveSpace);
		case Direction::backwardData:
			name = "cudnnRNNBackwardData_v8";
			return cudnn.cudnnRNNBackwardData_v8(call_.handle, net_.net.get(), call_.devSeqLengths, net_.y.get(), y, dy,
			                                     net_.x.get(), x, hDesc, hx, dhy, dhx, cDesc, cx, dcy, dcx,
			                                     weights_.bytes, weights_16, workBytes_, work_, call_.reserveSpaceSize,
			                                     call_.reserveSpace);
		case Direction::backwardFilter:
			break;
		}
		name = "cudnnRNNBackwardWeights_v8";
		return cudnn.cudnnRNNBackwardWeights_v8(call_.handle, net_.net.get(), call_.addGrad, call_.devSeqLengths,
		                                        net_.x.get(), x, hDesc, hx, net_.y.get(), y, weights_.bytes, weights_16,
		                                        workBytes_, work_, call_.reserveSpaceSize, call_.reserveSpace);
	}

	std::vector<Transfer> in, out;

private:
	void *take(size_t bytes)
	{
		void *const place = reinterpret_cast<void *>(next_);
		next_ += aligned(bytes);
		return place;
	}
	void *operand(const void *from, int64_t count)
	{
		if (!from || !count)
			return nullptr;
		void *const place = take(2 * static_cast<size_t>(count));
		in.push_back({from, place, count});
		return place;
	}
	// Padding that the vendor does not write must be zero.
	void *result(void *to, int64_t count, bool isPadded)
	{
		if (!to || !count)
			return nullptr;
		void *const place = take(2 * static_cast<size_t>(count));
		if (isPadded)
			in.push_back({nullptr, place, count});
		out.push_back({place, to, count});
		return place;
	}

	const op::RnnCall &call_;
	const Net &net_;
	const RnnWeights &weights_;
	const size_t workBytes_;
	cuda::Address next_;
	void *x, *y, *dy, *hx, *dhy, *hy, *dhx, *cx, *dcy, *cy, *dcx, *weights_16, *work_;
};

// If two threads make one, the first is kept; both are identical.
const RnnWeights *keep(Plan &plan, RnnWeights *made)
{
	const RnnWeights *known = nullptr;
	if (plan.weights.compare_exchange_strong(known, made, std::memory_order_acq_rel))
		return made;
	delete made;
	return known;
}

Outcome runIn(bool isCaptured, const op::Op &op, Plan &plan, const Settings &settings, const op::RnnCall &call,
              const op::CudnnRnn &cudnn, const void *known, const cuda::Driver &driver, cuda::Stream stream)
{
	const auto *const adv = op::cudnn<op::CudnnAdv>(known);
	const auto *const ops = op::cudnn<op::CudnnOps>(known);
	const bool isThere = call.direction == Direction::forward;
	const bool isTraining = !isThere || call.fwdMode == CUDNN_FWD_MODE_TRAINING;
	if (!adv || !ops)
		return decline(Reason::unsupported);
	const ContextAnswer answer = currentContext(driver, settings.memoryBudget, stream, isCaptured, true);
	if (!answer.context)
		return decline(answer.reason, answer.what);
	Context &context = *answer.context;
	const RnnWeights *weights = plan.weights.load(std::memory_order_acquire);
	const bool isLow = op.flags & op::flagReserveLow; // a bfloat16 RNN has run with this reserve space
	const bool mustRun = isLow && !isThere;           // the application's own call cannot read the space
	if (!weights && isCaptured && !isLow)             // the vendor's kernels may not be loaded yet
		return decline(Reason::capture_unready);
	Reserve *const remembered = isThere && isTraining ? reserveAt(call.reserveSpace, true) : nullptr;
	if (isThere && isTraining && !remembered)
		return decline(Reason::unsupported);

	Net net(cudnn, *adv, *ops, call);
	const auto refusal = [&] { return decline(Reason::engine_failed, net.steps.failed, net.steps.status); };
	if (net.steps && !net.isKnown)
		return decline(Reason::bad_argument, nullptr, CUDNN_STATUS_BAD_PARAM);
	// The vendor writes the padding fill in bfloat16, which would round this value.
	if (net.steps && isThere && (net.xData.isFillRounded() || net.yData.isFillRounded()))
		return decline(Reason::unsupported);
	if (net.steps && !weights) {
		const void *const space = call.direction == Direction::backwardFilter ? call.dweightSpace : call.weightSpace;
		RnnWeights *const made = net.makeWeights(space);
		if (net.steps && !made)
			return decline(Reason::unsupported);
		weights = made ? keep(plan, made) : nullptr;
	}
	const int mode = isTraining ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
	const Net::Spaces own = net.askSpaces(mode, net.net.get(), net.x.get());
	const Net::Spaces theirs = net.askSpaces(mode, call.rnnDesc, call.xDesc);
	if (!net.steps)
		return refusal();
	if (call.workSpaceSize < theirs.work || (theirs.work && !call.workSpace) ||
	    (isTraining && call.reserveSpaceSize < theirs.reserve) || call.weightSpaceSize < weights->asked)
		return decline(Reason::bad_argument, nullptr, CUDNN_STATUS_BAD_PARAM); // the vendor refuses it
	if (isTraining && call.reserveSpaceSize < own.reserve) // the application sized it for another type
		return decline(Reason::unsupported);

	CallMemory memory(driver, context, stream, isCaptured, Call(call, net, *weights, own.work, 0).end(), mustRun);
	if (memory.block().failure != cuda::Failure::none)
		return decline(reasonOf(memory.block().failure), "allocating device memory");
	const Call ours(call, net, *weights, own.work, memory.block().address);
	const char *name = "";
	const bool isAdded = call.direction == Direction::backwardFilter && call.addGrad == CUDNN_WGRAD_MODE_ADD;
	kernels::Events events = {};
	prepareEvents(events, plan, settings, context);
	Outcome outcome;
	if (!transfer(ours.in, false, false, events, driver, context, stream))
		outcome = decline(Reason::engine_failed, "cuLaunchKernel");
	else if (const op::Status status = ours.run(cudnn, name))
		outcome = decline(Reason::engine_failed, name, status);
	else if (!transfer(ours.out, true, isAdded, events, driver, context, stream))
		outcome = decline(Reason::engine_failed, "cuLaunchKernel");
	else
		outcome.isDone = true;
	memory.release(outcome);
	if (outcome.isDone && remembered)
		remembered->geometry.store(op.geometry, std::memory_order_release);
	if (outcome.isDone && !isCaptured)
		context.isWarm.store(true, std::memory_order_release);
	return outcome;
}

} // namespace

uint16_t updateReserve(const op::RnnCall &call, const op::Op &op, void *stream)
{
	const bool isThere = call.direction == Direction::forward;
	if (isThere && call.fwdMode != CUDNN_FWD_MODE_TRAINING)
		return 0; // inference does not write the reserve space
	const bool isCaptured = isThere && isCapturing(stream);
	Reserve *const reserve = reserveAt(call.reserveSpace, isCaptured);
	const uint32_t left = reserve ? reserve->geometry.load(std::memory_order_acquire) : 0;
	if (!isThere) {
		// Without a geometry the descriptors could not be read: assume the RNN that wrote the space.
		return left && (left == op.geometry || !op.geometry) ? op::flagReserveLow : op::flagReserveNotLowered;
	}
	if (!reserve)
		return isCaptured ? op::flagReserveNotLowered : 0;
	// Replays of a graph are not intercepted. From its first capture on, an RNN therefore always leaves the same form
	// in the space. An RNN that must not be rounded counts as a different RNN.
	const bool isPedantic = op.obstacle == op::Obstacle::pedantic;
	const uint64_t net = uint64_t{op.geometry} << 32 | uint64_t{isPedantic} << 16;
	const auto isOf = [=](uint64_t fixed) { return fixed && fixed >> 16 == net >> 16; };
	uint64_t fixed = reserve->fixed.load(std::memory_order_acquire);
	if (isCaptured && !isOf(fixed)) {
		fixed = net | (left && left == op.geometry && !isPedantic ? op::flagReserveLow : op::flagReserveNotLowered);
		reserve->fixed.store(fixed, std::memory_order_release);
	}
	reserve->geometry.store(0, std::memory_order_release);
	return isOf(fixed) ? static_cast<uint16_t>(fixed) : 0;
}

op::Status refusalOf(const op::RnnCall &call, const op::Op &op)
{
	const bool isBack = call.direction != Direction::forward;
	return !(isBack && (op.flags & op::flagReserveLow)) ? 0
	       : op.obstacle == op::Obstacle::bad_argument  ? CUDNN_STATUS_BAD_PARAM
	                                                    : CUDNN_STATUS_EXECUTION_FAILED;
}

Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const op::RnnCall &call, const void *known, void *stream)
{
	if (decision.strategy != policy::Strategy::cast || decision.precision != op::Dtype::bfloat16)
		return decline(Reason::unsupported);
	return runOnStream<op::CudnnRnn>(
	    known, stream, [&](bool isCaptured, const op::CudnnRnn &cudnn, const cuda::Driver &driver) {
		    return runIn(isCaptured, op, plan, settings, call, cudnn, known, driver, static_cast<cuda::Stream>(stream));
	    });
}

} // namespace autoamp::reroute
