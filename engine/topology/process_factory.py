"""Bolts with `processes=True`: what can run in a process, and how a component is pickled (PR-1)."""

import importlib
import io
import operator
import os
import pickle
import socket
import sys
from dataclasses import replace
from types import FunctionType
from typing import Any

from engine.api import BoltFunction, Global, Reply
from engine.errors import EngineBug
from engine.raised import headline
from engine.topology.spec import ComponentSpec


def process_faults(where: str, declared: object, factory: object) -> list[str]:
    """Return the faults of a bolt with `processes=True`."""
    if not (hasattr(os, "fork") and hasattr(socket, "send_fds")):
        return [f"{where}: this system cannot start the processes of processes=True. Remove it, or use Linux or macOS."]
    bolt_class = declared if isinstance(declared, type) else type(declared)
    if issubclass(bolt_class, Reply):
        return [f"{where}: a Reply answers senders of this process, so it cannot run in another one. Remove processes=True."]
    try:
        dumps_factory(factory)
    except Exception as error:  # noqa: BLE001 - code of the user's objects; it becomes a fault
        return [
            f"{where}: with processes=True its factory must be picklable, but {headline(error)}. Pass a class of a module, the result of "
            "@bolt in a module, or functools.partial(Name, ...)."
        ]
    return []


def without_user_code(spec: ComponentSpec) -> ComponentSpec:
    """Return a component without its factory, its groupings and its handlers, so that it can be pickled."""
    subscriptions = tuple(replace(each, grouping=Global()) for each in spec.subscriptions)
    return replace(
        spec,
        factory=NO_FACTORY,
        streams=dict(spec.streams),
        subscriptions=subscriptions,
        control_handler=None,
        source_handler=None,
        keeps_state=False,
    )


class NoFactory:
    """Factory of a component that another process runs."""

    def create(self) -> Any:
        """Raise an error, because no other process has this component."""
        raise EngineBug("a child process was asked for an instance of another component")


NO_FACTORY = NoFactory()


def dumps_factory(value: object) -> bytes:
    """Pickle a value that has a user's factory. The result of `@bolt` is pickled as the name of its variable."""
    written = io.BytesIO()
    _FactoryPickler(written, 5).dump(value)
    return written.getvalue()


def main_module() -> dict[str, str]:
    """Return how a new process imports the program, as arguments of `multiprocessing.spawn.prepare`.

    Empty if it cannot: the program has no file, or it is the `__main__` of a package or of a folder, which has no guard.
    """
    main = sys.modules["__main__"]
    name = getattr(getattr(main, "__spec__", None), "name", None)
    if name is not None:
        return {} if name.rpartition(".")[2] == "__main__" else {"init_main_from_name": name}
    path = getattr(main, "__file__", None)  # of a script that is read from standard input, it is <stdin>
    if path is None or not os.path.isfile(path) or os.path.basename(path) == "ipython":
        return {}
    return {"init_main_from_path": os.path.abspath(path)}


class _FactoryPickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType)) and value.__module__ == "__main__" and not main_module():
            raise pickle.PicklingError(
                f"{value.__qualname__} is defined in __main__, which a new process cannot import. It imports files only, and this program "
                "comes from standard input, -c, a notebook or a __main__.py. Move it into a file of its own, and import it"
            )
        if not isinstance(value, BoltFunction):
            return NotImplemented
        module, name = value.function.__module__, value.function.__qualname__
        try:
            found = imported(module, name)
        except (ImportError, AttributeError):
            found = None
        if found is not value:
            raise pickle.PicklingError(f"{value!r} is not the variable {name} of the module {module}")
        return imported, (module, name)


def imported(module: str, name: str) -> Any:
    """Return the object with this qualified name in a module."""
    return operator.attrgetter(name)(importlib.import_module(module))
