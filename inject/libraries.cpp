#include "inject/libraries.h"

#include "inject/text.h"
#include "inject/vendors.h"

namespace autoamp::front {

namespace {

unsigned blasInUse = undecided, dnnInUse = undecided, runtimeInUse = undecided;

int absentDnn() // NOT_INITIALIZED of cuDNN 9
{
	return 1001;
}

int absentRuntime() // cudaErrorInitializationError
{
	return 3;
}

// Also true for a file that a wheel repair tool has renamed: libcudnn-463fd6d5.so.8.9.7.
bool isCopyOf(const char *file, const char *soname)
{
	for (; *soname && *file; file++, soname++) {
		if (*file == '-' && *soname == '.')
			while (*file && *file != '.')
				file++;
		if (*file != *soname)
			return false;
	}
	return !*soname && (!*file || *file == '.');
}

} // namespace

int absent()
{
	return 1;
}

constinit const Library cublas = {{"libcublas.so", "libcublas.so.13", "libcublas.so.12"}, {}, blasInUse, absent};
constinit const Library cublaslt = {
    {"libcublasLt.so", "libcublasLt.so.13", "libcublasLt.so.12"}, {}, blasInUse, absent};
constinit const Library cudnn = {
    {"libcudnn.so", "libcudnn.so.9", "libcudnn.so.8"},
    {{},
     {"libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9"},
     {"libcudnn_ops_infer.so.8", "libcudnn_ops_train.so.8", "libcudnn_cnn_infer.so.8", "libcudnn_cnn_train.so.8",
      "libcudnn_adv_infer.so.8", "libcudnn_adv_train.so.8"}},
    dnnInUse,
    absentDnn};
constinit const Library cudart = {
    {"libcudart.so", "libcudart.so.13", "libcudart.so.12"}, {}, runtimeInUse, absentRuntime};

constinit const Entry entries[rowCount] = {
#define ENTRY(name, library, ...) {#name, library},
#include "inject/entries.inc"
#include "inject/launches.inc"
#undef ENTRY
};

bool isPart(const char *file, const Library &library, unsigned version)
{
	for (const char *part : library.parts[version])
		if (part && isCopyOf(file, part))
			return true;
	return false;
}

unsigned versionOf(const char *file, const Library &library)
{
	unsigned version = equal(file, library.sonames[unversioned]) ? unversioned : unversioned + 1;
	while (version && version < versionCount && !isCopyOf(file, library.sonames[version]) &&
	       !isPart(file, library, version))
		version++;
	return version;
}

bool isVendors(const char *file)
{
	for (const char *prefix : vendorFiles)
		if (begins(file, prefix))
			return true;
	return false;
}

unsigned rowOf(const char *name)
{
	const unsigned calls = vendorEntryCount, end = rowCount;
	unsigned index = begins(name, "cublas") || begins(name, "cudnn")                            ? 0
	                 : begins(name, "cudaL") || begins(name, "cudaG") || begins(name, "__cuda") ? calls
	                                                                                            : end;
	while (index < rowCount && !equal(entries[index].name, name))
		index++;
	return index;
}

} // namespace autoamp::front
