"""Checks that the engine can call the methods of a user's class. `build()` runs these checks, before the first tuple."""

import inspect
from collections.abc import Iterator
from types import FunctionType

from engine.api import Spout
from engine.api.arguments import call_kind, takes

_ENGINES = ("engine.", "spark_bridge.")
_USERS = "engine.user_files."
"""Prefix of the modules of topology files, which are user code."""
_PLAIN = frozenset(("partitions", "partition_of", "caught_up"))
"""Methods of a spout whose results are not awaited. A coroutine would count as True."""


def override_faults(where: str, component: type[object]) -> Iterator[str]:
    """Yield a fault for each method of a component whose parameters differ from those of the overridden method."""
    own = [base for base in component.__mro__ if not _is_engines(base)]
    seen: set[str] = set()
    for name, method in ((name, value) for base in own for name, value in vars(base).items()):
        if name in seen or name.startswith("_"):
            continue
        seen.add(name)
        overridden = _overridden(component, name)
        if overridden is None:
            continue
        function, bound = _function_of(method)
        parameters = "self" + "".join(f", {parameter}" for parameter in overridden)
        called = f"is called with ({', '.join(overridden)}). Write def {name}({parameters})."
        if function is not None and not takes(function, bound + len(overridden)):
            yield f"{where}: {component.__name__}.{name}{_signature(function)} {called}"
        elif method is None:
            yield f"{where}: {component.__name__}.{name} is None, and {called}"
        elif function is not None and name in _PLAIN and issubclass(component, Spout) and call_kind(function).is_async:
            yield f"{where}: {component.__name__}.{name} is async, but the engine does not await it. Write def {name}({parameters})."


def _is_engines(base: type[object]) -> bool:
    return base.__module__.startswith(_ENGINES) and not base.__module__.startswith(_USERS)


def _function_of(method: object) -> tuple[FunctionType | None, int]:
    """Return the function of a method, or None, and the number of arguments that Python binds (`self`)."""
    bound = 0 if isinstance(method, staticmethod) else 1
    function = method.__func__ if isinstance(method, (staticmethod, classmethod)) else method
    return (function if isinstance(function, FunctionType) else None), bound


def _overridden(component: type[object], name: str) -> list[str] | None:
    """Return the required parameters of the engine's method, without self. None if there are no fixed parameters."""
    for base in component.__mro__:
        method = vars(base).get(name)
        if _is_engines(base) and isinstance(method, FunctionType):
            parameters = list(inspect.signature(method).parameters.values())[1:]
            fixed = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
            return [parameter.name for parameter in parameters if parameter.default is parameter.empty] if fixed else None
    return None


def _signature(method: FunctionType) -> str:
    return f"({', '.join(inspect.signature(method, follow_wrapped=False).parameters)})"
