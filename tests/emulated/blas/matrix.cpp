// Matrices: BLAS level 3 except gemm.
#include "tests/emulated/blas/levels.h"

using namespace levels;

TEMPLATE_TEST_CASE("Matrices with structure times matrices", "", ALL_TYPES)
{
	using E = TestType;
	using On = Client<E> &;
	Client<E> on;
	for (size_t i = 0; i < on.a.size(); ++i)
		on.a[i] = narrow<E>(0.2 * wide(on.a[i]));
	for (int i = 0; i < 9; ++i)
		on.a[i * (on.lda + 1)] = narrow<E>({1.5, 0.5});
	const Matrix b = full(on.b, on.m, on.n, on.ldb), c = full(on.c, on.m, on.n, on.ldc);
	for (cublasSideMode_t side : {Left, Right})
		for (cublasFillMode_t uplo : {Lower, Upper}) {
			on.side = side, on.uplo = uplo;
			const int order = side == Left ? on.m : on.n;
			auto of = [&](Kind kind) { return whole(on, Form::full, kind, order, on.a, on.lda); };
			auto sided = [&](const Matrix &a) { return side == Left ? a * b : b * a; };
			for (Kind kind : {Kind::symmetric, ownKind<E>}) {
				const bool isHermitian = kind == Kind::hermitian;
				Expected<E> expected(on.c);
				expected.putMatrix(on.alpha * sided(of(kind)) + on.beta * c, on.ldc);
				inAllModes<E>(
				    on, isHermitian ? "hemm" : "symm",
				    [=](On o) {
					    if (isHermitian)
						    return hemm<E>(o.blas.handle, o.side, o.uplo, o.m, o.n, o.al(), o.A.get(), o.lda, o.B.get(),
						                   o.ldb, o.be(), o.Cm.get(), o.ldc);
					    return symm<E>(o.blas.handle, o.side, o.uplo, o.m, o.n, o.al(), o.A.get(), o.lda, o.B.get(),
					                   o.ldb, o.be(), o.Cm.get(), o.ldc);
				    },
				    [&] { return expected.isIn(on.Cm); });
			}
			for (cublasOperation_t trans : {N, T, C})
				for (cublasDiagType_t diag : {CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT}) {
					on.trans = trans, on.diag = diag;
					const Matrix a = op(of(Kind::triangular), trans), product = on.alpha * sided(a);
					Expected<E> apart(on.c), inPlace(on.b), solved(on.b);
					apart.putMatrix(product, on.ldc);
					inPlace.putMatrix(product, on.ldb);
					auto multiply = [](On o, E *to, int ld) {
						return trmm<E>(o.blas.handle, o.side, o.uplo, o.trans, o.diag, o.m, o.n, o.al(), o.A.get(),
						               o.lda, o.B.get(), o.ldb, to, ld);
					};
					inAllModes<E>(
					    on, "trmm", [=](On o) { return multiply(o, o.Cm, o.ldc); },
					    [&] { return apart.isIn(on.Cm) && Expected<E>(on.b).isIn(on.B); });
					inAllModes<E>(
					    on, "trmm in place", [=](On o) { return multiply(o, o.B, o.ldb); },
					    [&] { return inPlace.isIn(on.B); });

					const std::vector<E> kept = on.b; // B is chosen so that the solution equals the former B
					solved.putMatrix(on.alpha * b, on.ldb);
					for (int i = 0; i < on.m; ++i)
						for (int j = 0; j < on.n; ++j)
							on.b[i + j * on.ldb] = narrow<E>(sided(a)[i][j]);
					inAllModes<E>(
					    on, "trsm",
					    [](On o) {
						    return trsm<E>(o.blas.handle, o.side, o.uplo, o.trans, o.diag, o.m, o.n, o.al(), o.A.get(),
						                   o.lda, o.B.get(), o.ldb);
					    },
					    [&] { return solved.isIn(on.B); });
					DeviceArray<E *> as(std::vector<E *>{on.A, on.A}), bs(std::vector<E *>{on.B, on.B + 120});
					std::copy_n(on.b.begin(), 72, on.b.begin() + 120);
					Expected<E> both(on.b);
					both.putMatrix(on.alpha * b, on.ldb);
					for (int i = 0; i < on.m; ++i)
						for (int j = 0; j < on.n; ++j)
							both.put(120 + i + j * on.ldb, (on.alpha * b)[i][j]);
					inAllModes<E>(
					    on, "trsmBatched",
					    [&](On o) {
						    return trsmBatched<E>(o.blas.handle, o.side, o.uplo, o.trans, o.diag, o.m, o.n, o.al(),
						                          as.get(), o.lda, bs.get(), o.ldb, 2);
					    },
					    [&] { return both.isIn(on.B); });
					on.b = kept;
				}
			on.trans = N, on.diag = CUBLAS_DIAG_NON_UNIT;
		}
}

TEMPLATE_TEST_CASE("Triangles of products", "", ALL_TYPES)
{
	using E = TestType;
	using On = Client<E> &;
	Client<E> on;
	struct Row {
		const char *name;
		Kind kind;
		bool hasB, isTwofold, hasRealAlpha, hasRealBeta;
		Routine<E> call;
	};
#define UPDATE(FUNCTION, ...)                                                                                          \
	[](On o) { return FUNCTION<E>(o.blas.handle, o.uplo, o.trans, o.n, o.k, __VA_ARGS__, o.Cm.get(), o.ldc); }
	const Row rows[] = {
	    {"syrk", Kind::symmetric, false, false, false, false, UPDATE(syrk, o.al(), o.A.get(), o.lda, o.be())},
	    {"syrkx", Kind::symmetric, true, false, false, false,
	     UPDATE(syrkx, o.al(), o.A.get(), o.lda, o.B.get(), o.ldb, o.be())},
	    {"syr2k", Kind::symmetric, true, true, false, false,
	     UPDATE(syr2k, o.al(), o.A.get(), o.lda, o.B.get(), o.ldb, o.be())},
	    {"herk", Kind::hermitian, false, false, true, true, UPDATE(herk, o.realAl(), o.A.get(), o.lda, o.realBe())},
	    {"herkx", Kind::hermitian, true, false, false, true,
	     UPDATE(herkx, o.al(), o.A.get(), o.lda, o.B.get(), o.ldb, o.realBe())},
	    {"her2k", Kind::hermitian, true, true, false, true,
	     UPDATE(her2k, o.al(), o.A.get(), o.lda, o.B.get(), o.ldb, o.realBe())},
	};
	for (const Row &row : rows)
		for (cublasFillMode_t uplo : {Lower, Upper})
			for (cublasOperation_t trans : {N, row.kind == Kind::hermitian ? C : T})
				for (Wide beta : {Wide(0), Wide(1.25, isComplex<E> ? 0.5 : 0)}) {
					if (row.kind == Kind::hermitian && !isComplex<E>)
						continue;
					on.uplo = uplo, on.trans = trans, on.beta = beta;
					const int rowsA = trans == N ? on.n : on.k, columnsA = trans == N ? on.k : on.n;
					const auto turn = row.kind == Kind::hermitian ? C : T;
					const Matrix a = op(full(on.a, rowsA, columnsA, on.lda), trans);
					const Matrix b = row.hasB ? op(full(on.b, rowsA, columnsA, on.ldb), trans) : a;
					const Wide alpha = row.hasRealAlpha ? Wide(on.alpha.real()) : on.alpha;
					const Wide second = row.kind == Kind::hermitian ? std::conj(alpha) : alpha;
					Matrix sum = alpha * (a * op(b, turn));
					if (row.isTwofold)
						sum = sum + second * (b * op(a, turn));
					std::vector<E> kept = on.c;
					if (beta == 0.)
						std::fill(on.c.begin(), on.c.end(), E(NaN));
					else
						sum = sum + (row.hasRealBeta ? Wide(beta.real()) : beta) *
						                whole(on, Form::full, row.kind, on.n, on.c, on.ldc);
					Expected<E> expected(on.c);
					expected.putTriangle(sum, Form::full, uplo, on.ldc);
					if (row.kind == Kind::hermitian)
						for (int i = 0; i < on.n; ++i)
							expected.exact[i * (on.ldc + 1)] = sum[i][i].real();
					inAllModes<E>(on, row.name, row.call, [&] { return expected.isIn(on.Cm); });
					on.c = kept;
				}
}

TEMPLATE_TEST_CASE("Sums, diagonals, packing, 3M products", "", ALL_TYPES)
{
	using E = TestType;
	using On = Client<E> &;
	Client<E> on;
	for (cublasOperation_t trans : {N, T, C})
		for (cublasOperation_t transb : {N, T, C}) {
			on.trans = trans, on.transb = transb;
			auto part = [&](const std::vector<E> &memory, cublasOperation_t operation, int ld) {
				return op(operation == N ? full(memory, on.m, on.n, ld) : full(memory, on.n, on.m, ld), operation);
			};
			Expected<E> sum(on.c);
			sum.putMatrix(on.alpha * part(on.a, trans, on.lda) + on.beta * part(on.b, transb, on.ldb), on.ldc);
			inAllModes<E>(
			    on, "geam",
			    [](On o) {
				    return geam<E>(o.blas.handle, o.trans, o.transb, o.m, o.n, o.al(), o.A.get(), o.lda, o.be(),
				                   o.B.get(), o.ldb, o.Cm.get(), o.ldc);
			    },
			    [&] { return sum.isIn(on.Cm); });
		}
	on.trans = N;
	for (cublasSideMode_t side : {Left, Right})
		for (auto [incx, incy] : increments) {
			on.side = side, on.incx = incx;
			const Matrix a = full(on.a, on.m, on.n, on.lda), x = vectorIn(on.x, side == Left ? on.m : on.n, incx);
			Expected<E> expected(on.c);
			expected.putMatrix(matrix(on.m, on.n, [&](int i, int j) { return a[i][j] * x[side == Left ? i : j][0]; }),
			                   on.ldc);
			inAllModes<E>(
			    on, "dgmm",
			    [](On o) {
				    return dgmm<E>(o.blas.handle, o.side, o.m, o.n, o.A.get(), o.lda, o.X.get(), o.incx, o.Cm.get(),
				                   o.ldc);
			    },
			    [&] { return expected.isIn(on.Cm); });
		}
	for (cublasFillMode_t uplo : {Lower, Upper}) {
		on.uplo = uplo;
		Expected<E> packed(on.c), unpacked(on.c);
		packed.putTriangle(full(on.a, on.n, on.n, on.lda), Form::packed, uplo, 0);
		unpacked.putTriangle(whole(on, Form::packed, Kind::symmetric, on.n, on.a, 0), Form::full, uplo, on.ldc);
		auto pack = [](On o, bool isPacking) {
			auto call = [&](auto trttp, auto tpttr) {
				return isPacking ? trttp(o.blas, o.uplo, o.n, vendors(o.A.get()), o.lda, vendors(o.Cm.get()))
				                 : tpttr(o.blas, o.uplo, o.n, vendors(o.A.get()), vendors(o.Cm.get()), o.ldc);
			};
			if constexpr (std::is_same_v<E, float>)
				return call(cublasStrttp, cublasStpttr);
			else if constexpr (std::is_same_v<E, double>)
				return call(cublasDtrttp, cublasDtpttr);
			else if constexpr (std::is_same_v<E, std::complex<float>>)
				return call(cublasCtrttp, cublasCtpttr);
			else
				return call(cublasZtrttp, cublasZtpttr);
		};
		inAllModes<E>(
		    on, "trttp", [=](On o) { return pack(o, true); }, [&] { return packed.isIn(on.Cm); });
		inAllModes<E>(
		    on, "tpttr", [=](On o) { return pack(o, false); }, [&] { return unpacked.isIn(on.Cm); });
	}
	if (!isComplex<E>)
		return;
	Expected<E> product(on.c);
	product.putMatrix(on.alpha * (full(on.a, on.m, on.k, on.lda) * full(on.b, on.k, on.n, on.ldb)) +
	                      on.beta * full(on.c, on.m, on.n, on.ldc),
	                  on.ldc);
	inAllModes<E>(
	    on, "gemm3m",
	    [](On o) {
		    return gemm3m<E>(o.blas.handle, N, N, o.m, o.n, o.k, o.al(), o.A.get(), o.lda, o.B.get(), o.ldb, o.be(),
		                     o.Cm.get(), o.ldc);
	    },
	    [&] { return product.isIn(on.Cm); });
}
