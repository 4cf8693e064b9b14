"""The cuBLAS stubs inside JAX's plug-in. XLA calls them; each opens cuBLAS and looks its function up at the first call."""
import ctypes
import importlib.util
import os
import pathlib

import addresses

folder = importlib.util.find_spec("jax_plugins.xla_cuda13").submodule_search_locations[0]
plugin = pathlib.Path(folder).resolve() / "xla_cuda_plugin.so"
ctypes.CDLL(str(plugin), os.RTLD_NOW | os.RTLD_LOCAL)
caller = addresses.Caller(addresses.local_functions(plugin))
caller.products()
caller.matmul()
