"""From `path.py[:name]` to a topology.

The file is imported as a script is: with its own folder importable, and without being `__main__`. Whatever goes wrong is
a `TopologyFileError` that names the file and the fix, except that a topology or a config that is wrong in itself says so
with its own error.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from engine.cli.candidates import Candidate, choose, is_builder
from engine.cli.output import restore
from engine.cli.user_file import UserFile, split_spec
from engine.config import Config
from engine.errors import ConfigError, TopologyError, TopologyFileError
from engine.topology import ComponentSpec, Topology


@dataclass(frozen=True, slots=True)
class LoadedTopology:
    """A topology, the file that it came from, and the settings that came with it.

    `config` is the topology's own, else what the file calls `config`, if that is a `Config` or a mapping.
    """

    topology: Topology
    path: Path
    config: Config | Mapping[str, object] | None


def load_topology(spec: str) -> LoadedTopology:
    """Return the topology that `path.py`, or `path.py:name`, means; call it while no event loop runs in this thread."""
    path, name = split_spec(spec, TopologyFileError)
    file = UserFile(path, "topology", TopologyFileError)
    try:
        module = file.load()
        topology = _topology_of(_chosen(module, file, name), file)
    finally:
        restore()
    return LoadedTopology(topology, path, topology.config if topology.config is not None else _config_of(module))


def _chosen(module: ModuleType, file: UserFile, name: str | None) -> Candidate:
    """Return the candidate; what stands in the file may be of any kind, and raise wherever it is looked at."""
    try:
        return choose(module, file.path, name)
    except (KeyboardInterrupt, TopologyFileError):
        raise
    except BaseException as error:
        raise file.raised(error, "while its topology was looked for", "Correct the file, or name the topology: FILE:NAME.") from error


def _topology_of(candidate: Candidate, file: UserFile) -> Topology:
    place = f"{file.path}:{candidate.name}"
    if isinstance(candidate.value, Topology):
        return _sound(candidate.value, place)
    try:
        value = _called(candidate.value) if candidate.kind == "function" else candidate.value
        if is_builder(value):
            value = value.build()
    except (TopologyError, ConfigError) as error:
        file.add_place(error)
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise file.raised(error, f"in {candidate.name}", "Correct it; the last line in the file above is where to look.") from error
    if isinstance(value, Topology):
        return _sound(value, place)
    does = "returns" if candidate.kind == "function" else "builds"
    raise TopologyFileError(f"{place} {does} {_kind_of(value)}, not a topology", hint=f"Let it {does[:-1]} `builder.build()`.")


def _sound(topology: Topology, place: str) -> Topology:
    """Return a topology that a builder made; raise TopologyFileError for one that is put together by hand of something else."""
    name, components = cast(object, topology.name), cast(object, topology.components)
    specs = components.values() if isinstance(components, Mapping) else (None,)
    if not isinstance(name, str) or not all(isinstance(spec, ComponentSpec) for spec in specs):
        raise TopologyFileError(f"{place} is a Topology that no builder made", hint="Build it with TopologyBuilder(...).build().")
    return topology


def _called(function: Any) -> object:
    """Return what a function returns; what it returns to be awaited is awaited in a loop of its own."""
    value = function()
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Awaitable[object]) -> object:
    return await value


def _kind_of(value: object) -> str:
    if value is None:
        return "None"
    return f"the class {value.__name__}" if inspect.isclass(value) else f"a value of type {type(value).__name__}"


def _config_of(module: ModuleType) -> Config | Mapping[str, object] | None:
    """Return what the file calls `config`, unless it is something else, such as a module."""
    config = vars(module).get("config")
    return config if isinstance(config, Config | Mapping) else None
