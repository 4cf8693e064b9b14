// Products of a CPU BLAS: each case prints its sizes, its error against fp64 with the exact operands and with operands
// rounded to bfloat16, the touched elements outside the result, and a hash of all memory. Every case has another k.
//
// -DLINKED: linked to the library. Otherwise: client FILE CBLAS FORTRAN opens FILE and looks up names of this pattern,
// for example scipy_cblas_NAME64_ (^NAME: in capitals). Results of reference loops need no library.
#include "blas.h"

#include <array>
#include <barrier>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <limits>
#include <random>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

void *library = RTLD_DEFAULT;
std::string patterns[2] = {"cblas_NAME", "NAME_"};

// Null if the library does not have it.
template <typename Function>
Function *find(bool isC, const std::string &routine)
{
	std::string name = patterns[!isC], spelled = routine;
	if (name[0] == '^') {
		for (char &letter : spelled)
			letter = static_cast<char>(std::toupper(letter));
		name.erase(0, 1);
	}
	name.replace(name.find("NAME"), 4, spelled);
	return reinterpret_cast<Function *>(dlsym(library, name.c_str()));
}

#ifdef LINKED
extern "C" CblasGemm cblas_sgemm;
extern "C" Gemm sgemm_;
constexpr CblasGemm *cblasGemm = cblas_sgemm;
constexpr Gemm *gemm = sgemm_;
#else
CblasGemm *cblasGemm;
Gemm *gemm;
#endif

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity(),
                largest = std::numeric_limits<float>::max();
constexpr float gap = 12345;

std::uint32_t bitsOf(float value)
{
	std::uint32_t bits;
	std::memcpy(&bits, &value, sizeof bits);
	return bits;
}

// The nearest bfloat16, ties to even; finite values stay finite.
float rounded(float value)
{
	if (!std::isfinite(value))
		return value;
	std::uint32_t bits = bitsOf(value);
	bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
	if ((bits & 0x7f800000) == 0x7f800000)
		bits -= 0x10000;
	std::memcpy(&value, &bits, sizeof bits);
	return value;
}

struct Hash {
	std::uint64_t value = 0xcbf29ce484222325;
	void add(const void *data, std::size_t size)
	{
		for (std::size_t i = 0; i < size; i++)
			value = (value ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3;
	}
};

// A matrix with one line before and after it, and gaps between the lines. The address may be odd.
struct Matrix {
	Matrix(Int rows, Int columns, bool isRowMajor, Int ld, unsigned shift = 0)
	    : rows(rows), columns(columns), isRowMajor(isRowMajor), ld(ld), lines(isRowMajor ? rows : columns),
	      step(lines > 1 ? ld : 64), bytes(static_cast<std::size_t>((lines + 2) * step) * 4 + shift + 4, '\0'),
	      data(reinterpret_cast<float *>(bytes.data() + step * 4 + shift))
	{
		for (std::size_t at = shift; at + 4 <= bytes.size(); at += 4)
			std::memcpy(bytes.data() + at, &gap, 4);
	}
	Int place(Int i, Int j) const { return isRowMajor ? i * step + j : i + j * step; }
	float at(Int i, Int j) const
	{
		float value;
		std::memcpy(&value, reinterpret_cast<const char *>(data) + place(i, j) * 4, 4);
		return value;
	}
	void set(Int i, Int j, float value) { std::memcpy(reinterpret_cast<char *>(data) + place(i, j) * 4, &value, 4); }
	template <typename Value>
	void fill(Value value)
	{
		for (Int i = 0; i < rows; i++)
			for (Int j = 0; j < columns; j++)
				set(i, j, value(i, j));
	}

	Int rows, columns;
	bool isRowMajor;
	Int ld, lines, step;
	std::vector<char> bytes;
	float *data;
};

std::mt19937 generator(7);

float random()
{
	return std::normal_distribution<float>()(generator);
}

enum class Interface { row, column, fortran };
constexpr const char *interfaces[] = {"row", "col", "fortran"};

struct Shape {
	Interface interface = Interface::column;
	char transa = 'N', transb = 'N';
	Int m = 37, n = 29, k = 0;
	float alpha = 1, beta = 0;
	Int extra = 5; // gap between lines
	unsigned shift = 0;
	bool hasHugeLd = false;
};

Int nextK = 40;

Trans transOf(char letter)
{
	return letter == 'N' ? noTrans : letter == 'T' ? trans : letter == 'C' ? conjTrans : static_cast<Trans>(letter);
}

void call(const Shape &s, const float *A, Int lda, const float *B, Int ldb, float *C, Int ldc)
{
	if (s.interface == Interface::fortran) {
		const char small[] = {static_cast<char>(s.transa | 0x20), static_cast<char>(s.transb | 0x20)};
		const bool isSmall = s.k % 2;
		gemm(isSmall ? small : &s.transa, isSmall ? small + 1 : &s.transb, &s.m, &s.n, &s.k, &s.alpha, A, &lda, B, &ldb,
		     &s.beta, C, &ldc, 1, 1);
	} else {
		cblasGemm(s.interface == Interface::row ? rowMajor : columnMajor, transOf(s.transa), transOf(s.transb), s.m,
		          s.n, s.k, s.alpha, A, lda, B, ldb, s.beta, C, ldc);
	}
}

struct Operands {
	explicit Operands(const Shape &s)
	    : A(make(s, s.transa, s.m, s.k, 0)), B(make(s, s.transb, s.k, s.n, 1)), C(make(s, 'N', s.m, s.n, 2)), before(C)
	{
		A.fill([](Int, Int) { return random(); });
		B.fill([](Int, Int) { return random(); });
		C.fill([&](Int, Int) { return s.beta == 0 ? nan : random(); });
	}
	static Matrix make(const Shape &s, char letter, Int rows, Int columns, Int number)
	{
		if (letter != 'N')
			std::swap(rows, columns);
		const bool isRowMajor = s.interface == Interface::row;
		const Int length = isRowMajor ? columns : rows,
		          ld = (length > 0 ? length : 1) + (s.extra ? s.extra + number : 0);
		return {rows, columns, isRowMajor, s.hasHugeLd ? static_cast<Int>((std::int64_t{1} << 32) + ld) : ld, s.shift};
	}
	void begin()
	{
		before = C;
		before.data =
		    reinterpret_cast<float *>(before.bytes.data() + (reinterpret_cast<char *>(C.data) - C.bytes.data()));
	}
	void settle() // after a copy
	{
		for (Matrix *matrix : {&A, &B, &C})
			matrix->data = reinterpret_cast<float *>(matrix->bytes.data() + matrix->step * 4);
	}
	void run(const Shape &s) { call(s, A.data, A.ld, B.data, B.ld, C.data, C.ld); }

	Matrix A, B, C, before;
};

void print(const std::string &name, const Shape &s, const Operands &o)
{
	double errors[2] = {}, norm = 0;
	int nonfinite = 0, gaps = 0;
	Hash bits, classes;
	Matrix untouched = o.before;
	untouched.data = reinterpret_cast<float *>(untouched.bytes.data() +
	                                           (reinterpret_cast<const char *>(o.C.data) - o.C.bytes.data()));
	for (Int i = 0; i < s.m; i++)
		for (Int j = 0; j < s.n; j++) {
			double sums[2] = {}; // exact, rounded
			for (Int l = 0; l < s.k && s.alpha != 0; l++) {
				const float a = s.transa == 'N' ? o.A.at(i, l) : o.A.at(l, i),
				            b = s.transb == 'N' ? o.B.at(l, j) : o.B.at(j, l);
				sums[0] += static_cast<double>(a) * b;
				sums[1] += static_cast<double>(rounded(a)) * rounded(b);
			}
			const float c = o.C.at(i, j);
			const double old = s.beta == 0 ? 0 : static_cast<double>(s.beta) * o.before.at(i, j);
			for (int which = 0; which < 2; which++)
				errors[which] += std::pow(s.alpha * sums[which] + old - c, 2);
			norm += std::pow(s.alpha * sums[0] + old, 2);
			nonfinite += !std::isfinite(c);
			const int kind = std::isnan(c) ? 0 : std::isinf(c) ? (c > 0 ? 1 : 2) : 3;
			classes.add(&kind, sizeof kind);
			if (!std::isnan(c)) // which NaN results is not defined
				bits.add(&c, sizeof c);
			untouched.set(i, j, c);
		}
	for (std::size_t at = 0; at < untouched.bytes.size(); at++)
		gaps += untouched.bytes[at] != o.C.bytes[at];
	std::printf("%s m=%lld n=%lld k=%lld eta=%.3g low=%.3g gaps=%d nonfinite=%d classes=%016llx bits=%016llx\n",
	            name.c_str(), static_cast<long long>(s.m), static_cast<long long>(s.n), static_cast<long long>(s.k),
	            std::sqrt(errors[0] / norm), std::sqrt(errors[1] / norm), gaps, nonfinite,
	            static_cast<unsigned long long>(classes.value), static_cast<unsigned long long>(bits.value));
}

template <typename Change>
void run(const std::string &name, Shape s, Change change)
{
	if (!s.k)
		s.k = nextK++;
	Operands operands(s);
	change(operands);
	operands.begin();
	operands.run(s);
	print(name, s, operands);
}

void run(const std::string &name, const Shape &s)
{
	run(name, s, [](Operands &) {});
}

void products()
{
	for (Interface interface : {Interface::row, Interface::column, Interface::fortran})
		for (char transa : {'N', 'T', 'C'})
			for (char transb : {'N', 'T', 'C'}) {
				const std::string name =
				    std::string("product.") + interfaces[static_cast<int>(interface)] + "." + transa + transb;
				run(name, {interface, transa, transb});
				if (transa == 'C' || transb == 'C')
					continue;
				const std::pair<float, float> scales[] = {{1, 1}, {-0.5f, 0}, {0.7f, -0.5f}};
				for (const auto &[alpha, beta] : scales)
					run(name + "." + std::to_string(alpha) + "." + std::to_string(beta),
					    {.interface = interface, .transa = transa, .transb = transb, .alpha = alpha, .beta = beta});
			}
	run("product.large.row", {Interface::row, 'T', 'N', 70, 320, 0, -0.5f, 0.7f});
	run("product.large.fortran", {Interface::fortran, 'N', 'T', 310, 70, 0, -0.5f, 0.7f});
	run("product.packed", {.extra = 0});
	run("product.tall", {.m = 300, .n = 2});
	run("product.wide", {.m = 2, .n = 300});
	run("product.one", {.m = 1, .n = 1});
	for (unsigned shift = 1; shift < 4; shift++)
		run("misaligned." + std::to_string(shift), {.shift = shift});
}

// Nothing to compute, or nothing that a product contributes to.
void zeros()
{
	for (Interface interface : {Interface::row, Interface::fortran})
		for (float beta : {0.f, 1.f, -0.5f}) {
			const std::string name = std::string(interfaces[static_cast<int>(interface)]) + "." + std::to_string(beta);
			run("zero.alpha." + name, {.interface = interface, .alpha = 0, .beta = beta});
			Shape none = {.interface = interface, .k = nextK++, .beta = beta};
			none.m = 0;
			run("zero.m." + name, none);
			none.m = 37, none.n = 0;
			run("zero.n." + name, none);
			// k is 0: the result is beta C
			Shape empty = {.interface = interface, .m = nextK++, .beta = beta};
			Operands operands(empty);
			operands.begin();
			operands.run(empty);
			print("zero.k." + name, empty, operands);
		}
}

void values()
{
	run("value.nan", {}, [](Operands &o) { o.A.set(3, 5, nan); });
	run("value.inf", {}, [](Operands &o) { o.B.set(3, 5, -inf); });
	run("value.nan_beta", {.beta = nan});
	run("value.nan_alpha", {.alpha = nan});
	run("value.largest", {}, [](Operands &o) {
		o.A.fill([](Int i, Int j) { return i == j ? largest : 0.f; });
		o.B.fill([](Int, Int) { return 1.f; });
	});
	run("value.largest_times_zero", {}, [](Operands &o) {
		o.A.fill([](Int, Int) { return -largest; });
		o.B.fill([](Int, Int) { return 0.f; });
	});
	run("value.tiny", {}, [](Operands &o) {
		o.A.fill([](Int, Int) { return random() * 1e-30f; });
		o.B.fill([](Int, Int) { return random() * 1e20f; });
	});
	run("value.denormal", {}, [](Operands &o) {
		o.A.fill([](Int i, Int j) { return i == j ? 1e-39f : 0.f; });
		o.B.fill([](Int, Int) { return 1.f; });
	});
}

// Calls from one place, in turn: 50 of each kind.
void repeats()
{
	const Int k = nextK++, m = 37, n = 29;
	auto *const cblasDouble = find<CblasDouble>(true, "dgemm");
	auto *const cblasGemv = find<CblasGemv>(true, "sgemv");
	std::vector<double> wide(static_cast<std::size_t>(k * k), 1.5), wideResult(static_cast<std::size_t>(k * k));
	auto *const fortranGemv = find<Gemv>(false, "sgemv");
	std::vector<float> vector(static_cast<std::size_t>(k), 0.5f), vectorResult(static_cast<std::size_t>(m));
	std::vector<float> square(static_cast<std::size_t>(k * k)), squareResult(static_cast<std::size_t>(k));
	for (std::size_t i = 0; i < square.size(); i++)
		square[i] = static_cast<float>(i % 17);
	std::vector<Operands> all;
	std::vector<Shape> shapes;
	for (Interface interface : {Interface::row, Interface::fortran})
		for (float alpha : {0.f, 1.f})
			shapes.push_back(
			    {.interface = interface, .transb = 'T', .m = m, .n = n, .k = k, .alpha = alpha, .beta = 0.5f});
	for (const Shape &shape : shapes)
		all.emplace_back(shape);
	for (Operands &o : all)
		o.settle();
	for (int i = 0; i < 50; i++) {
		for (std::size_t which = 0; which < all.size(); which++) {
			all[which].begin();
			all[which].run(shapes[which]);
		}
		cblasDouble(rowMajor, noTrans, noTrans, k, k, k, 1, wide.data(), k, wide.data(), k, 0, wideResult.data(), k);
		cblasGemv(rowMajor, noTrans, m, k, 1, all[0].A.data, all[0].A.ld, vector.data(), 1, 0, vectorResult.data(), 1);
		for (const char *trans : {"N", "T"}) {
			const Int step = 1;
			const float one = 1;
			fortranGemv(trans, &k, &k, &one, square.data(), &k, vector.data(), &step, &one, squareResult.data(), &step,
			            1);
		}
	}
	for (std::size_t which = 0; which < all.size(); which++)
		print("repeat." + std::to_string(which), shapes[which], all[which]);
	Hash bits;
	bits.add(wideResult.data(), wideResult.size() * sizeof(double));
	bits.add(vectorResult.data(), vectorResult.size() * sizeof(float));
	bits.add(squareResult.data(), squareResult.size() * sizeof(float));
	std::printf("repeat.counted bits=%016llx\n", static_cast<unsigned long long>(bits.value));
}

// Calls from one place, in turn. Products of 200³ gain by bfloat16; the others are too small, however similar they are.
void similar()
{
	std::vector<Shape> shapes;
	for (Interface interface : {Interface::row, Interface::fortran}) {
		for (auto [m, n, k] : {std::array<Int, 3>{16, 16, 16},
		                       {16, 16, 24},
		                       {16, 24, 16},
		                       {24, 16, 16},
		                       {200, 200, 2},
		                       {200, 2, 200},
		                       {2, 200, 200},
		                       {200, 200, 200}})
			shapes.push_back({.interface = interface, .m = m, .n = n, .k = k});
		const Shape small = {.interface = interface, .m = 16, .n = 16, .k = 16};
		shapes.insert(shapes.end(), 5, small);
		shapes.end()[-5].transa = 'T', shapes.end()[-4].transb = 'T';
		shapes.end()[-3].alpha = 0, shapes.end()[-2].beta = 0.5f, shapes.end()[-1].extra = 0;
	}
	std::vector<Operands> all(shapes.begin(), shapes.end());
	for (Operands &o : all)
		o.settle();
	for (int round = 0; round < 4; round++)
		for (std::size_t which = 0; which < all.size(); which++) {
			all[which].begin();
			all[which].run(shapes[which]);
		}
	for (std::size_t which = 0; which < all.size(); which++)
		print("similar." + std::to_string(which), shapes[which], all[which]);
}

// One weight in 16 products. The watch of its pages needs whole ones.
void weights()
{
	const Shape shape = {.interface = Interface::row, .m = 64, .n = 512, .k = 512};
	Operands operands(shape);
	operands.begin();
	for (int i = 0; i < 16; i++)
		operands.run(shape);
	print("weight", shape, operands);
}

// Products that do not gain, alone and after a large one. In the second one, the longer operand could be kept.
void turns()
{
	const Shape large = {.m = 512, .n = 512, .k = 512}, thin = {.m = 1024, .n = 512, .k = 10},
	            narrow = {.m = 1024, .n = 10, .k = 512};
	Operands first(large), second(thin), third(narrow);
	const auto product = [](const std::string &name, const Shape &shape, Operands &operands) {
		operands.begin();
		operands.run(shape);
		print("turns." + name, shape, operands);
	};
	for (int i = 0; i < 2; i++) {
		product("thin_alone", thin, second);
		product("narrow_alone", narrow, third);
	}
	first.run(large);
	product("thin_after", thin, second);
	third.A.set(0, 0, 2); // it is not kept
	product("narrow_after", narrow, third);
	for (int i = 0; i < 30; i++)
		second.run(thin);
	product("thin_late", thin, second);
}

// On four threads, the thin one does not gain, although its weight is kept.
void turnsOfKept()
{
	const Shape large = {.m = 512, .n = 512, .k = 512}, thin = {.m = 1536, .n = 48, .k = 192};
	Operands first(large), second(thin);
	reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))(
	    4); // more than this machine may have
	for (int i = 0; i < 10; i++) {
		first.run(large);
		for (int repeat = 0; repeat < 20; repeat++)
			second.run(thin);
	}
}

// Two threads begin at once, each with a large product before thin ones.
void turnsOfThreads()
{
	const Shape large = {.m = 512, .n = 512, .k = 512}, thin = {.m = 1024, .n = 512, .k = 10};
	std::vector<Operands> firsts(2, Operands(large)), seconds(2, Operands(thin));
	std::barrier begin(2);
	std::vector<std::thread> threads;
	for (int i = 0; i < 2; i++)
		threads.emplace_back([&, i] {
			firsts[i].settle(), seconds[i].settle();
			begin.arrive_and_wait();
			firsts[i].run(large);
			for (int repeat = 0; repeat < 20; repeat++)
				seconds[i].run(thin);
		});
	for (std::thread &thread : threads)
		thread.join();
}

// The library decides about results in its operands.
void overlaps()
{
	const Int k = nextK++;
	Shape s = {.m = k, .n = k, .k = k, .extra = 0};
	std::vector<float> parent(static_cast<std::size_t>(3 * k * k));
	const auto multiply = [&](const char *name, Int A, Int B, Int C, Int ld) {
		for (float &element : parent)
			element = random();
		call(s, parent.data() + A, ld, parent.data() + B, ld, parent.data() + C, ld);
		Hash bits;
		bits.add(parent.data(), parent.size() * sizeof(float));
		std::printf("overlap.%s k=%lld bits=%016llx\n", name, static_cast<long long>(k),
		            static_cast<unsigned long long>(bits.value));
	};
	const Int size = k * k;
	multiply("a", 0, size, 0, k);
	multiply("b", 0, size, size, k);
	multiply("shifted", 0, size, size / 2 + 3, k);
	multiply("interleaved", 0, k, 2 * k, 3 * k); // rows of one matrix, without a common element
}

// In children, because the reference BLAS ends the program.
void invalid()
{
	const Int k = nextK++;
	struct Wrong {
		const char *name;
		Shape shape;
		Int lda, ldb, ldc;
	};
	for (Interface interface : {Interface::row, Interface::column, Interface::fortran}) {
		const Wrong all[] = {
		    {"transa", {interface, 'X', 'N', 37, 29, k}, 100, 100, 100},
		    {"transb", {interface, 'N', 'Q', 37, 29, k}, 100, 100, 100},
		    {"m", {interface, 'N', 'N', -1, 29, k}, 100, 100, 100},
		    {"n", {interface, 'N', 'N', 37, -2, k}, 100, 100, 100},
		    {"k", {interface, 'N', 'N', 37, 29, -3}, 100, 100, 100},
		    {"lda", {interface, 'T', 'N', 37, 29, k}, 3, 100, 100},
		    {"ldb", {interface, 'N', 'T', 37, 29, k}, 100, 3, 100},
		    {"ldc", {interface, 'N', 'N', 37, 29, k}, 100, 100, 3},
		    {"zero_ld", {interface, 'N', 'N', 0, 0, 0}, 0, 0, 0},
		};
		for (const Wrong &wrong : all) {
			std::fflush(nullptr);
			const pid_t child = fork();
			if (child == 0) {
				std::vector<float> memory(3 * 100 * 100, 1.f);
				dup2(STDERR_FILENO, STDOUT_FILENO);
				call(wrong.shape, memory.data(), wrong.lda, memory.data() + 10000, wrong.ldb, memory.data() + 20000,
				     wrong.ldc);
				for (float element : memory)
					if (element != 1.f)
						_exit(9);
				std::fflush(nullptr);
				_exit(0);
			}
			int status = 0;
			waitpid(child, &status, 0);
			std::printf("invalid.%s.%s status=%d\n", interfaces[static_cast<int>(interface)], wrong.name, status);
		}
	}
}

// Sizes of 64 bits: leading dimensions that no column reaches. Sizes of 32 bits: the upper half of a register is
// undefined.
void integers()
{
#ifdef WIDE
	for (Interface interface : {Interface::column, Interface::fortran}) {
		const Int m = nextK++;
		Shape s = {.interface = interface, .m = m, .n = 1, .k = 1, .hasHugeLd = true};
		run(std::string("integers.") + interfaces[static_cast<int>(interface)], s);
	}
#else
	using Wide = void(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, float,
	                  const float *, std::int64_t, const float *, std::int64_t, float, float *, std::int64_t);
	Shape s = {.k = nextK++};
	Operands o(s);
	o.begin();
	constexpr std::int64_t junk = 0x7654321000000000;
	reinterpret_cast<Wide *>(reinterpret_cast<void *>(cblasGemm))(
	    columnMajor | junk, noTrans | junk, noTrans | junk, s.m | junk, s.n | junk, s.k | junk, 1, o.A.data,
	    o.A.ld | junk, o.B.data, o.B.ld | junk, 0, o.C.data, o.C.ld | junk);
	print("integers.upper_halves", s, o);
#endif
}

// One call of each routine that is only counted. The hash is that of its result.
template <typename... Parameters, typename... Args>
void count(const char *name, void (*function)(Parameters...), void *result, std::size_t bytes, Args... args)
{
	if (!function)
		return;
	function(args...);
	Hash bits;
	bits.add(result, bytes);
	std::printf("counted.%s bits=%016llx\n", name, static_cast<unsigned long long>(bits.value));
}

void counted()
{
	const Int m = 8, n = 6, k = 7, ld = 16, one = 1;
	float a[256], b[256], c[256];
	double da[256], db[256], dc[256];
	std::uint16_t half[256];
	const auto fill = [&] {
		for (int i = 0; i < 256; i++) {
			a[i] = static_cast<float>(i % 17 + 1) / 4, b[i] = static_cast<float>(i % 13) / 8,
			c[i] = static_cast<float>(i % 5);
			da[i] = a[i], db[i] = b[i], dc[i] = c[i];
			half[i] = 0x3f80;
		}
	};
	constexpr int upper = 121, nonUnit = 131, left = 141;
	fill();
	count("c.sgemv", find<CblasGemv>(true, "sgemv"), c, sizeof c, columnMajor, noTrans, m, n, 1.f, a, ld, b, one, 0.f,
	      c, one);
	count("c.ssymm", find<CblasSymm>(true, "ssymm"), c, sizeof c, columnMajor, left, upper, m, n, 1.f, a, ld, b, ld,
	      0.f, c, ld);
	count("c.ssyrk", find<CblasSyrk>(true, "ssyrk"), c, sizeof c, columnMajor, upper, noTrans, n, k, 1.f, a, ld, 0.f, c,
	      ld);
	count("c.strmm", find<CblasTriangular>(true, "strmm"), b, sizeof b, columnMajor, left, upper, noTrans, nonUnit, m,
	      n, 1.f, a, ld, b, ld);
	count("c.strsm", find<CblasTriangular>(true, "strsm"), b, sizeof b, columnMajor, left, upper, noTrans, nonUnit, m,
	      n, 1.f, a, ld, b, ld);
	count("c.sbgemm", find<CblasHalf>(true, "sbgemm"), c, sizeof c, columnMajor, noTrans, noTrans, m, n, k, 1.f, half,
	      ld, half, ld, 0.f, c, ld);
	count("c.dgemm", find<CblasDouble>(true, "dgemm"), dc, sizeof dc, columnMajor, noTrans, noTrans, m, n, k, 1., da,
	      ld, db, ld, 0., dc, ld);
	const float unit[] = {1, 0}, nothing[] = {0, 0};
	const double wideUnit[] = {1, 0}, wideNothing[] = {0, 0};
	const Int small = 4, smallLd = 8;
	count("c.cgemm", find<CblasComplex>(true, "cgemm"), c, sizeof c, columnMajor, noTrans, noTrans, small, small, small,
	      unit, a, smallLd, b, smallLd, nothing, c, smallLd);
	count("c.zgemm", find<CblasComplex>(true, "zgemm"), dc, sizeof dc, columnMajor, noTrans, noTrans, small, small,
	      small, wideUnit, da, smallLd, db, smallLd, wideNothing, dc, smallLd);
	fill();
	const std::size_t length = 1;
	count("f.sgemv", find<Gemv>(false, "sgemv"), c, sizeof c, "N", &m, &n, unit, a, &ld, b, &one, nothing, c, &one,
	      length);
	count("f.ssymm", find<Symm>(false, "ssymm"), c, sizeof c, "L", "U", &m, &n, unit, a, &ld, b, &ld, nothing, c, &ld,
	      length, length);
	count("f.ssyrk", find<Syrk>(false, "ssyrk"), c, sizeof c, "U", "N", &n, &k, unit, a, &ld, nothing, c, &ld, length,
	      length);
	count("f.strmm", find<Triangular>(false, "strmm"), b, sizeof b, "L", "U", "N", "N", &m, &n, unit, a, &ld, b, &ld,
	      length, length, length, length);
	count("f.strsm", find<Triangular>(false, "strsm"), b, sizeof b, "L", "U", "N", "N", &m, &n, unit, a, &ld, b, &ld,
	      length, length, length, length);
	count("f.sbgemm", find<Other>(false, "sbgemm"), c, sizeof c, "N", "N", &m, &n, &k, unit, half, &ld, half, &ld,
	      nothing, c, &ld, length, length);
	count("f.dgemm", find<Other>(false, "dgemm"), dc, sizeof dc, "N", "N", &m, &n, &k, wideUnit, da, &ld, db, &ld,
	      wideNothing, dc, &ld, length, length);
	count("f.cgemm", find<Other>(false, "cgemm"), c, sizeof c, "N", "N", &small, &small, &small, unit, a, &smallLd, b,
	      &smallLd, nothing, c, &smallLd, length, length);
	count("f.zgemm", find<Other>(false, "zgemm"), dc, sizeof dc, "N", "N", &small, &small, &small, wideUnit, da,
	      &smallLd, db, &smallLd, wideNothing, dc, &smallLd, length, length);
}

// Batches of two and three products.
void batches()
{
	auto *const cblasStrided = find<CblasStrided>(true, "sgemm_batch_strided");
	auto *const strided = find<Strided>(false, "sgemm_batch_strided");
	auto *const cblasBatch = find<CblasBatch>(true, "sgemm_batch");
	auto *const batch = find<Batch>(false, "sgemm_batch");
	struct Case {
		const char *name;
		float beta;
		bool isMixed, isMixedScale;
	};
	for (bool isC : {true, false})
		for (const Case &each : {Case{"equal", 0, false, false},
		                         {"mixed", 0, true, false},
		                         {"scales", 0, false, true},
		                         {"added", 0.5f, false, false}}) {
			Shape shapes[2] = {{.interface = isC ? Interface::row : Interface::column,
			                    .transb = 'T',
			                    .k = nextK++,
			                    .beta = each.beta}};
			shapes[1] = shapes[0];
			if (each.isMixed)
				shapes[1].n = 11;
			if (each.isMixedScale)
				shapes[1].alpha = 2;
			std::vector<Operands> all; // two of the first group, one of the second
			for (int i = 0; i < 3; i++)
				all.emplace_back(shapes[i / 2]);
			const float *A[3], *B[3];
			float *C[3];
			for (int i = 0; i < 3; i++) {
				Operands &o = all[static_cast<std::size_t>(i)];
				for (Matrix *matrix : {&o.A, &o.B, &o.C}) // the vector has moved them
					matrix->data = reinterpret_cast<float *>(matrix->bytes.data() + matrix->step * 4);
				o.begin();
				A[i] = o.A.data, B[i] = o.B.data, C[i] = o.C.data;
			}
			const Trans transposes[2][2] = {{noTrans, noTrans}, {trans, trans}};
			Int m[2], n[2], k[2], lda[2], ldb[2], ldc[2];
			const Int sizes[2] = {2, 1}, groups = 2;
			float alpha[2], beta[2];
			for (std::size_t g = 0; g < 2; g++) {
				m[g] = shapes[g].m, n[g] = shapes[g].n, k[g] = shapes[g].k, alpha[g] = shapes[g].alpha,
				beta[g] = shapes[g].beta;
				lda[g] = all[2 * g].A.ld, ldb[g] = all[2 * g].B.ld, ldc[g] = all[2 * g].C.ld;
			}
			if (isC && cblasBatch)
				cblasBatch(rowMajor, transposes[0], transposes[1], m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, groups,
				           sizes);
			else if (!isC && batch)
				batch("NN", "TT", m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, &groups, sizes);
			else
				continue;
			for (std::size_t i = 0; i < 3; i++)
				print(std::string("batch.") + (isC ? "row." : "fortran.") + each.name + "." + std::to_string(i),
				      shapes[i / 2], all[i]);
		}
	for (bool isC : {true, false})
		for (float beta : {0.f, 0.5f}) {
			if (isC ? !cblasStrided : !strided)
				continue;
			Shape s = {.interface = isC ? Interface::row : Interface::column,
			           .transa = 'T',
			           .m = 12,
			           .n = 9,
			           .k = nextK++,
			           .beta = beta,
			           .extra = 0};
			Shape whole = s; // C and op(A) of the three products next to each other; B is shared
			Operands o(whole);
			const Int a = s.m * s.k, c = s.m * s.n, none = 0, three = 3;
			std::vector<float> As, Cs;
			for (int i = 0; i < 3; i++) {
				for (Int j = 0; j < a; j++)
					As.push_back(random());
				for (Int j = 0; j < c; j++)
					Cs.push_back(beta == 0 ? nan : random());
			}
			const std::vector<float> old = Cs;
			const Int lda = o.A.ld, ldb = o.B.ld, ldc = o.C.ld;
			if (isC)
				cblasStrided(rowMajor, trans, noTrans, s.m, s.n, s.k, s.alpha, As.data(), lda, a, o.B.data, ldb, none,
				             beta, Cs.data(), ldc, c, three);
			else
				strided("T", "N", &s.m, &s.n, &s.k, &s.alpha, As.data(), &lda, &a, o.B.data, &ldb, &none, &beta,
				        Cs.data(), &ldc, &c, &three);
			for (Int i = 0; i < 3; i++) {
				std::memcpy(o.C.data, old.data() + i * c, static_cast<std::size_t>(c) * sizeof(float));
				o.begin();
				std::memcpy(o.A.data, As.data() + i * a, static_cast<std::size_t>(a) * sizeof(float));
				std::memcpy(o.C.data, Cs.data() + i * c, static_cast<std::size_t>(c) * sizeof(float));
				print(std::string("strided.") + (isC ? "row." : "fortran.") + (beta == 0 ? "equal." : "added.") +
				          std::to_string(i),
				      s, o);
			}
		}
}

} // namespace

int main(int argc, char **argv)
{
#ifndef LINKED
	if (argc < 4)
		return 2;
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return std::fprintf(stderr, "%s\n", dlerror()), 77;
	patterns[0] = argv[2], patterns[1] = argv[3];
	argv += 3, argc -= 3;
	cblasGemm = find<CblasGemm>(true, "sgemm");
	gemm = find<Gemm>(false, "sgemm");
	if (!cblasGemm || !gemm)
		return std::fprintf(stderr, "%s\n", dlerror()), 3;
#endif
	constexpr std::pair<const char *, void (*)()> parts[] = {{"products", products},
	                                                         {"zeros", zeros},
	                                                         {"values", values},
	                                                         {"repeats", repeats},
	                                                         {"similar", similar},
	                                                         {"weights", weights},
	                                                         {"overlaps", overlaps},
	                                                         {"integers", integers},
	                                                         {"counted", counted},
	                                                         {"batches", batches},
	                                                         {"invalid", invalid},
	                                                         {"turns", turns},
	                                                         {"turns_of_threads", turnsOfThreads},
	                                                         {"turns_of_kept", turnsOfKept}};
	for (const auto &[name, part] : parts)
		if (argc < 2 || std::strcmp(argv[1], name) == 0)
			part();
	return 0;
}
