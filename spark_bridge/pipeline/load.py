"""From `path.py[:name]` to a pipeline. What counts in a file is a function with a decorator, or else one that is called `pipeline`."""

import inspect
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from engine.cli.console.user_file import UserFile, split_spec
from engine.names import nearest
from spark_bridge.pipeline.definition import Definition, definition_of, is_marked
from spark_bridge.pipeline.errors import PipelineFileError

CONVENTIONAL: Final = "pipeline"
_HINT: Final = "Put @pipeline above a function from a stream to writers, or @per_batch above one that takes (batch, txid)."


def load_pipeline(spec: str) -> tuple[Definition, ModuleType]:
    """Return the pipeline that `path.py`, or `path.py:name`, means, and the module that it is in; the file is imported."""
    path, name = split_spec(spec, PipelineFileError)
    module = pipeline_file(path).load()
    chosen = _choose(module, path, name)
    return definition_of(vars(module)[chosen], f"{path}:{chosen}"), module


def check_readable(spec: str) -> None:
    """Raise PipelineFileError for a file that is not there or no Python; nothing of it is run."""
    pipeline_file(split_spec(spec, PipelineFileError)[0]).compile()


def pipeline_file(path: Path) -> UserFile:
    """Return a pipeline file as it is imported."""
    return UserFile(path, "pipeline", PipelineFileError)


def _choose(module: ModuleType, path: Path, name: str | None) -> str:
    functions = _own_functions(module)
    if name is not None:
        if name in vars(module):
            return name
        near = nearest(name, functions)
        hint = f"Did you mean {path}:{near}?" if near else f"It has {', '.join(functions) or 'no function at all'}."
        raise PipelineFileError(f"{path} has no function {name!r}", hint=hint)
    marked = [found for found, function in functions.items() if is_marked(function)]
    if len(marked) > 1:
        listed = "".join(f"\n  - {found}" for found in marked)
        raise PipelineFileError(
            f"{path} holds {len(marked)} pipelines, and none is named:{listed}", hint=f"Name one of them, such as {path}:{marked[0]}"
        )
    if marked:
        return marked[0]
    if CONVENTIONAL in functions:
        return CONVENTIONAL
    near = nearest(CONVENTIONAL, functions)
    raise PipelineFileError(f"{path} holds no pipeline.{f' {near}() would count if it were marked.' if near else ''}", hint=_HINT)


def _own_functions(module: ModuleType) -> dict[str, Any]:
    """Return the public functions that the file itself defines."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }
