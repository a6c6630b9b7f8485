"""Pickles functions and values for the other process, with pyspark's cloudpickle.

Loads only the file of cloudpickle, because an import of the package pyspark takes too long for the engine's process.
"""

import functools
import importlib
import importlib.util
import os
import sys
import threading
from types import ModuleType
from typing import Any, Final

_MODULE_NAME: Final = "spark_bridge.process.cloudpickle_of_pyspark"
"""Name of the loaded module in both processes. Pickled functions refer to it, so it must be the same in both."""
_USER_FILES: Final = "engine.user_files"
"""The module that knows the modules of topology files. Spark's process may have another `sys.path`, so it may not find such a file."""
_LOADING: Final = threading.Lock()


def dumps(value: object) -> bytes:
    """Return a value as bytes. Code that the other process cannot import (`__main__`, run files, lambdas) is pickled by value."""
    cloudpickle = _cloudpickle()
    for module in list(sys.modules.values()):
        if _needs_registration(module):
            cloudpickle.register_pickle_by_value(module)
    pickled: bytes = cloudpickle.dumps(value)
    return pickled


def loads(pickled: bytes) -> Any:
    """Return the value that `dumps` pickled."""
    return _cloudpickle().loads(pickled)


def _cloudpickle() -> Any:
    """Return the only instance of the module. A second one, loaded by another thread, could not pickle objects of the first."""
    with _LOADING:
        return sys.modules.get(_MODULE_NAME) or _load()


def _load() -> ModuleType:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    path = os.path.join(os.path.dirname(spec.origin), "cloudpickle", "cloudpickle.py")
    if not os.path.exists(path):  # the Python workers of Spark have pyspark in a zip, and have loaded it
        loaded = sys.modules[_MODULE_NAME] = importlib.import_module("pyspark.cloudpickle.cloudpickle")
        return loaded
    own_spec = importlib.util.spec_from_file_location(_MODULE_NAME, path)
    if own_spec is None or own_spec.loader is None:
        raise ModuleNotFoundError(f"pyspark has no file {path}", name="pyspark.cloudpickle")
    module = sys.modules[_MODULE_NAME] = importlib.util.module_from_spec(own_spec)
    try:
        own_spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_MODULE_NAME]
        raise
    return module


def is_sent_by_value(module: ModuleType) -> bool:
    """Tell whether `dumps` sends the classes and functions of a module by value. Examples are `__main__` and a topology file."""
    return getattr(module, "__name__", None) == "__main__" or _needs_registration(module)


def _needs_registration(module: ModuleType | None) -> bool:
    """Tell whether an import by name cannot find the file of a module. cloudpickle knows this only of `__main__`."""
    spec = getattr(module, "__spec__", None)
    if spec is None or not spec.has_location or sys.modules.get(spec.name) is not module:
        return False
    user_files = getattr(sys.modules.get(_USER_FILES), "LOADED", ())
    return spec.name in user_files or ("." not in spec.name and not _is_importable(spec.name))


@functools.lru_cache(maxsize=4096)
def _is_importable(name: str) -> bool:
    return any(finder.find_spec(name, None) is not None for finder in sys.meta_path)
