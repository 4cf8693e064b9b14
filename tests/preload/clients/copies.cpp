// copies FILE...: multiplies twice in turn with each of these copies of cuBLAS, which it looks up itself, and scales
// with all except the first. With `new:` before its name a copy is opened in its own namespace. LINKED: `linked` is the
// linker's copy. A handle of one copy is an error to another.
#include "product.h"

#include <dlfcn.h>
#include <string_view>

struct Copy : Cublas {
	decltype(&cublasSscal_v2) scale;
};

template <typename Fn>
static bool look(Fn *&function, void *library, const char *name)
{
	return (function = reinterpret_cast<Fn *>(dlsym(library, name)));
}

static bool find(Copy &copy, std::string_view file, bool isFirst)
{
#ifdef LINKED
	if (file == "linked") {
		copy = {{cublasCreate_v2, cublasDestroy_v2, cublasSgemm_v2}, cublasSscal_v2};
		return true;
	}
#endif
	void *library = file.starts_with("new:") ? dlmopen(LM_ID_NEWLM, file.data() + 4, RTLD_NOW)
	                                         : dlopen(file.data(), RTLD_NOW | RTLD_LOCAL);
	return library && look(copy.create, library, "cublasCreate_v2") &&
	       look(copy.destroy, library, "cublasDestroy_v2") && look(copy.sgemm, library, "cublasSgemm_v2") &&
	       (isFirst || look(copy.scale, library, "cublasSscal_v2"));
}

int main(int, char **argv)
{
	for (int round = 0; round < 2; round++)
		for (char **file = argv + 1; *file; file++) {
			Copy copy = {};
			const bool isFirst = file == argv + 1;
			if (!find(copy, *file, isFirst) || !multiply(copy))
				return std::printf("%s failed\n", *file), 1;
			if (!isFirst)
				copy.scale(nullptr, 0, nullptr, nullptr, 1);
		}
}
