#!/usr/bin/env python3
"""fences.py must report each kind of wrong tree, and nothing in a correct one."""
import pathlib
import tempfile
import unittest

from fences import violations


CUDA = {"src/cuda/library.h": "", "src/cuda/driver.h": ""}


class Fences(unittest.TestCase):
    def found(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in {"src/op/op.h": "", "src/base/log.h": "", "src/policy/decide.h": "", **CUDA, **files}.items():
                file = pathlib.Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            return list(violations(folder))

    def wrong(self, path, text):
        self.assertEqual(len(self.found(**{path: text})), 1, f"{path}: {text}")

    def right(self, path, text):
        self.assertEqual(self.found(**{path: text}), [])

    def test_includes(self):
        self.right("src/policy/decide.cpp", '#include "src/policy/decide.h"\n#include "src/op/op.h"\n')
        self.right("tools/autoamp/main.cpp", '#include "src/policy/decide.h"\n')
        self.right("tests/unit/op.cpp", '#include "src/policy/decide.h"\n')
        self.right("src/op/op.cpp", '// #include "src/policy/decide.h"\n#include "generated.h"\n')
        self.wrong("src/op/op.cpp", '#include "src/policy/decide.h"\n')
        self.right("src/op/vendor.cpp", '#include "src/cuda/library.h"\n')
        self.wrong("src/op/vendor.cpp", '#include "src/cuda/driver.h"\n')
        self.wrong("src/base/log.cpp", '#  include "src/op/op.h"\n')
        self.wrong("src/op/gemm.cpp", '#include "../policy/decide.h"\n')
        self.wrong("tools/emulated/device/a.cpp", '#include "src/base/log.h"\n')
        self.wrong("kernels/cast.cu", '#include "src/op/op.h"\n')
        self.wrong("kernels/cast.cuh", '#include "src/op/op.h"\n')
        self.wrong("inject/slots.S", '#include "src/op/op.h"\n')

    def test_cycles(self):
        self.right("src/op/gemm.h", '#include "src/op/op.h"\n')
        a, b, c = ({f"src/op/{name}": f'#include "src/op/{other}"\n'} for name, other in (("a.cpp", "b.h"), ("b.cpp", "c.h"), ("c.h", "a.h")))
        empty = {"src/op/a.h": "", "src/op/b.h": ""}
        self.assertEqual(self.found(**{**empty, "src/op/c.h": "", **a, **b}), [])
        self.assertEqual(self.found(**{**empty, **a, **b, **c}), ["src/op/a, src/op/b, src/op/c: include each other"])
        device = {f"kernels/{name}.cuh": f'#include "kernels/{other}.cuh"\n' for name, other in (("a", "b"), ("b", "a"))}
        self.assertEqual(self.found(**device), ["kernels/a, kernels/b: include each other"])

    def test_vendor_headers(self):
        self.right("src/op/gemm.cpp", "#include <cublas_v2.h>\n")
        self.right("src/cuda/driver.h", "#include <cuda.h>\n")
        self.wrong("src/op/gemm.h", "#include <cublas_v2.h>\n")
        self.wrong("src/policy/cost.cpp", "#include <cublasLt.h>\n")
        self.wrong("src/lower/gemm.cpp", "#include <cuda.h>\n")
        self.wrong("src/trace/file.cpp", "#include <cupti.h>\n")

    def test_lookups_and_environment(self):
        self.right("inject/find.cpp", 'dlsym(RTLD_NEXT, "x"); isSet("AUTOAMP_SCOPE=", "regions");\n')
        self.right("src/lower/gemm.cpp", 'log("dlsym(x) failed"); // getenv("A")\n')
        self.wrong("src/lower/gemm.cpp", 'dlsym(library, "x");\n')
        self.wrong("src/trace/file.cpp", 'std::getenv("HOME");\n')
        self.wrong("inject/find.cpp", 'getenv("AUTOAMP_SCOPE");\n')
        self.wrong("inject/find.cpp", 'valueOf("HOME=");\n')
        self.wrong("inject/find.cpp", 'const char *const name = "AUTOAMP_LOG=";\n')


if __name__ == "__main__":
    unittest.main()
