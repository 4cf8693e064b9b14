// The operations after the sum of a product: bias, activation and their gradients, selected by the bits of
// cublasLtEpilogue_t. Runs on the worker of the product.
#pragma once

#include "tools/emulated/blas/description.h"
#include "tools/emulated/blas/look.h"

#include <cmath>
#include <vector>

namespace emulated::blas {

template <typename T>
class Epilogue
{
public:
	explicit Epilogue(const Product &product) : p_(product)
	{
		if (is(vectorBits))
			vector_.resize(is(CUBLASLT_EPILOGUE_BGRADB) ? p_.n : p_.m);
	}

	// Finds the vector and the auxiliary matrix of one batch.
	cudaError_t begin(int64_t batch)
	{
		const auto length = static_cast<int64_t>(vector_.size());
		if (length > 0)
			if (cudaError_t error = look(bias_, p_.bias, p_.biasType, batch * p_.biasStride, length, 1, length))
				return error;
		std::fill(vector_.begin(), vector_.end(), T{});
		if (is(CUBLASLT_EPILOGUE_BIAS))
			widen(p_.biasType, bias_, vector_.data(), length);
		if (!is(auxBit))
			return cudaSuccess;
		if (!isMask())
			return look(aux_, p_.aux, p_.d.type, batch * p_.auxStride, p_.m, p_.n, p_.auxLd);
		const auto *mask = static_cast<const std::byte *>(p_.aux) + batch * p_.auxStride / 8;
		return look(aux_, mask, maskAlignment, (p_.n - 1) * p_.auxLd / 8 + (p_.m + 7) / 8);
	}

	// The gradients from the operands: packed op(A) and op(B), summed over k.
	void reduce(const T *a, const T *b)
	{
		for (int64_t l = 0; l < p_.k; ++l) {
			for (int64_t i = 0; is(CUBLASLT_EPILOGUE_BGRADA) && i < p_.m; ++i)
				vector_[i] += a[p_.transposeA ? l + i * p_.k : i + l * p_.m];
			for (int64_t j = 0; is(CUBLASLT_EPILOGUE_BGRADB) && j < p_.n; ++j)
				vector_[j] += b[p_.transposeB ? j + l * p_.n : l + j * p_.k];
		}
	}

	void apply(int64_t column, T *value)
	{
		for (int64_t i = 0; is(CUBLASLT_EPILOGUE_BIAS) && i < p_.m; ++i)
			value[i] += vector_[i];
		if constexpr (std::is_floating_point_v<T>) // complex products have no activation
			activate(column, value);
		for (int64_t i = 0; is(gradientBit) && i < p_.m; ++i)
			vector_[i] += value[i];
	}

	void end()
	{
		if (!vector_.empty() && !is(CUBLASLT_EPILOGUE_BIAS))
			store(p_.biasType, vector_.data(), const_cast<void *>(bias_), vector_.size());
	}

private:
	static constexpr size_t maskAlignment = 16; // like the leading dimension

	bool is(unsigned bits) const { return p_.epilogue & bits; }
	bool isMask() const { return is(maskBits); }

	// tanh(sqrt(2/pi) (x + 0.044715 x^3)), the documented approximation.
	static T slope(T x) { return std::tanh(factor * (x + cubic * x * x * x)); }
	static constexpr T factor = T(0.7978845608028654), cubic = T(0.044715);

	void activate(int64_t column, T *value)
	{
		if (is(auxBit))
			isMask() ? applyMask(column, value) : applyMatrix(column, value);
		for (int64_t i = 0; is(CUBLASLT_EPILOGUE_RELU) && i < p_.m; ++i)
			value[i] = value[i] < 0 ? 0 : value[i]; // NaN is preserved
		for (int64_t i = 0; is(CUBLASLT_EPILOGUE_GELU) && i < p_.m; ++i)
			value[i] = T(0.5) * value[i] * (1 + slope(value[i]));
	}
	void applyMask(int64_t column, T *value)
	{
		auto *bits = static_cast<uint8_t *>(const_cast<void *>(aux_)) + column * p_.auxLd / 8;
		for (int64_t i = 0; i < p_.m; ++i) {
			if (is(CUBLASLT_EPILOGUE_RELU)) {
				bits[i / 8] = static_cast<uint8_t>((i % 8 ? bits[i / 8] : 0) | (value[i] >= 0) << i % 8);
			} else if (!(bits[i / 8] >> i % 8 & 1)) {
				value[i] = 0;
			}
		}
	}
	void applyMatrix(int64_t column, T *value)
	{
		auto *place = static_cast<std::byte *>(const_cast<void *>(aux_)) + column * p_.auxLd * sizeOf(p_.d.type);
		if (is(CUBLASLT_EPILOGUE_GELU)) {
			store(p_.d.type, value, place, p_.m);
			return;
		}
		std::vector<T> input(p_.m);
		widen(p_.d.type, place, input.data(), p_.m);
		for (int64_t i = 0; i < p_.m; ++i) {
			const T x = input[i], t = slope(x);
			value[i] *= T(0.5) * (1 + t + x * (1 - t * t) * factor * (1 + 3 * cubic * x * x));
		}
	}

	const Product &p_;
	std::vector<T> vector_; // the bias, or the current sum of the gradient
	const void *bias_ = nullptr, *aux_ = nullptr;
};

} // namespace emulated::blas
