"""What a pipeline file holds: a function from a stream to writers, or one that is called with each batch.

```python
from spark_bridge.pipeline import per_batch, pipeline


@pipeline
def traffic(stream):                                   # a streaming DataFrame -> writers, one for each query
    per_minute = stream.withWatermark("time", "10 minutes").groupBy(window("time", "1 minute")).count()
    return {"per-minute": per_minute.writeStream.format("parquet").option("path", "out")}


@per_batch
def store(batch, txid):                                # a DataFrame, and the transaction with which it ends
    batch.write.mode("overwrite").parquet(f"raw/txid={txid}")
```
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar, overload

from engine.errors import UsageError
from spark_bridge.pipeline.errors import PipelineFileError

Kind = Literal["stream", "batches"]
_F = TypeVar("_F", bound=Callable[..., Any])
_MARK: Final = "__stormcell_pipeline__"
_TAKES: Final[dict[Kind, int]] = {"stream": 1, "batches": 2}
_SHAPES: Final = "`pipeline(stream)`, which returns writers, or `pipeline(batch, txid)`, which is called with each batch"


@dataclass(frozen=True, slots=True)
class Definition:
    """A pipeline: its function, what that takes, and what its query is called where it has but one."""

    function: Callable[..., Any]
    kind: Kind
    name: str


@overload
def pipeline(function: _F) -> _F: ...
@overload
def pipeline(*, name: str) -> Callable[[_F], _F]: ...
def pipeline(function: Any = None, *, name: str | None = None) -> Any:
    """Mark a function from a streaming DataFrame to writers: one, or a dict of them by the names of their queries.

    The stream has the columns of the hand-over, `txid` and `batch_time`. The function is called several times, so it makes plans and starts
    nothing. `name`: of the query where there is one; without it that is called like the function.
    """
    return _marked(function, "stream", name)


@overload
def per_batch(function: _F) -> _F: ...
@overload
def per_batch(*, name: str) -> Callable[[_F], _F]: ...
def per_batch(function: Any = None, *, name: str | None = None) -> Any:
    """Mark a function that is called with the rows of the transactions after those of the call before, up to `txid`: `(batch, txid)`.

    After a crash it may be called again with the same ones, so what it does must be the same done twice: overwrite by txid, or note in the
    same step which txid it did. `name`: of the query; without it that is called like the function.
    """
    return _marked(function, "batches", name)


def definition_of(value: object, place: str) -> Definition:
    """Return what a function means, by its decorator or else by how much it takes; `place` names it in errors."""
    if not inspect.isroutine(value):
        what = f"the class {value.__name__}" if inspect.isclass(value) else f"of type {type(value).__name__}"
        raise PipelineFileError(f"{place} is {what}, not a function", hint=f"Name a function: {_SHAPES}.")
    if inspect.iscoroutinefunction(value) or inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value):
        raise PipelineFileError(f"{place} is async or a generator", hint="Write a plain function: Spark calls it in a thread of its own.")
    called = str(getattr(value, "__name__", "pipeline"))
    taken = _needed_arguments(value, place)
    kind: Kind = "stream" if len(taken) == 1 else "batches"
    name = called
    if hasattr(value, _MARK):
        kind, name = getattr(value, _MARK)
    if len(taken) != _TAKES[kind]:
        takes = f"takes {len(taken)} argument{'' if len(taken) == 1 else 's'}" + (f" ({', '.join(taken)})" if taken else "")
        wanted = _SHAPES if not hasattr(value, _MARK) else "one: the stream" if kind == "stream" else "two: the batch and its txid"
        raise PipelineFileError(f"{place} {takes}", hint=f"A pipeline takes {wanted}.")
    return Definition(value, kind, name)


def is_marked(value: object) -> bool:
    """Tell whether a function has one of the decorators."""
    return inspect.isroutine(value) and hasattr(value, _MARK)


def _needed_arguments(function: Callable[..., Any], place: str) -> list[str]:
    """Return the parameters without which a function cannot be called; raise PipelineFileError for one that has to be named in the call."""
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty and parameter.kind not in optional]
    for parameter in needed:
        if parameter.kind is parameter.KEYWORD_ONLY:
            raise PipelineFileError(
                f"{place} needs {parameter.name!r} by name", hint="Give it a default value, or leave out the `*` before it."
            )
    return [parameter.name for parameter in needed]


def _marked(function: Any, kind: Kind, name: str | None) -> Any:
    def mark(marked: Any) -> Any:
        if not inspect.isfunction(marked):
            raise UsageError(f"@{'pipeline' if kind == 'stream' else 'per_batch'} stands above {marked!r}", hint="Put it above a function.")
        setattr(marked, _MARK, (kind, name or marked.__name__))
        return marked

    return mark if function is None else mark(function)
