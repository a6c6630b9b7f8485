"""How functions and values travel: by the cloudpickle of pyspark, loaded by itself, since pyspark is too heavy for the engine."""

import functools
import importlib.util
import os
import sys
import threading
from types import ModuleType
from typing import Any, Final

_NAME: Final = "spark_bridge.session.cloudpickle_of_pyspark"
"""The name under which both processes have it: what is pickled says so."""
_LOADING: Final = threading.Lock()


def dumps(value: object) -> bytes:
    """Return a value as bytes. What the other process could not import goes by value: `__main__`, files that were run, lambdas."""
    carrier = _carrier()
    for module in list(sys.modules.values()):
        if _goes_by_value(module):
            carrier.register_pickle_by_value(module)
    packed: bytes = carrier.dumps(value)
    return packed


def loads(packed: bytes) -> Any:
    """Return the value of such bytes."""
    return _carrier().loads(packed)


def _carrier() -> Any:
    """Return the one such module, also where several threads begin at once: of two, neither could send what the other has made."""
    with _LOADING:
        return sys.modules.get(_NAME) or _load()


def _load() -> ModuleType:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    path = os.path.join(os.path.dirname(spec.origin), "cloudpickle", "cloudpickle.py")
    own = importlib.util.spec_from_file_location(_NAME, path)
    if own is None or own.loader is None:
        raise ModuleNotFoundError(f"there is no {path}", name="pyspark.cloudpickle")
    module = sys.modules[_NAME] = importlib.util.module_from_spec(own)
    try:
        own.loader.exec_module(module)
    except BaseException:
        del sys.modules[_NAME]
        raise
    return module


def _goes_by_value(module: ModuleType | None) -> bool:
    """Tell whether a module was made from a file that is not found by its name, as topology files are."""
    spec = getattr(module, "__spec__", None)
    if spec is None or not spec.has_location or "." in spec.name or sys.modules.get(spec.name) is not module:
        return False
    return not _is_found(spec.name)


@functools.lru_cache(maxsize=4096)
def _is_found(name: str) -> bool:
    return any(finder.find_spec(name, None) is not None for finder in sys.meta_path)
