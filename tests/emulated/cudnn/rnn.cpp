// RNNs of the emulated cuDNN compared with loops written here, and their gradients with differences.
#include "tests/emulated/cudnn/fixture.h"

#include <cstdlib>

namespace {

using Vector = std::vector<double>;

struct Case {
	cudnnRNNMode_t cell;
	cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS;
	cudnnDirectionMode_t direction = CUDNN_UNIDIRECTIONAL;
	int layers = 1, projection = 4;
	cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
	bool skips = false, hasStates = true, clips = false;
};
constexpr auto LSTM = CUDNN_LSTM, GRU = CUDNN_GRU, TANH = CUDNN_RNN_TANH, RELU = CUDNN_RNN_RELU;
constexpr auto both = CUDNN_BIDIRECTIONAL, one = CUDNN_UNIDIRECTIONAL;
constexpr auto unpacked = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
               byBatch = CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;

const Case cases[] = {
    {LSTM},
    {GRU},
    {TANH, CUDNN_RNN_SINGLE_INP_BIAS},
    {RELU, CUDNN_RNN_SINGLE_REC_BIAS, one, 1, 4, unpacked},
    {LSTM, CUDNN_RNN_DOUBLE_BIAS, both, 2, 4, byBatch},
    {GRU, CUDNN_RNN_DOUBLE_BIAS, both, 2, 4, unpacked},
    {LSTM, CUDNN_RNN_NO_BIAS, both, 2, 3},
    {TANH, CUDNN_RNN_DOUBLE_BIAS, one, 3, 4, byBatch, false, false},
    {GRU, CUDNN_RNN_SINGLE_REC_BIAS, one, 2, 4, unpacked, true},
    {LSTM, CUDNN_RNN_DOUBLE_BIAS, one, 1, 4, unpacked, true, false, true},
};

constexpr int H = 4, batch = 3, steps = 5;
const int lengths[] = {5, 4, 2};

// An RNN of a case in a data type: descriptors, weights with the same numbers in every type, and arguments of calls.
struct Net {
	const Case &c;
	cudnnDataType_t type;
	int inputs, P, directions, pseudoLayers, gates;
	Dnn dnn;
	DESCRIBED(RNN) rnn;
	DESCRIBED(RNNData) x, y;
	DESCRIBED(Tensor) h, cell;
	size_t weightBytes = 0, workBytes = 0, reserveBytes = 0;
	std::vector<unsigned char> weights;
	Vector numbers; // the weights, piece after piece in the order of params()

	struct Piece {
		int rows, columns;
		size_t offset;
	};

	Net(const Case &which, cudnnDataType_t t, cudnnMathType_t math)
	    : c(which), type(t), inputs(which.skips ? H : 3), P(which.projection),
	      directions(which.direction == both ? 2 : 1), pseudoLayers(directions * which.layers),
	      gates(which.cell == LSTM  ? 4
	            : which.cell == GRU ? 3
	                                : 1)
	{
		OK(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, c.cell, c.bias, c.direction,
		                            c.skips ? CUDNN_SKIP_INPUT : CUDNN_LINEAR_INPUT, t,
		                            t == CUDNN_DATA_DOUBLE ? t : CUDNN_DATA_FLOAT, math, inputs, H, P, c.layers,
		                            nullptr, CUDNN_RNN_PADDED_IO_ENABLED));
		if (c.clips)
			OK(cudnnRNNSetClip_v9(rnn, CUDNN_RNN_CLIP_MINMAX, -10, 10));
		double fill = 0;
		store(t, -3, &fill);
		OK(cudnnSetRNNDataDescriptor(x, t, c.layout, steps, batch, inputs, lengths, nullptr));
		OK(cudnnSetRNNDataDescriptor(y, t, c.layout, steps, batch, directions * P, lengths, &fill));
		const int hDims[] = {pseudoLayers, batch, P}, hStrides[] = {batch * P, P, 1};
		const int cDims[] = {pseudoLayers, batch, H}, cStrides[] = {batch * H, H, 1};
		OK(cudnnSetTensorNdDescriptor(h, t, 3, hDims, hStrides));
		OK(cudnnSetTensorNdDescriptor(cell, t, 3, cDims, cStrides));
		OK(cudnnGetRNNWeightSpaceSize(dnn, rnn, &weightBytes));
		OK(cudnnGetRNNTempSpaceSizes(dnn, rnn, CUDNN_FWD_MODE_TRAINING, x, &workBytes, &reserveBytes));
		weights.resize(weightBytes, 0xff);
		std::function<double()> next = gaussian(1);
		eachPiece([&](const Piece &piece) {
			for (int i = 0; i < piece.rows * piece.columns; ++i) {
				void *at = &weights[piece.offset + i * bytesOf(t)];
				store(t, .5 * next(), at);
				numbers.push_back(stored(t, at));
			}
		});
	}
	// The matrices and biases that exist, by pseudo-layer and linear layer.
	template <typename Function>
	void eachPiece(Function function)
	{
		DESCRIBED(Tensor) matrix, bias;
		auto *base = reinterpret_cast<unsigned char *>(0x1000);
		for (int pseudo = 0; pseudo < pseudoLayers; ++pseudo)
			for (int linear = 0; linear < 2 * gates + (c.cell == LSTM); ++linear) {
				void *at[2];
				OK(cudnnGetRNNWeightParams(dnn, rnn, pseudo, weightBytes, base, linear, matrix, &at[0], bias, &at[1]));
				for (int i = 0; i < 2; ++i) {
					int rank = 0, dims[3] = {}, strides[3];
					cudnnDataType_t kind;
					OK(cudnnGetTensorNdDescriptor(i == 0 ? matrix : bias, 3, &kind, &rank, dims, strides));
					CHECK((rank == 3) == (at[i] != nullptr));
					if (at[i])
						function(
						    Piece{dims[1], dims[2], static_cast<size_t>(static_cast<unsigned char *>(at[i]) - base)});
				}
			}
	}
	// The numbers of one piece, or zeros (an identity for a skipped input).
	Vector piece(int pseudo, int linear, bool isBias) const
	{
		const bool isProjection = linear == 2 * gates, isInput = linear < gates;
		const int layer = pseudo / directions;
		auto exists = [&](int p, int l, bool bias) {
			const bool in = l < gates;
			if (l == 2 * gates)
				return P != H && !bias;
			return bias ? c.bias == CUDNN_RNN_DOUBLE_BIAS ||
			                  c.bias == (in ? CUDNN_RNN_SINGLE_INP_BIAS : CUDNN_RNN_SINGLE_REC_BIAS)
			            : !(in && p / directions == 0 && c.skips);
		};
		auto size = [&](int p, int l, bool bias) {
			if (bias)
				return H;
			return l == 2 * gates ? P * H : H * (l >= gates ? P : p / directions == 0 ? inputs : directions * P);
		};
		size_t at = 0;
		for (int p = 0; p <= pseudo; ++p)
			for (int l = 0; l < 2 * gates + (c.cell == LSTM); ++l)
				for (bool bias : {false, true}) {
					if (p == pseudo && l == linear && bias == isBias) {
						if (exists(p, l, bias))
							return {numbers.begin() + at, numbers.begin() + at + size(p, l, bias)};
						Vector none(size(p, l, bias));
						for (int i = 0; !bias && isInput && !isProjection && layer == 0 && i < H; ++i)
							none[i * H + i] = 1;
						return none;
					}
					at += exists(p, l, bias) ? size(p, l, bias) : 0;
				}
		return {};
	}

	// Elements of a sequence's vector, according to the layout.
	size_t at(int step, int sequence, int vector) const
	{
		if (c.layout == unpacked)
			return (step * batch + sequence) * vector;
		if (c.layout == byBatch)
			return (sequence * steps + step) * vector;
		size_t before = 0;
		for (int s = 0; s < step; ++s)
			for (int length : lengths)
				before += s < length;
		return (before + sequence) * vector;
	}
	size_t count(int vector) const
	{
		return c.layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED ? 11 * vector : steps * batch * vector;
	}
};

// The whole RNN for one call, in double: y, hy, cy.
struct Answer {
	Vector y, hy, cy;
};

Answer reference(const Net &net, const Vector &x, const Vector &hx, const Vector &cx)
{
	auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
	Answer answer{Vector(net.count(net.directions * net.P), -3), hx, cx};
	for (int b = 0; b < batch; ++b) {
		std::vector<Vector> sequence;
		for (int t = 0; t < lengths[b]; ++t)
			sequence.emplace_back(x.begin() + net.at(t, b, net.inputs),
			                      x.begin() + net.at(t, b, net.inputs) + net.inputs);
		for (int layer = 0; layer < net.c.layers; ++layer) {
			std::vector<Vector> outputs(sequence.size(), Vector(net.directions * net.P));
			for (int d = 0; d < net.directions; ++d) {
				const int pseudo = layer * net.directions + d;
				double *h = &answer.hy[(pseudo * batch + b) * net.P], *c = &answer.cy[(pseudo * batch + b) * H];
				for (int i = 0; i < lengths[b]; ++i) {
					const int t = d == 0 ? i : lengths[b] - 1 - i;
					Vector in(net.gates * H), rec(net.gates * H), full(H);
					for (int g = 0; g < net.gates; ++g) {
						const Vector w = net.piece(pseudo, g, false), r = net.piece(pseudo, net.gates + g, false),
						             wb = net.piece(pseudo, g, true), rb = net.piece(pseudo, net.gates + g, true);
						const size_t width = sequence[t].size();
						for (int u = 0; u < H; ++u) {
							in[g * H + u] = wb[u];
							rec[g * H + u] = rb[u];
							for (size_t k = 0; k < width; ++k)
								in[g * H + u] += w[u * width + k] * sequence[t][k];
							for (int k = 0; k < net.P; ++k)
								rec[g * H + u] += r[u * net.P + k] * h[k];
						}
					}
					for (int u = 0; u < H; ++u) {
						auto sum = [&](int g) { return in[g * H + u] + rec[g * H + u]; };
						if (net.c.cell == LSTM) {
							c[u] = sigmoid(sum(1)) * c[u] + sigmoid(sum(0)) * std::tanh(sum(2));
							full[u] = sigmoid(sum(3)) * std::tanh(c[u]);
						} else if (net.c.cell == GRU) {
							const double z = sigmoid(sum(1));
							full[u] = (1 - z) * std::tanh(in[2 * H + u] + sigmoid(sum(0)) * rec[2 * H + u]) + z * h[u];
						} else {
							full[u] = net.c.cell == TANH ? std::tanh(sum(0)) : std::max(0., sum(0));
						}
					}
					const Vector projection = net.P != H ? net.piece(pseudo, 2 * net.gates, false) : Vector();
					for (int o = 0; o < net.P; ++o) {
						h[o] = net.P == H ? full[o] : 0;
						for (int u = 0; net.P != H && u < H; ++u)
							h[o] += projection[o * H + u] * full[u];
						outputs[t][d * net.P + o] = h[o];
					}
				}
			}
			sequence = outputs;
		}
		for (int t = 0; t < lengths[b]; ++t)
			std::copy(sequence[t].begin(), sequence[t].end(), answer.y.begin() + net.at(t, b, net.directions * net.P));
	}
	return answer;
}

// Numbers on the device, in one dimension.
struct Row : Numbers {
	Row(cudnnDataType_t t, size_t size, std::function<double()> next)
	    : Numbers(t, Layout::nchw, {1, 1, 1, static_cast<int>(size)}, next)
	{
	}
	void set(int index, double value)
	{
		store(type, value, &bytes[index * bytesOf(type)]);
		upload();
	}
};

struct Calls {
	Net net;
	Row x, hx, cx, y, hy, cy;
	DeviceArray<unsigned char> weights, work, reserve;
	explicit Calls(const Case &c, cudnnDataType_t t, cudnnMathType_t math = CUDNN_FMA_MATH)
	    : net(c, t, math), x(t, net.count(net.inputs), gaussian(2)), hx(t, net.pseudoLayers * batch * net.P, state(3)),
	      cx(t, net.pseudoLayers * batch * H, state(4)), y(t, net.count(net.directions * net.P), [] { return NaN; }),
	      hy(t, hx.count(), [] { return NaN; }), cy(t, cx.count(), [] { return NaN; }), weights(net.weights),
	      work(net.workBytes), reserve(net.reserveBytes)
	{
	}
	std::function<double()> state(unsigned seed) const
	{
		return net.c.hasStates ? gaussian(seed) : std::function<double()>([] { return 0.; });
	}
	const void *given(const Row &states) const { return net.c.hasStates ? states.device : nullptr; }
	cudnnStatus_t forward(cudnnForwardMode_t mode = CUDNN_FWD_MODE_TRAINING)
	{
		const cudnnStatus_t status = cudnnRNNForward(
		    net.dnn, net.rnn, mode, nullptr, net.x, x.device, net.y, y.device, net.h, given(hx), hy.device, net.cell,
		    given(cx), cy.device, net.weightBytes, weights, net.workBytes, work, net.reserveBytes, reserve);
		CHECK((y.download() && hy.download()));
		if (net.c.cell == LSTM)
			CHECK(cy.download());
		return status;
	}
	double worst(const Answer &want) const
	{
		double most = 0;
		auto compare = [&](const Row &got, const Vector &expected) {
			for (int i = 0; i < got.count(); ++i)
				most = std::max(most, std::isnan(got[i]) ? INFINITY : std::abs(got[i] - expected[i]));
		};
		compare(y, want.y);
		compare(hy, want.hy);
		if (net.c.cell == LSTM)
			compare(cy, want.cy);
		return most;
	}
};

const bool isTf32Allowed = !std::getenv("NVIDIA_TF32_OVERRIDE");

} // namespace

TEST_CASE("recurrent nets forward, with the rounding of their type")
{
	struct Numeric {
		cudnnDataType_t type;
		cudnnMathType_t math;
		double least, most;
	};
	for (const Numeric &numeric :
	     {Numeric{CUDNN_DATA_DOUBLE, CUDNN_DEFAULT_MATH, 0, 1e-13},
	      {CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 1e-9, 3e-6},
	      {CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, isTf32Allowed ? 2e-5 : 1e-9, isTf32Allowed ? 2e-2 : 3e-6},
	      {CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, 2e-5, 2e-2},
	      {CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH, 2e-5, 2e-2},
	      {CUDNN_DATA_BFLOAT16, CUDNN_DEFAULT_MATH, 2e-4, 2e-1}})
		for (const Case &c : cases)
			for (auto mode : {CUDNN_FWD_MODE_TRAINING, CUDNN_FWD_MODE_INFERENCE}) {
				CAPTURE(numeric.type, numeric.math, &c - cases, mode);
				Calls calls(c, numeric.type, numeric.math);
				OK(calls.forward(mode));
				const double error =
				    calls.worst(reference(calls.net, calls.x.values(), calls.hx.values(), calls.cx.values()));
				CHECK(error <= numeric.most);
				CHECK(error >= numeric.least);
			}
}

TEST_CASE("recurrent nets back")
{
	constexpr cudnnDataType_t D = CUDNN_DATA_DOUBLE;
	for (const Case &c : cases) {
		CAPTURE(&c - cases);
		Calls calls(c, D);
		Net &net = calls.net;
		const bool isLstm = c.cell == LSTM;
		Row dy(D, calls.y.count(), gaussian(5)), dhy(D, calls.hy.count(), gaussian(6)),
		    dcy(D, calls.cy.count(), gaussian(7)), dx(D, calls.x.count(), [] { return 0.; }),
		    dhx(D, calls.hx.count(), [] { return NaN; }), dcx(D, calls.cx.count(), [] { return NaN; });
		auto loss = [&](const Vector &x, const Vector &hx, const Vector &cx) {
			const Answer answer = reference(net, x, hx, cx);
			double sum = 0;
			for (int step = 0; step < steps; ++step)
				for (int b = 0; b < batch; ++b)
					for (int i = 0; step < lengths[b] && i < net.directions * net.P; ++i) {
						const size_t at = net.at(step, b, net.directions * net.P) + i;
						sum += answer.y[at] * dy[static_cast<int>(at)];
					}
			for (int i = 0; i < dhy.count(); ++i)
				sum += answer.hy[i] * dhy[i];
			for (int i = 0; isLstm && i < dcy.count(); ++i)
				sum += answer.cy[i] * dcy[i];
			return sum;
		};
		OK(calls.forward());
		OK(cudnnRNNBackwardData_v8(net.dnn, net.rnn, nullptr, net.y, calls.y.device, dy.device, net.x, dx.device, net.h,
		                           calls.given(calls.hx), dhy.device, dhx.device, net.cell, calls.given(calls.cx),
		                           dcy.device, dcx.device, net.weightBytes, calls.weights, net.workBytes, calls.work,
		                           net.reserveBytes, calls.reserve));
		std::vector<unsigned char> zeros(net.weightBytes);
		DeviceArray<unsigned char> gradients(zeros);
		for (int times = 0; times < 2; ++times) // which adds
			OK(cudnnRNNBackwardWeights_v8(net.dnn, net.rnn, CUDNN_WGRAD_MODE_ADD, nullptr, net.x, calls.x.device, net.h,
			                              calls.given(calls.hx), net.y, calls.y.device, net.weightBytes, gradients,
			                              net.workBytes, calls.work, net.reserveBytes, calls.reserve));
		CHECK((dx.download() && dhx.download() && dcx.download()));
		Vector x = calls.x.values(), hx = calls.hx.values(), cx = calls.cx.values();
		auto slope = [&](double &number) {
			const double before = number, step = 1e-6;
			number = before + step;
			const double up = loss(x, hx, cx);
			number = before - step;
			const double down = loss(x, hx, cx);
			number = before;
			return (up - down) / (2 * step);
		};
		auto compare = [&](const Row &got, Vector &numbers, int stride) {
			for (int i = 0; i < got.count(); i += stride)
				CHECK(got[i] == Approx(slope(numbers[i])).margin(1e-6));
		};
		compare(dx, x, 5);
		if (c.hasStates)
			compare(dhx, hx, 3);
		if (c.hasStates && isLstm)
			compare(dcx, cx, 3);
		const std::vector<unsigned char> got = gradients.read();
		size_t number = 0;
		net.eachPiece([&](const Net::Piece &piece) {
			for (int i = 0; i < piece.rows * piece.columns; ++i, ++number)
				if (number % 5 == 0)
					CHECK(stored(D, &got[piece.offset + i * 8]) == Approx(2 * slope(net.numbers[number])).margin(1e-5));
		});
	}
}

TEST_CASE("weights of another type lie elsewhere, and spaces are checked")
{
	for (const Case &c : cases) {
		std::vector<size_t> places[2];
		for (auto type : {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF}) {
			Net net(c, type, CUDNN_DEFAULT_MATH);
			net.eachPiece([&](const Net::Piece &piece) {
				places[type == CUDNN_DATA_HALF].push_back(piece.offset / bytesOf(type));
			});
		}
		REQUIRE(places[0].size() == places[1].size());
		for (size_t i = 0; i < places[0].size(); ++i)
			CHECK(places[0][i] != places[1][i]);
	}
	Calls calls(cases[0], CUDNN_DATA_FLOAT);
	const Net &good = calls.net;
	for (size_t *one : {&calls.net.weightBytes, &calls.net.workBytes, &calls.net.reserveBytes}) {
		--*one;
		CHECK(calls.forward() == CUDNN_STATUS_BAD_PARAM);
		++*one;
	}
	Net other(cases[0], CUDNN_DATA_HALF, CUDNN_DEFAULT_MATH); // data with another type than the RNN
	CHECK(cudnnRNNForward(good.dnn, good.rnn, CUDNN_FWD_MODE_INFERENCE, nullptr, other.x, calls.x.device, good.y,
	                      calls.y.device, good.h, nullptr, nullptr, good.cell, nullptr, nullptr, good.weightBytes,
	                      calls.weights, good.workBytes, calls.work, 0, nullptr) == CUDNN_STATUS_BAD_PARAM);
}

TEST_CASE("dropout between layers")
{
	Case two{GRU};
	two.layers = 2;
	Calls calls(two, CUDNN_DATA_FLOAT);
	OK(calls.forward());
	const Vector without = calls.y.values();
	DESCRIBED(Dropout) dropout;
	DeviceArray<unsigned char> states(1 << 16);
	CHECK(cudnnSetDropoutDescriptor(dropout, calls.net.dnn, .5f, states, (1 << 16) - 1, 3) ==
	      CUDNN_STATUS_INVALID_VALUE);
	OK(cudnnSetDropoutDescriptor(dropout, calls.net.dnn, .5f, states, 1 << 16, 3));
	OK(cudnnSetRNNDescriptor_v8(calls.net.rnn, CUDNN_RNN_ALGO_STANDARD, GRU, CUDNN_RNN_DOUBLE_BIAS, one,
	                            CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 3, H, H, 2,
	                            dropout, 1));
	OK(calls.forward());
	const Vector with = calls.y.values();
	CHECK(with != without);
	OK(calls.forward());
	CHECK(calls.y.values() != with);
	OK(calls.forward(CUDNN_FWD_MODE_INFERENCE));
	CHECK(calls.y.values() == without);
}
