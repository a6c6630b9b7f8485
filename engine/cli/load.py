"""From `path.py[:name]` to a topology.

The file is imported as a script is: with its own folder importable, and without being `__main__`. Whatever goes wrong is
a `TopologyFileError` that names the file and the fix, except that a topology or a config that is wrong in itself says so
with its own error.
"""

import asyncio
import hashlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from engine.cli.candidates import Candidate, choose, is_builder
from engine.cli.paths import why_unreadable
from engine.config import Config
from engine.errors import ConfigError, EngineError, TopologyError, TopologyFileError
from engine.topology import Topology

_SUFFIX: Final = ".py"
_ENGINE_FOLDER: Final = str(Path(__file__).resolve().parents[1]) + os.sep


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
    path, name = split_spec(spec)
    module = _import_file(path)
    candidate = choose(module, path, name)
    topology = _topology_of(candidate, path)
    return LoadedTopology(topology, path, topology.config if topology.config is not None else _config_of(module))


def split_spec(spec: str) -> tuple[Path, str | None]:
    """Return the path and the name of `path.py[:name]`.

    >>> split_spec("flows/words.py:word-count")[1]
    'word-count'
    """
    head, colon, name = spec.rpartition(f"{_SUFFIX}:")
    if not colon:
        return Path(spec), None
    if not name.strip():
        raise TopologyFileError(f"{spec!r} ends in a colon and no name", hint=f"Write {head}{_SUFFIX}, or a name after the colon.")
    return Path(head + _SUFFIX), name.strip()


def _import_file(path: Path) -> ModuleType:
    trouble = why_unreadable(path, _SUFFIX)
    if trouble is not None:
        raise TopologyFileError(trouble[0], hint=trouble[1])
    code = _compile(path)
    module = _new_module(path)
    folder = str(path.resolve().parent)
    added = folder not in sys.path
    if added:
        sys.path.insert(0, folder)
    sys.modules[module.__name__] = module
    try:
        _run(code, module, path)
    except BaseException:
        del sys.modules[module.__name__]
        if added:
            sys.path.remove(folder)
        raise
    return module


def _compile(path: Path) -> Any:
    try:
        return compile(path.read_bytes(), str(path.resolve()), "exec", dont_inherit=True)
    except OSError as error:
        raise TopologyFileError(f"{path} cannot be read: {error.strerror}", hint="Check its permissions.") from error
    except (SyntaxError, ValueError) as error:
        where = f", line {error.lineno}," if isinstance(error, SyntaxError) and error.lineno else ""
        text = "".join(traceback.format_exception_only(error)).rstrip()
        raise TopologyFileError(f"{path}{where} is not valid Python:\n{text}", hint="Correct the file.") from error


def _new_module(path: Path) -> ModuleType:
    """Return an empty module for a file, under a name that is the same in every process, so that what it pickles can be read again.

    Only a second import in the same process gets another name.
    """
    resolved = path.resolve()
    base = name = f"_topology_{path.stem}_{hashlib.blake2b(str(resolved).encode(), digest_size=4).hexdigest()}"
    number = 1
    while name in sys.modules:
        number += 1
        name = f"{base}_{number}"
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None:
        raise TopologyFileError(f"{path} cannot be imported", hint="Give it a name that ends in .py.")
    return importlib.util.module_from_spec(spec)


def _run(code: Any, module: ModuleType, path: Path) -> None:
    try:
        exec(code, vars(module))
    except (TopologyError, ConfigError) as error:
        _add_place(error, path)
        raise
    except ModuleNotFoundError as error:
        missing = (error.name or "the module").partition(".")[0]
        hint = f"Install {missing!r} into this Python ({sys.executable}), or put {missing}.py beside the file."
        raise _raised(error, path, "while it was imported", hint) from error
    except SystemExit as error:
        hint = "Put what the file does as a script under `if __name__ == '__main__':`."
        raise _raised(error, path, "while it was imported", hint) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _raised(error, path, "while it was imported", "Correct the file; the last line in it above is where to look.") from error


def _topology_of(candidate: Candidate, path: Path) -> Topology:
    if isinstance(candidate.value, Topology):
        return candidate.value
    place = f"{path}:{candidate.name}"
    try:
        value = _called(candidate.value) if candidate.kind == "function" else candidate.value
        if is_builder(value):
            value = value.build()
    except (TopologyError, ConfigError) as error:
        _add_place(error, path)
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _raised(error, path, f"in {candidate.name}", "Correct it; the last line in the file above is where to look.") from error
    if isinstance(value, Topology):
        return value
    does = "returns" if candidate.kind == "function" else "builds"
    raise TopologyFileError(f"{place} {does} {_kind_of(value)}, not a topology", hint=f"Let it {does[:-1]} `builder.build()`.")


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
    config = getattr(module, "config", None)
    return config if isinstance(config, Config | Mapping) else None


def _raised(error: BaseException, path: Path, when: str, hint: str) -> TopologyFileError:
    """Return the error for an exception of the user's code, with the user's own frames."""
    trace = traceback.TracebackException(type(error), error, error.__traceback__)
    own = _own_frames(trace.stack, path)
    trace.stack[:] = own or trace.stack
    text = "".join(trace.format()).rstrip()
    if isinstance(error, EngineError) and error.hint:  # its fix becomes ours, instead of standing before another
        text, hint = text.removesuffix(f"\nFix: {error.hint}"), error.hint
    return TopologyFileError(f"{path} raised {type(error).__name__} {when}:\n{text}", hint=hint)


def _own_frames(frames: list[traceback.FrameSummary], path: Path) -> list[traceback.FrameSummary]:
    """Return the frames from the first one in the file on, without those of the engine."""
    file = str(path.resolve())
    start = next((index for index, frame in enumerate(frames) if frame.filename == file), len(frames))
    return [frame for frame in frames[start:] if not frame.filename.startswith(_ENGINE_FOLDER)]


def _add_place(error: EngineError, path: Path) -> None:
    """Note on an error of the engine which line of the file led to it."""
    file = str(path.resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if lines:
        error.add_note(f"raised in {path}, line {lines[-1]}")
