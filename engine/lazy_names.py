"""Imports the public names of a package on first use (PEP 562), so that the package itself is imported quickly."""

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def lazy_names(
    package: str, names: Mapping[str, str], submodules: Collection[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    Call this function in the `else` of `if TYPE_CHECKING:`, which imports the same names. Type checkers then know only these names.

    names: the lazy names by the full name of their module, separated by spaces. No submodule of the package may have the same name,
    because its import would replace the lazy name.

    submodules: modules that become attributes of the package without a separate import.
    """
    module_of = {name: module for module, listed in names.items() for name in listed.split()}

    def import_name(name: str) -> object:
        if name in submodules:
            return import_module(f"{package}.{name}")
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)  # the next use finds the name and does not call this function
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of, *submodules})

    return import_name, list_names
