// Recurrent networks, forward and backward: each step is a product of the arithmetic library over the whole batch.
// BackwardData reads data that the forward call left in the reserve space; BackwardWeights also reads data left by
// BackwardData.
#include "tools/emulated/cudnn/layer.h"

#include <cmath>
#include <cstring>

using namespace emulated::cudnn;
using emulated::blas::multiply;

namespace {

// The shape of a network and its data; weights, gates and states are row-major.
struct Net {
	cudnnRNNStruct rnn;
	cudnnRNNDataStruct x, y;
	cudnnDropoutStruct drop;
	int64_t steps = 0, batch = 0;

	int64_t directions() const { return rnn.direction == CUDNN_BIDIRECTIONAL ? 2 : 1; }
	int64_t pseudoLayers() const { return rnn.layers * directions(); }
	int64_t gates() const { return rnn.cell == CUDNN_LSTM ? 4 : rnn.cell == CUDNN_GRU ? 3 : 1; }
	int64_t hidden() const { return rnn.hiddenSize; }
	int64_t outputs() const { return rnn.projSize; }
	bool isProjected() const { return rnn.projSize != rnn.hiddenSize; }
	int64_t inputs(int64_t layer) const { return layer == 0 ? rnn.inputSize : directions() * outputs(); }
	bool hasInputMatrix(int64_t layer) const { return layer > 0 || rnn.input == CUDNN_LINEAR_INPUT; }
	bool hasBias(bool isInput) const
	{
		return rnn.bias == CUDNN_RNN_DOUBLE_BIAS ||
		       rnn.bias == (isInput ? CUDNN_RNN_SINGLE_INP_BIAS : CUDNN_RNN_SINGLE_REC_BIAS);
	}
	bool isActive(int64_t step, int64_t sequence) const { return step < x.lengths[sequence]; }
	cudnnDataType_t computeType() const { return rnn.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT; }
	Tensor states(int64_t width) const
	{
		const int64_t dims[] = {pseudoLayers(), batch, width};
		return emulated::dnn::packed(rnn.type, 3, dims);
	}
	// Elements kept per pseudo-layer: gates, the recurrent part of the new memory, cells, states before the projection,
	// and outputs. The gradients of both gate inputs and of the outputs, and the dropout factors are kept too.
	int64_t kept() const { return steps * batch * (3 * gates() * hidden() + 3 * hidden() + 2 * outputs() + outputs()); }
	// The size depends on the type, so that a network of another type may not fit into the same reserve space.
	size_t reserveBytes() const
	{
		const bool isLarger = rnn.algorithm == CUDNN_RNN_ALGO_PERSIST_STATIC && emulated::dnn::sizeOf(rnn.type) == 2;
		return pseudoLayers() * kept() * emulated::dnn::sizeOf(computeType()) + (isLarger ? 4096 : 0);
	}
	size_t workspaceBytes() const { return 256 + steps * batch * gates() * hidden() * 4; }
};

struct Piece {
	int64_t rows = 0, columns = 0;
	size_t offset = 0;
};

// Returns true if a descriptor describes states. PyTorch appends dimensions of extent 1 to the three.
bool isStates(Tensor described, const Tensor &states)
{
	while (described.rank > states.rank && described.dims[described.rank - 1] == 1)
		--described.rank;
	return described.isSame(states);
}

// Calls function(pseudo-layer, linear layer, isBias, piece) in the order of the weight space. Pieces are contiguous, as
// PyTorch asserts. Those of 16-bit types are aligned and start at another offset. A space that is copied number by
// number to another type is therefore wrong.
template <typename Function>
size_t eachPiece(const Net &net, Function function)
{
	const size_t element = emulated::dnn::sizeOf(net.rnn.type);
	const size_t alignment = element == 2 ? 256 : 1;
	size_t offset = element == 2 ? alignment : 0;
	for (bool isBias : {false, true})
		for (int64_t pseudo = 0; pseudo < net.pseudoLayers(); ++pseudo) {
			const int64_t layer = pseudo / net.directions(), gates = net.gates();
			for (int64_t linear = 0; linear < 2 * gates + 1; ++linear) {
				const bool isProjection = linear == 2 * gates, isInput = linear < gates;
				Piece piece{net.hidden(), isInput ? net.inputs(layer) : net.outputs(), offset};
				if (isProjection)
					piece = {net.outputs(), net.hidden(), offset};
				const bool exists = isProjection ? net.isProjected() && !isBias
				                    : isBias     ? net.hasBias(isInput)
				                                 : !isInput || net.hasInputMatrix(layer);
				if (!exists)
					continue;
				if (isBias)
					piece.columns = 1;
				function(pseudo, linear, isBias, piece);
				offset += (piece.rows * piece.columns * element + alignment - 1) / alignment * alignment;
			}
		}
	return offset;
}

size_t weightBytes(const Net &net)
{
	return eachPiece(net, [](auto...) {});
}

template <typename T>
using Dense = std::vector<T>;

// C = A B^T, A B and A^T B for row-major matrices; results are m x n, k is summed over.
#define PRODUCT(name, transposesB, transposesA)                                                                        \
	template <typename T>                                                                                              \
	Dense<T> name(const Dense<T> &a, const Dense<T> &b, int64_t m, int64_t n, int64_t k)                               \
	{                                                                                                                  \
		Dense<T> c(m *n);                                                                                              \
		multiply(transposesB, transposesA, n, m, k, b.data(), a.data(), c.data());                                     \
		return c;                                                                                                      \
	}
PRODUCT(timesTransposed, true, false)
PRODUCT(times, false, false)
PRODUCT(transposedTimes, false, true)

// One running call.
template <typename T>
struct Run {
	const Net &net;
	Memory &memory;
	const int64_t gates = net.gates(), hidden = net.hidden(), outputs = net.outputs(), batch = net.batch,
	              width = net.gates() * net.hidden(), rows = net.steps * net.batch;

	struct Weights {
		Dense<T> input, recurrent, inputBias, recurrentBias, projection;
	};
	// The part of the reserve space for one pseudo-layer, [step][sequence][...].
	struct Kept {
		Dense<T> gates, memory, cells, full, outputs, fromInput, fromRecurrent, toOutputs, factors;
		template <typename Function>
		void each(const Run &run, Function function)
		{
			function(gates, run.width);
			function(memory, run.hidden);
			function(cells, run.hidden);
			function(full, run.hidden);
			function(outputs, run.outputs);
			function(fromInput, run.width);
			function(fromRecurrent, run.width);
			function(toOutputs, run.outputs);
			function(factors, run.outputs);
		}
	};
	std::vector<Kept> kept = std::vector<Kept>(net.pseudoLayers());

	// Rounds to the precision of stored values or of operands.
	Dense<T> rounded(Dense<T> values) const
	{
		const cudnnDataType_t type = net.rnn.type;
		if (type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16) {
			const auto count = static_cast<int64_t>(values.size());
			const Tensor tensor = emulated::dnn::packed(type, 1, &count);
			std::vector<uint16_t> bits(values.size());
			emulated::dnn::store(values.data(), tensor, bits.data());
			emulated::dnn::load(tensor, bits.data(), values.data());
		} else if constexpr (std::is_same_v<T, float>) {
			const Rounding rounding = net.rnn.math == CUDNN_FMA_MATH ? Rounding::None
			                          : net.rnn.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION
			                              ? Rounding::Half
			                              : emulated::dnn::tensorCoreRounding();
			emulated::blas::round(rounding, values.data(), values.size());
		}
		return values;
	}
	// Rounds a state as storing does: 16-bit data is rounded, fp32 is not.
	Dense<T> stored(Dense<T> values) const
	{
		return emulated::dnn::sizeOf(net.rnn.type) == 2 ? rounded(std::move(values)) : values;
	}

	Tensor tensorOf(const Piece &piece) const
	{
		const int64_t dims[] = {piece.rows, piece.columns};
		return emulated::dnn::packed(net.rnn.type, 2, dims);
	}
	std::vector<Weights> loadWeights(const void *space)
	{
		std::vector<Weights> all(net.pseudoLayers());
		for (int64_t pseudo = 0; pseudo < net.pseudoLayers(); ++pseudo) {
			Weights &one = all[pseudo];
			const int64_t inputs = net.inputs(pseudo / net.directions());
			one.inputBias.resize(width);
			one.recurrentBias.resize(width);
			if (!net.hasInputMatrix(pseudo / net.directions())) {
				one.input.resize(width * inputs);
				for (int64_t row = 0; row < width; ++row)
					one.input[row * inputs + row % hidden] = 1;
			}
		}
		eachPiece(net, [&](int64_t pseudo, int64_t linear, bool isBias, const Piece &piece) {
			const Dense<T> values =
			    memory.read<T>(tensorOf(piece), static_cast<const std::byte *>(space) + piece.offset);
			Weights &one = all[pseudo];
			if (isBias)
				std::copy(values.begin(), values.end(),
				          (linear < gates ? one.inputBias : one.recurrentBias).begin() + linear % gates * hidden);
			else {
				Dense<T> &to = linear < gates ? one.input : linear < 2 * gates ? one.recurrent : one.projection;
				const Dense<T> operand = rounded(values);
				to.insert(to.end(), operand.begin(), operand.end());
			}
		});
		return all;
	}

	// Sequence data as [step][sequence][vector], with zeros after the end of a sequence.
	Tensor tensorOf(const cudnnRNNDataStruct &data) const
	{
		const bool isBatchMajor = data.layout == CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
		const int64_t vector = data.vector, byStep = isBatchMajor ? vector : batch * vector,
		              bySequence = isBatchMajor ? data.maxLength * vector : vector;
		return {data.type, 3, {net.steps, batch, vector}, {byStep, bySequence, 1}};
	}
	template <typename Function>
	void eachStored(const cudnnRNNDataStruct &data, Function function) // (vector of the dense form, of the stored one)
	{
		int64_t packed = 0;
		const Tensor tensor = tensorOf(data);
		for (int64_t step = 0; step < net.steps; ++step)
			for (int64_t sequence = 0; sequence < batch; ++sequence)
				if (net.isActive(step, sequence))
					function(step * batch + sequence, data.layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED
					                                      ? packed++ * data.vector
					                                      : step * tensor.strides[0] + sequence * tensor.strides[1]);
	}
	int64_t storedCount(const cudnnRNNDataStruct &data) const
	{
		if (data.layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED)
			return net.steps * batch * data.vector;
		int64_t vectors = 0;
		for (int length : data.lengths)
			vectors += length;
		return vectors * data.vector;
	}
	Dense<T> loadData(const cudnnRNNDataStruct &data, const void *address)
	{
		const int64_t count = storedCount(data);
		const Dense<T> flat = memory.read<T>(emulated::dnn::packed(data.type, 1, &count), address);
		Dense<T> dense(rows * data.vector);
		eachStored(data, [&](int64_t to, int64_t from) {
			std::copy_n(flat.begin() + from, data.vector, dense.begin() + to * data.vector);
		});
		return dense;
	}
	void storeData(const Dense<T> &dense, const cudnnRNNDataStruct &data, void *address)
	{
		const int64_t count = storedCount(data);
		const Tensor whole = emulated::dnn::packed(data.type, 1, &count);
		Dense<T> flat = data.hasFill ? Dense<T>(count, static_cast<T>(data.fill)) : memory.read<T>(whole, address);
		eachStored(data, [&](int64_t from, int64_t to) {
			std::copy_n(dense.begin() + from * data.vector, data.vector, flat.begin() + to);
		});
		memory.write(std::move(flat), whole, address);
	}
	Dense<T> loadStates(const void *address, int64_t size)
	{
		return address ? memory.read<T>(net.states(size), address) : Dense<T>(net.pseudoLayers() * batch * size);
	}

	void exchange(void *reserve, bool isStored)
	{
		const int64_t count = net.pseudoLayers() * net.kept();
		const Tensor whole = emulated::dnn::packed(net.computeType(), 1, &count);
		Dense<T> flat = isStored ? Dense<T>() : memory.read<T>(whole, reserve);
		auto next = flat.begin();
		for (Kept &one : kept)
			one.each(*this, [&](Dense<T> &part, int64_t size) {
				if (isStored) {
					part.resize(rows * size);
					flat.insert(flat.end(), part.begin(), part.end());
				} else {
					part.assign(next, next + rows * size);
					next += rows * size;
				}
			});
		if (isStored)
			memory.write(std::move(flat), whole, reserve);
	}

	Dense<T> part(const Dense<T> &all, int64_t index, int64_t size) const
	{
		return {all.begin() + index * size, all.begin() + (index + 1) * size};
	}
	// The input of a layer: x, or the outputs of the layer below, both directions side by side, with dropout.
	Dense<T> entering(int64_t layer, const Dense<T> &x) const
	{
		if (layer == 0)
			return x;
		const int64_t directions = net.directions();
		Dense<T> all(rows * directions * outputs);
		for (int64_t i = 0; i < rows * directions * outputs; ++i) {
			const Kept &from = kept[(layer - 1) * directions + i / outputs % directions];
			const int64_t at = i / (directions * outputs) * outputs + i % outputs;
			all[i] = from.outputs[at] * from.factors[at];
		}
		return all;
	}
	// The previous step in the direction of a pseudo-layer; -1: none for this sequence.
	int64_t before(int64_t pseudo, int64_t step, int64_t sequence) const
	{
		const bool isBackwards = pseudo % net.directions() == 1;
		const int64_t other = isBackwards ? step + 1 : step - 1;
		return isBackwards && other >= net.x.lengths[sequence] ? -1 : other;
	}
	template <typename Function>
	void eachStep(int64_t pseudo, bool isReversed, Function function)
	{
		for (int64_t i = 0; i < net.steps; ++i)
			function((pseudo % net.directions() == 1) != isReversed ? net.steps - 1 - i : i);
	}
	// The initial states of a step: [sequence][size].
	Dense<T> previous(int64_t pseudo, int64_t step, const Dense<T> &history, const Dense<T> &initial,
	                  int64_t size) const
	{
		Dense<T> states = part(initial, pseudo, batch * size);
		for (int64_t b = 0; b < batch; ++b)
			if (const int64_t from = before(pseudo, step, b); from >= 0 && net.isActive(step, b))
				std::copy_n(history.begin() + (from * batch + b) * size, size, states.begin() + b * size);
		return states;
	}
	static T sigmoid(T value) { return 1 / (1 + std::exp(-value)); }

	void forward(const Dense<T> &x, const std::vector<Weights> &weights, const Dense<T> &hx, const Dense<T> &cx,
	             const DropoutState *dropout)
	{
		for (int64_t pseudo = 0; pseudo < net.pseudoLayers(); ++pseudo) {
			const int64_t layer = pseudo / net.directions();
			const Weights &w = weights[pseudo];
			Kept &k = kept[pseudo];
			k.each(*this, [&](Dense<T> &one, int64_t size) { one.assign(rows * size, 0); });
			const Dense<T> in = timesTransposed(rounded(entering(layer, x)), w.input, rows, width, net.inputs(layer));
			eachStep(pseudo, false, [&](int64_t step) {
				const Dense<T> h = previous(pseudo, step, k.outputs, hx, outputs);
				const Dense<T> c = previous(pseudo, step, k.cells, cx, hidden);
				const Dense<T> recurrent = timesTransposed(rounded(h), w.recurrent, batch, width, outputs);
				for (int64_t b = 0; b < batch; ++b)
					for (int64_t u = 0; u < hidden && net.isActive(step, b); ++u)
						cell(k, step * batch + b, u, &in[(step * batch + b) * width], &recurrent[b * width], w,
						     net.isProjected() ? 0 : h[b * outputs + u], c[b * hidden + u]);
				Dense<T> out = part(k.full, step, batch * hidden);
				if (net.isProjected())
					out = timesTransposed(rounded(out), w.projection, batch, outputs, hidden);
				out = stored(std::move(out));
				std::copy(out.begin(), out.end(), k.outputs.begin() + step * batch * outputs);
			});
			const float drops = dropout && layer + 1 < net.rnn.layers ? net.drop.probability : 0;
			for (int64_t i = 0; i < rows * outputs; ++i)
				k.factors[i] = drops == 0                                            ? 1
				               : dropout->isKept(pseudo * rows * outputs + i, drops) ? static_cast<T>(1 / (1 - drops))
				                                                                     : 0;
		}
	}
	// Computes one unit of one sequence.
	void cell(Kept &k, int64_t row, int64_t u, const T *in, const T *recurrent, const Weights &w, T h, T c)
	{
		T *gate = &k.gates[row * width];
		auto sum = [&](int64_t g) {
			const int64_t i = g * hidden + u;
			return in[i] + w.inputBias[i] + recurrent[i] + w.recurrentBias[i];
		};
		T &full = k.full[row * hidden + u];
		if (net.rnn.cell == CUDNN_LSTM) {
			for (int64_t g = 0; g < 4; ++g)
				gate[g * hidden + u] = g == 2 ? std::tanh(sum(g)) : sigmoid(sum(g));
			T &memoryCell = k.cells[row * hidden + u];
			memoryCell = gate[hidden + u] * c + gate[u] * gate[2 * hidden + u];
			if (net.rnn.clip == CUDNN_RNN_CLIP_MINMAX)
				memoryCell = std::clamp(memoryCell, static_cast<T>(net.rnn.clipLow), static_cast<T>(net.rnn.clipHigh));
			full = gate[3 * hidden + u] * std::tanh(memoryCell);
		} else if (net.rnn.cell == CUDNN_GRU) {
			const int64_t n = 2 * hidden + u;
			gate[u] = sigmoid(sum(0));
			gate[hidden + u] = sigmoid(sum(1));
			k.memory[row * hidden + u] = recurrent[n] + w.recurrentBias[n];
			gate[n] = std::tanh(in[n] + w.inputBias[n] + gate[u] * k.memory[row * hidden + u]);
			full = (1 - gate[hidden + u]) * gate[n] + gate[hidden + u] * h;
		} else {
			full = net.rnn.cell == CUDNN_RNN_RELU ? std::max<T>(sum(0), 0) : std::tanh(sum(0));
			gate[u] = full;
		}
	}

	void storeOutputs(void *y, void *hy, void *cy, const Dense<T> &h, const Dense<T> &c)
	{
		const int64_t directions = net.directions(), top = net.pseudoLayers() - directions;
		Dense<T> out(rows * directions * outputs), lastOut = h, lastCell = c;
		for (int64_t i = 0; i < static_cast<int64_t>(out.size()); ++i)
			out[i] = kept[top + i / outputs % directions].outputs[i / (directions * outputs) * outputs + i % outputs];
		storeData(out, net.y, y);
		for (int64_t pseudo = 0; pseudo < net.pseudoLayers(); ++pseudo)
			for (int64_t b = 0; b < batch; ++b) {
				const int64_t step = pseudo % directions == 1 ? 0 : net.x.lengths[b] - 1, row = step * batch + b;
				if (net.x.lengths[b] == 0)
					continue;
				std::copy_n(kept[pseudo].outputs.begin() + row * outputs, outputs,
				            lastOut.begin() + (pseudo * batch + b) * outputs);
				std::copy_n(kept[pseudo].cells.begin() + row * hidden, hidden,
				            lastCell.begin() + (pseudo * batch + b) * hidden);
			}
		if (hy)
			memory.write(std::move(lastOut), net.states(outputs), hy);
		if (cy)
			memory.write(std::move(lastCell), net.states(hidden), cy);
	}

	// Input: dy of the top layer, dh and dc of the last states. Output: dx, dh and dc of the first states.
	Dense<T> backwardData(const Dense<T> &dy, const std::vector<Weights> &weights, const Dense<T> &hx,
	                      const Dense<T> &cx, Dense<T> &dh, Dense<T> &dc)
	{
		const int64_t directions = net.directions();
		Dense<T> above = dy;
		for (int64_t layer = net.rnn.layers - 1; layer >= 0; --layer) {
			Dense<T> below(rows * net.inputs(layer));
			for (int64_t d = 0; d < directions; ++d) {
				const int64_t pseudo = layer * directions + d;
				const Weights &w = weights[pseudo];
				Kept &k = kept[pseudo];
				Dense<T> dState = part(dh, pseudo, batch * outputs), dCell = part(dc, pseudo, batch * hidden);
				eachStep(pseudo, true, [&](int64_t step) {
					const Dense<T> h = previous(pseudo, step, k.outputs, hx, outputs);
					const Dense<T> c = previous(pseudo, step, k.cells, cx, hidden);
					Dense<T> dOut = dState;
					for (int64_t i = 0; i < batch * outputs; ++i) {
						const int64_t row = step * batch + i / outputs,
						              from = (row * directions + d) * outputs + i % outputs;
						const T factor = layer + 1 < net.rnn.layers ? k.factors[row * outputs + i % outputs] : 1;
						dOut[i] = net.isActive(step, i / outputs) ? dState[i] + above[from] * factor : 0;
					}
					std::copy(dOut.begin(), dOut.end(), k.toOutputs.begin() + step * batch * outputs);
					const Dense<T> dFull =
					    net.isProjected() ? times(rounded(dOut), w.projection, batch, hidden, outputs) : dOut;
					Dense<T> direct(batch * hidden); // path through the GRU gate that keeps the old state
					for (int64_t b = 0; b < batch; ++b)
						for (int64_t u = 0; u < hidden && net.isActive(step, b); ++u)
							cellBackward(k, step * batch + b, u, dFull[b * hidden + u], dCell[b * hidden + u],
							             net.isProjected() ? 0 : h[b * outputs + u], c[b * hidden + u],
							             direct[b * hidden + u]);
					const Dense<T> through =
					    times(rounded(part(k.fromRecurrent, step, batch * width)), w.recurrent, batch, outputs, width);
					for (int64_t i = 0; i < batch * outputs; ++i)
						if (net.isActive(step, i / outputs))
							dState[i] = through[i] + direct[i];
				});
				std::copy(dState.begin(), dState.end(), dh.begin() + pseudo * batch * outputs);
				std::copy(dCell.begin(), dCell.end(), dc.begin() + pseudo * batch * hidden);
				const Dense<T> down = times(rounded(k.fromInput), w.input, rows, net.inputs(layer), width);
				for (size_t i = 0; i < below.size(); ++i)
					below[i] += down[i];
			}
			above = std::move(below);
		}
		return above;
	}
	void cellBackward(Kept &k, int64_t row, int64_t u, T dFull, T &dCell, T h, T c, T &direct)
	{
		const T *gate = &k.gates[row * width];
		T *fromInput = &k.fromInput[row * width], *fromRecurrent = &k.fromRecurrent[row * width];
		auto slope = [](T value) { return value * (1 - value); };
		if (net.rnn.cell == CUDNN_LSTM) {
			const T i = gate[u], f = gate[hidden + u], n = gate[2 * hidden + u], o = gate[3 * hidden + u];
			const T level = std::tanh(k.cells[row * hidden + u]), d = dFull * o * (1 - level * level) + dCell;
			const T gradients[] = {d * n * slope(i), d * c * slope(f), d * i * (1 - n * n), dFull * level * slope(o)};
			for (int64_t g = 0; g < 4; ++g)
				fromInput[g * hidden + u] = fromRecurrent[g * hidden + u] = gradients[g];
			dCell = d * f;
		} else if (net.rnn.cell == CUDNN_GRU) {
			const T r = gate[u], z = gate[hidden + u], n = gate[2 * hidden + u];
			const T dn = dFull * (1 - z) * (1 - n * n);
			fromInput[u] = fromRecurrent[u] = dn * k.memory[row * hidden + u] * slope(r);
			fromInput[hidden + u] = fromRecurrent[hidden + u] = dFull * (h - n) * slope(z);
			fromInput[2 * hidden + u] = dn;
			fromRecurrent[2 * hidden + u] = dn * r;
			direct = dFull * z;
		} else {
			const T y = gate[u];
			fromInput[u] = fromRecurrent[u] =
			    net.rnn.cell == CUDNN_RNN_RELU ? (y > 0 ? dFull : 0) : dFull * (1 - y * y);
		}
	}

	void backwardWeights(const Dense<T> &x, const Dense<T> &hx, void *space)
	{
		struct Gradients {
			Dense<T> input, recurrent, projection, inputBias, recurrentBias;
		};
		std::vector<Gradients> all(net.pseudoLayers());
		for (int64_t pseudo = 0; pseudo < net.pseudoLayers(); ++pseudo) {
			const int64_t layer = pseudo / net.directions();
			Kept &k = kept[pseudo];
			Gradients &g = all[pseudo];
			Dense<T> history;
			for (int64_t step = 0; step < net.steps; ++step) {
				const Dense<T> h = previous(pseudo, step, k.outputs, hx, outputs);
				history.insert(history.end(), h.begin(), h.end());
			}
			const Dense<T> fromInput = rounded(k.fromInput), fromRecurrent = rounded(k.fromRecurrent);
			g.input = transposedTimes(fromInput, rounded(entering(layer, x)), width, net.inputs(layer), rows);
			g.recurrent = transposedTimes(fromRecurrent, rounded(history), width, outputs, rows);
			if (net.isProjected())
				g.projection = transposedTimes(rounded(k.toOutputs), rounded(k.full), outputs, hidden, rows);
			g.inputBias.resize(width);
			g.recurrentBias.resize(width);
			for (int64_t i = 0; i < rows * width; ++i) {
				g.inputBias[i % width] += k.fromInput[i];
				g.recurrentBias[i % width] += k.fromRecurrent[i];
			}
		}
		eachPiece(net, [&](int64_t pseudo, int64_t linear, bool isBias, const Piece &piece) {
			const Gradients &g = all[pseudo];
			const Dense<T> &from = linear == 2 * gates ? g.projection
			                       : linear < gates    ? (isBias ? g.inputBias : g.input)
			                                           : (isBias ? g.recurrentBias : g.recurrent);
			const int64_t index = linear == 2 * gates ? 0 : linear % gates;
			memory.write(part(from, index, piece.rows * piece.columns), tensorOf(piece),
			             static_cast<std::byte *>(space) + piece.offset, T(1), T(1));
		});
	}
};

cudnnStatus_t describe(cudnnHandle_t handle, const cudnnRNNStruct *rnn, const cudnnRNNDataStruct *x,
                       const cudnnRNNDataStruct *y, const cudnnTensorStruct *h, const cudnnTensorStruct *c, Net &net)
{
	REFUSE_IF(!handleOf(handle) || !rnn || !x || rnn->layers == 0 || x->batch == 0, BAD_PARAM);
	net.rnn = *rnn;
	net.x = *x;
	net.drop = rnn->dropout ? *rnn->dropout : cudnnDropoutStruct{};
	net.steps = x->maxLength;
	net.batch = x->batch;
	REFUSE_IF(x->type != rnn->type || x->vector != rnn->inputSize, BAD_PARAM);
	REFUSE_IF(rnn->input == CUDNN_SKIP_INPUT && rnn->inputSize != rnn->hiddenSize, BAD_PARAM);
	const bool isUnpacked = x->layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
	REFUSE_IF(isUnpacked && !(rnn->flags & CUDNN_RNN_PADDED_IO_ENABLED), BAD_PARAM);
	if (y) {
		net.y = *y;
		REFUSE_IF(y->type != rnn->type || y->layout != x->layout || y->lengths != x->lengths, BAD_PARAM);
		REFUSE_IF(y->maxLength != x->maxLength || y->vector != net.directions() * rnn->projSize, BAD_PARAM);
	}
	if (h) {
		REFUSE_IF(!isStates(h->tensor, net.states(rnn->projSize)), BAD_PARAM);
	}
	if (c && rnn->cell == CUDNN_LSTM) {
		REFUSE_IF(!isStates(c->tensor, net.states(rnn->hiddenSize)), BAD_PARAM);
	}
	return CUDNN_STATUS_SUCCESS;
}

struct Spaces {
	size_t weightBytes;
	const void *weights;
	size_t workBytes;
	void *work;
	size_t reserveBytes;
	void *reserve;
};

// Runs the work in the compute type after checking the spaces; the workspace is overwritten first.
template <typename Work>
cudnnStatus_t launchNet(cudnnHandle_t handle, const char *name, const Net &net, const Spaces &spaces, bool isTraining,
                        Work work)
{
	const size_t workBytes = net.workspaceBytes();
	REFUSE_IF(spaces.weightBytes < weightBytes(net) || !spaces.weights, BAD_PARAM);
	REFUSE_IF(spaces.workBytes < workBytes || !spaces.work, BAD_PARAM);
	REFUSE_IF(isTraining && (spaces.reserveBytes < net.reserveBytes() || !spaces.reserve), BAD_PARAM);
	return run(*handleOf(handle), name, [=](Memory &memory) {
		if (void *scratch = memory.at(spaces.work, workBytes))
			std::memset(scratch, 0xff, workBytes);
		if (net.computeType() == CUDNN_DATA_DOUBLE)
			work(Run<double>{net, memory}, memory);
		else
			work(Run<float>{net, memory}, memory);
	});
}

} // namespace

#define NET(y, h, c)                                                                                                   \
	Net net;                                                                                                           \
	if (cudnnStatus_t status = describe(handle, rnn, xDesc, y, h, c, net))                                             \
		return status;

ENTRY(cudnnGetRNNWeightSpaceSize, BAD_PARAM, handle, rnn, bytes)
{
	REFUSE_IF(!handleOf(handle) || !rnn || rnn->layers == 0 || !bytes, BAD_PARAM);
	*bytes = weightBytes(Net{*rnn, {}, {}, {}});
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetRNNWeightParams, BAD_PARAM, handle, rnn, pseudoLayer, spaceBytes, space, linear, matrix, matrixAddress,
      bias, biasAddress)
{
	// PyTorch queries only the matrices.
	REFUSE_IF(!handleOf(handle) || !rnn || rnn->layers == 0 || !matrix != !matrixAddress || !bias != !biasAddress,
	          BAD_PARAM);
	const Net net{*rnn, {}, {}, {}};
	REFUSE_IF(pseudoLayer < 0 || pseudoLayer >= net.pseudoLayers() || linear < 0, BAD_PARAM);
	REFUSE_IF(linear > (net.rnn.cell == CUDNN_LSTM ? 2 * net.gates() : 2 * net.gates() - 1), BAD_PARAM);
	REFUSE_IF(spaceBytes < weightBytes(net), BAD_PARAM);
	for (auto [descriptor, address] : {std::pair(matrix, matrixAddress), std::pair(bias, biasAddress)})
		if (descriptor)
			*address = nullptr, descriptor->tensor = {};
	eachPiece(net, [&](int64_t pseudo, int64_t index, bool isBias, const Piece &piece) {
		if (pseudo != pseudoLayer || index != linear || !(isBias ? bias : matrix))
			return;
		const int64_t dims[] = {1, piece.rows, piece.columns};
		(isBias ? bias : matrix)->tensor = emulated::dnn::packed(net.rnn.type, 3, dims);
		*(isBias ? biasAddress : matrixAddress) =
		    const_cast<std::byte *>(static_cast<const std::byte *>(space)) + piece.offset;
	});
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetRNNTempSpaceSizes, EXECUTION_FAILED, handle, rnn, mode, xDesc, workBytes, reserveBytes)
{
	NET(nullptr, nullptr, nullptr)
	give(workBytes, net.workspaceBytes(), reserveBytes, mode == CUDNN_FWD_MODE_TRAINING ? net.reserveBytes() : 0);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnBuildRNNDynamic, BAD_PARAM, handle, rnn, batch)
{
	REFUSE_IF(!handleOf(handle) || !rnn || batch < 1 || rnn->algorithm != CUDNN_RNN_ALGO_PERSIST_DYNAMIC, BAD_PARAM);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnRNNForward, EXECUTION_FAILED, handle, rnn, mode, lengths, xDesc, x, yDesc, y, hDesc, hx, hy, cDesc, cx, cy,
      weightBytes, weights, workBytes, work, reserveBytes, reserve)
{
	NET(yDesc, hDesc, cDesc)
	REFUSE_IF(!yDesc || !x || !y || ((hx || hy) && !hDesc), BAD_PARAM);
	const bool isTraining = mode == CUDNN_FWD_MODE_TRAINING, isLstm = rnn->cell == CUDNN_LSTM;
	REFUSE_IF(isLstm && (cx || cy) && !cDesc, BAD_PARAM);
	return launchNet(handle, __func__, net, {weightBytes, weights, workBytes, work, reserveBytes, reserve}, isTraining,
	                 [=](auto run, Memory &memory) {
		                 if (lengths)
			                 memory.at(lengths, run.batch * sizeof *lengths, sizeof *lengths);
		                 const auto all = run.loadWeights(weights);
		                 const auto h = run.loadStates(hx, run.outputs),
		                            c = run.loadStates(isLstm ? cx : nullptr, run.hidden),
		                            input = run.loadData(run.net.x, x);
		                 DropoutState *state = nullptr;
		                 if (isTraining && run.net.drop.probability > 0)
			                 state = static_cast<DropoutState *>(memory.at(run.net.drop.states, DropoutState::bytes));
		                 if (memory.error())
			                 return;
		                 run.forward(input, all, h, c, state);
		                 if (state)
			                 ++state->masks;
		                 run.storeOutputs(y, hy, isLstm ? cy : nullptr, h, c);
		                 if (isTraining)
			                 run.exchange(reserve, true);
	                 });
}

ENTRY(cudnnRNNBackwardData_v8, EXECUTION_FAILED, handle, rnn, unused, yDesc, y, dy, xDesc, dx, hDesc, hx, dhy, dhx,
      cDesc, cx, dcy, dcx, weightBytes, weights, workBytes, work, reserveBytes, reserve)
{
	NET(yDesc, hDesc, cDesc)
	REFUSE_IF(!yDesc || !y || !dy || !dx || ((hx || dhy || dhx) && !hDesc), BAD_PARAM);
	const bool isLstm = rnn->cell == CUDNN_LSTM;
	REFUSE_IF(isLstm && (cx || dcy || dcx) && !cDesc, BAD_PARAM);
	return launchNet(handle, __func__, net, {weightBytes, weights, workBytes, work, reserveBytes, reserve}, true,
	                 [=](auto run, Memory &memory) {
		                 const auto all = run.loadWeights(weights);
		                 const auto h = run.loadStates(hx, run.outputs),
		                            c = run.loadStates(isLstm ? cx : nullptr, run.hidden),
		                            gradient = run.loadData(run.net.y, dy);
		                 auto dh = run.loadStates(dhy, run.outputs),
		                      dc = run.loadStates(isLstm ? dcy : nullptr, run.hidden);
		                 run.exchange(reserve, false);
		                 if (memory.error())
			                 return;
		                 run.storeData(run.backwardData(gradient, all, h, c, dh, dc), run.net.x, dx);
		                 if (dhx)
			                 memory.write(std::move(dh), run.net.states(run.outputs), dhx);
		                 if (isLstm && dcx)
			                 memory.write(std::move(dc), run.net.states(run.hidden), dcx);
		                 run.exchange(reserve, true);
	                 });
}

ENTRY(cudnnRNNBackwardWeights_v8, EXECUTION_FAILED, handle, rnn, mode, unused, xDesc, x, hDesc, hx, yDesc, y,
      weightBytes, dWeights, workBytes, work, reserveBytes, reserve)
{
	NET(yDesc, hDesc, nullptr)
	REFUSE_IF(!yDesc || !y || !x || (hx && !hDesc), BAD_PARAM);
	REFUSE_IF(mode != CUDNN_WGRAD_MODE_ADD, NOT_SUPPORTED);
	return launchNet(handle, __func__, net, {weightBytes, dWeights, workBytes, work, reserveBytes, reserve}, true,
	                 [=](auto run, Memory &memory) {
		                 const auto h = run.loadStates(hx, run.outputs), input = run.loadData(run.net.x, x);
		                 run.exchange(reserve, false);
		                 if (!memory.error())
			                 run.backwardWeights(input, h, dWeights);
	                 });
}
