"""The open tumbling, sliding and calendar windows of one task.

Each pane has a namespace, named by its start, with one accumulator per key. Where windows do not overlap, it is dropped when the results of
its keys are given. Panes of sliding windows are shared, and panes that may still change stay.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Final

from engine.errors import EngineBug
from engine.kernel import named_tuples, span_of
from engine.streams.aggregates import Reduction
from engine.streams.times import FIRST, INFINITY
from engine.streams.windows.given_keys import GivenKeys
from engine.streams.windows.keyed import NamespacedState
from engine.streams.windows.lateness import Lateness
from engine.streams.windows.merging import RunningMerge
from engine.streams.windows.results import Windowed, result_of
from engine.streams.windows.specs import Calendar, Sliding

SLICE: Final = 2000
"""Results of one slice of a close."""


class TimeWindows:
    """Keeper of time windows. `progress` belongs to the state: the caller stores it with each checkpoint.

    `watermark` rises when a close begins, and `closed` when it is complete. A keeper of which they differ goes on with
    `close(watermark)` before it takes rows.
    """

    _allowed_us = 0
    """How long a window is kept behind its end."""
    closed_for: Callable[[Any], int] | None = None
    """Up to where the windows of a key are closed, until this task has closed windows itself. None: all keys are as far as `closed`."""

    def __init__(
        self,
        state: NamespacedState,
        spec: Sliding | Calendar,
        reduction: Reduction,
        *,
        progress: tuple[int, int] = (FIRST, FIRST),
    ) -> None:
        self._state, self._spec, self._reduction = state, spec, reduction
        self.closed, self.watermark = progress
        self._panes = sorted(name for name in state.namespaces() if isinstance(name, int))
        self._known = set(self._panes)
        self._given_keys = GivenKeys(state)
        self._start, self._end = 0, 0
        self._keeps_panes = spec.overlaps
        """True if a pane is still needed when a window of it is closed."""
        self.lateness = Lateness()
        self._running = RunningMerge(reduction)

    @property
    def _sliding(self) -> Sliding:
        if isinstance(self._spec, Sliding):
            return self._spec
        raise EngineBug(f"{self._spec} has no panes that windows share")

    @property
    def open_windows(self) -> int:
        """How many panes hold rows; without overlap, how many windows are open."""
        return len(self._panes)

    @property
    def progress(self) -> tuple[int, int]:
        """`closed` and `watermark`, for the caller to store."""
        return self.closed, self.watermark

    def add_rows(self, keys: Sequence[Any], times: list[int], rows: Sequence[Any]) -> list[tuple[int, int]]:
        """Add a burst, given as columns, and return its late rows: the index of each, and how far it is behind the watermark."""
        if not times:
            return []
        self.lateness.rows += len(times)
        least, greatest = span_of(times)
        if least < self.watermark:
            self.lateness.note_behind(times, self.watermark)
        if not (self._start <= least and greatest < self._end):
            self._start, self._end = self._spec.pane_of(least)
        if greatest < self._end and not self._is_over(self._start):
            self._take(self._start, keys, rows)
            return []
        return self._add_scattered(keys, times, rows)

    def _add_scattered(self, keys: Sequence[Any], times: Sequence[int], rows: Sequence[Any]) -> list[tuple[int, int]]:
        late: list[tuple[int, int]] = []
        panes: dict[int, tuple[list[Any], list[Any]]] = {}
        start, end = self._start, self._end
        is_late = self._is_over(start)
        for index, (key, time, row) in enumerate(zip(keys, times, rows, strict=True)):
            if not start <= time < end:
                start, end = self._spec.pane_of(time)
                is_late = self._is_over(start)
            if is_late:
                late.append((index, self.watermark - time))
                self.lateness.note_late(self.watermark - time)
                continue
            if start not in panes:
                panes[start] = [], []
            panes[start][0].append(key)
            panes[start][1].append(row)
        for pane, (its_keys, its_rows) in panes.items():
            self._take(pane, its_keys, its_rows)
        return late

    def _take(self, pane: int, keys: Sequence[Any], rows: Sequence[Any]) -> None:
        """Add rows to a pane. From here on a key is in the form that the state has of it."""
        self._add(pane, self._given_keys.noted(pane, keys, self._state.namespace(pane)), rows)

    def _is_over(self, pane: int) -> bool:
        """Tell whether no window of a pane can change any more."""
        return self._spec.last_end(pane) + self._allowed_us <= self.watermark

    def _add(self, pane: int, keys: Sequence[Any], rows: Sequence[Any]) -> None:
        namespace = self._state.namespace(pane)
        if pane not in self._known:
            self._known.add(pane)
            insort(self._panes, pane)
        if pane < self._running.covered < self._spec.last_end(pane):
            self._running.forget()  # the merged accumulators lack these rows
        reduction = self._reduction
        if reduction.counts:
            namespace.add_many(keys)
            return
        groups: dict[Any, list[Any]] = {}
        for key, row in zip(keys, rows, strict=True):
            groups.setdefault(key, []).append(row)
        add_all, stored, loaded = reduction.add_all, reduction.stored, reduction.loaded
        known = zip(groups.items(), namespace.get_many(groups, None), strict=True)
        namespace.put_many({key: stored(add_all(None if value is None else loaded(value), its)) for (key, its), value in known})

    def close(self, watermark: int, size: int = SLICE) -> Iterator[list[Any]]:
        """Close all windows that end at `watermark` or before, and give their results in slices, in the order of the ends.

        Between two slices the caller takes neither rows nor a checkpoint. INFINITY closes everything, and `watermark` becomes the greatest
        end.
        """
        self._raise_watermark(watermark)
        return self._close_kept(size) if self._keeps_panes else self._close_plain(size)

    def _raise_watermark(self, watermark: int) -> None:
        if watermark == INFINITY:
            watermark = max((self._spec.last_end(pane) for pane in self._panes[-1:]), default=self.watermark)
        self.watermark = max(self.watermark, watermark)

    def _close_plain(self, size: int) -> Iterator[list[Any]]:
        while self._panes and (end := self._spec.last_end(pane := self._panes[0])) <= self.watermark:
            for keys, values in self._state.namespace(pane).slices(size):
                yield self._plain_results(pane, end, keys, values)
            self._drop(pane)
        self.closed = self.watermark

    def _plain_results(self, pane: int, end: int, keys: list[Any], values: list[Any]) -> list[Any]:
        reduction, keys = self._reduction, self._given_keys.of((pane,), keys)
        if reduction.gives_stored:
            return named_tuples(Windowed, keys, [pane] * len(keys), [end] * len(keys), values)
        return [result_of(reduction, key, pane, end, reduction.loaded(value)) for key, value in zip(keys, values, strict=True)]

    def _close_kept(self, size: int) -> Iterator[list[Any]]:
        results = self._kept_results()
        while part := list(islice(results, size)):
            yield self._final(part)
        self._complete()

    def _kept_results(self) -> Iterator[Windowed[Any, Any]]:
        reduction, closed_for = self._reduction, self.closed_for
        for start, end in self._due_windows():
            for key, acc in self._merged(start, end):
                if closed_for is None or closed_for(key) < end:
                    yield result_of(reduction, key, start, end, acc)

    def _final(self, part: list[Windowed[Any, Any]]) -> list[Any]:
        """Return what is given for the results of a slice."""
        return self._as_given(part)

    def _as_given(self, results: list[Windowed[Any, Any]]) -> list[Windowed[Any, Any]]:
        """Return results with keys in the type of their rows."""
        if not self._given_keys:
            return results
        shown = []
        for (start, end), group in groupby(results, itemgetter(1, 2)):
            its, panes = list(group), self._panes_between(start, end) if self._spec.overlaps else (start,)
            keys = self._given_keys.of(panes, [one.key for one in its])
            shown += [one._replace(key=key) for one, key in zip(its, keys, strict=True)]
        return shown

    def _complete(self) -> None:
        """Forget what is over, because all results are given."""
        while self._panes and self._is_over(self._panes[0]):
            self._drop(self._panes[0])
        self.closed, self.closed_for = self.watermark, None

    def _due_windows(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of the windows to close that have rows, in the order of their ends."""
        if not self._spec.overlaps:
            ends = ((pane, self._spec.last_end(pane)) for pane in self._panes)
            yield from ((pane, end) for pane, end in ends if self.closed < end <= self.watermark)
            return
        spec = self._sliding
        end = spec.first_end_after(self.closed)
        while self._panes:
            at = bisect_left(self._panes, end - spec.size_us)
            if at == len(self._panes):
                return
            end = max(end, spec.first_end_after(self._panes[at]))
            if end > self.watermark:
                return
            yield end - spec.size_us, end
            end += spec.every_us

    def _merged(self, start: int, end: int) -> Iterator[tuple[Any, Any]]:
        """Return the accumulator of each key over the panes of the window [start, end)."""
        if not self._spec.overlaps:
            return self._accumulators(start)
        running = self._running
        for pane in self._panes_between(max(start, running.covered), end):
            running.append(pane, self._accumulators(pane))
        running.covered = end
        return running.window(start)

    def _panes_between(self, start: int, end: int) -> list[int]:
        return self._panes[bisect_left(self._panes, start) : bisect_left(self._panes, end)]

    def _accumulators(self, pane: int) -> Iterator[tuple[Any, Any]]:
        return ((key, self._reduction.loaded(value)) for key, value in self._state.namespace(pane).items())

    def _drop(self, pane: int) -> None:
        self._state.namespace(pane).drop()
        self._given_keys.drop(pane)
        self._panes.remove(pane)
        self._known.discard(pane)
