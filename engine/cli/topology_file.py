"""Loads the topology that `path.py[:name]` names.

Without a name, the first of these kinds that occurs in the file is used. The file must contain exactly one object of this kind:

1. a `Topology`, or a builder whose topology is not in the file,
2. a function called `topology`, `build_topology`, `create_topology`, `make_topology`, `get_topology` or `main_topology`,
3. a function whose return annotation is a `Topology` or a builder.

Only public names count. A function counts only if the file itself defines it and it needs no arguments. So no helper is called by accident.
NAME is a variable of the file, or else the name of a topology.

Problems with the file raise `TopologyFileError`. An invalid topology or config raises its own error.
"""

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol, TypeGuard, cast

from engine.cli.console.output import restore_streams
from engine.cli.console.user_file import UserFile, split_spec
from engine.config import Config
from engine.errors import ConfigError, TopologyError, TopologyFileError
from engine.maybe_await import maybe_await
from engine.names import nearest
from engine.topology import ComponentSpec, Topology, TopologyBuilder

_CONVENTIONAL_NAME: Final = re.compile(r"(?:(?:build|create|make|get|main)_)?topology")
_RETURN_TEXT: Final = re.compile(r"(?:\w+\.)*(?:Transactional)?Topology(?:Builder)?(?: *\| *None)?")

MOST_NAMED: Final = 3
"""Functions that a hint names."""


class Builder(Protocol):
    """Object of any class that builds a topology."""

    def build(self) -> object:
        """Return a topology."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Object of a topology file that is, builds or returns a topology."""

    name: str
    value: Any
    kind: str

    @property
    def topology_name(self) -> str | None:
        """The name of the topology if it is known without a call."""
        name = None if self.kind == "function" else getattr(self.value, "name", None)
        return name if isinstance(name, str) else None

    def __str__(self) -> str:
        called = f" of {self.topology_name!r}" if self.kind == "builder" else f" {self.topology_name!r}"
        return f"{self.name} ({self.kind}{called if self.topology_name else ''})"


@dataclass(frozen=True, slots=True)
class LoadedTopology:
    """Topology with its file and its settings.

    `config` is the config of the topology, else the variable `config` of the file if it is a `Config` or a mapping.
    """

    topology: Topology
    path: Path
    config: Config | Mapping[str, object] | None


def load_topology(spec: str) -> LoadedTopology:
    """Load the topology of `path.py` or `path.py:name`. No event loop may run in this thread."""
    path, name = split_spec(spec, TopologyFileError)
    file = UserFile(path, "topology", TopologyFileError)
    try:
        module = file.load()
        topology = _topology_of(_chosen(module, file, name), file)
    finally:
        restore_streams()
    return LoadedTopology(topology, path, topology.config if topology.config is not None else _config_of(module))


def _chosen(module: ModuleType, file: UserFile, name: str | None) -> Candidate:
    """Return the chosen candidate. Objects of the file may have any type, and any access to them may raise."""
    try:
        return choose(module, file.path, name)
    except (KeyboardInterrupt, TopologyFileError):
        raise
    except BaseException as error:
        raise file.user_code_error(
            error, "during the search for its topology", "Correct the file, or name the topology: FILE:NAME."
        ) from error


def _topology_of(candidate: Candidate, file: UserFile) -> Topology:
    place = f"{file.path}:{candidate.name}"
    if isinstance(candidate.value, Topology):
        return _sound(candidate.value, place)
    try:
        value = _called(candidate.value) if candidate.kind == "function" else candidate.value
        if is_builder(value):
            value = value.build()
    except (TopologyError, ConfigError) as error:
        file.add_location(error)
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise file.user_code_error(
            error, f"in {candidate.name}", "Correct it. The last line of the file in the traceback shows the place."
        ) from error
    if isinstance(value, Topology):
        return _sound(value, place)
    verb = "return" if candidate.kind == "function" else "build"
    raise TopologyFileError(f"{place} {verb}s {_kind_of(value)}, not a topology", hint=f"It must {verb} a Topology: `builder.build()`.")


def _sound(topology: Topology, place: str) -> Topology:
    """Return a topology that a builder made. Raise TopologyFileError for a Topology made by hand from wrong parts."""
    name, components = cast(object, topology.name), cast(object, topology.components)
    specs = components.values() if isinstance(components, Mapping) else (None,)
    if not isinstance(name, str) or not all(isinstance(spec, ComponentSpec) for spec in specs):
        raise TopologyFileError(f"{place} is a Topology that was not made by a builder", hint="Build it with TopologyBuilder(...).build().")
    return topology


def _called(function: Any) -> object:
    """Call a function and return its result. An awaitable result is awaited in a new event loop."""
    value = function()
    return asyncio.run(maybe_await(value)) if inspect.isawaitable(value) else value


def _kind_of(value: object) -> str:
    if value is None:
        return "None"
    return f"the class {value.__name__}" if inspect.isclass(value) else f"a value of type {type(value).__name__}"


def _config_of(module: ModuleType) -> Config | Mapping[str, object] | None:
    """Return the variable `config` of the file. None if it is something else, such as a module."""
    config = vars(module).get("config")
    return config if isinstance(config, Config | Mapping) else None


def choose(module: ModuleType, path: Path, name: str | None) -> Candidate:
    """Return the candidate of this name, or the only one. Raise `TopologyFileError` if there is none, or several."""
    if name is not None:
        return _by_name(module, path, name)
    for tier in _tiers(module):
        if len(tier) > 1:
            listed = "".join(f"\n  - {candidate}" for candidate in tier)
            hint = f"Name one of them, for example {path}:{tier[0].name}"
            raise TopologyFileError(f"{path} contains {len(tier)} topologies:{listed}", hint=hint)
        if tier:
            return tier[0]
    raise TopologyFileError(f"{path} contains no topology.{_near_misses(module)}", hint=_hint_without_topology(module, path))


def _hint_without_topology(module: ModuleType, path: Path) -> str:
    """Return how to give a file a topology, or how to name the function that may return it."""
    names = [f"{path}:{name}" for name, function in _own_functions(module).items() if not _needed_arguments(function)]
    own = "Add `topology = builder.build()` to the file."
    return f"{own} If a function returns the topology, name it: {' or '.join(names[:MOST_NAMED])}." if names else own


def is_builder(value: object) -> TypeGuard[Builder]:
    """Tell whether a value has a method `build()`, as every topology builder does."""
    return callable(getattr(type(value), "build", None))  # ask the type, because a mock has an attribute of any name


def _by_name(module: ModuleType, path: Path, name: str) -> Candidate:
    if name in vars(module):
        return _named(module, path, name)
    named = [candidate for candidate in _instances(module) if candidate.topology_name == name]
    if len(named) == 1:
        return named[0]
    if named:
        variables = " or ".join(candidate.name for candidate in named)
        raise TopologyFileError(f"{path} contains {len(named)} topologies called {name!r}", hint=f"Name the variable: {variables}.")
    candidates = [candidate for tier in _tiers(module) for candidate in tier]
    known = {candidate.name for candidate in candidates} | {candidate.topology_name for candidate in candidates} - {None}
    near = nearest(name, [*(text for text in known if text), *_own_functions(module)])
    hint = f"Did you mean {path}:{near}?" if near else f"The file contains {', '.join(map(str, candidates)) or 'no topology'}."
    raise TopologyFileError(f"{path} contains no topology called {name!r}", hint=hint)


def _named(module: ModuleType, path: Path, name: str) -> Candidate:
    """Return the variable of this name if it can yield a topology."""
    value = vars(module)[name]
    if isinstance(value, Topology):
        return Candidate(name, value, "topology")
    if is_builder(value):
        return Candidate(name, value, "builder")
    if not inspect.isroutine(value):
        what = f"the class {value.__name__}" if inspect.isclass(value) else f"of type {type(value).__name__}"
        raise TopologyFileError(
            f"{path}:{name} is {what}, not a topology", hint="Name a topology, a builder or a function that returns one."
        )
    needed = _needed_arguments(value)
    if needed:
        hint = "Give each argument a default value, or name a function without arguments."
        raise TopologyFileError(f"{path}:{name} is a function that needs arguments ({', '.join(needed)})", hint=hint)
    return Candidate(name, value, "function")


def _tiers(module: ModuleType) -> list[list[Candidate]]:
    """Return the candidates by kind, in the order of precedence."""
    functions = [Candidate(name, value, "function") for name, value in _own_functions(module).items() if not _needed_arguments(value)]
    conventional = [candidate for candidate in functions if _CONVENTIONAL_NAME.fullmatch(candidate.name)]
    declared = [candidate for candidate in functions if candidate not in conventional and _returns_topology(candidate.value)]
    return [_instances(module), conventional, declared]


def _instances(module: ModuleType) -> list[Candidate]:
    """Return the topologies of a file, each once, and the builders whose topologies are not in the file."""
    topologies: dict[int, Candidate] = {}
    builders: dict[int, Candidate] = {}
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, Topology):
            topologies.setdefault(id(value), Candidate(name, value, "topology"))
        elif is_builder(value) and (isinstance(value, TopologyBuilder) or _returns_topology(value.build)):
            builders.setdefault(id(value), Candidate(name, value, "builder"))
    built = {candidate.topology_name for candidate in topologies.values()}
    return [*topologies.values(), *(builder for builder in builders.values() if builder.topology_name not in built)]


def _own_functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the public functions that the file itself defines, without generators."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and not inspect.isgeneratorfunction(value)
        and not inspect.isasyncgenfunction(value)
    }


def _needed_arguments(function: Callable[..., Any]) -> list[str]:
    """Return the required parameters of a function."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in without a signature
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty and parameter.kind not in optional]


def _returns_topology(function: Callable[..., Any]) -> bool:
    """Tell whether the return annotation is a topology or a builder. A list of topologies, or a callable for one, does not count."""
    annotation = getattr(function, "__annotations__", {}).get("return")
    if inspect.isclass(annotation):
        return issubclass(annotation, Topology | TopologyBuilder) or _RETURN_TEXT.fullmatch(annotation.__name__) is not None
    return _RETURN_TEXT.fullmatch(str(annotation).strip(" \"'")) is not None


def _near_misses(module: ModuleType) -> str:
    """Return a sentence for each object of a file that is almost a candidate."""
    found = []
    for name, function in _own_functions(module).items():
        needed = _needed_arguments(function)
        if needed and (_CONVENTIONAL_NAME.fullmatch(name) or _returns_topology(function)):
            found.append(f"{name}() would count if it needed no arguments ({', '.join(needed)}).")
        elif not needed and "topolog" in name.casefold():
            found.append(f"{name}() would count with the annotation `-> Topology`.")
    for name, value in vars(module).items():
        if name.startswith("_"):
            if isinstance(value, Topology) or (inspect.isfunction(value) and _returns_topology(value)):
                found.append(f"{name} would count with a public name.")
        elif inspect.isclass(value) and value.__module__ == module.__name__ and issubclass(value, TopologyBuilder):
            found.append(f"{name} is a class: create an instance of it.")
    return "".join(f" {sentence}" for sentence in found)
