#include "src/state/caller.h"

#include "src/state/thread.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

using namespace autoamp::core;
namespace fs = std::filesystem;

namespace {

// A small library under many names. They stay loaded, like an application's.
struct Folder {
	fs::path path;

	Folder()
	{
		std::string name = (fs::temp_directory_path() / "autoamp-callers-XXXXXX").string();
		REQUIRE(mkdtemp(name.data()));
		path = name;
	}
	~Folder() { fs::remove_all(path); }

	const void *functionOf(const std::string &name)
	{
		const fs::path file = path / name;
		fs::copy_file(UNIT_MODULE, file);
		void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
		REQUIRE(library);
		const void *function = dlsym(library, "cublasGetStream_v2");
		REQUIRE(function);
		return function;
	}
};

} // namespace

TEST_CASE("whose calls are not the application's")
{
	const std::pair<const char *, CallerKind> files[] = {
	    {"libcublas.so.13", CallerKind::vendor},         {"libcublasLt.so.13", CallerKind::vendor},
	    {"libcudnn_ops.so.9", CallerKind::vendor},       {"libcusolver.so.12", CallerKind::vendor},
	    {"libcusolverMg.so.12", CallerKind::vendor},     {"libcusparse.so.12", CallerKind::vendor},
	    {"libcufft.so.12", CallerKind::vendor},          {"libnvinfer.so.10", CallerKind::vendor},
	    {"libnvblas.so.13", CallerKind::vendor},         {"libmagma.so.2", CallerKind::solver},
	    {"libtorch_cuda_linalg.so", CallerKind::solver}, {"libslate.so.1", CallerKind::solver},
	    {"libcublasMp.so.0", CallerKind::solver},        {"libcal.so.0", CallerKind::solver},
	    {"libmagma-1a2b3c.so.2", CallerKind::solver},    {"libmagma_sparse.so", CallerKind::solver},
	    {"libtorch_cuda.so", CallerKind::application},   {"libcublas_wrapper.so", CallerKind::application},
	    {"mylibcublas.so.13", CallerKind::application},  {"libcalibrate.so", CallerKind::application},
	    {"libslated.so", CallerKind::application},       {"libmagmadnn.so", CallerKind::application},
	    {"numbers.so", CallerKind::application},
	};
	Folder folder;
	std::map<uint32_t, std::string> met;
	for (const auto &[name, kind] : files) {
		const CallerAnswer answer = findCaller(folder.functionOf(name));
		CAPTURE(name);
		CHECK(static_cast<int>(answer.kind) == static_cast<int>(kind));
		CHECK(answer.id != 0);
		CHECK(callerName(answer.id) == std::string(name));
		CHECK(met.emplace(answer.id, name).second);
	}
}

TEST_CASE("an object has one number for all its addresses")
{
	Folder folder;
	const void *function = folder.functionOf("libapplication.so");
	const uint32_t id = findCaller(function).id;
	CHECK(findCaller(static_cast<const char *>(function) + 1).id == id);
	CHECK(findCaller(function).id == id);
	// The same name in another folder is the same caller in a report.
	Folder other;
	CHECK(findCaller(other.functionOf("libapplication.so")).id == id);
}

TEST_CASE("the program itself has its file's name")
{
	const CallerAnswer answer = findCaller(reinterpret_cast<const void *>(&findCaller));
	CHECK(static_cast<int>(answer.kind) == static_cast<int>(CallerKind::application));
	CHECK(callerName(answer.id) == fs::read_symlink("/proc/self/exe").filename().string());
}

TEST_CASE("code of no object is the application's, without a name")
{
	const int onStack = 0;
	const CallerAnswer answer = findCaller(&onStack);
	CHECK(static_cast<int>(answer.kind) == static_cast<int>(CallerKind::application));
	CHECK(answer.id == 0);
	CHECK(callerName(0) == std::string(""));
	CHECK(callerName(1023) == std::string(""));
	CHECK(callerName(1u << 30) == std::string(""));
}

TEST_CASE("a thread remembers callers by their address")
{
	auto thread = std::make_unique<Thread>();
	Folder folder;
	const void *solver = folder.functionOf("libmagma.so.3"), *plain = folder.functionOf("libplain.so");
	for (int i = 0; i < 2; i++) {
		CHECK(callerOf(*thread, solver).kind == CallerKind::solver);
		CHECK(callerOf(*thread, plain).kind == CallerKind::application);
		CHECK(callerOf(*thread, plain).id == findCaller(plain).id);
	}
	// Two addresses that share a place.
	const auto *near = static_cast<const char *>(solver);
	constexpr size_t round = sizeof thread->callers / sizeof *thread->callers * 4;
	CHECK(callerOf(*thread, near + round).id == findCaller(near + round).id);
	CHECK(callerOf(*thread, near).kind == CallerKind::solver);
}
