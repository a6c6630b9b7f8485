"""Stateless steps over many rows at once, without bolts and tuples.

A step gets a `Batch` and changes it: lists of equal length with the rows, what each row came from, its key and its time. The loops run in C
where they can: `map`, `compress`, `chain`. So a step costs one call of the user's function for each row, and little else.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress, repeat
from types import CoroutineType
from typing import Any, ClassVar

from engine.api import FailTuple
from engine.api.context import UserCounter
from engine.api.fields import short_repr
from engine.errors import FatalError, UsageError, error_as_text
from engine.state.codec import PLAIN, canonical
from engine.streams.calls import Call
from engine.streams.rows import KEY, ROW, TIME, StageError


class Batch:
    """Rows with parallel lists. A step replaces lists, and never changes one in place, so batches can share them."""

    __slots__ = ("keys", "origins", "rows", "times")

    def __init__(self, rows: list[Any], origins: list[Any] | None = None, times: list[int] | None = None) -> None:
        """origins: what each row came from, such as its tuple. None: nobody needs to know."""
        self.rows = rows
        self.origins = origins
        self.times = times
        self.keys: list[Any] | None = None

    def copy(self) -> "Batch":
        """Return a batch with the same lists."""
        copy = Batch(self.rows, self.origins, self.times)
        copy.keys = self.keys
        return copy

    def keep(self, flags: list[Any]) -> None:
        """Keep the rows whose flag is true."""
        self.rows = list(compress(self.rows, flags))
        if self.origins is not None:
            self.origins = list(compress(self.origins, flags))
        if self.times is not None:
            self.times = list(compress(self.times, flags))
        if self.keys is not None:
            self.keys = list(compress(self.keys, flags))

    def spread(self, parts: list[list[Any]]) -> None:
        """Replace each row by the rows of its part."""
        counts = list(map(len, parts))
        self.rows = list(chain.from_iterable(parts))
        if self.origins is not None:
            self.origins = list(chain.from_iterable(map(repeat, self.origins, counts)))
        if self.times is not None:
            self.times = list(chain.from_iterable(map(repeat, self.times, counts)))

    def split(self) -> list["Batch"]:
        """Return a batch for each row."""
        flags = [[at == number for at in range(len(self.rows))] for number in range(len(self.rows))]
        parts = [self.copy() for _ in self.rows]
        for part, kept in zip(parts, flags, strict=True):
            part.keep(kept)
        return parts

    def values(self, layout: Sequence[str]) -> Iterable[tuple[Any, ...]]:
        """Return the values of a tuple for each row, in the fields of a layout."""
        columns = {ROW: self.rows, KEY: self.keys, TIME: self.times}
        return zip(*(columns[name] or () for name in layout), strict=True)


def joined(parts: Sequence[Batch]) -> Batch:
    """Return the rows of several batches in one."""
    if len(parts) == 1:
        return parts[0]
    whole = Batch([row for part in parts for row in part.rows])
    for name in ("origins", "times", "keys"):
        if parts and getattr(parts[0], name) is not None:
            setattr(whole, name, [each for part in parts for each in getattr(part, name) or ()])
    return whole


class Step:
    """A step of one task."""

    names_itself: ClassVar[bool] = False
    """True: its errors say where they come from."""

    def __init__(self, stage: str, function: Callable[[Any], Any]) -> None:
        self.stage = stage
        self.function = function

    def apply(self, batch: Batch) -> None:
        """Change a batch. Raises the errors of the user's function."""
        raise NotImplementedError


class MapStep(Step):
    """Replaces each row."""

    def apply(self, batch: Batch) -> None:
        rows = list(map(self.function, batch.rows))
        refuse_coroutines("map", rows)
        batch.rows = rows


class FilterStep(Step):
    """Keeps the rows for which the function is true."""

    def apply(self, batch: Batch) -> None:
        flags = list(map(self.function, batch.rows))
        refuse_coroutines("filter", flags)
        if not all(flags):
            batch.keep(flags)


class FlatMapStep(Step):
    """Replaces each row by any number of rows."""

    def apply(self, batch: Batch) -> None:
        parts = list(map(self.function, batch.rows))
        if set(map(type, parts)) != {list}:
            parts = [list(self._iterable(part)) for part in parts]
        batch.spread(parts)

    def _iterable(self, part: Any) -> Iterable[Any]:
        if isinstance(part, (str, bytes)) or not isinstance(part, Iterable) or hasattr(part, "_fields"):
            text = f"flat_map() got {short_repr(part)} ({type(part).__name__}), which is no collection of rows"
            raise UsageError(text, hint="Return a list, or yield the rows. Use map() for a function that returns one row.")
        return part


def refuse_coroutines(method: str, results: list[Any]) -> None:
    """Raise UsageError for the results of a function that calls an `async def`, such as a lambda. One of them stands for all."""
    if results and type(results[0]) is CoroutineType:
        for each in results:
            each.close()
        raise UsageError(f"{method}() got a coroutine", hint="Use map_async(), which awaits it.")


class KeyStep(Step):
    """Gives each row its key."""

    def apply(self, batch: Batch) -> None:
        keys = list(map(self.function, batch.rows))
        if not set(map(type, keys)) <= PLAIN:
            for row, key in zip(batch.rows, keys, strict=True):
                check_key(row, key)
        batch.keys = keys


def check_key(row: Any, key: Any) -> None:
    """Raise UsageError for a key that a fields grouping or a state would refuse."""
    try:
        canonical(key)
    except TypeError as error:
        text = f"the key {short_repr(key)} of the row {short_repr(row)}: {error}"
        raise UsageError(text, hint="Let key_by() return such a value.") from None


class SelectStep(Step):
    """Replaces each row by the values of named fields, for a sink that reads fields."""

    def apply(self, batch: Batch) -> None:
        batch.rows = list(map(self.function, batch.rows))


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A step before it has a task. It can be pickled if the user's function can."""

    stage: str
    kind: type[Step]
    call: Call

    def live(self, function: Callable[..., Any]) -> Step:
        """Return the step of a task that calls this function."""
        return self.kind(self.stage, function)


PASSED_ON = (FailTuple, FatalError)
"""Errors that mean something to the engine, so that no stage may wrap them."""


class StepChain:
    """Steps one behind the other. If one raises, the error names its stage, and the row if only one was there."""

    def __init__(self, steps: Sequence[Step], *, names_stage: bool = True) -> None:
        """names_stage: False if the error needs no name, because the place has only this stage."""
        self.steps = tuple(steps)
        self.counters: list[UserCounter | None] = [None] * len(steps)
        """Counts the results of each step. None: they are not counted."""
        self._names_stage = names_stage

    def run(self, batch: Batch) -> Batch:
        """Run all steps over a batch, and return it."""
        for step, counter in zip(self.steps, self.counters, strict=True):
            try:
                step.apply(batch)
                if counter is not None:
                    counter.add(len(batch.rows))
            except PASSED_ON:
                raise
            except Exception as error:
                if step.names_itself or not self._names_stage:
                    raise
                raise _named(error, step, batch) from error
        return batch

    def run_one(self, row: Any, origin: Any = None, time: int | None = None) -> Batch:
        """Run all steps over one row. Each step gets one row at a time, so an error names the row exactly."""
        batch = Batch([row], [origin], None if time is None else [time])
        for step, counter in zip(self.steps, self.counters, strict=True):
            parts = [batch] if len(batch.rows) == 1 else batch.split()
            for part in parts:
                try:
                    step.apply(part)
                except PASSED_ON:
                    raise
                except Exception as error:
                    if step.names_itself or not self._names_stage:
                        raise
                    raise _named(error, step, part) from error
            batch = joined(parts) if parts else batch
            if counter is not None:
                counter.add(len(batch.rows))
        return batch


def _named(error: Exception, step: Step, batch: Batch) -> StageError:
    row = f" (row: {short_repr(batch.rows[0])})" if len(batch.rows) == 1 else ""
    return StageError(f"stage {step.stage!r}: {error_as_text(error)}{row}")
