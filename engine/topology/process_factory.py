"""Bolts with `processes=True`: what can run in a process, and how a component is pickled (PR-1)."""

import importlib
import io
import operator
import pickle
from dataclasses import replace
from typing import Any

from engine.api import BoltFunction, Global, Reply
from engine.errors import EngineBug
from engine.raised import headline
from engine.topology.spec import ComponentSpec


def process_faults(where: str, declared: object, factory: object) -> list[str]:
    """Return the faults of a bolt with `processes=True`."""
    import multiprocessing  # imported here, so that `import engine` stays fast

    if "forkserver" not in multiprocessing.get_all_start_methods():
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
    """Return a component without its factory, its groupings and its handler, so that it can be pickled."""
    subscriptions = tuple(replace(each, grouping=Global()) for each in spec.subscriptions)
    return replace(
        spec, factory=NO_FACTORY, streams=dict(spec.streams), subscriptions=subscriptions, control_handler=None, defers_acks=False
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


class _FactoryPickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
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
