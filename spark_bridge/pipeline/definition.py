"""Definition of a pipeline. A pipeline is a user's function from a stream to writers, or a function that is called with each batch.

```python
from spark_bridge.pipeline import per_batch, pipeline


@pipeline
def traffic(stream):                                   # a streaming DataFrame -> writers, one for each query
    per_minute = stream.withWatermark("time", "10 minutes").groupBy(window("time", "1 minute")).count()
    return {"per-minute": per_minute.writeStream.format("parquet").option("path", "out")}


@per_batch
def store(batch, txid):                                # a DataFrame, and the last txid of its rows
    batch.write.mode("overwrite").parquet(f"raw/txid={txid}")
```
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, TypeVar, overload

from engine.cli.console.user_file import UserFile, split_spec
from engine.errors import UsageError
from engine.names import nearest
from spark_bridge.handover import Handover
from spark_bridge.pipeline.errors import PipelineFileError

Kind = Literal["stream", "batches"]
CONVENTIONAL_NAME: Final = "pipeline"
"""Name of the function that counts as the pipeline of a file without decorators."""
STOP_SECS: Final = 60.0
MAX_RESTARTS: Final = 5
_F = TypeVar("_F", bound=Callable[..., Any])
_MARK: Final = "__stormcell_pipeline__"
_ARGUMENTS: Final[dict[Kind, int]] = {"stream": 1, "batches": 2}
_SHAPES: Final = "`pipeline(stream)`, which returns writers, or `pipeline(batch, txid)`, which is called with each batch"
_MARK_HINT: Final = "Put @pipeline above a function from a stream to writers, or @per_batch above one that takes (batch, txid)."


@dataclass(frozen=True, slots=True)
class Definition:
    """Function of a pipeline, with its kind and the default name of its query."""

    function: Callable[..., Any]
    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Settings of one pipeline over one hand-over folder, as they are sent to Spark's process."""

    pipeline: str | Definition
    """`file.py[:name]`, or the function itself."""
    folder: str
    checkpoints: str
    """Folder with one checkpoint per query, under the query's name."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the data source for all queries, such as `maxTransactionsPerBatch`."""
    storage: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the folder's file system, parsed from the options."""
    stop_secs: float = STOP_SECS
    """Time for the current micro-batches to finish when the pipeline is stopped."""
    most_restarts: int = MAX_RESTARTS
    """Largest number of restarts in a row without a finished batch in between. One more failure ends the pipeline."""

    def handover(self) -> Handover:
        """Open the hand-over folder. Raise HandoverError if there is none."""
        return Handover.open(self.folder, self.storage)

    @property
    def name(self) -> str:
        """Return the name of the pipeline in messages."""
        return self.pipeline if isinstance(self.pipeline, str) else self.pipeline.name

    def checkpoint(self, query: str) -> str:
        """Return the folder of a query's checkpoint."""
        return f"{self.checkpoints.rstrip('/')}/{query}"


@overload
def pipeline(function: _F) -> _F: ...
@overload
def pipeline(*, name: str) -> Callable[[_F], _F]: ...
def pipeline(function: Any = None, *, name: str | None = None) -> Any:
    """Mark a function that takes a streaming DataFrame, and returns a writer or a dict of writers by query name.

    The stream has the columns of the hand-over, `txid` and `batch_time`. The function is called several times, so it must only define
    plans and start nothing. `name`: name of the query if there is only one, by default the name of the function.
    """
    return _marked(function, "stream", name)


@overload
def per_batch(function: _F) -> _F: ...
@overload
def per_batch(*, name: str) -> Callable[[_F], _F]: ...
def per_batch(function: Any = None, *, name: str | None = None) -> Any:
    """Mark a function `(batch, txid)`. The function is called with the rows of the next transactions, up to and including `txid`.

    After a crash it may be called again with the same transactions. So a second call must have no further effect. Overwrite by txid, or
    store the txid in the same atomic step as the rows. `name`: name of the query, by default the name of the function.
    """
    return _marked(function, "batches", name)


def definition_of(value: object, place: str) -> Definition:
    """Return the definition of a function, by its decorator or else by the number of its arguments. `place` is its name in errors."""
    if not inspect.isroutine(value):
        what = f"the class {value.__name__}" if inspect.isclass(value) else f"of type {type(value).__name__}"
        raise PipelineFileError(f"{place} is {what}, not a function", hint=f"Name a function: {_SHAPES}.")
    if inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        raise PipelineFileError(f"{place} is async or a generator", hint="Write a plain function: Spark calls it in a thread of its own.")
    arguments = _required_arguments(value, place)
    kind: Kind = "stream" if len(arguments) == 1 else "batches"
    name = str(getattr(value, "__name__", CONVENTIONAL_NAME))
    if hasattr(value, _MARK):
        kind, name = getattr(value, _MARK)
    if len(arguments) != _ARGUMENTS[kind]:
        names = f" ({', '.join(arguments)})" if arguments else ""
        wanted = _SHAPES if not hasattr(value, _MARK) else "one: the stream" if kind == "stream" else "two: the batch and its txid"
        text = f"{place} takes {len(arguments)} argument{'' if len(arguments) == 1 else 's'}{names}"
        raise PipelineFileError(text, hint=f"A pipeline takes {wanted}.")
    return Definition(value, kind, name)


def _required_arguments(function: Callable[..., Any], place: str) -> list[str]:
    """Return the parameters without a default.

    Raise PipelineFileError for a keyword-only one, because Spark passes arguments by position.
    """
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    required = [parameter for parameter in parameters if parameter.default is parameter.empty and parameter.kind not in optional]
    for parameter in required:
        if parameter.kind is parameter.KEYWORD_ONLY:
            text = f"{place} needs the argument {parameter.name!r} by name"
            raise PipelineFileError(text, hint="Give it a default value, or remove the `*` before it.")
    return [parameter.name for parameter in required]


def _marked(function: Any, kind: Kind, name: str | None) -> Any:
    def mark(marked: Any) -> Any:
        if not inspect.isfunction(marked):
            raise UsageError(f"@{'pipeline' if kind == 'stream' else 'per_batch'} stands above {marked!r}", hint="Put it above a function.")
        setattr(marked, _MARK, (kind, name or marked.__name__))
        return marked

    return mark if function is None else mark(function)


# Files


def load_pipeline(spec: str) -> tuple[Definition, ModuleType]:
    """Import the file of `path.py[:name]`, and return its pipeline and its module.

    Without a name the pipeline is the only function with a decorator, or else the function `pipeline`.
    """
    path, name = split_spec(spec, PipelineFileError)
    module = _pipeline_file(path).load()
    chosen = _choose(module, path, name)
    return definition_of(vars(module)[chosen], f"{path}:{chosen}"), module


def check_readable(spec: str) -> None:
    """Raise PipelineFileError for a file that does not exist or is not valid Python. Does not run the file."""
    _pipeline_file(split_spec(spec, PipelineFileError)[0]).compile()


def _pipeline_file(path: Path) -> UserFile:
    return UserFile(path, "pipeline", PipelineFileError)


def _choose(module: ModuleType, path: Path, name: str | None) -> str:
    functions = _own_functions(module)
    if name is not None:
        if name in vars(module):
            return name
        near = nearest(name, functions)
        hint = f"Did you mean {path}:{near}?" if near else f"Its functions are: {', '.join(functions) or 'none'}."
        raise PipelineFileError(f"{path} has no function {name!r}", hint=hint)
    marked = [found for found, function in functions.items() if hasattr(function, _MARK)]
    if len(marked) > 1:
        names = "".join(f"\n  - {found}" for found in marked)
        raise PipelineFileError(f"{path} has {len(marked)} pipelines:{names}", hint=f"Name one of them, such as {path}:{marked[0]}")
    if marked:
        return marked[0]
    if CONVENTIONAL_NAME in functions:
        return CONVENTIONAL_NAME
    near = nearest(CONVENTIONAL_NAME, functions)
    text = f"{path} has no pipeline.{f' {near}() would count with a decorator.' if near else ''}"
    raise PipelineFileError(text, hint=_MARK_HINT)


def _own_functions(module: ModuleType) -> dict[str, Any]:
    """Return the public functions that the file itself defines, without imported ones."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }
