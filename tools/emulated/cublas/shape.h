// The stored elements of a matrix and their places: general, banded and triangular matrices, full or packed. Any
// thread. Column j stores the rows [first(j), last(j)) contiguously.
#pragma once

#include "tools/emulated/cublas/call.h"

namespace emulated::cublas {

enum class Storage { full, band, packed };
enum class Kind { general, symmetric, hermitian, triangular };

struct Shape {
	Storage storage = Storage::full;
	Kind kind = Kind::general;
	int64_t rows = 0, columns = 0;
	int64_t below = 0, above = 0; // number of diagonals
	int64_t ld = 0;
	bool isUnit = false;

	static Shape general(int64_t rows, int64_t columns, int64_t ld)
	{
		return {Storage::full, Kind::general, rows, columns, rows, columns, ld};
	}
	// One triangle with the main diagonal and `diagonals` others.
	static Shape triangle(Kind kind, const Call &call, int64_t n, int64_t ld, Storage storage, int64_t diagonals)
	{
		const bool isUpper = call.uplo == CUBLAS_FILL_MODE_UPPER;
		return {storage,
		        kind,
		        n,
		        n,
		        isUpper ? 0 : diagonals,
		        isUpper ? diagonals : 0,
		        ld,
		        kind == Kind::triangular && call.diag == CUBLAS_DIAG_UNIT};
	}

	int64_t first(int64_t j) const { return std::max<int64_t>(0, j - above); }
	int64_t last(int64_t j) const { return std::min(rows, j + below + 1); }
	int64_t size(int64_t j) const { return std::max<int64_t>(0, last(j) - first(j)); }
	bool isUpper() const { return below == 0; }
	bool isMirrored() const { return kind == Kind::symmetric || kind == Kind::hermitian; }
	// Offset of the first stored element of a column.
	int64_t offset(int64_t j) const
	{
		if (storage == Storage::packed)
			return isUpper() ? j * (j + 1) / 2 : j * (2 * rows - j + 1) / 2;
		return j * ld + first(j) + (storage == Storage::band ? above - j : 0);
	}
	bool isLdValid() const
	{
		return storage == Storage::packed || isLd(ld, storage == Storage::band ? below + above + 1 : rows);
	}

	// The values of the stored part of a column. A unit diagonal and the imaginary part of a Hermitian diagonal are not
	// taken from memory.
	template <typename T>
	std::vector<T> column(Memory &memory, const Matrix &matrix, int64_t j) const
	{
		std::vector<T> values(size(j));
		memory.load(matrix, offset(j), 1, size(j), values.data());
		if (isUnit)
			values[j - first(j)] = 1;
		if (kind == Kind::hermitian)
			values[j - first(j)] = std::real(values[j - first(j)]);
		return values;
	}
	template <typename T>
	void store(Memory &memory, std::vector<T> &values, const Matrix &matrix, int64_t j) const
	{
		if (kind == Kind::hermitian)
			values[j - first(j)] = std::real(values[j - first(j)]);
		memory.store(values.data(), matrix, offset(j), 1, size(j));
	}
	// The whole matrix, packed by columns.
	template <typename T>
	std::vector<T> dense(Memory &memory, const Matrix &matrix) const
	{
		std::vector<T> values(rows * columns);
		for (int64_t j = 0; j < columns; ++j) {
			const std::vector<T> stored = column<T>(memory, matrix, j);
			for (int64_t i = first(j); i < last(j); ++i) {
				const T value = stored[i - first(j)];
				values[i + j * rows] = value;
				if (isMirrored() && i != j)
					values[j + i * rows] = kind == Kind::hermitian ? conjugate(value) : value;
			}
		}
		return values;
	}
};

inline bool isTriangle(const Call &call)
{
	return call.uplo == CUBLAS_FILL_MODE_LOWER || call.uplo == CUBLAS_FILL_MODE_UPPER;
}

} // namespace emulated::cublas
