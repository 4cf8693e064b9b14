// Products with weights that stay the same, and with weights that change in every way that a program has. One case per
// line; see harness.h for the command line. `same`: bits of products of Gaussian data, for a comparison between runs.
// `change` and `fuzz`: each product is compared with those of all recent contents of its weight (weight_history.h).
#include "weight_history.h"

#include <cuda.h>

#include <array>
#include <atomic>
#include <thread>

using namespace client;

namespace {

constexpr double worst = 4e-3; // for the least exact type in which a product may be computed
constexpr int64_t edge = 512;  // edge * edge floats are 1 MiB
constexpr int proving = 4;     // products that prove a weight
constexpr int warming = 8;     // the same, and some that use the copy
constexpr int afterDense = 4;  // products after a dense change
// After another one: the sample visits all elements in 64 products, an audit in each.
const int afterSparse = std::getenv("AUDITED") ? afterDense : 64 + 2;

PointerCache copyOf;

Content integers(size_t count, uint64_t seed)
{
	Random random(seed);
	Content content(count);
	for (float &x : content)
		x = static_cast<float>(std::floor(random.uniform() * 15) - 7);
	return content;
}

Content gaussians(size_t count, uint64_t seed)
{
	Random random(seed);
	Content content(count);
	for (float &x : content)
		x = static_cast<float>(random.gaussian());
	return content;
}

enum class Data { integers, gaussians };

// A matrix on the device, in columns, and its contents. Elements between the columns belong to the content.
class Weight
{
public:
	Weight(int64_t rows, int64_t columns, uint64_t seed = 1, Data data = Data::integers, int64_t pad = 0,
	       size_t shift = 0)
	    : rows(rows), columns(columns), ld(rows + pad), count(static_cast<size_t>(ld * columns)),
	      history(data == Data::integers ? integers(count, seed) : gaussians(count, seed)), shift_(shift)
	{
		allocate();
		write(nullptr);
	}
	~Weight()
	{
		if (memory_)
			cudaFree(memory_);
	}
	Weight(const Weight &) = delete;

	const float *data() const { return memory_ + shift_; }
	float *address() const { return memory_ + shift_; }
	size_t index(int64_t row, int64_t column) const { return static_cast<size_t>(column * ld + row); }
	// Changes the content, in the order of the stream; null: waits.
	void change(const std::function<void(Content &)> &edit, bool isDense, cudaStream_t stream)
	{
		Content next = history.now();
		edit(next);
		history.replace(std::move(next), isDense);
		write(stream);
	}
	void write(cudaStream_t stream) const
	{
		// The source is pageable, so the call returns when it was read.
		CHECK(cudaMemcpyAsync(address(), history.now().data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));
		if (!stream)
			CHECK(cudaDeviceSynchronize());
	}
	// Frees the memory, and allocates until the address is the same again. Returns whether it is.
	bool reallocate()
	{
		const float *const old = memory_;
		std::vector<float *> others;
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaFree(memory_));
		for (int i = 0; i < 20; i++) { // the emulated device reuses an address after 16 more frees
			void *other = nullptr;
			CHECK(cudaMalloc(&other, 1));
			CHECK(cudaFree(other));
		}
		for (allocate(); memory_ != old && others.size() < 64; allocate())
			others.push_back(memory_);
		for (float *const other : others)
			CHECK(cudaFree(other));
		return memory_ == old;
	}
	void release() { memory_ = nullptr; } // the memory was freed, or another object frees it
	void lend(void *memory)
	{
		CHECK(cudaFree(std::exchange(memory_, static_cast<float *>(memory))));
		write(nullptr);
	}

	const int64_t rows, columns, ld;
	const size_t count;
	History history;

private:
	void allocate() { CHECK(cudaMalloc(reinterpret_cast<void **>(&memory_), (count + shift_) * sizeof(float))); }

	float *memory_ = nullptr;
	size_t shift_;
};

// One call with the weight as A or B.
struct Use {
	bool isB = false, isTransposed = true;
	int64_t inputs = 4;
	float alpha = 1, beta = 0;
	bool hasDeviceScalars = false, isLt = false; // Lt: with a bias
};

class Product
{
public:
	Product(Weight &weight, const Use &use, uint64_t seed = 5, Data data = Data::integers)
	    : weight(weight), use(use), features(use.isTransposed != use.isB ? weight.columns : weight.rows),
	      depth(use.isTransposed != use.isB ? weight.rows : weight.columns),
	      x_(static_cast<size_t>(depth * use.inputs)), c_(static_cast<size_t>(features * use.inputs)),
	      bias_(static_cast<size_t>(features)), scalars_(2)
	{
		Random random(seed);
		const auto number = [&](bool isPositive) {
			return data == Data::gaussians ? static_cast<float>(random.gaussian())
			       : isPositive            ? static_cast<float>(1 + std::floor(random.uniform() * 4))
			                               : static_cast<float>(std::floor(random.uniform() * 9) - 4);
		};
		for (size_t i = 0; i < x_.size(); i++)
			x_[i] = number(true); // not 0, so that each element of the weight matters
		for (size_t i = 0; i < c_.size(); i++)
			before_.push_back(c_[i] = number(false));
		for (size_t i = 0; i < bias_.size(); i++)
			bias_[i] = number(false);
		scalars_[0] = use.alpha, scalars_[1] = use.beta;
		x_.upload(), c_.upload(), bias_.upload(), scalars_.upload();
	}
	// Needed before each product with beta.
	void reset()
	{
		for (size_t i = 0; i < c_.size(); i++)
			c_[i] = before_[i];
		c_.upload();
	}
	void enqueue(const Session &session) const
	{
		const float *const W = copyOf(weight.data(), weight.count, weight.ld);
		const float *const alpha = use.hasDeviceScalars ? scalars_.data() : &use.alpha;
		const float *const beta = use.hasDeviceScalars ? scalars_.data() + 1 : &use.beta;
		const auto op = use.isTransposed ? CUBLAS_OP_T : CUBLAS_OP_N;
		const auto [m, n, k] = std::array{toInt(rows()), toInt(columns()), toInt(depth)};
		const int ld = toInt(weight.ld);
		CHECK(cublasSetPointerMode(session.handle,
		                           use.hasDeviceScalars ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
		if (use.isLt)
			enqueueLt(session, W, alpha, beta, op);
		else if (use.isB)
			CHECK(
			    cublasSgemm(session.handle, CUBLAS_OP_N, op, m, n, k, alpha, x_.data(), m, W, ld, beta, c_.data(), m));
		else
			CHECK(
			    cublasSgemm(session.handle, op, CUBLAS_OP_N, m, n, k, alpha, W, ld, x_.data(), k, beta, c_.data(), m));
	}
	uint64_t bits()
	{
		c_.download();
		return c_.bits();
	}
	// After the product, and before the next one.
	void judge()
	{
		c_.download();
		Content result(c_.size());
		for (size_t i = 0; i < result.size(); i++)
			result[i] = c_[i];
		weight.history.judge(result, [&](const Content &content) { return referenceOf(content); });
	}
	void run(const Session &session)
	{
		if (use.beta != 0)
			reset();
		enqueue(session);
		CHECK(cudaStreamSynchronize(session.stream));
	}
	void runAndJudge(const Session &session)
	{
		run(session);
		judge();
	}
	// Relative to the product with the present content, in fp64.
	double error()
	{
		c_.download();
		double error = 0, size = 0;
		const Content &content = weight.history.now();
		for (int64_t t = 0; t < use.inputs; t++)
			for (int64_t f = 0; f < features; f += 7) {
				double product = 0;
				for (int64_t l = 0; l < depth; l++)
					product += static_cast<double>(at(content, f, l)) * static_cast<double>(x_[inX(t, l)]);
				product *= static_cast<double>(use.alpha);
				const double whole = product + static_cast<double>(use.beta * before_[inC(f, t)]) +
				                     static_cast<double>(use.isLt ? bias_[static_cast<size_t>(f)] : 0);
				error += std::pow(static_cast<double>(c_[inC(f, t)]) - whole, 2);
				size += product * product;
			}
		return std::sqrt(error / size);
	}
	void describe(Line &line) const
	{
		line.put("entry", use.isLt ? "cublasLtMatmul" : "cublasSgemm_v2").put("m", toInt(rows()));
		line.put("n", toInt(columns())).put("k", toInt(depth)).put("batch", 1);
	}
	const float *result() const { return c_.data(); }

	Weight &weight;
	const Use use;
	const int64_t features, depth;

private:
	static int toInt(int64_t x) { return static_cast<int>(x); }
	int64_t rows() const { return use.isB ? use.inputs : features; }
	int64_t columns() const { return use.isB ? features : use.inputs; }
	size_t inX(int64_t t, int64_t l) const { return static_cast<size_t>(use.isB ? l * use.inputs + t : t * depth + l); }
	size_t inC(int64_t f, int64_t t) const
	{
		return static_cast<size_t>(use.isB ? f * use.inputs + t : t * features + f);
	}
	float at(const Content &content, int64_t f, int64_t l) const
	{
		return content[use.isTransposed != use.isB ? weight.index(l, f) : weight.index(f, l)];
	}
	// Exact for integers, so that the order does not matter.
	Content referenceOf(const Content &content) const
	{
		Content sums(c_.size());
		std::vector<float> out(static_cast<size_t>(features));
		for (int64_t t = 0; t < use.inputs; t++) {
			std::fill(out.begin(), out.end(), 0.0f);
			if (use.isTransposed != use.isB) {
				for (int64_t f = 0; f < features; f++) {
					float parts[8] = {};
					for (int64_t l = 0; l < depth; l++)
						parts[l % 8] += content[weight.index(l, f)] * x_[inX(t, l)];
					for (const float part : parts)
						out[static_cast<size_t>(f)] += part;
				}
			} else {
				for (int64_t l = 0; l < depth; l++)
					for (int64_t f = 0; f < features; f++)
						out[static_cast<size_t>(f)] += content[weight.index(f, l)] * x_[inX(t, l)];
			}
			for (int64_t f = 0; f < features; f++) {
				float &sum = sums[inC(f, t)];
				sum = use.alpha * out[static_cast<size_t>(f)];
				if (use.beta != 0)
					sum += use.beta * before_[inC(f, t)];
				if (use.isLt)
					sum += bias_[static_cast<size_t>(f)];
			}
		}
		return sums;
	}
	void enqueueLt(const Session &session, const float *W, const float *alpha, const float *beta,
	               cublasOperation_t op) const
	{
		cublasLtMatmulDesc_t desc = nullptr;
		cublasLtMatrixLayout_t layoutW = nullptr, layoutX = nullptr, layoutC = nullptr;
		CHECK(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
		const auto set = [&](cublasLtMatmulDescAttributes_t name, auto value) {
			CHECK(cublasLtMatmulDescSetAttribute(desc, name, &value, sizeof value));
		};
		set(CUBLASLT_MATMUL_DESC_TRANSA, op);
		set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
		set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void *>(bias_.data()));
		if (use.hasDeviceScalars)
			set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
		const auto make = [](cublasLtMatrixLayout_t &layout, int64_t rows, int64_t columns, int64_t ld) {
			CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, static_cast<uint64_t>(rows),
			                                 static_cast<uint64_t>(columns), ld));
		};
		make(layoutW, weight.rows, weight.columns, weight.ld);
		make(layoutX, depth, use.inputs, depth);
		make(layoutC, features, use.inputs, features);
		CHECK(cublasLtMatmul(session.light, desc, alpha, W, layoutW, x_.data(), layoutX, beta, c_.data(), layoutC,
		                     const_cast<float *>(c_.data()), layoutC, nullptr, nullptr, 0, session.stream));
		for (const cublasLtMatrixLayout_t layout : {layoutW, layoutX, layoutC})
			CHECK(cublasLtMatrixLayoutDestroy(layout));
		CHECK(cublasLtMatmulDescDestroy(desc));
	}

	Array x_, c_, bias_, scalars_;
	Content before_;
};

// The products of each case have their own shape, and therefore a row of the report.
int64_t depthOf(int number)
{
	return edge + 8 * (number % 10);
}
int64_t widthOf(int number)
{
	return edge + 8 * (number / 10);
}

// ---- changes

struct Edit {
	const char *name;
	bool isDense;
	void (*apply)(Weight &, Content &);
	int64_t rows = 0, columns = 0; // 0: by the number of the case
	bool isFinal = false;          // no further products with another content
};

void step(Weight &, Content &content)
{
	Random random(static_cast<uint64_t>(content[0]) + 77);
	for (float &x : content)
		x += random.uniform() < 0.5 ? 1 : -1;
}

void scaleBy(Content &content, float factor)
{
	for (float &x : content)
		x *= factor;
}

void block(Weight &weight, Content &content, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
	for (int64_t j = column; j < column + columns; j++)
		for (int64_t i = row; i < row + rows; i++)
			content[weight.index(i, j)] += 3;
}

constexpr int64_t tall = 2048, wide = 192; // each sample has a line of each column

const Edit edits[] = {
    {"step", true, step},
    {"row", true, [](Weight &w, Content &c) { block(w, c, 1077, 0, 1, w.columns); }, tall, wide},
    {"column", true, [](Weight &w, Content &c) { block(w, c, 0, 111, w.rows, 1); }, tall, wide},
    {"row_of_small", false, [](Weight &w, Content &c) { block(w, c, 77, 0, 1, w.columns); }},
    {"column_of_small", false, [](Weight &w, Content &c) { block(w, c, 0, 201, w.rows, 1); }},
    {"first_element", false, [](Weight &, Content &c) { c.front() += 2; }},
    {"last_element", false, [](Weight &, Content &c) { c.back() += 2; }},
    {"element", false, [](Weight &w, Content &c) { c[w.index(300, 211)] += 2; }},
    {"element_of_tall", false, [](Weight &w, Content &c) { c[w.index(2001, 131)] += 2; }, tall, wide},
    {"half_of_row", false, [](Weight &w, Content &c) { block(w, c, 33, 0, 1, w.columns / 2); }},
    {"block", false, [](Weight &w, Content &c) { block(w, c, 100, 200, 64, 64); }},
    {"block_of_tall", true, [](Weight &w, Content &c) { block(w, c, 1000, 100, 64, 64); }, tall, wide},
    {"diagonal", false,
     [](Weight &w, Content &c) {
	     for (int64_t i = 0; i < std::min(w.rows, w.columns); i++)
		     c[w.index(i, i)] += 5;
     }},
    {"lora", true,
     [](Weight &w, Content &c) {
	     for (int64_t j = 0; j < w.columns; j++)
		     for (int64_t i = 0; i < w.rows; i++)
			     c[w.index(i, j)] += static_cast<float>((i % 3 + 1) * (j % 2 ? 1 : -1));
     }},
    {"scaled_up", true, [](Weight &, Content &c) { scaleBy(c, 0x1p20f); }},
    {"scaled_down", true, [](Weight &, Content &c) { scaleBy(c, 0x1p-20f); }},
    {"slightly_scaled", true, [](Weight &, Content &c) { scaleBy(c, 2); }},
    {"scaled_by_step", true, [](Weight &, Content &c) { scaleBy(c, 16); }}, // the bits of a float16 copy stay the same
    {"zeros", true, [](Weight &, Content &c) { std::fill(c.begin(), c.end(), 0.0f); }},
    {"signs", true, [](Weight &, Content &c) { scaleBy(c, -1); }},
    {"nan", true, [](Weight &, Content &c) { std::fill(c.begin(), c.end(), NAN); }},
    {"infinite", true, [](Weight &, Content &c) { std::fill(c.begin(), c.end(), INFINITY); }},
    {"infinite_element", false, [](Weight &w, Content &c) { c[w.index(17, 400)] = INFINITY; }},
    {"reversed", true, [](Weight &, Content &c) { std::reverse(c.begin(), c.end()); }},
};

// Products before the change, and after it until it must have an effect; then a content of another magnitude.
void edited(const Edit &edit, int number, Line &line)
{
	Session session;
	Weight weight(edit.rows ? edit.rows + 8 * number : depthOf(number), edit.rows ? edit.columns : widthOf(number));
	Product product(weight, {.inputs = number % 2 ? 1 : 4});
	for (int i = 0; i < warming; i++)
		product.runAndJudge(session);
	weight.change([&](Content &content) { edit.apply(weight, content); }, edit.isDense, session.stream);
	for (int i = 0; i < (edit.isDense ? afterDense : afterSparse); i++)
		product.runAndJudge(session);
	product.describe(line);
	weight.history.put(line);
}

using Act = void (*)(Session &, Weight &, Product &, int turn);

// Several changes, with products between them.
void acts(Act act, int turns, int between, int number, Line &line)
{
	Session session;
	Weight weight(depthOf(number), widthOf(number));
	Product product(weight, {});
	for (int i = 0; i < warming; i++)
		product.runAndJudge(session);
	for (int turn = 0; turn < turns; turn++) {
		act(session, weight, product, turn);
		for (int i = 0; i < between; i++)
			product.runAndJudge(session);
	}
	product.describe(line);
	weight.history.put(line);
}

void freshContent(Weight &weight, int turn, cudaStream_t stream)
{
	weight.change([&](Content &content) { content = integers(content.size(), 100 + static_cast<uint64_t>(turn)); },
	              true, stream);
}

void stepped(Session &session, Weight &weight, Product &, int)
{
	weight.change([&](Content &content) { step(weight, content); }, true, session.stream);
}

// Another tensor of the same shape is placed at the address by a caching allocator.
void reused(Session &session, Weight &weight, Product &, int turn)
{
	freshContent(weight, turn, session.stream);
}

void freed(int number, Line &line)
{
	Session session;
	Weight weight(depthOf(number), widthOf(number));
	// Between two other allocations, so that the freed range is not joined with another one.
	std::array<void *, 16> blocks = {};
	for (void *&block : blocks)
		CHECK(cudaMalloc(&block, weight.count * sizeof(float)));
	std::sort(blocks.begin(), blocks.end());
	const auto distance = [&](size_t i) { return static_cast<char *>(blocks[i + 1]) - static_cast<char *>(blocks[i]); };
	size_t nearest = 0;
	for (size_t i = 0; i + 2 < blocks.size(); i++)
		if (std::max(distance(i), distance(i + 1)) < std::max(distance(nearest), distance(nearest + 1)))
			nearest = i;
	weight.lend(std::exchange(blocks[nearest + 1], nullptr));
	Product product(weight, {});
	for (int i = 0; i < warming; i++)
		product.runAndJudge(session);
	for (int turn = 0; turn < 2; turn++) {
		line.require(weight.reallocate(), "the address is another one");
		freshContent(weight, turn, nullptr);
		for (int i = 0; i < afterDense; i++)
			product.runAndJudge(session);
	}
	for (void *const block : blocks)
		CHECK(cudaFree(block));
	product.describe(line);
	weight.history.put(line);
}

// The device merges adapters: the result of a product is the weight of the next one.
void merged(Session &session, Weight &weight, Product &, int turn)
{
	constexpr int rank = 8;
	Array left(static_cast<size_t>(weight.rows) * rank), right(static_cast<size_t>(weight.columns) * rank);
	for (size_t i = 0; i < left.size(); i++)
		left[i] = static_cast<float>(i % 3) - 1;
	for (size_t i = 0; i < right.size(); i++)
		right[i] = static_cast<float>((i + static_cast<size_t>(turn)) % 2) + (i % 7 == 0 ? 1.0f : 0.0f);
	left.upload(), right.upload();
	Content next = weight.history.now();
	for (int64_t j = 0; j < weight.columns; j++)
		for (int64_t i = 0; i < weight.rows; i++)
			for (int64_t l = 0; l < rank; l++)
				next[weight.index(i, j)] +=
				    left[static_cast<size_t>(l * weight.rows + i)] * right[static_cast<size_t>(l * weight.columns + j)];
	weight.history.replace(std::move(next), true);
	const float one = 1;
	const int rows = static_cast<int>(weight.rows), columns = static_cast<int>(weight.columns);
	CHECK(cublasSetPointerMode(session.handle, CUBLAS_POINTER_MODE_HOST));
	CHECK(cublasSgemm(session.handle, CUBLAS_OP_N, CUBLAS_OP_T, rows, columns, rank, &one, left.data(), rows,
	                  right.data(), columns, &one, weight.address(), static_cast<int>(weight.ld)));
	CHECK(cudaStreamSynchronize(session.stream));
}

template <typename Function, typename... Arguments>
void driver(Function *, const char *name, Arguments... arguments)
{
	void *function = nullptr;
	cudaDriverEntryPointQueryResult found = {};
	CHECK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
	if (found != cudaDriverEntryPointSuccess || reinterpret_cast<Function *>(function)(arguments...) != CUDA_SUCCESS)
		fail(name, "refused");
}
#define DRIVER(name, ...) driver(name, #name, __VA_ARGS__)

// Other physical memory at the same address.
void remapped(int number, Line &line)
{
	constexpr size_t grain = 2 << 20;
	Session session;
	Weight weight(depthOf(number), widthOf(number));
	CUmemAllocationProp properties = {};
	properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
	CUmemAccessDesc access = {};
	access.location = properties.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CUdeviceptr address = 0;
	DRIVER(cuMemAddressReserve, &address, grain, size_t{0}, CUdeviceptr{0}, 0ull);
	const auto map = [&] {
		CUmemGenericAllocationHandle physical = 0;
		DRIVER(cuMemCreate, &physical, grain, &properties, 0ull);
		DRIVER(cuMemMap, address, grain, size_t{0}, physical, 0ull);
		DRIVER(cuMemRelease, physical);
		DRIVER(cuMemSetAccess, address, grain, &access, size_t{1});
	};
	map();
	weight.lend(reinterpret_cast<void *>(address));
	Product product(weight, {});
	for (int i = 0; i < warming; i++)
		product.runAndJudge(session);
	for (int turn = 0; turn < 2; turn++) {
		CHECK(cudaDeviceSynchronize());
		DRIVER(cuMemUnmap, address, grain);
		map();
		freshContent(weight, turn, nullptr);
		for (int i = 0; i < afterDense; i++)
			product.runAndJudge(session);
	}
	CHECK(cudaDeviceSynchronize());
	weight.release();
	DRIVER(cuMemUnmap, address, grain);
	DRIVER(cuMemAddressFree, address, grain);
	product.describe(line);
	weight.history.put(line);
}

// Two shapes that share memory, with an odd offset: a change of one is a change of the other.
void viewed(int number, Line &line)
{
	Session session;
	Weight all(depthOf(number), widthOf(number) + 2);
	Weight part(depthOf(number) - 8, widthOf(number), 1, Data::integers, 8);
	const size_t shift = all.index(5, 1);
	const auto share = [&] {
		const Content &from = all.history.now();
		Content to(part.count);
		for (size_t i = 0; i < to.size() && i + shift < from.size(); i++)
			to[i] = from[i + shift];
		return to;
	};
	part.lend(all.address() + shift);
	part.history.replace(share(), true);
	all.write(nullptr);
	Product ofAll(all, {}), ofPart(part, {.isTransposed = false, .inputs = 6});
	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < (turn ? afterDense : warming); i++) {
			ofAll.runAndJudge(session);
			ofPart.runAndJudge(session);
		}
		stepped(session, all, ofAll, turn);
		part.history.replace(share(), true);
	}
	part.release();
	ofAll.describe(line);
	all.history.put(line);
	Line other(line.name);
	part.history.put(other);
	line.require(other.isOk(), "the part is wrong");
}

// The context is destroyed; the next one has the same addresses.
void reset(int number, Line &line)
{
	for (int turn = 0; turn < 2; turn++) {
		Session session;
		Weight weight(depthOf(number), widthOf(number), static_cast<uint64_t>(turn));
		Product product(weight, {});
		for (int i = 0; i < warming; i++)
			product.runAndJudge(session);
		product.describe(line);
		weight.history.put(line);
		if (turn == 0) {
			CHECK(cudaDeviceReset());
			weight.release();
			session.stream = nullptr, session.handle = nullptr, session.light = nullptr;
		}
	}
}

// ---- graphs

class Graph
{
public:
	Graph(cudaStream_t stream, const std::function<void()> &enqueue,
	      cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed)
	{
		const cudaGraph_t graph = capture(stream, enqueue, mode);
		CHECK(cudaGraphInstantiate(&executable_, graph, 0));
		CHECK(cudaGraphDestroy(graph));
	}
	~Graph() { CHECK(cudaGraphExecDestroy(executable_)); }
	Graph(const Graph &) = delete;
	void replay(cudaStream_t stream) const
	{
		CHECK(cudaGraphLaunch(executable_, stream));
		CHECK(cudaStreamSynchronize(stream));
	}
	// The executable now has other operands. Returns whether it could be updated.
	bool update(cudaStream_t stream, const std::function<void()> &enqueue)
	{
		const cudaGraph_t graph = capture(stream, enqueue, cudaStreamCaptureModeRelaxed);
		cudaGraphExecUpdateResultInfo info = {};
		const bool isDone = cudaGraphExecUpdate(executable_, graph, &info) == cudaSuccess;
		cudaGetLastError();
		CHECK(cudaGraphDestroy(graph));
		return isDone;
	}

private:
	static cudaGraph_t capture(cudaStream_t stream, const std::function<void()> &enqueue, cudaStreamCaptureMode mode)
	{
		cudaGraph_t graph = nullptr;
		CHECK(cudaStreamBeginCapture(stream, mode));
		enqueue();
		CHECK(cudaStreamEndCapture(stream, &graph));
		return graph;
	}
	cudaGraphExec_t executable_ = nullptr;
};

void order(const Session &first, const Session &then)
{
	cudaEvent_t event = nullptr;
	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	CHECK(cudaEventRecord(event, first.stream));
	CHECK(cudaStreamWaitEvent(then.stream, event, 0));
	CHECK(cudaEventDestroy(event));
}

// A graph with three products of the weight, whose content changes between the replays; then it is captured again.
void replayed(int number, Line &line)
{
	Session session;
	const Workspace workspace(session);
	Weight weight(depthOf(number), widthOf(number)), other(depthOf(number), widthOf(number) + 16, 2);
	Product filler(other, {.inputs = 3});
	Product products[] = {{weight, {}}, {weight, {.inputs = 1}}, {weight, {.isTransposed = false, .inputs = 2}}};
	for (int i = 0; i < warming; i++)
		products[0].runAndJudge(session);
	for (int capture = 0; capture < 2; capture++) {
		const Graph graph(session.stream, [&] {
			for (const Product &product : products)
				product.enqueue(session);
		});
		for (int replay = 0; replay < 6; replay++) {
			if (replay == 2)
				stepped(session, weight, products[0], 0);
			if (replay == 4)
				weight.change([](Content &content) { scaleBy(content, 0x1p20f); }, true, session.stream);
			graph.replay(session.stream);
			for (Product &product : products)
				product.judge();
		}
		weight.change([](Content &content) { scaleBy(content, 0x1p-20f); }, true, session.stream);
		products[0].runAndJudge(session); // its copy has missed the changes of the replays
		awaitDestructors();
		filler.runAndJudge(session); // may use the memory of the destroyed graph
	}
	products[0].describe(line);
	weight.history.put(line);
	line.put("copies", 3);
}

// One element changes between the replays.
void replayedElement(int number, Line &line)
{
	Session session;
	Weight weight(depthOf(number), widthOf(number));
	Product product(weight, {.inputs = 1});
	for (int i = 0; i < warming; i++)
		product.runAndJudge(session);
	const Graph graph(session.stream, [&] { product.enqueue(session); });
	for (int replay = 0; replay < warming + afterSparse; replay++) {
		if (replay == warming)
			weight.change([&](Content &content) { content[weight.index(400, 77)] += 2; }, false, session.stream);
		graph.replay(session.stream);
		product.judge();
	}
	product.describe(line);
	weight.history.put(line);
}

// Each kind of a product once, for the calls that can fail: a copy that is made, used, repaired, and one of a graph.
void brief(int number, Line &line)
{
	Session session;
	const Workspace workspace(session);
	Weight weight(depthOf(number), widthOf(number));
	Product product(weight, {.inputs = 1});
	for (int i = 0; i < warming; i++)
		product.runAndJudge(session);
	{
		const Graph graph(session.stream, [&] { product.enqueue(session); });
		for (int replay = 0; replay < 3; replay++) {
			if (replay)
				stepped(session, weight, product, 0);
			graph.replay(session.stream);
			product.judge();
		}
	}
	product.runAndJudge(session);
	Session other;
	product.runAndJudge(other); // its stream owns the copy from then on
	product.describe(line);
	weight.history.put(line);
	line.put("copies", 2);
	line.putCounts();
}

// Two branches of one graph with the same weight.
void replayedBranches(int number, Line &line)
{
	Session main, side;
	const Workspace workspaces[] = {Workspace(main), Workspace(side)};
	Weight weight(depthOf(number), widthOf(number));
	std::vector<std::unique_ptr<Product>> products;
	for (int i = 0; i < 4; i++)
		products.push_back(std::make_unique<Product>(weight, Use{.inputs = 2}, 10 + i));
	for (int i = 0; i < warming; i++)
		products[0]->runAndJudge(main);
	const Graph graph(main.stream, [&] {
		order(main, side);
		for (size_t i = 0; i < products.size(); i++)
			products[i]->enqueue(i % 2 ? side : main);
		order(side, main);
	});
	for (int replay = 0; replay < 6; replay++) {
		if (replay % 2)
			stepped(main, weight, *products[0], 0);
		graph.replay(main.stream);
		for (const auto &product : products)
			product->judge();
	}
	products[0]->describe(line);
	weight.history.put(line);
	line.put("copies", 4);
}

// The executable graph of one weight is updated to that of another one, whose graph is destroyed; one of them is not
// proven. Then products take the memory that is free.
void updatedGraph(int number, Line &line)
{
	Session session, other;
	const Workspace workspaces[] = {Workspace(session), Workspace(other)};
	Weight first(depthOf(number), widthOf(number)), second(depthOf(number), widthOf(number), 2),
	    fresh(depthOf(number), widthOf(number), 4), third(depthOf(number), widthOf(number) + 8, 3);
	Product ofFirst(first, {}), ofSecond(second, {}), ofFresh(fresh, {}), filler(third, {.inputs = 7});
	for (int i = 0; i < warming; i++) {
		ofFirst.runAndJudge(session);
		ofSecond.runAndJudge(session);
	}
	Graph graph(session.stream, [&] { ofFirst.enqueue(session); });
	Product *const captured[] = {&ofFirst, &ofSecond, &ofFresh, &ofSecond, &ofFirst};
	for (int turn = 0; turn < 5; turn++) {
		Product &now = *captured[turn];
		if (turn)
			line.require(graph.update(session.stream, [&] { now.enqueue(session); }), "the graph was not updated");
		awaitDestructors();
		filler.runAndJudge(other);
		for (int replay = 0; replay < 3; replay++) {
			if (turn == 4 && replay == 1)
				stepped(session, now.weight, now, 0);
			graph.replay(session.stream);
			now.judge();
		}
	}
	ofFirst.describe(line);
	first.history.put(line);
	Line rest(line.name);
	second.history.put(rest);
	line.require(rest.isOk(), "the second weight is wrong");
}

// ---- threads, streams, devices

// Threads with own streams use one weight, which changes while none of them does.
void threaded(int number, Line &line)
{
	constexpr int threads = 4, rounds = 6, each = 4;
	Weight weight(depthOf(number), widthOf(number));
	std::vector<std::unique_ptr<Session>> sessions;
	std::vector<std::vector<std::unique_ptr<Product>>> products(threads);
	for (uint64_t i = 0; i < threads; i++) {
		sessions.push_back(std::make_unique<Session>());
		for (uint64_t j = 0; j < each; j++)
			products[i].push_back(std::make_unique<Product>(weight, Use{}, 10 + 4 * i + j));
	}
	for (int i = 0; i < warming; i++)
		products[0][0]->runAndJudge(*sessions[0]);
	for (int round = 0; round < rounds; round++) {
		std::vector<std::thread> running;
		for (size_t i = 0; i < threads; i++)
			running.emplace_back([&, i] {
				for (const auto &product : products[i])
					product->enqueue(*sessions[i]);
				CHECK(cudaStreamSynchronize(sessions[i]->stream));
			});
		for (std::thread &thread : running)
			thread.join();
		for (const auto &those : products)
			for (const auto &product : those)
				product->judge();
		if (round % 2)
			freshContent(weight, round, nullptr);
	}
	products[0][0]->describe(line);
	weight.history.put(line);
}

// Two streams use one weight at the same time. It changes on one of them, and the other one waits for that.
void streams(int number, Line &line)
{
	Session one, two;
	Weight weight(depthOf(number), widthOf(number));
	std::vector<std::unique_ptr<Product>> products;
	for (uint64_t i = 0; i < 6; i++)
		products.push_back(std::make_unique<Product>(weight, Use{}, 10 + i));
	for (int i = 0; i < warming; i++)
		products[0]->runAndJudge(one);
	for (int round = 0; round < 8; round++) {
		for (size_t i = 0; i < products.size(); i++)
			products[i]->enqueue(i % 2 ? two : one);
		CHECK(cudaStreamSynchronize(one.stream));
		CHECK(cudaStreamSynchronize(two.stream));
		for (const auto &product : products)
			product->judge();
		if (round % 3 == 2) {
			stepped(one, weight, *products[0], round);
			order(one, two);
		}
	}
	products[0]->describe(line);
	weight.history.put(line);
}

// The same address may be used on two devices; the weights differ.
void devices(int number, Line &line)
{
	int count = 0;
	CHECK(cudaGetDeviceCount(&count));
	for (int device = 0; device < std::min(count, 2); device++) {
		CHECK(cudaSetDevice(device));
		acts(stepped, 2, afterDense, number, line);
	}
	CHECK(cudaSetDevice(0));
}

// ---- random changes

void fuzz(uint64_t seed, Line &line)
{
	constexpr int products = 150;
	struct Shape {
		int64_t rows, columns, pad;
	};
	constexpr Shape shapes[] = {{512, 512, 0},  {520, 512, 3}, {1024, 260, 0},
	                            {260, 1024, 1}, {4096, 64, 8}, {33, 8192, 0}};
	Random random(seed);
	const auto below = [&](int64_t limit) {
		return static_cast<int64_t>(random.uniform() * static_cast<double>(limit));
	};
	Session session;
	const int64_t shift = static_cast<int64_t>(seed) % 2;
	std::vector<std::unique_ptr<Weight>> weights;
	std::vector<std::vector<std::unique_ptr<Product>>> uses;
	for (uint64_t i = 0; i < 2; i++) {
		const Shape shape = shapes[below(std::size(shapes))];
		weights.push_back(std::make_unique<Weight>(shape.rows, shape.columns, seed * 10 + i, Data::integers, shape.pad,
		                                           static_cast<size_t>(shift)));
		std::vector<std::unique_ptr<Product>> those;
		for (int way = 0; way < 4; way++)
			those.push_back(std::make_unique<Product>(*weights.back(),
			                                          Use{.isB = way / 2 == 1,
			                                              .isTransposed = way % 2 == 1,
			                                              .inputs = 1 + below(5),
			                                              .alpha = way == 1 ? -2.0f : 1.0f,
			                                              .beta = way == 2 ? 3.0f : 0.0f,
			                                              .hasDeviceScalars = way == 3},
			                                          seed + static_cast<uint64_t>(way)));
		uses.push_back(std::move(those));
	}
	uses[0][1]->describe(line);
	for (int i = 0; i < products; i++) {
		const size_t which = random.uniform() < 0.7 ? 0 : 1;
		Weight &weight = *weights[which];
		// Changes come in bursts, so that copies are made between them.
		if (i > warming && i / 25 % 2 == 0 && random.uniform() < 0.2) {
			const int64_t kind = below(7), row = below(weight.rows), column = below(weight.columns);
			const bool isDense = kind >= 5;
			if (kind == 6)
				weight.reallocate();
			weight.change( // the address is the same one or another one
			    [&](Content &content) {
				    if (kind == 0 || kind == 1)
					    content[weight.index(row, column)] += static_cast<float>(1 + below(5));
				    else if (kind == 2)
					    block(weight, content, row, 0, 1, weight.columns);
				    else if (kind == 3)
					    block(weight, content, 0, column, weight.rows, 1);
				    else if (kind == 4)
					    block(weight, content, row, column, std::min<int64_t>(24, weight.rows - row),
					          std::min<int64_t>(24, weight.columns - column));
				    else
					    content = integers(content.size(), seed * 1000 + static_cast<uint64_t>(i));
			    },
			    isDense, kind == 6 ? nullptr : session.stream);
		}
		uses[which][static_cast<size_t>(below(4))]->runAndJudge(session);
	}
	weights[0]->history.put(line);
	Line rest(line.name);
	weights[1]->history.put(rest);
	line.require(rest.isOk(), "the second weight is wrong");
}

// ---- products of weights that stay the same

struct Bits {
	explicit Bits(Line &line) : line(line) {}
	void add(Product &product, bool isCompared = true)
	{
		all = (all ^ product.bits()) * 0x9e3779b97f4a7c15u;
		if (isCompared)
			error = std::max(error, product.error());
	}
	void put(const Product &product) const
	{
		product.describe(line);
		line.bits("bits", all).put("eta", error);
		line.require(error < worst, "wrong result");
	}

	Line &line;
	uint64_t all = 0;
	double error = 0;
};

// Two weights in turn, with 1, 5 and 64 inputs in turn.
void steady(const Use &wanted, int64_t pad, int number, Line &line)
{
	Session session;
	Bits bits(line);
	std::vector<std::unique_ptr<Weight>> weights;
	std::vector<std::unique_ptr<Product>> products;
	for (uint64_t i = 0; i < 2; i++) {
		weights.push_back(
		    std::make_unique<Weight>(depthOf(number), widthOf(number), 20 + i, Data::gaussians, pad, pad % 2));
		for (const int64_t inputs : {1, 5, 64}) {
			Use use = wanted;
			use.inputs = inputs;
			products.push_back(std::make_unique<Product>(*weights.back(), use, 30 + i, Data::gaussians));
		}
	}
	for (int round = 0; round < 9; round++)
		for (size_t i = 0; i < 2; i++) {
			Product &product = *products[3 * i + static_cast<size_t>(round % 3)];
			product.run(session);
			bits.add(product, round > 5);
		}
	bits.put(*products[0]);
}

// All forms of a call with one weight, in turn: many inputs first, then few.
void mixed(int number, Line &line)
{
	Session session;
	Bits bits(line);
	Weight weight(depthOf(number), widthOf(number), 3, Data::gaussians, 5);
	std::vector<std::unique_ptr<Product>> products;
	for (const int64_t inputs : {64, 1, 17})
		for (int way = 0; way < 8; way++)
			products.push_back(std::make_unique<Product>(weight,
			                                             Use{.isB = (way & 1) && way != 5 && way != 7,
			                                                 .isTransposed = (way & 2) != 0,
			                                                 .inputs = inputs,
			                                                 .alpha = way & 4 ? -1.5f : 1.0f,
			                                                 .beta = way & 1 ? 0.5f : 0.0f,
			                                                 .hasDeviceScalars = (way & 4) != 0,
			                                                 .isLt = way == 5 || way == 7},
			                                             static_cast<uint64_t>(40 + way), Data::gaussians));
	for (int round = 0; round < 2; round++)
		for (const auto &product : products) {
			product->run(session);
			bits.add(*product, round == 1);
		}
	bits.put(*products[0]);
}

// An alpha for which both exponents must be reduced, and one for which they need not, in turn; on two streams, too.
void smallAlpha(int number, Line &line)
{
	Session session, other;
	Bits bits(line);
	Weight weight(depthOf(number), widthOf(number), 4, Data::gaussians);
	Content scaled = weight.history.now();
	scaleBy(scaled, 0x1p-40f);
	weight.history.replace(std::move(scaled), true);
	weight.write(nullptr);
	Product usual(weight, {}, 50, Data::gaussians), small(weight, {.alpha = 0x1p-84f}, 51, Data::gaussians),
	    smaller(weight, {.alpha = 0x1p-84f, .hasDeviceScalars = true}, 52, Data::gaussians);
	for (int round = 0; round < 10; round++) {
		usual.enqueue(session);
		small.enqueue(other);
		smaller.enqueue(session);
		CHECK(cudaStreamSynchronize(session.stream));
		CHECK(cudaStreamSynchronize(other.stream));
		for (Product *product : {&usual, &small, &smaller})
			bits.add(*product, round == 9);
		if (round % 2)
			CHECK(cudaDeviceSynchronize());
	}
	bits.put(usual);
}

// One matrix as both operands, two parts of a matrix that overlap, and two large ones.
void both(int number, Line &line)
{
	Session session;
	const auto n = static_cast<int>(depthOf(number));
	Weight one(n, n + 8, 5, Data::gaussians), two(n, n, 6, Data::gaussians);
	Array c(static_cast<size_t>(n) * static_cast<size_t>(n));
	uint64_t all = 0;
	const float alpha = 1, beta = 0;
	for (int round = 0; round < 7; round++) {
		struct {
			const float *a, *b;
			cublasOperation_t op;
		} const pairs[] = {{one.data(), one.data(), CUBLAS_OP_N},
		                   {one.data(), one.data(), CUBLAS_OP_T},
		                   {one.data(), one.data() + one.index(0, 8), CUBLAS_OP_T},
		                   {one.data(), two.data(), CUBLAS_OP_N}};
		for (const auto &[a, b, op] : pairs) {
			CHECK(cublasSgemm(session.handle, CUBLAS_OP_N, op, n, n, n, &alpha, a, n, b, n, &beta, c.data(), n));
			CHECK(cudaStreamSynchronize(session.stream));
			c.download();
			all = (all ^ c.bits()) * 0x9e3779b97f4a7c15u;
		}
	}
	line.put("entry", "cublasSgemm_v2").put("m", n).put("n", n).put("k", n).put("batch", 1).bits("bits", all);
}

// A matrix as both operands; it changes between the products.
void squareChanges(int number, Line &line)
{
	Session session;
	const auto n = static_cast<int>(depthOf(number));
	Weight weight(n, n);
	Array c(static_cast<size_t>(n) * static_cast<size_t>(n));
	const float alpha = 1, beta = 0;
	for (int i = 0; i < warming + afterDense; i++) {
		if (i == warming)
			freshContent(weight, 1, session.stream);
		const float *const W = copyOf(weight.data(), weight.count, weight.ld);
		CHECK(cublasSgemm(session.handle, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &alpha, W, n, W, n, &beta, c.data(), n));
		CHECK(cudaStreamSynchronize(session.stream));
		c.download();
		Content result(3); // the products of three rows with themselves
		for (size_t row = 0; row < 3; row++)
			result[row] = c[row * static_cast<size_t>(n) + row];
		weight.history.judge(result, [&](const Content &content) {
			Content expected(3);
			for (int64_t row = 0; row < 3; row++)
				for (int64_t l = 0; l < n; l++)
					expected[static_cast<size_t>(row)] += content[weight.index(row, l)] * content[weight.index(row, l)];
			return expected;
		});
	}
	line.put("entry", "cublasSgemm_v2").put("m", n).put("n", n).put("k", n).put("batch", 1);
	weight.history.put(line);
}

// Eager products, the same ones in a graph, and eager ones after it was destroyed.
void captured(int number, Line &line)
{
	Session session;
	const Workspace workspace(session);
	Bits bits(line);
	Weight proven(depthOf(number), widthOf(number), 7, Data::gaussians),
	    fresh(depthOf(number), widthOf(number), 8, Data::gaussians);
	Product products[] = {{proven, {}, 60, Data::gaussians},
	                      {proven, {.isB = true, .isTransposed = false, .inputs = 1}, 61, Data::gaussians},
	                      {fresh, {}, 62, Data::gaussians}};
	for (int i = 0; i < warming; i++) {
		products[0].run(session);
		bits.add(products[0]);
	}
	{
		const Graph graph(session.stream, [&] {
			for (const Product &product : products)
				product.enqueue(session);
		});
		for (int replay = 0; replay < 3; replay++) {
			graph.replay(session.stream);
			for (Product &product : products)
				bits.add(product);
		}
	}
	for (Product &product : products) {
		product.run(session);
		bits.add(product);
	}
	bits.put(products[0]);
}

// Weights that eager products have proven, in one graph.
void manyCaptured(int number, Line &line)
{
	Session session;
	const Workspace workspace(session);
	Bits bits(line);
	std::vector<std::unique_ptr<Weight>> weights;
	std::vector<std::unique_ptr<Product>> products;
	for (uint64_t i = 0; i < 4; i++) {
		weights.push_back(std::make_unique<Weight>(depthOf(number), widthOf(number), 20 + i, Data::gaussians));
		products.push_back(std::make_unique<Product>(*weights.back(), Use{}, 30 + i, Data::gaussians));
		for (int call = 0; call < proving; call++)
			products.back()->run(session);
	}
	const Graph graph(session.stream, [&] {
		for (const auto &product : products)
			product->enqueue(session);
	});
	for (int replay = 0; replay < 2; replay++) {
		graph.replay(session.stream);
		for (const auto &product : products)
			bits.add(*product);
	}
	bits.put(*products[0]);
}

// A weight in many graphs, which exist at the same time.
void manyGraphs(int number, Line &line)
{
	Session session;
	const Workspace workspace(session);
	Bits bits(line);
	Weight weight(depthOf(number), widthOf(number), 17, Data::gaussians);
	Product product(weight, {}, 120, Data::gaussians);
	for (int call = 0; call < proving; call++)
		product.run(session);
	std::vector<std::unique_ptr<Graph>> graphs;
	for (int i = 0; i < 12; i++)
		graphs.push_back(std::make_unique<Graph>(session.stream, [&] { product.enqueue(session); }));
	for (const auto &graph : graphs) {
		graph->replay(session.stream);
		bits.add(product);
	}
	bits.put(product);
}

// The memory of the first weight is freed before the second one is used.
void oneByOne(int number, Line &line)
{
	Session session;
	Bits bits(line);
	auto first = std::make_unique<Weight>(depthOf(number), widthOf(number), 15, Data::gaussians);
	Weight second(depthOf(number), widthOf(number), 16, Data::gaussians);
	Product ofFirst(*first, {}, 110, Data::gaussians), ofSecond(second, {}, 111, Data::gaussians);
	for (Product *const product : {&ofFirst, &ofSecond}) {
		for (int i = 0; i < warming; i++) {
			product->run(session);
			bits.add(*product, i == 0);
		}
		first.reset();
	}
	bits.put(ofSecond);
}

// While one thread captures in global mode, another one makes a copy, and takes over that of another stream. Neither
// may break the capture.
void beside(int number, Line &line)
{
	Session mine, theirs;
	Bits bits(line);
	Weight proven(depthOf(number), widthOf(number), 13, Data::gaussians),
	    almost(depthOf(number), widthOf(number), 14, Data::gaussians);
	Product captured(proven, {.inputs = 2}, 100, Data::gaussians), takeover(proven, {}, 101, Data::gaussians),
	    maker(almost, {.inputs = 3}, 102, Data::gaussians);
	for (Session *session : {&theirs, &mine}) // each has its first calls before the capture
		for (int i = 0; i < warming; i++) {
			if (i < 4 && session == &theirs)
				maker.run(theirs);
			takeover.run(*session);
		}
	std::atomic<int> turn{0};
	std::thread other([&] {
		while (turn != 1)
			std::this_thread::yield();
		for (int i = 0; i < 3; i++) {
			takeover.enqueue(theirs);
			maker.enqueue(theirs);
		}
		turn = 2;
	});
	{
		const Graph graph(
		    mine.stream,
		    [&] {
			    turn = 1;
			    while (turn != 2)
				    std::this_thread::yield();
			    captured.enqueue(mine);
		    },
		    cudaStreamCaptureModeGlobal);
		other.join();
		for (int replay = 0; replay < 2; replay++) {
			graph.replay(mine.stream);
			bits.add(captured);
		}
	}
	CHECK(cudaDeviceSynchronize());
	for (Product *product : {&takeover, &maker})
		bits.add(*product);
	bits.put(takeover);
}

// Two streams, each in its own thread; or two streams in flight at once.
void concurrent(bool isThreaded, int number, Line &line)
{
	Bits bits(line);
	Weight weight(depthOf(number), widthOf(number), 9, Data::gaussians);
	constexpr size_t count = 4;
	std::vector<std::unique_ptr<Session>> sessions;
	std::vector<std::unique_ptr<Product>> products;
	for (size_t i = 0; i < count; i++) {
		sessions.push_back(std::make_unique<Session>());
		products.push_back(
		    std::make_unique<Product>(weight, Use{.inputs = 1 + static_cast<int64_t>(i)}, 70 + i, Data::gaussians));
	}
	for (int i = 0; i < warming; i++)
		products[0]->run(*sessions[0]);
	for (int round = 0; round < 6; round++) {
		if (isThreaded) {
			std::vector<std::thread> threads;
			for (size_t i = 0; i < count; i++)
				threads.emplace_back([&, i] {
					for (int j = 0; j < 3; j++)
						products[i]->run(*sessions[i]);
				});
			for (std::thread &thread : threads)
				thread.join();
		} else {
			for (int j = 0; j < 3; j++)
				for (size_t i = 0; i < count; i++)
					products[i]->enqueue(*sessions[i]);
			CHECK(cudaDeviceSynchronize());
		}
		for (const auto &product : products)
			bits.add(*product);
	}
	bits.put(*products[0]);
}

// Dense changes of the magnitude and of the largest element, which select the exponent of a float16 copy.
void rescaled(int number, Line &line)
{
	Session session;
	Bits bits(line);
	Weight weight(depthOf(number), widthOf(number), 12, Data::gaussians);
	Product product(weight, {}, 90, Data::gaussians);
	for (const float factor : {1.0f, 3.0f, 0x1p5f, 0x1p-30f, 0.7f, 0x1p40f, 5.0f}) {
		weight.change(
		    [&](Content &content) {
			    scaleBy(content, factor);
			    content[weight.index(99, 99)] *= factor == 5 ? 300.0f : 1.0f;
		    },
		    true, session.stream);
		for (int i = 0; i < warming; i++) {
			product.run(session);
			bits.add(product, i == 0);
		}
	}
	bits.put(product);
}

// Each update of a graph of three products has other products with a common weight.
void sharedInTurn(int number, Line &line)
{
	Session session;
	const Workspace workspace(session);
	Bits bits(line);
	Weight first(depthOf(number), widthOf(number)), second(depthOf(number), widthOf(number), 2),
	    fresh(depthOf(number), widthOf(number), 4);
	Product ofFirst(first, {}), ofSecond(second, {}), ofFresh(fresh, {});
	for (int i = 0; i < warming; i++)
		for (Product *each : {&ofFirst, &ofSecond})
			each->run(session);
	Product *const turns[][3] = {{&ofFirst, &ofSecond, &ofFirst},
	                             {&ofFresh, &ofSecond, &ofFirst},
	                             {&ofFirst, &ofSecond, &ofFresh},
	                             {&ofSecond, &ofSecond, &ofSecond}};
	const auto enqueue = [&](int turn) {
		for (Product *each : turns[turn])
			each->enqueue(session);
	};
	Graph graph(session.stream, [&] { enqueue(0); });
	for (int turn = 0; turn < 4; turn++) {
		awaitDestructors(); // a capture without their memory could have other nodes
		if (turn)
			line.require(graph.update(session.stream, [&] { enqueue(turn); }), "the graph was not updated");
		graph.replay(session.stream);
		for (Product *each : turns[turn])
			bits.add(*each);
	}
	bits.put(ofFirst);
}

// Then a product that needs more memory than the copy, and more than it leaves.
void shortage(int number, Line &line)
{
	Session session;
	Bits bits(line);
	Weight weight(depthOf(number), widthOf(number), 13, Data::gaussians),
	    large(depthOf(number), 3 * widthOf(number), 14, Data::gaussians);
	Product product(weight, {}, 91, Data::gaussians), other(large, {}, 92, Data::gaussians);
	for (int i = 0; i < warming; i++)
		product.run(session);
	bits.add(product);
	other.run(session);
	bits.add(other);
	bits.put(other);
}

void sameOnDevices(int number, Line &line)
{
	int count = 0;
	CHECK(cudaGetDeviceCount(&count));
	Bits bits(line);
	for (int device = 0; device < std::min(count, 2); device++) {
		CHECK(cudaSetDevice(device));
		Session session;
		Weight weight(depthOf(number), widthOf(number), 11 + static_cast<uint64_t>(device), Data::gaussians);
		Product product(weight, {}, 80, Data::gaussians);
		for (int i = 0; i < warming; i++) {
			product.run(session);
			bits.add(product);
		}
		if (device)
			bits.put(product);
	}
	CHECK(cudaSetDevice(0));
}

std::vector<Case> allCases()
{
	std::vector<Case> cases;
	int number = 0; // selects the shape: each case has its own one
	const auto add = [&](const std::string &name, auto run) {
		number++;
		cases.push_back({name, [run, number](Line &line) { run(number, line); }});
	};
	struct Steady {
		const char *name;
		Use use;
		int64_t pad = 0;
	};
	const Steady rows[] = {
	    {"same.a_transposed", {}},
	    {"same.a", {.isTransposed = false}},
	    {"same.b", {.isB = true, .isTransposed = false}},
	    {"same.b_transposed", {.isB = true}},
	    {"same.odd_ld", {}, 3},
	    {"same.odd_ld_b", {.isB = true, .isTransposed = false}, 1},
	    {"same.scaled", {.alpha = -2.5f, .beta = 0.5f}},
	    {"same.device_scalars", {.alpha = -2.5f, .beta = 0.5f, .hasDeviceScalars = true}},
	    {"same.lt_bias", {.isLt = true}},
	    {"same.lt_device", {.isTransposed = false, .alpha = 3, .hasDeviceScalars = true, .isLt = true}, 4},
	};
	for (const Steady &row : rows)
		add(row.name, [row](int of, Line &line) { steady(row.use, row.pad, of, line); });
	add("same.mixed", mixed);
	add("same.small_alpha", smallAlpha);
	add("same.both", both);
	add("same.captured", captured);
	add("same.beside", beside);
	add("same.threads", [](int of, Line &line) { concurrent(true, of, line); });
	add("same.streams", [](int of, Line &line) { concurrent(false, of, line); });
	add("same.devices", sameOnDevices);
	add("rescaled", rescaled);
	for (const Edit &edit : edits)
		add(std::string("edit.") + edit.name, [&edit](int of, Line &line) { edited(edit, of, line); });
	struct Row {
		const char *name;
		Act act;
		int turns, between;
	};
	const Row several[] = {
	    {"change.training", stepped, 10, 1},      {"change.training_by_two", stepped, 6, 2},
	    {"change.reused", reused, 3, afterDense}, {"change.merged", merged, 2, afterDense},
	    {"change.seldom", stepped, 2, 70},
	};
	for (const Row &row : several)
		add(row.name, [row](int of, Line &line) { acts(row.act, row.turns, row.between, of, line); });
	add("change.freed", freed);
	add("change.remapped", remapped);
	add("change.viewed", viewed);
	add("change.square", squareChanges);
	add("change.replayed", replayed);
	add("change.brief", brief);
	add("change.replayed_element", replayedElement);
	add("change.replayed_branches", replayedBranches);
	add("change.updated_graph", updatedGraph);
	add("change.threads", threaded);
	add("change.streams", streams);
	add("change.devices", devices);
	add("reset", reset);
	add("many_captured", manyCaptured);
	add("one_by_one", oneByOne);
	add("shortage", shortage);
	add("shared_in_turn", sharedInTurn);
	add("many_graphs", manyGraphs);
	for (uint64_t seed = 1; seed <= 6; seed++)
		cases.push_back({"fuzz." + std::to_string(seed), [seed](Line &line) { fuzz(seed, line); }});
	return cases;
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, allCases());
}
