"""Factories of components, which check the argument of `set_spout` or `set_bolt`, and make one instance for each task."""

import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from engine.api.arguments import function_name, missing_arguments, takes
from engine.api.bolt import BoltBase
from engine.api.grouping import Custom
from engine.api.spout import Spout
from engine.errors import UsageError, with_hint
from engine.raised import raised_text
from engine.topology.spec import ComponentSpec, Kind, Topology

Component: TypeAlias = Spout | BoltBase
_FIX_FACTORY: Final = "Fix the factory. Open files and sockets in open() or prepare() instead."
_BASES: dict[Kind, type[Any]] = {"spout": Spout, "bolt": BoltBase}


class FactoryFault(Exception):
    """Fault of a factory, with its fix. The text follows `bolt 'count': ` in the error."""


class Factory:
    """Makes the instances of one component, one for each call of the user's factory.

    If `declared()` made an instance, the first `create()` returns it.
    """

    __slots__ = ("_component_id", "_first", "_given", "_kind", "_latest", "_make", "_where")

    def __init__(self, kind: Kind, component_id: str, given: object) -> None:
        """Check the argument of the user. Raise FactoryFault if it cannot be a factory."""
        self._kind = kind
        self._component_id = component_id
        self._where = f"{kind} {component_id!r}"
        self._given = given
        self._make = _callable_of(kind, given)
        self._first: Component | None = None
        self._latest: weakref.ref[Component] | None = None

    def declared(self) -> type[Component] | Component:
        """Return the object whose attributes declare streams and settings. Raise FactoryFault if the factory fails.

        If the factory is a class with `output_fields`, or without an `__init__`, return that class. Otherwise return an instance.
        """
        if isinstance(self._given, type) and _says_all(self._given):
            return self._given
        if self._first is None:
            try:
                self._first = self._checked(self._make())
            except FactoryFault:
                raise
            except UsageError as error:
                raise FactoryFault(with_hint(error.message, error.hint)) from error
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                raise FactoryFault(_raised(error)) from error
        return self._first

    def create(self) -> Component:
        """Return a new instance. Raise any exception of the user's factory, and UsageError for a wrong result."""
        first, self._first = self._first, None
        if first is not None:
            return first
        try:
            return self._checked(self._make())
        except FactoryFault as fault:
            raise UsageError(f"{self._where}: {fault}") from None

    def _checked(self, made: object) -> Component:
        instance: Component = made if isinstance(made, _BASES[self._kind]) else self._created(made)
        if self._latest is not None and self._latest() is instance:
            name = type(instance).__name__
            raise FactoryFault(f"its factory returned the same {name} twice. Each task needs its own, so create it in the factory.")
        self._latest = weakref.ref(instance)
        return instance

    def _created(self, made: object) -> Component:
        """Return the instance. If the factory returned an object with `create()`, such as a `@bolt` function, call it."""
        create = None if isinstance(made, (type, Spout, BoltBase)) else getattr(made, "create", None)
        instance = create() if callable(create) else made
        if not isinstance(instance, _BASES[self._kind]):
            raise FactoryFault(_wrong_result(self._kind, instance))
        return instance  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the argument of the user. An instance that `declared` made stays here."""
        return Factory, (self._kind, self._component_id, self._given)

    def __repr__(self) -> str:
        return f"<factory of {self._where}: {_name(self._given)}>"


def _says_all(component_class: type[Any]) -> bool:
    """Tell whether the streams can be read from the class, without an instance."""
    output_fields = component_class.output_fields
    if inspect.isdatadescriptor(output_fields):
        return False
    return output_fields is not None or "__init__" not in {name for base in component_class.__mro__[:-1] for name in vars(base)}


def _callable_of(kind: Kind, given: object) -> Callable[[], object]:
    """Return the argument of the user as a callable without arguments. Raise FactoryFault if it is not one."""
    if isinstance(given, type):
        return _class_factory(kind, given)
    if isinstance(given, (Spout, BoltBase)):
        name = type(given).__name__
        raise FactoryFault(
            f"its factory is an instance of {name}, but each task needs its own. Pass {name} itself, or lambda: {name}(...)."
        )
    create = getattr(given, "create", None)
    if callable(create):
        return create  # type: ignore[no-any-return]
    if kind == "spout" and hasattr(given, "coordinator") and hasattr(given, "emitter"):
        raise FactoryFault(f"its factory is {type(given).__name__}, a source of batches. Build it with TransactionalTopologyBuilder.")
    if not callable(given):
        raise FactoryFault(f"its factory is {given!r} ({type(given).__name__}), which is not callable. Pass a class, or lambda: Name(...).")
    missing = missing_arguments(given)
    if missing:
        name = function_name(given)
        raise FactoryFault(
            f"its factory {name}() needs arguments: {', '.join(missing)}. Pass lambda: {name}(...). "
            f'If {name}() is the function of the {kind}, write @{kind}("field", ...) above it.'
        )
    return given


def _class_factory(kind: Kind, given: type[Any]) -> Callable[[], object]:
    base = _BASES[kind]
    if not issubclass(given, base):
        other: Kind = "bolt" if kind == "spout" else "spout"
        if issubclass(given, _BASES[other]):
            raise FactoryFault(f"{given.__name__} is a {other}. Use set_{other}().")
        raise FactoryFault(f"class {given.__name__} is not a {kind}. Derive it from {_base_names(kind)}.")
    abstract = sorted(getattr(given, "__abstractmethods__", ()))
    if abstract:
        missing_methods = " and no ".join(f"{name}()" for name in abstract)
        raise FactoryFault(f"{given.__name__} has no {missing_methods}. Define {'it' if len(abstract) == 1 else 'them'}.")
    missing = missing_arguments(given)
    if missing:
        name = given.__name__
        raise FactoryFault(f"{name}() needs arguments: {', '.join(missing)}. Pass lambda: {name}({', '.join(missing)}), with values.")
    return given


def _base_names(kind: Kind) -> str:
    return "Spout" if kind == "spout" else "Bolt or BasicBolt"


def _wrong_result(kind: Kind, result: object) -> str:
    if inspect.iscoroutine(result):
        result.close()
        return "its factory is async. Make it a plain function, and await in open() or prepare()."
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        return f'its factory returned a generator. Write @{kind}("field", ...) above its function.'
    if isinstance(result, type):
        return f"its factory returned the class {result.__name__}, not an instance. Pass {result.__name__} itself."
    if isinstance(result, (Spout, BoltBase)):
        other = "bolt" if kind == "spout" else "spout"
        return f"its factory returned {type(result).__name__}, a {other}. Use set_{other}()."
    shown = "None" if result is None else f"{result!r} ({type(result).__name__})"
    return f"its factory returned {shown}, not a {kind}. Return a new {_base_names(kind)} at each call."


def read_attribute(declared: object, name: str) -> object:
    """Return an attribute of a component, None if it has none. Raise FactoryFault if a property raises."""
    try:
        return getattr(declared, name) if hasattr(type(declared), name) else getattr(declared, name, None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise FactoryFault(f"its {name} raised {raised_text(error)}. Make the property return a value.") from error


def _raised(error: BaseException) -> str:
    is_abstract = isinstance(error, TypeError) and str(error).startswith("Can't instantiate abstract class")
    return f"its factory raised {raised_text(error)}. {'Define it.' if is_abstract else _FIX_FACTORY}"


def _name(given: object) -> str:
    return given.__name__ if isinstance(given, type) else function_name(given) if callable(given) else repr(given)


_GROUPINGS: Final = {"prepare": ("context", "stream", "targets"), "choose_tasks": ("source_task", "values")}
"""Methods of a custom grouping, with their parameters."""


def trial_faults(topology: Topology) -> list[str]:
    """Create and drop the instances of a topology, and return the faults. Opens nothing. The command `check` calls this."""
    faults: list[str] = []
    for spec in topology.components.values():
        if not spec.is_replaced:
            faults.extend(_instance_faults(spec))
        for subscription in spec.subscriptions:
            if isinstance(subscription.grouping, Custom):
                faults.extend(_grouping_faults(spec, subscription.source, subscription.grouping))
    for feature in topology.features:
        faults.extend(feature.trial_faults(topology))
    return faults


def _instance_faults(spec: ComponentSpec) -> Iterator[str]:
    """Create one instance, or two if there are several tasks, because two tasks must not share an instance."""
    where = f"{spec.kind} {spec.component_id!r}"
    made: list[object] = []
    try:
        made.extend(spec.factory.create() for _ in range(min(spec.parallelism, 2)))
    except UsageError as error:
        text = with_hint(error.message, error.hint)
        yield text if text.startswith(where) else f"{where}: {text}"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - an error of user code; it becomes a fault
        yield f"{where}: {_raised(error)}"


def _grouping_faults(spec: ComponentSpec, source: str, grouping: Custom) -> Iterator[str]:
    where = f"bolt {spec.component_id!r}: the custom_grouping() of {source!r}"
    try:
        made = grouping.create()
        missing = [name for name in _GROUPINGS if not callable(getattr(made, name, None))]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - an error of user code; it becomes a fault
        yield f"{where} raised {raised_text(error)}. Fix the class, the callable, or the deep copy."
        return
    if missing:
        yield f"{where} made a {type(made).__name__}, which has no {'() and no '.join(missing)}(). Define the missing methods."
    for name, parameters in _GROUPINGS.items():
        if name not in missing and not takes(getattr(made, name), len(parameters)):
            given = ", ".join(parameters)
            yield f"{where}: {type(made).__name__}.{name}() is called with ({given}). Write def {name}(self, {given})."
