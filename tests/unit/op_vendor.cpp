#include "src/op/vendor.h"

#include "src/cuda/library.h"

#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <string>

using namespace autoamp;

namespace {

struct Module {
	void *library;
	const void *known;

	explicit Module(const char *file) : library(dlopen(file, RTLD_NOW | RTLD_LOCAL))
	{
		REQUIRE(library);
		known = dlsym(library, "cublasGetStream_v2");
		REQUIRE(known);
	}
	void *symbol(const char *name) const { return dlsym(library, name); }
};

} // namespace

TEST_CASE("a function next to another one is of the same library")
{
	const Module one(UNIT_MODULE), other(UNIT_MODULE_OLD);
	CHECK(cuda::beside(one.known, "cublasGetMathMode") == one.symbol("cublasGetMathMode"));
	CHECK(cuda::beside(other.known, "cublasGetMathMode") == other.symbol("cublasGetMathMode"));
	CHECK(one.symbol("cublasGetMathMode") != other.symbol("cublasGetMathMode"));
	CHECK(cuda::beside(one.known, "cublasNothing") == nullptr);
	const int onStack = 0;
	CHECK(cuda::beside(&onStack, "cublasGetMathMode") == nullptr);
}

TEST_CASE("each of the vendor's functions has its own name's address")
{
	const Module module(UNIT_MODULE);
	const op::Cublas *const cublas = op::loadCublas(module.known);
	const op::CublasLt *const lt = op::loadCublasLt(module.known);
	REQUIRE(cublas);
	REQUIRE(lt);
#define X(name, arguments) CHECK(reinterpret_cast<void *>(cublas->name) == module.symbol(#name));
	AUTOAMP_CUBLAS_FUNCTIONS(X)
#undef X
#define X(name, arguments) CHECK(reinterpret_cast<void *>(lt->name) == module.symbol(#name));
	AUTOAMP_CUBLASLT_FUNCTIONS(X)
#undef X
}

TEST_CASE("a library that lacks a function has no table")
{
	const Module module(UNIT_MODULE_OLD);
	CHECK(op::loadCublas(module.known) == nullptr);
	CHECK(op::loadCublasLt(module.known) == nullptr);
}
