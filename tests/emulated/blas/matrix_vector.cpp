// Matrices and vectors: BLAS level 2.
#include "tests/emulated/blas/levels.h"

using namespace levels;

TEMPLATE_TEST_CASE("Matrix times vector", "", ALL_TYPES)
{
	using E = TestType;
	using On = Client<E> &;
	Client<E> on;
	auto product = [&](const char *name, const Matrix &a, const Routine<E> &routine) {
		for (Wide beta : {Wide(0), on.beta}) {
			const Wide kept = on.beta;
			const int inputs = columnsOf(a), outputs = rowsOf(a);
			std::vector<E> old = on.y;
			if (beta == 0.) // y may contain values that are not numbers
				std::fill(on.y.begin(), on.y.end(), E(NaN));
			Matrix y = on.alpha * (a * vectorIn(on.x, inputs, on.incx));
			if (beta != 0.)
				y = y + beta * vectorIn(on.y, outputs, on.incy);
			Expected<E> expected(on.y);
			expected.putVector(y, on.incy);
			on.beta = beta;
			inAllModes<E>(on, name, routine, [&] { return expected.isIn(on.Y); });
			on.beta = kept;
			on.y = old;
		}
	};
	for (auto [incx, incy] : increments) {
		on.incx = incx, on.incy = incy;
		for (cublasOperation_t trans : {N, T, C}) {
			on.trans = trans;
			const Matrix a = full(on.a, on.m, on.n, on.lda);
			product("gemv", op(a, trans), [](On o) {
				return gemv<E>(o.blas.handle, o.trans, o.m, o.n, o.al(), o.A.get(), o.lda, o.X.get(), o.incx, o.be(),
				               o.Y.get(), o.incy);
			});
			const Matrix band = matrix(on.m, on.n, [&](int i, int j) {
				return i - j > on.kl || j - i > on.ku ? Wide(0) : wide(on.a[on.ku + i - j + j * on.lda]);
			});
			product("gbmv", op(band, trans), [](On o) {
				return gbmv<E>(o.blas.handle, o.trans, o.m, o.n, o.kl, o.ku, o.al(), o.A.get(), o.lda, o.X.get(),
				               o.incx, o.be(), o.Y.get(), o.incy);
			});
		}
		on.trans = N;
		for (cublasFillMode_t uplo : {Lower, Upper}) {
			on.uplo = uplo;
			auto of = [&](Form form, Kind kind) { return whole(on, form, kind, on.n, on.a, on.lda); };
			product("symv", of(Form::full, Kind::symmetric), [](On o) {
				return symv<E>(o.blas.handle, o.uplo, o.n, o.al(), o.A.get(), o.lda, o.X.get(), o.incx, o.be(),
				               o.Y.get(), o.incy);
			});
			if (isComplex<E>)
				product("hemv", of(Form::full, Kind::hermitian), [](On o) {
					return hemv<E>(o.blas.handle, o.uplo, o.n, o.al(), o.A.get(), o.lda, o.X.get(), o.incx, o.be(),
					               o.Y.get(), o.incy);
				});
			product("sbmv, hbmv", of(Form::band, ownKind<E>), [](On o) {
				return bandMv<E>(o.blas.handle, o.uplo, o.n, o.k, o.al(), o.A.get(), o.lda, o.X.get(), o.incx, o.be(),
				                 o.Y.get(), o.incy);
			});
			product("spmv, hpmv", of(Form::packed, ownKind<E>), [](On o) {
				return packedMv<E>(o.blas.handle, o.uplo, o.n, o.al(), o.A.get(), o.X.get(), o.incx, o.be(), o.Y.get(),
				                   o.incy);
			});
		}
	}
	on.incx = -1, on.incy = 2; // batches, with a stride that is not a multiple of anything
	Expected<E> expected(on.y);
	for (int i = 0; i < 3; ++i) {
		const std::vector<E> a(on.a.begin() + 77 * i, on.a.end()), x(on.x.begin() + 13 * i, on.x.end()),
		    y(on.y.begin() + 29 * i, on.y.end());
		const Matrix sum = on.alpha * (full(a, on.m, on.n, on.lda) * vectorIn(x, on.n, on.incx)) +
		                   on.beta * vectorIn(y, on.m, on.incy);
		for (int l = 0; l < on.m; ++l)
			expected.put(29 * i + 2 * l, sum[l][0]);
	}
	inAllModes<E>(
	    on, "gemvStridedBatched",
	    [](On o) {
		    return gemvStridedBatched<E>(o.blas.handle, o.trans, o.m, o.n, o.al(), o.A.get(), o.lda, 77, o.X.get(),
		                                 o.incx, 13, o.be(), o.Y.get(), o.incy, 29, 3);
	    },
	    [&] { return expected.isIn(on.Y); });
	auto pointers = [](E *base, int step) { return std::vector<E *>{base, base + step, base + 2 * step}; };
	DeviceArray<E *> as(pointers(on.A, 77)), xs(pointers(on.X, 13)), ys(pointers(on.Y, 29));
	inAllModes<E>(
	    on, "gemvBatched",
	    [&](On o) {
		    return gemvBatched<E>(o.blas.handle, o.trans, o.m, o.n, o.al(), as.get(), o.lda, xs.get(), o.incx, o.be(),
		                          ys.get(), o.incy, 3);
	    },
	    [&] { return expected.isIn(on.Y); });
}

TEMPLATE_TEST_CASE("Triangles times and into vectors", "", ALL_TYPES)
{
	using E = TestType;
	using On = Client<E> &;
	Client<E> on;
	for (size_t i = 0; i < on.a.size(); ++i) // limits growth when it is solved
		on.a[i] = narrow<E>(0.2 * wide(on.a[i]));
	struct Row {
		const char *name;
		Form form;
		Routine<E> multiply, solve;
	};
#define TRIANGLE(FUNCTION, ...)                                                                                        \
	[](On o) { return FUNCTION<E>(o.blas.handle, o.uplo, o.trans, o.diag, o.n, __VA_ARGS__, o.X.get(), o.incx); }
	const Row rows[] = {
	    {"trmv, trsv", Form::full, TRIANGLE(trmv, o.A.get(), o.lda), TRIANGLE(trsv, o.A.get(), o.lda)},
	    {"tbmv, tbsv", Form::band, TRIANGLE(tbmv, o.k, o.A.get(), o.lda), TRIANGLE(tbsv, o.k, o.A.get(), o.lda)},
	    {"tpmv, tpsv", Form::packed, TRIANGLE(tpmv, o.A.get()), TRIANGLE(tpsv, o.A.get())},
	};
	for (const Row &row : rows)
		for (cublasFillMode_t uplo : {Lower, Upper})
			for (cublasOperation_t trans : {N, T, C})
				for (cublasDiagType_t diag : {CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT})
					for (auto [incx, incy] : increments) {
						on.uplo = uplo, on.trans = trans, on.diag = diag, on.incx = incx;
						for (int i = 0; i < on.n; ++i)
							on.a[place(row.form, uplo, on.n, on.k, on.lda, i, i)] = narrow<E>({1.5, 0.5});
						const Matrix a = op(whole(on, row.form, Kind::triangular, on.n, on.a, on.lda), trans);
						const Matrix x = vectorIn(on.x, on.n, incx);
						Expected<E> expected(on.x), back(on.x);
						expected.putVector(a * x, incx);
						inAllModes<E>(on, row.name, row.multiply, [&] { return expected.isIn(on.X); });
						back.putVector(x, incx);
						const std::vector<E> kept = on.x;
						for (int i = 0; i < on.n; ++i)
							on.x[at(i, on.n, incx)] = narrow<E>((a * x)[i][0]);
						inAllModes<E>(on, row.name, row.solve, [&] { return back.isIn(on.X); });
						on.x = kept;
					}
}

TEMPLATE_TEST_CASE("Rank updates", "", ALL_TYPES)
{
	using E = TestType;
	using On = Client<E> &;
	Client<E> on;
	const Wide real = on.alpha.real();
	for (auto [incx, incy] : increments) {
		on.incx = incx, on.incy = incy;
		const Matrix left = vectorIn(on.x, on.m, incx), right = vectorIn(on.y, on.n, incy);
		for (bool isConjugated : {false, isComplex<E>}) {
			Expected<E> expected(on.a);
			expected.putMatrix(full(on.a, on.m, on.n, on.lda) + on.alpha * (left * op(right, isConjugated ? C : T)),
			                   on.lda);
			inAllModes<E>(
			    on, "ger",
			    [=](On o) {
				    if (isConjugated)
					    return gerc<E>(o.blas.handle, o.m, o.n, o.al(), o.X.get(), o.incx, o.Y.get(), o.incy, o.A.get(),
					                   o.lda);
				    return ger<E>(o.blas.handle, o.m, o.n, o.al(), o.X.get(), o.incx, o.Y.get(), o.incy, o.A.get(),
				                  o.lda);
			    },
			    [&] { return expected.isIn(on.A); });
		}
		for (cublasFillMode_t uplo : {Lower, Upper}) {
			on.uplo = uplo;
			const Matrix x = vectorIn(on.x, on.n, incx), y = vectorIn(on.y, on.n, incy);
			auto update = [&](const char *name, Form form, Kind kind, const Matrix &change, const Routine<E> &routine) {
				Expected<E> expected(on.a);
				expected.putTriangle(whole(on, form, kind, on.n, on.a, on.lda) + change, form, uplo, on.lda);
				if (kind == Kind::hermitian)
					for (int i = 0; i < on.n; ++i) {
						Wide &diagonal = expected.exact[place(form, uplo, on.n, 0, on.lda, i, i)];
						diagonal = diagonal.real();
					}
				inAllModes<E>(on, name, routine, [&] { return expected.isIn(on.A); });
			};
			const Matrix xxT = x * op(x, T), xxC = x * op(x, C), xyT = x * op(y, T), yxT = y * op(x, T),
			             xyC = x * op(y, C), yxC = y * op(x, C);
			const Matrix twoC = on.alpha * xyC + std::conj(on.alpha) * yxC;
			update("syr", Form::full, Kind::symmetric, on.alpha * xxT, [](On o) {
				return syr<E>(o.blas.handle, o.uplo, o.n, o.al(), o.X.get(), o.incx, o.A.get(), o.lda);
			});
			update("syr2", Form::full, Kind::symmetric, on.alpha * (xyT + yxT), [](On o) {
				return syr2<E>(o.blas.handle, o.uplo, o.n, o.al(), o.X.get(), o.incx, o.Y.get(), o.incy, o.A.get(),
				               o.lda);
			});
			update("spr, hpr", Form::packed, ownKind<E>, real * xxC, [](On o) {
				return packedR<E>(o.blas.handle, o.uplo, o.n, o.realAl(), o.X.get(), o.incx, o.A.get());
			});
			update("spr2, hpr2", Form::packed, ownKind<E>, twoC, [](On o) {
				return packedR2<E>(o.blas.handle, o.uplo, o.n, o.al(), o.X.get(), o.incx, o.Y.get(), o.incy, o.A.get());
			});
			if (!isComplex<E>)
				continue;
			update("her", Form::full, Kind::hermitian, real * xxC, [](On o) {
				return her<E>(o.blas.handle, o.uplo, o.n, o.realAl(), o.X.get(), o.incx, o.A.get(), o.lda);
			});
			update("her2", Form::full, Kind::hermitian, twoC, [](On o) {
				return her2<E>(o.blas.handle, o.uplo, o.n, o.al(), o.X.get(), o.incx, o.Y.get(), o.incy, o.A.get(),
				               o.lda);
			});
		}
	}
}

TEST_CASE("Matrices of 16-bit numbers times vectors, rows of syrkEx")
{
	Blas blas;
	const auto a = randomValues<float>(3 * 6, 1), x = randomValues<float>(6, 2);
	auto check = [&]<typename In, typename Out>(In, Out, auto batched, auto strided) {
		const std::vector<In> as16 = as<In>(a), x16 = as<In>(x);
		DeviceArray<In> A(as16), X(x16);
		DeviceArray<Out> Y(as<Out>(std::vector<float>(6, NaN)));
		DeviceArray<In *> arrayA(std::vector<In *>{A, A + 9}), arrayX(std::vector<In *>{X, X + 3});
		DeviceArray<Out *> arrayY(std::vector<Out *>{Y, Y + 3});
		const float one = 1, zero = 0;
		for (bool isStrided : {false, true}) {
			cudaMemset(Y, 0xff, 6 * sizeof(Out));
			CHECK((isStrided ? strided(blas, N, 3, 3, &one, A, 3, 9, X, 1, 3, &zero, Y, 1, 3, 2)
			                 : batched(blas, N, 3, 3, &one, arrayA, 3, arrayX, 1, &zero, arrayY, 1, 2)) == 0);
			const auto y = Y.read();
			for (int i = 0; i < 6; ++i) {
				Wide sum = 0;
				for (int l = 0; l < 3; ++l)
					sum += wide(as16[i / 3 * 9 + i % 3 + 3 * l]) * wide(x16[i / 3 * 3 + l]);
				CHECK(std::abs(wide(y[i]) - sum) <= 2 * epsilon<Out>());
			}
		}
	};
	check(__half(), __half(), cublasHSHgemvBatched, cublasHSHgemvStridedBatched);
	check(__half(), float(), cublasHSSgemvBatched, cublasHSSgemvStridedBatched);
	check(__nv_bfloat16(), __nv_bfloat16(), cublasTSTgemvBatched, cublasTSTgemvStridedBatched);
	check(__nv_bfloat16(), float(), cublasTSSgemvBatched, cublasTSSgemvStridedBatched);

	const cuComplex one{1, 0}, zero{0, 0};
	DeviceArray<cuComplex> z(std::vector<cuComplex>{{1, 2}, {3, 4}}), c(std::vector<cuComplex>(4));
	CHECK(cublasCsyrkEx(blas, Lower, N, 1, 2, &one, z, CUDA_C_32F, 1, &zero, c, CUDA_C_32F, 1) == 0);
	CHECK(cublasCherk3mEx(blas, Lower, N, 1, 2, &one.x, z, CUDA_C_32F, 1, &zero.x, c + 1, CUDA_C_32F, 1) == 0);
	const auto values = c.read();
	CHECK((values[0].x == -3 - 7 && values[0].y == 4 + 24 && values[1].x == 30 && values[1].y == 0));
	CHECK(cublasCsyrkEx(blas, Lower, N, 1, 2, &one, z, CUDA_C_8I, 1, &zero, c, CUDA_C_32F, 1) ==
	      CUBLAS_STATUS_NOT_SUPPORTED);
}
