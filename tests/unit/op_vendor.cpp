#include "src/op/vendor.h"

#include "src/cuda/library.h"

#include <catch2/catch.hpp>

#include <dlfcn.h>
#include <string>

using namespace autoamp;

namespace {

struct Module {
	void *library;
	const void *original;

	explicit Module(const char *file) : library(dlopen(file, RTLD_NOW | RTLD_LOCAL))
	{
		REQUIRE(library);
		original = dlsym(library, "cublasGetStream_v2");
		REQUIRE(original);
	}
	void *symbol(const char *name) const { return dlsym(library, name); }
};

} // namespace

TEST_CASE("a function next to another one is of the same library")
{
	const Module one(UNIT_MODULE), other(UNIT_MODULE_OLD);
	CHECK(cuda::findInLibraryOf(one.original, "cublasGetMathMode") == one.symbol("cublasGetMathMode"));
	CHECK(cuda::findInLibraryOf(other.original, "cublasGetMathMode") == other.symbol("cublasGetMathMode"));
	CHECK(one.symbol("cublasGetMathMode") != other.symbol("cublasGetMathMode"));
	CHECK(cuda::findInLibraryOf(one.original, "cublasNothing") == nullptr);
	const int onStack = 0;
	CHECK(cuda::findInLibraryOf(&onStack, "cublasGetMathMode") == nullptr);
}

TEST_CASE("each of the vendor's functions has its own name's address")
{
	const Module module(UNIT_MODULE);
	const op::Cublas *const cublas = op::loadCublas(module.original);
	const op::CublasLt *const lt = op::loadCublasLt(module.original);
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
	CHECK(op::loadCublas(module.original) == nullptr);
	CHECK(op::loadCublasLt(module.original) == nullptr);
}
