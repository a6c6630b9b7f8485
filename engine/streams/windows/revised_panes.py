"""Time windows that give early results, or are kept for late rows: each result is a revision of the one before.

`CHANGED` has a namespace for each window with keys to give: by key the number of its next revision. A key is removed from there when its
update is given, and a row of a window that has nothing to give before its end leaves nothing. So all changes that wait belong to the
present watermark: a close gives them first. `GIVEN` has, by window and key, how many revisions were given. It lacks the keys with
nothing but a final result, which are most of them: a key in a closed window was given once.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any, Final

from engine.streams.aggregates import Reduction
from engine.streams.rows import Revised, RevisionKind
from engine.streams.times import FIRST
from engine.streams.windows.keyed import Namespace, NamespacedState
from engine.streams.windows.merging import RunningMerge
from engine.streams.windows.panes import SLICE, TimeWindows
from engine.streams.windows.results import Windowed, result_of
from engine.streams.windows.specs import Calendar, Sliding, Updates

CHANGED: Final = "changed"
GIVEN: Final = "given"
_ABSENT: Final = object()


class RevisedTimeWindows(TimeWindows):
    """Keeper of time windows with updates. All its results are `Revised`."""

    def __init__(
        self,
        state: NamespacedState,
        spec: Sliding | Calendar,
        reduction: Reduction,
        *,
        progress: tuple[int, int] = (FIRST, FIRST),
        updates: Updates,
    ) -> None:
        super().__init__(state, spec, reduction, progress=progress)
        self._allowed_us, self._early = updates.allowed_us, updates.early
        self._keeps_panes = True
        self._starts: dict[str, set[int]] = {CHANGED: set(), GIVEN: set()}
        """The windows of which the state has these namespaces."""
        for name in state.namespaces():
            kind, _, start = str(name).partition(" ")
            if kind in self._starts:
                self._starts[kind].add(int(start))

    def _space(self, kind: str, start: int) -> Namespace:
        return self._state.namespace(f"{kind} {start}")

    def _forget(self, kind: str, start: int) -> None:
        self._space(kind, start).drop()
        self._starts[kind].discard(start)

    def _end_of(self, start: int) -> int:
        return start + self._sliding.size_us if self._spec.overlaps else self._spec.last_end(start)

    # Rows

    def _add(self, pane: int, keys: Sequence[Any], rows: Sequence[Any]) -> None:
        distinct = None
        for start, end in self._windows_of(pane):
            if end + self._allowed_us > self.watermark and (self._early or end <= self.watermark):
                distinct = distinct or list(dict.fromkeys(keys))
                self._note_changed(start, end, distinct)
        super()._add(pane, keys, rows)

    def _windows_of(self, pane: int) -> Iterator[tuple[int, int]]:
        """Yield the windows that contain a pane, the latest first."""
        end = self._spec.last_end(pane)
        if not self._spec.overlaps:
            yield pane, end
            return
        size, every = self._sliding.size_us, self._sliding.every_us
        while end > pane:
            yield end - size, end
            end -= every

    def _note_changed(self, start: int, end: int, keys: list[Any]) -> None:
        """Note keys of a window that are about to change, with the numbers of their next revisions."""
        changed = self._space(CHANGED, start)
        new = [key for key, revision in zip(keys, changed.get_many(keys, None), strict=True) if revision is None]
        if not new:
            return
        revisions = [0] * len(new)
        if start in self._starts[GIVEN]:
            revisions = self._space(GIVEN, start).get_many(new, 0)
        if end <= self.watermark and 0 in revisions:
            finals = self._keys_in(start, end, new)
            revisions = [revision or int(key in finals) for key, revision in zip(new, revisions, strict=True)]
        changed.put_many(dict(zip(new, revisions, strict=True)))
        self._starts[CHANGED].add(start)

    def _keys_in(self, start: int, end: int, keys: list[Any]) -> set[Any]:
        """Return those of the keys that have rows in a window."""
        found: set[Any] = set()
        for pane in self._panes_between(start, end):
            values = self._state.namespace(pane).get_many(keys, _ABSENT)
            found.update(key for key, value in zip(keys, values, strict=True) if value is not _ABSENT)
        return found

    # Results

    def close(self, watermark: int, size: int = SLICE) -> Iterator[list[Any]]:
        """Give the updates that wait, then close what ends at `watermark` or before, as TimeWindows does."""
        self._raise_watermark(watermark)
        return chain(self.updates(size), self._close_kept(size))

    def updates(self, size: int = SLICE) -> Iterator[list[Any]]:
        """Give an update for each key and window that has changed since the last one, in slices.

        Those of closed windows are "late". Those of open windows are "early", if the keeper gives early results.
        """
        updates = self._updates()
        while part := list(islice(updates, size)):
            shown = self._as_given([one.value for one in part])
            yield [one._replace(value=result) for one, result in zip(part, shown, strict=True)] if self._given_keys else part

    def _updates(self) -> Iterator[Revised[Windowed[Any, Any]]]:
        reduction = self._reduction
        # A window that this close closes has its final result, and no update before it.
        starts = [start for start in sorted(self._starts[CHANGED]) if not self.closed < self._end_of(start) <= self.watermark]
        for start, changes in self._shared_changes(starts) if self._spec.overlaps else self._plain_changes(starts):
            end, changed, given = self._end_of(start), self._space(CHANGED, start), self._space(GIVEN, start)
            kind: RevisionKind = "late" if end <= self.closed else "early"
            for key, revision, acc in changes:
                changed.delete(key)
                given.put(key, revision + 1)
                self._starts[GIVEN].add(start)
                yield Revised(result_of(reduction, key, start, end, acc), revision, kind)
            self._forget(CHANGED, start)

    def _plain_changes(self, starts: list[int]) -> Iterator[tuple[int, Iterator[tuple[Any, int, Any]]]]:
        for start in starts:
            yield start, self._changes_of_pane(start)

    def _changes_of_pane(self, pane: int) -> Iterator[tuple[Any, int, Any]]:
        namespace, changed = self._state.namespace(pane), self._space(CHANGED, pane).items()
        while part := dict(islice(changed, SLICE)):
            for (key, revision), value in zip(part.items(), namespace.get_many(part, None), strict=True):
                yield key, revision, self._reduction.loaded(value)

    def _shared_changes(self, starts: list[int]) -> Iterator[tuple[int, Iterator[tuple[Any, int, Any]]]]:
        """Merge the panes of the changed keys alone, each pane once for all windows."""
        changes = {start: dict(self._space(CHANGED, start).items()) for start in starts}
        keys = list(dict.fromkeys(chain.from_iterable(changes.values())))
        running = RunningMerge(self._reduction)
        for start, revisions in changes.items():
            end = self._end_of(start)
            for pane in self._panes_between(max(start, running.covered), end):
                values = zip(keys, self._state.namespace(pane).get_many(keys, _ABSENT), strict=True)
                running.append(pane, ((key, self._reduction.loaded(value)) for key, value in values if value is not _ABSENT))
            running.covered = end
            yield start, ((key, revisions[key], acc) for key, acc in running.window(start) if key in revisions)

    def _final(self, part: list[Windowed[Any, Any]]) -> list[Any]:
        finals: list[Any] = []
        for start, group in groupby(part, lambda one: one.start_us):
            its = list(group)
            revisions = [0] * len(its)
            if start in self._starts[GIVEN]:
                given, keys = self._space(GIVEN, start), [one.key for one in its]
                revisions = given.get_many(keys, 0)
                given.put_many({key: revision + 1 for key, revision in zip(keys, revisions, strict=True) if revision})
            finals += [Revised(one, revision, "final") for one, revision in zip(self._as_given(its), revisions, strict=True)]
        return finals

    def _complete(self) -> None:
        for start in [start for start in self._starts[CHANGED] if self._end_of(start) <= self.watermark]:
            self._forget(CHANGED, start)
        for start in [start for start in self._starts[GIVEN] if self._end_of(start) + self._allowed_us <= self.watermark]:
            self._forget(GIVEN, start)
        super()._complete()
