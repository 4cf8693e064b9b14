// BLAS levels 1 to 3: every routine in each type and pointer mode, compared with element-wise loops in fp64 that are
// independent of the emulator's code. Memory that a routine must not change must keep its bits.
#include "tests/emulated/blas/fixture.h"

#include <algorithm>
#include <functional>

namespace levels {

constexpr auto N = CUBLAS_OP_N, T = CUBLAS_OP_T, C = CUBLAS_OP_C;
constexpr auto Lower = CUBLAS_FILL_MODE_LOWER, Upper = CUBLAS_FILL_MODE_UPPER;
constexpr auto Left = CUBLAS_SIDE_LEFT, Right = CUBLAS_SIDE_RIGHT;

#define ALL_TYPES float, double, std::complex<float>, std::complex<double>

// One call: sizes, operands on both sides, scalars where the pointer mode needs them.
template <typename E>
struct Client {
	static constexpr int room = 400;
	Blas blas;
	bool onDevice = false;
	cublasOperation_t trans = N, transb = N;
	cublasFillMode_t uplo = Lower;
	cublasDiagType_t diag = CUBLAS_DIAG_NON_UNIT;
	cublasSideMode_t side = Left;
	int m = 6, n = 7, k = 5, kl = 2, ku = 1, lda = 11, ldb = 9, ldc = 8, incx = 1, incy = 1;
	Wide alpha{0.5, isComplex<E> ? 0.75 : 0}, beta{-1.5, isComplex<E> ? 0.25 : 0};
	std::vector<E> a = randomValues<E>(room, 1), b = randomValues<E>(room, 2), c = randomValues<E>(room, 3),
	               x = randomValues<E>(room, 4), y = randomValues<E>(room, 5);
	DeviceArray<E> A{a}, B{b}, Cm{c}, X{x}, Y{y};
	std::vector<std::function<void()>> freed;
	std::vector<char> scalars = std::vector<char>(256);
	DeviceArray<char> deviceScalars{256};
	size_t used = 0;

	// The n-th scalar of a call.
	template <typename V>
	V *scalar(V value)
	{
		void *place = scalars.data() + used;
		std::memcpy(place, &value, sizeof value);
		if (onDevice) {
			place = deviceScalars + used;
			cudaMemcpy(place, &value, sizeof value, cudaMemcpyHostToDevice);
		}
		used += 32;
		return static_cast<V *>(place);
	}
	E *al() { return scalar(narrow<E>(alpha)); }
	E *be() { return scalar(narrow<E>(beta)); }
	Real<E> *realAl() { return scalar(Real<E>(alpha.real())); }
	Real<E> *realBe() { return scalar(Real<E>(beta.real())); }
	template <typename V>
	V value(const V *where) const
	{
		V read;
		cudaMemcpy(&read, where, sizeof read, cudaMemcpyDefault);
		return read;
	}

	// Sets a mode, calls, and restores everything afterwards.
	bool call(const std::function<cublasStatus_t(Client &)> &routine, bool device, bool twins)
	{
		onDevice = device;
		used = 0;
		cublasSetPointerMode(blas, device ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST);
		for (auto [to, from] : {std::pair{&A, &a}, {&B, &b}, {&Cm, &c}, {&X, &x}, {&Y, &y}})
			cudaMemcpy(to->get(), from->data(), room * sizeof(E), cudaMemcpyHostToDevice);
		asTwins = twins;
		const cublasStatus_t status = routine(*this);
		asTwins = false;
		return status == CUBLAS_STATUS_SUCCESS && cudaDeviceSynchronize() == cudaSuccess;
	}
};

using Matrix = std::vector<std::vector<Wide>>; // by rows

inline Matrix matrix(int rows, int columns, const std::function<Wide(int, int)> &element)
{
	Matrix all(rows, std::vector<Wide>(columns));
	for (int i = 0; i < rows; ++i)
		for (int j = 0; j < columns; ++j)
			all[i][j] = element(i, j);
	return all;
}

inline int rowsOf(const Matrix &a)
{
	return int(a.size());
}

inline int columnsOf(const Matrix &a)
{
	return a.empty() ? 0 : int(a[0].size());
}

inline Matrix op(const Matrix &a, cublasOperation_t operation)
{
	if (operation == N)
		return a;
	return matrix(columnsOf(a), rowsOf(a), [&](int i, int j) { return operation == C ? std::conj(a[j][i]) : a[j][i]; });
}

inline Matrix operator*(const Matrix &a, const Matrix &b)
{
	return matrix(rowsOf(a), columnsOf(b), [&](int i, int j) {
		Wide sum = 0;
		for (int l = 0; l < columnsOf(a); ++l)
			sum += a[i][l] * b[l][j];
		return sum;
	});
}

inline Matrix operator*(Wide factor, const Matrix &a)
{
	return matrix(rowsOf(a), columnsOf(a), [&](int i, int j) { return factor * a[i][j]; });
}

inline Matrix operator+(const Matrix &a, const Matrix &b)
{
	return matrix(rowsOf(a), columnsOf(a), [&](int i, int j) { return a[i][j] + b[i][j]; });
}

template <typename E>
Matrix full(const std::vector<E> &memory, int rows, int columns, int ld)
{
	return matrix(rows, columns, [&](int i, int j) { return wide(memory[i + j * ld]); });
}

enum class Form { full, band, packed };
enum class Kind { symmetric, hermitian, triangular };

// Position of element (i, j) in one stored triangle of order n.
inline int place(Form form, cublasFillMode_t uplo, int n, int k, int ld, int i, int j)
{
	switch (form) {
	case Form::full:
		return i + j * ld;
	case Form::band:
		return (uplo == Upper ? k + i - j : i - j) + j * ld;
	default:
		return uplo == Upper ? i + j * (j + 1) / 2 : i + (2 * n - j - 1) * j / 2;
	}
}

// The matrix that a stored triangle represents.
template <typename E>
Matrix whole(const Client<E> &on, Form form, Kind kind, int n, const std::vector<E> &memory, int ld)
{
	return matrix(n, n, [&](int i, int j) -> Wide {
		const bool isStored = on.uplo == Upper ? i <= j : i >= j;
		if (form == Form::band && std::abs(i - j) > on.k)
			return 0;
		if (kind == Kind::triangular && !isStored)
			return 0;
		if (kind == Kind::triangular && i == j && on.diag == CUBLAS_DIAG_UNIT)
			return 1;
		const Wide value =
		    wide(memory[isStored ? place(form, on.uplo, n, on.k, ld, i, j) : place(form, on.uplo, n, on.k, ld, j, i)]);
		if (kind == Kind::hermitian)
			return i == j ? Wide(value.real()) : isStored ? value : std::conj(value);
		return value;
	});
}

// The column vector in memory, and the positions of its elements.
inline int at(int i, int count, int inc)
{
	return inc > 0 ? i * inc : (i - (count - 1)) * inc;
}

template <typename E>
Matrix vectorIn(const std::vector<E> &memory, int count, int inc)
{
	return matrix(count, 1, [&](int i, int) { return wide(memory[at(i, count, inc)]); });
}

template <typename E>
constexpr double tolerance = 64 * 0x1p-52;
template <>
constexpr double tolerance<float> = 64 * 0x1p-23;
template <>
constexpr double tolerance<std::complex<float>> = tolerance<float>;

// Expected content of memory afterwards: by default its former content.
template <typename E>
struct Expected {
	std::vector<E> values;
	std::vector<Wide> exact;
	std::vector<bool> isWritten;

	explicit Expected(const std::vector<E> &old) : values(old), exact(old.size()), isWritten(old.size()) {}
	void put(int place, Wide value)
	{
		exact[place] = value;
		isWritten[place] = true;
	}
	void putVector(const Matrix &vector, int inc)
	{
		for (int i = 0; i < rowsOf(vector); ++i)
			put(at(i, rowsOf(vector), inc), vector[i][0]);
	}
	void putMatrix(const Matrix &all, int ld)
	{
		for (int i = 0; i < rowsOf(all); ++i)
			for (int j = 0; j < columnsOf(all); ++j)
				put(i + j * ld, all[i][j]);
	}
	void putTriangle(const Matrix &all, Form form, cublasFillMode_t uplo, int ld)
	{
		for (int i = 0; i < rowsOf(all); ++i)
			for (int j = 0; j < rowsOf(all); ++j)
				if (uplo == Upper ? i <= j : i >= j)
					put(place(form, uplo, rowsOf(all), 0, ld, i, j), all[i][j]);
	}
	bool isIn(const DeviceArray<E> &memory) const
	{
		const std::vector<E> read = memory.read();
		for (size_t i = 0; i < read.size(); ++i) {
			const Wide value = wide(read[i]);
			if (!isWritten[i] ? std::memcmp(&read[i], &values[i], sizeof(E)) != 0
			                  : !(std::abs(value - exact[i]) <= tolerance<E> * (1 + std::abs(exact[i]))))
				return false;
			if (isWritten[i] && exact[i].imag() == 0 && value.imag() != 0)
				return false;
		}
		return true;
	}
};

#define FOUR(name) OF_FOUR_TYPES(name, cublasS##name, cublasD##name, cublasC##name, cublasZ##name)
// Functions of complex numbers only; a test for all types never calls the real variants.
#define TWO(name)                                                                                                      \
	template <typename E, typename... Arguments>                                                                       \
	cublasStatus_t name(Arguments... arguments)                                                                        \
	{                                                                                                                  \
		if constexpr (std::is_same_v<E, std::complex<float>>)                                                          \
			return asTwins ? cublasC##name##_64(vendors(arguments)...) : cublasC##name(vendors(arguments)...);         \
		else if constexpr (std::is_same_v<E, std::complex<double>>)                                                    \
			return asTwins ? cublasZ##name##_64(vendors(arguments)...) : cublasZ##name(vendors(arguments)...);         \
		else                                                                                                           \
			return CUBLAS_STATUS_INTERNAL_ERROR;                                                                       \
	}
FOUR(axpy)
FOUR(scal)
FOUR(copy)
FOUR(swap)
FOUR(gemv)
FOUR(gbmv)
FOUR(symv)
FOUR(trmv)
FOUR(tbmv)
FOUR(tpmv)
FOUR(trsv)
FOUR(tbsv)
FOUR(tpsv)
FOUR(syr)
FOUR(syr2)
FOUR(symm)
FOUR(syrk)
FOUR(syr2k)
FOUR(syrkx)
FOUR(trmm)
FOUR(trsm)
FOUR(trsmBatched)
FOUR(geam)
FOUR(dgmm)
FOUR(gemvStridedBatched)
FOUR(gemvBatched)
TWO(dotc)
TWO(hemv)
TWO(gerc)
TWO(her)
TWO(her2)
TWO(hemm)
TWO(herk)
TWO(her2k)
TWO(herkx)
TWO(gemm3m)
OF_FOUR_TYPES(dot, cublasSdot, cublasDdot, cublasCdotu, cublasZdotu)
OF_FOUR_TYPES(asum, cublasSasum, cublasDasum, cublasScasum, cublasDzasum)
OF_FOUR_TYPES(nrm2, cublasSnrm2, cublasDnrm2, cublasScnrm2, cublasDznrm2)
OF_FOUR_TYPES(realScal, cublasSscal, cublasDscal, cublasCsscal, cublasZdscal)
OF_FOUR_TYPES(rot, cublasSrot, cublasDrot, cublasCrot, cublasZrot)
OF_FOUR_TYPES(realRot, cublasSrot, cublasDrot, cublasCsrot, cublasZdrot)
OF_FOUR_TYPES(bandMv, cublasSsbmv, cublasDsbmv, cublasChbmv, cublasZhbmv)
OF_FOUR_TYPES(packedMv, cublasSspmv, cublasDspmv, cublasChpmv, cublasZhpmv)
OF_FOUR_TYPES(ger, cublasSger, cublasDger, cublasCgeru, cublasZgeru)
OF_FOUR_TYPES(packedR, cublasSspr, cublasDspr, cublasChpr, cublasZhpr)
OF_FOUR_TYPES(packedR2, cublasSspr2, cublasDspr2, cublasChpr2, cublasZhpr2)

template <typename E>
constexpr Kind ownKind = isComplex<E> ? Kind::hermitian : Kind::symmetric;

template <typename E>
using Routine = std::function<cublasStatus_t(Client<E> &)>;

// Both pointer modes, both widths of integers.
template <typename E>
void inAllModes(Client<E> &on, const char *name, const Routine<E> &routine, const std::function<bool()> &isRight)
{
	for (bool device : {false, true})
		for (bool twins : {false, true}) {
			INFO(name << " uplo " << on.uplo << " trans " << on.trans << " diag " << on.diag << " side " << on.side
			          << " incx " << on.incx << " incy " << on.incy << " device " << device << " twins " << twins);
			CHECK(on.call(routine, device, twins));
			CHECK(isRight());
		}
}

constexpr std::pair<int, int> increments[] = {{1, 1}, {2, 3}, {-2, 1}, {1, -3}};

} // namespace levels
