#include "src/lower/rnn.h"

#include "src/base/faults.h"
#include "src/base/hash.h"
#include "src/lower/capture.h"
#include "src/lower/lowered_call.h"

#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

namespace autoamp::lower {

// Positions of the weights, matrix by matrix: offsets in the application's and in autoamp's weight space, in elements.
struct RnnWeights : FamilyData {
	struct Piece {
		int64_t from, to, count;
	};
	size_t bytes = 0, application = 0; // sizes of our and of the application weight space
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
		uintptr_t found = reserve.address.load(std::memory_order_acquire);
		if (!found && isNew && reserve.address.compare_exchange_strong(found, address, std::memory_order_acq_rel))
			found = address;
		if (found == address)
			return &reserve;
		if (!found)
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

struct RnnLibrary {
	const op::CudnnRnn &rnn;
	const op::CudnnAdv &adv;
	const op::CudnnOps &ops;
};

// An RNN as the application's descriptors define it, and autoamp's bfloat16 copies of these descriptors.
class Net
{
public:
	Net(const RnnLibrary &library, const op::RnnCall &call)
	    : rnn_(library.rnn), adv_(library.adv), ops_(library.ops), call_(call), net(rnn_, netKind), x(rnn_, dataKind),
	      y(rnn_, dataKind), h(rnn_, tensorKind), c(rnn_, tensorKind)
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
		TAKE(steps, rnn_, cudnnGetRNNWeightSpaceSize, call_.handle, call_.rnnDesc, &weights->application);
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
	Spaces spacesFor(int mode, void *of, void *data)
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

class RnnFamily final : public Family
{
public:
	// A backward pass on a bfloat16 reserve space must run: the application's own call cannot read the space.
	RnnFamily(const LoweredCall &lowered, const op::RnnCall &call, const RnnLibrary &library)
	    : Family({.kernels = true,
	              .context = true,
	              .unboundedMemory = lowered.op.flags & op::flagMustBeLow && call.direction != Direction::forward}),
	      call_(call), library_(library)
	{
	}

	// Its results are nonlinear functions of a chain of products, and its own call in fp32 would write the reserve
	// space.
	const char *describeAudit(const LoweredCall &, kernels::AuditCall &) const override
	{
		return "a recurrent network";
	}

	Outcome prepare(LoweredCall &lowered) override
	{
		weights_ = static_cast<const RnnWeights *>(lowered.cache.data.load(std::memory_order_acquire));
		if (!weights_ && lowered.isCaptured && !(lowered.op.flags & op::flagMustBeLow))
			return decline(Reason::capture_unready); // the vendor's kernels may not be loaded yet
		if (isForward() && isTraining() && !(written_ = reserveAt(call_.reserveSpace, true)))
			return decline(Reason::unsupported);
		net_.emplace(library_, call_);
		Outcome outcome = checkData();
		if (net_->steps && outcome.isDone && !weights_)
			outcome = findWeights(lowered.cache);
		if (net_->steps && outcome.isDone)
			outcome = checkSpaces();
		if (!net_->steps)
			return decline(Reason::engine_failed, net_->steps.failed, net_->steps.status);
		if (outcome.isDone)
			place(0);
		return outcome;
	}
	size_t bytes() const override { return next_; }

	const char *convert(LoweredCall &lowered, cuda::Address base) override
	{
		place(base);
		lowered.prepareEvents(events_);
		return transfer(lowered, in_, false) ? nullptr : "cuLaunchKernel";
	}

	Outcome enqueue(LoweredCall &lowered) override
	{
		const char *name = "";
		if (const op::Status status = callVendor(name))
			return decline(Reason::engine_failed, name, status);
		if (!transfer(lowered, out_, true))
			return decline(Reason::engine_failed, "cuLaunchKernel");
		if (written_)
			written_->geometry.store(lowered.op.geometry, std::memory_order_release);
		return completed();
	}

private:
	bool isForward() const { return call_.direction == Direction::forward; }
	bool isTraining() const { return !isForward() || call_.fwdMode == CUDNN_FWD_MODE_TRAINING; }

	Outcome checkData() const
	{
		if (!net_->isKnown)
			return decline(Reason::bad_argument, nullptr, CUDNN_STATUS_BAD_PARAM);
		// The vendor writes the padding fill in bfloat16, which would round this value.
		if (isForward() && (net_->xData.isFillRounded() || net_->yData.isFillRounded()))
			return decline(Reason::unsupported);
		return completed();
	}

	Outcome findWeights(SiteCache &cache)
	{
		const void *const space = call_.direction == Direction::backwardFilter ? call_.dweightSpace : call_.weightSpace;
		RnnWeights *const made = net_->makeWeights(space);
		if (!made)
			return decline(Reason::unsupported);
		// If two threads make one, the first is kept; both are identical.
		const FamilyData *kept = nullptr;
		const bool isFirst = cache.data.compare_exchange_strong(kept, made, std::memory_order_acq_rel);
		if (!isFirst)
			delete made;
		weights_ = isFirst ? made : static_cast<const RnnWeights *>(kept);
		return completed();
	}

	Outcome checkSpaces()
	{
		const int mode = isTraining() ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
		const Net::Spaces own = net_->spacesFor(mode, net_->net.get(), net_->x.get());
		const Net::Spaces application = net_->spacesFor(mode, call_.rnnDesc, call_.xDesc);
		workBytes_ = own.work;
		if (call_.workSpaceSize < application.work || (application.work && !call_.workSpace) ||
		    (isTraining() && call_.reserveSpaceSize < application.reserve) ||
		    call_.weightSpaceSize < weights_->application)
			return decline(Reason::bad_argument, nullptr, CUDNN_STATUS_BAD_PARAM); // the vendor refuses it
		if (isTraining() && call_.reserveSpaceSize < own.reserve) // the application sized it for another type
			return decline(Reason::unsupported);
		return completed();
	}

	// Lays out the scratch memory from `base` on, and lists the copies to and from it.
	void place(cuda::Address base)
	{
		const bool isData = call_.direction == Direction::backwardData;
		const bool isWeights = call_.direction == Direction::backwardFilter;
		const int64_t xs = net_->xData.count, ys = net_->yData.count, hs = net_->hCount, cs = net_->cCount;
		next_ = base;
		in_.clear(), out_.clear();
		x_ = isData ? result(call_.x, xs, net_->xData.isPadded) : operand(call_.x, xs);
		y_ = isForward() ? result(call_.y, ys, net_->yData.isPadded) : operand(call_.y, ys);
		dy_ = operand(isData ? call_.dy : nullptr, ys);
		hx_ = operand(call_.hx, hs);
		dhy_ = operand(call_.dhy, hs);
		hy_ = result(call_.hy, hs, false);
		dhx_ = result(call_.dhx, hs, false);
		cx_ = operand(call_.cx, cs);
		dcy_ = operand(call_.dcy, cs);
		cy_ = result(call_.cy, cs, false);
		dcx_ = result(call_.dcx, cs, false);
		weightSpace_ = take(weights_->bytes);
		if (isWeights)
			in_.push_back({nullptr, weightSpace_, static_cast<int64_t>(weights_->bytes / 2)});
		for (const RnnWeights::Piece &piece : weights_->pieces) {
			uint16_t *const ours = static_cast<uint16_t *>(weightSpace_) + piece.to;
			if (isWeights)
				out_.push_back({ours, static_cast<float *>(call_.dweightSpace) + piece.from, piece.count});
			else
				in_.push_back({static_cast<const float *>(call_.weightSpace) + piece.from, ours, piece.count, true});
		}
		work_ = take(workBytes_);
	}
	void *take(size_t bytes)
	{
		void *const at = reinterpret_cast<void *>(next_);
		next_ += aligned(bytes);
		return at;
	}
	void *operand(const void *from, int64_t count)
	{
		if (!from || !count)
			return nullptr;
		void *const at = take(2 * static_cast<size_t>(count));
		in_.push_back({from, at, count});
		return at;
	}
	// Padding that the vendor does not write must be zero.
	void *result(void *to, int64_t count, bool isPadded)
	{
		if (!to || !count)
			return nullptr;
		void *const at = take(2 * static_cast<size_t>(count));
		if (isPadded)
			in_.push_back({nullptr, at, count});
		out_.push_back({at, to, count});
		return at;
	}

	bool transfer(const LoweredCall &lowered, const std::vector<Transfer> &all, bool isWidening) const
	{
		kernels::Runs runs = {};
		static_cast<kernels::Events &>(runs) = events_;
		runs.isWidening = isWidening;
		runs.isAdded =
		    isWidening && call_.direction == Direction::backwardFilter && call_.addGrad == CUDNN_WGRAD_MODE_ADD;
		for (size_t i = 0; i < all.size(); i++) {
			runs.weights += !all[i].isWeight;
			runs.run[runs.count++] = {all[i].from, all[i].to, all[i].count};
			if (runs.count < kernels::mostRuns && i + 1 < all.size())
				continue;
			if (!lowered.launch(lowered.kernels->runs, lowered.blocks(runs), runs))
				return false;
			runs.count = runs.weights = 0;
		}
		return true;
	}

	op::Status callVendor(const char *&name) const
	{
		const op::CudnnRnn &cudnn = library_.rnn;
		void *const net = net_->net.get(), *const x = net_->x.get(), *const y = net_->y.get();
		void *const h = net_->hDesc(), *const c = net_->cDesc();
		switch (call_.direction) {
		case Direction::forward:
			name = "cudnnRNNForward";
			return cudnn.cudnnRNNForward(call_.handle, net, call_.fwdMode, call_.devSeqLengths, x, x_, y, y_, h, hx_,
			                             hy_, c, cx_, cy_, weights_->bytes, weightSpace_, workBytes_, work_,
			                             call_.reserveSpaceSize, call_.reserveSpace);
		case Direction::backwardData:
			name = "cudnnRNNBackwardData_v8";
			return cudnn.cudnnRNNBackwardData_v8(call_.handle, net, call_.devSeqLengths, y, y_, dy_, x, x_, h, hx_,
			                                     dhy_, dhx_, c, cx_, dcy_, dcx_, weights_->bytes, weightSpace_,
			                                     workBytes_, work_, call_.reserveSpaceSize, call_.reserveSpace);
		case Direction::backwardFilter:
			break;
		}
		name = "cudnnRNNBackwardWeights_v8";
		return cudnn.cudnnRNNBackwardWeights_v8(call_.handle, net, call_.addGrad, call_.devSeqLengths, x, x_, h, hx_, y,
		                                        y_, weights_->bytes, weightSpace_, workBytes_, work_,
		                                        call_.reserveSpaceSize, call_.reserveSpace);
	}

	const op::RnnCall &call_;
	const RnnLibrary library_;
	const RnnWeights *weights_ = nullptr;
	Reserve *written_ = nullptr; // the space that a training forward pass writes
	std::optional<Net> net_;
	size_t workBytes_ = 0;
	kernels::Events events_ = {};
	// Addresses in scratch memory, its end, and the copies.
	void *x_, *y_, *dy_, *hx_, *dhy_, *hy_, *dhx_, *cx_, *dcy_, *cy_, *dcx_, *weightSpace_, *work_;
	cuda::Address next_ = 0;
	std::vector<Transfer> in_, out_;
};

} // namespace

uint16_t updateReserve(const op::RnnCall &call, const op::Op &op, void *stream)
{
	const bool isForward = call.direction == Direction::forward;
	if (isForward && call.fwdMode != CUDNN_FWD_MODE_TRAINING)
		return 0; // inference does not write the reserve space
	const bool isCaptured = isForward && isCapturing(stream);
	Reserve *const reserve = reserveAt(call.reserveSpace, isCaptured);
	const uint32_t left = reserve ? reserve->geometry.load(std::memory_order_acquire) : 0;
	if (!isForward) {
		// Without a geometry the descriptors could not be read: assume the RNN that wrote the space.
		return left && (left == op.geometry || !op.geometry) ? op::flagMustBeLow : op::flagMustNotBeLow;
	}
	if (!reserve)
		return isCaptured ? op::flagMustNotBeLow : 0;
	// Replays of a graph are not intercepted. From its first capture on, an RNN therefore always leaves the same form
	// in the space. An RNN that must not be rounded counts as a different RNN.
	const bool isPedantic = op.obstacle == op::Obstacle::pedantic;
	const uint64_t net = uint64_t{op.geometry} << 32 | uint64_t{isPedantic} << 16;
	const auto isOf = [=](uint64_t fixed) { return fixed && fixed >> 16 == net >> 16; };
	uint64_t fixed = reserve->fixed.load(std::memory_order_acquire);
	if (isCaptured && !isOf(fixed)) {
		fixed = net | (left && left == op.geometry && !isPedantic ? op::flagMustBeLow : op::flagMustNotBeLow);
		reserve->fixed.store(fixed, std::memory_order_release);
	}
	reserve->geometry.store(0, std::memory_order_release);
	return isOf(fixed) ? static_cast<uint16_t>(fixed) : 0;
}

op::Status refusalOf(const op::RnnCall &call, const op::Op &op)
{
	const bool isBack = call.direction != Direction::forward;
	return !(isBack && (op.flags & op::flagMustBeLow)) ? 0
	       : op.obstacle == op::Obstacle::bad_argument ? CUDNN_STATUS_BAD_PARAM
	                                                   : CUDNN_STATUS_EXECUTION_FAILED;
}

Outcome lower(LoweredCall &lowered, const op::RnnCall &call)
{
	const auto *const rnn = op::cudnn<op::CudnnRnn>(lowered.original);
	const auto *const adv = op::cudnn<op::CudnnAdv>(lowered.original);
	const auto *const ops = op::cudnn<op::CudnnOps>(lowered.original);
	if (!lowered.isCast() || lowered.decision.precision != op::Dtype::bfloat16 || !rnn || !adv || !ops)
		return decline(Reason::unsupported);
	RnnFamily family(lowered, call, {*rnn, *adv, *ops});
	return run(lowered, family);
}

} // namespace autoamp::lower
