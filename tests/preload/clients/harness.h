// Shared by the client programs: an fp32 product through any cuBLAS or cuBLASLt entry point, checked on the host
// against fp64, and a command line that lists and runs cases. Works with any CUDA libraries, in any thread; does not
// depend on autoamp.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace client {

[[noreturn]] void fail(const char *what, const char *status);
void check(cudaError_t status, const char *what);
void check(cublasStatus_t status, const char *what);
#define CHECK(call) ::client::check(call, #call)

// A runtime function of CUDA 13 that has another name in CUDA 12: there, the old name has other parameters.
void *runtimeFunction(const char *name, const char *nameIn12);
#define RUNTIME(name, nameIn12) reinterpret_cast<decltype(&(name))>(::client::runtimeFunction(#name, nameIn12))

// ---- one case's line of output: NAME key=value..., `ok=0` and a line on stderr if the program itself found an error

class Line
{
public:
	explicit Line(std::string name) : name(std::move(name)) {}
	Line &put(const char *key, const std::string &value);
	Line &put(const char *key, long long value) { return put(key, std::to_string(value)); }
	Line &put(const char *key, int value) { return put(key, std::to_string(value)); }
	Line &put(const char *key, double value);
	Line &bits(const char *key, uint64_t value);
	void require(bool condition, const char *what);
	bool print() const; // ok?
	bool isOk() const { return ok_; }
	// count_NAME of each function in the environment variable COUNTED: its calls so far, as counted by the emulated
	// device. Nothing on another device.
	void putCounts();

	const std::string name;

private:
	std::string text_;
	bool ok_ = true;
};

struct Case {
	std::string name;
	std::function<void(Line &)> run;
};
// --list: the names, one per line; --case GLOB (any number): those; otherwise all. Exit status 1 if any is not ok.
int runCases(int argc, char **argv, const std::vector<Case> &cases);

// ---- data

class Random
{
public:
	explicit Random(uint64_t seed) : state_(seed) {}
	double uniform(); // [0, 1)
	double gaussian();

private:
	uint64_t next();
	uint64_t state_;
};

uint64_t hash(const void *data, size_t bytes, uint64_t seed = 0xcbf29ce484222325u);

// Memory of the arrays: new ones are allocated by `home`, which is cudaMalloc at first.
struct Home {
	void *(*take)(size_t bytes);
	void (*give)(void *memory);
};
extern thread_local const Home *home;

// Floats on the device. Everything starts as a NaN of one pattern, so that a read or write outside a matrix is
// detected: between columns, between the matrices of a batch, before and after them.
class Array
{
public:
	static constexpr uint32_t untouched = 0x7fc0dead;

	explicit Array(size_t count, size_t shift = 0); // shift: elements of the data off a 256-byte boundary
	~Array();
	Array(Array &&) noexcept;
	Array &operator=(Array &&) noexcept;

	float *data() const { return device_ ? device_ + before_ : nullptr; }
	float &operator[](size_t i) { return image_[before_ + i]; }
	float operator[](size_t i) const { return image_[before_ + i]; }
	size_t size() const { return count_; }
	void upload() const;
	void uploadAsync(cudaStream_t stream) const;
	void download();
	void downloadAsync(cudaStream_t stream);
	bool isWholeOutside(const std::vector<bool> &written) const; // no other element differs from `untouched`
	uint64_t bits() const { return hash(image_.data(), image_.size() * sizeof(float)); }
	void move(); // to newly allocated memory

private:
	size_t count_, before_;
	std::vector<float> image_;
	const Home *home_ = home;
	float *device_ = nullptr;
};

struct Matrix {
	Matrix(int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t stride, size_t shift,
	       bool isByRows = false);
	size_t index(int64_t matrix, int64_t row, int64_t column) const
	{
		return static_cast<size_t>(matrix * stride + (isByRows ? row * ld + column : column * ld + row));
	}
	float at(int64_t matrix, int64_t row, int64_t column) const { return array[index(matrix, row, column)]; }
	void each(const std::function<void(float &)> &visit); // every element that belongs to a matrix, once
	void fill(const std::function<double()> &value);

	int64_t rows, columns, ld, batch, stride;
	bool isByRows;
	Array array;
};

// ---- the application's state

// Waits until the driver has called the destructors for the graphs that were destroyed before. It calls them some time
// later, on a busy machine after hundreds of graphs.
void awaitDestructors();

// Own handles and an own stream that does not wait for the legacy one.
struct Session {
	Session();
	~Session();
	Session(const Session &) = delete;

	cudaStream_t stream = nullptr;
	cublasHandle_t handle = nullptr;
	cublasLtHandle_t light = nullptr; // its own, no cast
};

// Memory for the vendor's products on the session's handle. Without it, a captured product allocates its workspace by
// nodes of the graph, and a graph with such nodes cannot be changed, copied or a child.
class Workspace
{
public:
	explicit Workspace(const Session &session);
	~Workspace();
	Workspace(const Workspace &) = delete;

private:
	void *memory_ = nullptr;
};

// All state of a handle that can be queried, and the pending error.
struct State {
	explicit State(cublasHandle_t handle);
	bool operator==(const State &) const = default;

	cudaStream_t stream = nullptr;
	cublasPointerMode_t pointerMode = {};
	cublasMath_t mathMode = {};
	cublasAtomicsMode_t atomicsMode = {};
	int smCount = 0;
	cudaError_t error = {};
};

// ---- a product

enum class Interception {
	sgemm,
	sgemmEx,
	gemmEx,
	sgemmStridedBatched,
	gemmStridedBatchedEx,
	sgemmBatched,
	gemmBatchedEx,
	sgemmGrouped,
	gemmGroupedEx,
	ltMatmul
};
enum class Objects { created, onStack, older, guarded }; // memory of the descriptors
enum class LtHandle { cast, own };

struct Spec {
	Interception door = Interception::sgemm;
	bool is64 = false;
	int m = 0, n = 48, k = 96, batch = 1; // m = 0: a value that no other case of the program has
	cublasOperation_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
	int padA = 0, padB = 0, padC = 0;            // leading dimension beyond the rows
	int gap = 0;                                 // stride beyond the matrix
	int groups = 1;                              // number of groups in the batch, for a grouped entry point
	bool hasOddGroup = false;                    // the last one's beta is -0
	bool sharesA = false, sharesB = false;       // stride 0
	unsigned shiftA = 0, shiftB = 0, shiftC = 0; // elements off alignment
	float alpha = 1, beta = 0;
	bool hasDeviceScalars = false;
	bool isCNan = false, isANan = false;
	cublasMath_t mathMode = CUBLAS_DEFAULT_MATH;
	cublasComputeType_t compute = CUBLAS_COMPUTE_32F; // GemmEx, Lt
	// cublasLt only
	cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
	Objects objects = Objects::created;
	size_t objectBytes = sizeof(cublasLtMatmulDescOpaque_t); // older: size in that library's header
	LtHandle ltHandle = LtHandle::cast;
	bool isRowA = false, isRowB = false, isRowD = false, areArrays = false;
	bool hasOwnD = false, isCNull = false, isCA = false, usesHeuristic = false;
	size_t workspace = 0;
};

// The name of the entry point, as in a report.
std::string entryOf(const Spec &spec);

struct Answer {
	double eta = 0;            // relative Frobenius error against fp64, of the product alone (beta*C and bias left out)
	double omega = 0;          // largest error over |alpha| |A| |B|
	long long nonfinite = 0;   // elements that are Inf or NaN
	long long spoiled = 0;     // those whose fp64 result is finite and not at the very end of fp32's range
	uint64_t classes = 0;      // which elements are Inf, -Inf, NaN
	double beside = -1;        // error, like eta, of the auxiliary matrix or the gradient of the bias, if there is one
	bool isMeasurable = false; // fp64's result lies in fp32's normal range
};

class Problem
{
public:
	explicit Problem(const Spec &spec, uint64_t seed = 1);

	int call(cublasHandle_t handle,
	         cublasLtHandle_t light = nullptr); // cublasStatus_t; enqueues on the handle's stream
	void upload();                              // operands and the result's old contents
	void download();
	void restore(); // the host's C as it was at the last upload
	Matrix &result() { return spec.hasOwnD ? d : c; }
	Answer compare() const; // the downloaded result against fp64
	bool isPaddingWhole() const;
	void setScalars(float alpha, float beta);
	// Adds `wide`, the number of elements of the result that are not bfloat16 numbers, and the bits of all elements
	// when they are rounded to bfloat16.
	void putRounded(Line &line);
	void describe(Line &line) const; // sizes and entry, to find its row in a report
	// Uploads, calls, waits, downloads, checks, and adds all results to the line.
	void runOn(Session &session, Line &line);

	Spec spec;
	Matrix a, b, c, d;
	Array bias, aux, scalars, workspace;
	int64_t biasStride = 0, auxLd = 0; // leading dimension of a mask, in bits
	Array pointers;                    // a device pointer in two elements: those of A, then of B, of C, of the result

private:
	bool hasMask() const { return spec.epilogue & (CUBLASLT_EPILOGUE_RELU | 8); }
	bool maskAt(int64_t matrix, int64_t row, int64_t column) const;
	int callLt(cublasHandle_t handle, cublasLtHandle_t light, cudaStream_t stream);
	std::vector<float> before_; // C as it was
};

} // namespace client
