"""First sitecustomize of a program under `autoamp run --watch-python`.

Installs the import hook, removes its folder from sys.path, and runs the program's own sitecustomize. `_autoamp_watch` stays in
sys.modules. PYTHONPATH also reaches other versions of Python, so this file has only syntax that all of them read. The hook needs
Python 3.8.
"""
import sys

def _run():
    import os
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        if sys.version_info >= (3, 8):
            import _autoamp_watch
            _autoamp_watch.install()
    except Exception:
        pass
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]
    sys.path_importer_cache.pop(folder, None)
    own = sys.modules.pop("sitecustomize")  # keeps the names of this module alive
    if sys.version_info < (3,):
        import imp
        imp.load_module("sitecustomize", *imp.find_module("sitecustomize"))
        return
    from importlib import util
    spec = util.find_spec("sitecustomize")
    if spec is None:
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")  # as without autoamp; site ignores it
    module = util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_run()
