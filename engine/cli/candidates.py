"""Which of the things that a topology file defines is the topology.

Without a name, the first of these kinds that the file has counts, and there must be one of it:

1. a `Topology`, or a builder from which the file has not built one itself,
2. a function called `topology`, or `build_`, `create_`, `make_`, `get_` or `main_topology`,
3. a function that says it returns a `Topology` or a builder.

Only public names count, and a function only if the file itself defines it and it needs no argument; so no helper is
called by surprise. With a name, whatever has it counts: a variable of the file, or else a topology that is so called.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol, TypeGuard

from engine.errors import TopologyFileError
from engine.names import nearest
from engine.topology import Topology, TopologyBuilder

_CONVENTIONAL_NAME: Final = re.compile(r"(?:(?:build|create|make|get|main)_)?topology")
_RETURN_TEXT: Final = re.compile(r"(?:\w+\.)*(?:Transactional)?Topology(?:Builder)?(?: *\| *None)?")


class Builder(Protocol):
    """What makes a topology, by whatever class."""

    def build(self) -> object:
        """Return a topology."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A thing in a topology file that is, builds or returns a topology."""

    name: str
    value: Any
    kind: str

    @property
    def topology_name(self) -> str | None:
        """The name of the topology, where it is known without calling anything."""
        name = None if self.kind == "function" else getattr(self.value, "name", None)
        return name if isinstance(name, str) else None

    def __str__(self) -> str:
        called = f" of {self.topology_name!r}" if self.kind == "builder" else f" {self.topology_name!r}"
        return f"{self.name} ({self.kind}{called if self.topology_name else ''})"


def choose(module: ModuleType, path: Path, name: str | None) -> Candidate:
    """Return what the file means by this name, or without a name; raises `TopologyFileError` when nothing or several do."""
    if name is not None:
        return _by_name(module, path, name)
    for tier in _tiers(module):
        if len(tier) > 1:
            listed = "".join(f"\n  - {candidate}" for candidate in tier)
            hint = f"Name one of them, such as {path}:{tier[0].name}"
            raise TopologyFileError(f"{path} holds {len(tier)} topologies, and none is named:{listed}", hint=hint)
        if tier:
            return tier[0]
    raise TopologyFileError(f"{path} holds no topology.{_near_misses(module)}", hint="Put `topology = builder.build()` into the file.")


def is_builder(value: object) -> TypeGuard[Builder]:
    """Tell whether a value is an object with a method `build()`, as every topology builder is."""
    return callable(getattr(type(value), "build", None))  # by its type: a value may answer to any name, as a mock does


def _by_name(module: ModuleType, path: Path, name: str) -> Candidate:
    if name in vars(module):
        return _named(module, path, name)
    named = [candidate for candidate in _instances(module) if candidate.topology_name == name]
    if len(named) == 1:
        return named[0]
    if named:
        variables = " or ".join(candidate.name for candidate in named)
        raise TopologyFileError(f"{path} holds {len(named)} topologies called {name!r}", hint=f"Name the variable: {variables}.")
    candidates = [candidate for tier in _tiers(module) for candidate in tier]
    known = {candidate.name for candidate in candidates} | {candidate.topology_name for candidate in candidates} - {None}
    near = nearest(name, [*(text for text in known if text), *_own_functions(module)])
    hint = f"Did you mean {path}:{near}?" if near else f"It holds {', '.join(map(str, candidates)) or 'no topology at all'}."
    raise TopologyFileError(f"{path} holds no topology called {name!r}", hint=hint)


def _named(module: ModuleType, path: Path, name: str) -> Candidate:
    """Return the variable of this name, if a topology can come from it."""
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
        hint = "Give each a default value, or name a function that needs none."
        raise TopologyFileError(f"{path}:{name} is a function that needs arguments ({', '.join(needed)})", hint=hint)
    return Candidate(name, value, "function")


def _tiers(module: ModuleType) -> list[list[Candidate]]:
    """Return the candidates by kind, what counts first standing first."""
    functions = [Candidate(name, value, "function") for name, value in _own_functions(module).items() if not _needed_arguments(value)]
    conventional = [candidate for candidate in functions if _CONVENTIONAL_NAME.fullmatch(candidate.name)]
    declared = [candidate for candidate in functions if candidate not in conventional and _says_topology(candidate.value)]
    return [_instances(module), conventional, declared]


def _instances(module: ModuleType) -> list[Candidate]:
    """Return the topologies of a file, each once whatever it is called, and the builders that it has not used."""
    topologies: dict[int, Candidate] = {}
    builders: dict[int, Candidate] = {}
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, Topology):
            topologies.setdefault(id(value), Candidate(name, value, "topology"))
        elif is_builder(value) and (isinstance(value, TopologyBuilder) or _says_topology(value.build)):
            builders.setdefault(id(value), Candidate(name, value, "builder"))
    built = {candidate.topology_name for candidate in topologies.values()}
    return [*topologies.values(), *(builder for builder in builders.values() if builder.topology_name not in built)]


def _own_functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the public functions that the file itself defines, generators excepted."""
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
    """Return the parameters without which a function cannot be called."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in without a signature
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.default is parameter.empty and parameter.kind not in optional]


def _says_topology(function: Callable[..., Any]) -> bool:
    """Tell whether the return annotation of a function is a topology or a builder; a list or a callable of them is not."""
    annotation = getattr(function, "__annotations__", {}).get("return")
    if inspect.isclass(annotation):
        return issubclass(annotation, Topology | TopologyBuilder) or _RETURN_TEXT.fullmatch(annotation.__name__) is not None
    return _RETURN_TEXT.fullmatch(str(annotation).strip(" \"'")) is not None


def _near_misses(module: ModuleType) -> str:
    """Return a sentence for each thing in a file that is nearly a topology, empty when there is none."""
    found = []
    for name, function in _own_functions(module).items():
        needed = _needed_arguments(function)
        if needed and (_CONVENTIONAL_NAME.fullmatch(name) or _says_topology(function)):
            found.append(f"{name}() would count if it needed no arguments ({', '.join(needed)}).")
        elif not needed and "topolog" in name.casefold():
            found.append(f"{name}() would count if it said `-> Topology`.")
    for name, value in vars(module).items():
        if name.startswith("_"):
            if isinstance(value, Topology) or (inspect.isfunction(value) and _says_topology(value)):
                found.append(f"{name} would count under a public name.")
        elif inspect.isclass(value) and value.__module__ == module.__name__ and issubclass(value, TopologyBuilder):
            found.append(f"{name} is a class: make an instance of it.")
    return "".join(f" {sentence}" for sentence in found)
