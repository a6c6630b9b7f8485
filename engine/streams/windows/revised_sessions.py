"""Sessions that give early results, or are kept for late rows: each result is a revision of the one before.

Beside first time, last time and accumulator, a session has its history: how often its start was given, its stage, whether it has changed
since, and the starts of given sessions that it has swallowed. It is None for an open session with nothing to tell. `CHANGED` has the
keys with an update to give.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from engine.streams.aggregates import Reduction
from engine.streams.rows import Revised, RevisionKind
from engine.streams.times import FIRST
from engine.streams.windows.keyed import NamespacedState
from engine.streams.windows.panes import SLICE
from engine.streams.windows.results import Windowed, result_of
from engine.streams.windows.revised_panes import CHANGED
from engine.streams.windows.sessions import SESSIONS, SessionWindows
from engine.streams.windows.specs import Session, Updates

OPEN: Final = 0
CLOSED: Final = 1
"""The session has ended, and is kept for late rows."""
REOPENED: Final = 2
"""A late row has moved the end of a closed session behind the watermark. At its new end it gives an update, not a second final result."""


class History(NamedTuple):
    """What was given of a session."""

    given: int = 0
    stage: int = OPEN
    changed: bool = False
    replaces: tuple[int, ...] = ()

    @property
    def has_ended(self) -> bool:
        """True if a result was given at its end, or behind it. A closed session that a late row has begun may still wait for its first."""
        return self.stage == REOPENED or (self.stage == CLOSED and bool(self.given or self.replaces))

    def stored(self) -> list[Any] | None:
        """Return the value that the state stores."""
        return None if self == _NOTHING else [self.given, self.stage, self.changed, list(self.replaces)]


_NOTHING: Final = History()


def _history(stored: list[Any] | None) -> History:
    return _NOTHING if stored is None else History(stored[0], stored[1], stored[2], tuple(stored[3]))


class RevisedSessionWindows(SessionWindows):
    """Keeper of sessions with updates. All its results are `Revised`."""

    fields = 4

    def __init__(
        self,
        state: NamespacedState,
        spec: Session,
        reduction: Reduction,
        *,
        progress: tuple[int, int] = (FIRST, FIRST),
        updates: Updates,
    ) -> None:
        self._allowed_us, self._early = updates.allowed_us, updates.early
        self._changed = state.namespace(CHANGED)
        super().__init__(state, spec, reduction, progress=progress)

    def _next_deadline(self, stored: list[Any]) -> int:
        return min(self._deadline(record) for record in self._raw_records(stored))

    def _deadline(self, record: list[Any]) -> int:
        end: int = record[1] + self._gap
        return end + self._allowed_us if record[3].stage == CLOSED else end

    # Rows

    def _raw_records(self, stored: Sequence[Any]) -> list[list[Any]]:
        """Return the sessions of a key, with accumulators as they are stored."""
        return [[*stored[at : at + 3], _history(stored[at + 3])] for at in range(0, len(stored), 4)]

    def _records(self, stored: Sequence[Any]) -> list[list[Any]]:
        records = self._raw_records(stored)
        for record in records:
            record[2] = self._reduction.loaded(record[2])
        return records

    def _put_records(self, records: dict[Any, list[list[Any]]]) -> None:
        for its in records.values():
            for record in its:
                record[2] = self._reduction.stored(record[2])
        self._sessions.put_many({key: _flat(its) for key, its in records.items()})
        changed = [key for key, its in records.items() if any(self._gives_updates(record) for record in its)]
        if changed:
            self._changed.put_many(dict.fromkeys(changed, True))

    def _gives_updates(self, record: list[Any]) -> bool:
        """Tell whether a session has an update to give before it ends again."""
        history: History = record[3]
        return history.changed and (history.stage == CLOSED or (self._early and record[1] + self._gap > self.watermark))

    def _new(self, key: Any, time: int, acc: Any) -> list[Any]:
        record = self._joined(key, [time, time, acc], [])
        self._await(key, self._deadline(record))
        return record

    def _joined(self, key: Any, record: list[Any], parts: list[list[Any]]) -> list[Any]:
        first, last, acc = record
        histories: list[History] = [part[3] for part in parts]
        replaces = [start for history in histories for start in history.replaces]
        replaces += [part[0] for part in parts if part[3].given and part[0] != first]
        given = sum(part[3].given for part in parts if part[0] == first)
        if last + self._gap <= self.watermark:
            stage = CLOSED
        else:
            stage = REOPENED if any(history.has_ended for history in histories) else OPEN
            if any(history.stage == CLOSED for history in histories):  # it waited for the time when it is forgotten
                self._await(key, last + self._gap)
        return [first, last, acc, History(given, stage, self._early or stage != OPEN, tuple(sorted(replaces)))]

    # Results

    def close(self, watermark: int, size: int = SLICE) -> Iterator[list[Any]]:
        """Give the updates that wait, then close what ends at `watermark` or before, as SessionWindows does."""
        self._raise_watermark(watermark)
        return chain(self.updates(size), self._close(size))

    def updates(self, size: int = SLICE) -> Iterator[list[Any]]:
        """Give an update for each session that has changed since the last one, in slices.

        Those of closed sessions are "late". Those of open sessions are "early", if the keeper gives early results.
        """
        updates = self._updates()
        while part := list(islice(updates, size)):
            yield part

    def _updates(self) -> Iterator[Revised[Windowed[Any, Any]]]:
        changed = self._changed.items()
        while keys := [key for key, _ in islice(changed, SLICE)]:
            for key, stored in zip(keys, self._sessions.get_many(keys, ()), strict=True):
                records = self._raw_records(stored)
                due = [record for record in records if self._gives_updates(record)]
                for record in due:
                    update = self._given(key, record, "late" if record[3].stage == CLOSED else "early", record[3].stage)
                    self._sessions.put(key, _flat(records))
                    if record is due[-1]:
                        self._changed.delete(key)
                    yield update
                if not due:  # they end now
                    self._changed.delete(key)

    def _given(self, key: Any, record: list[Any], kind: RevisionKind, stage: int) -> Revised[Windowed[Any, Any]]:
        """Return the result of a session, and note that it is given."""
        first, last, acc, history = record
        record[3] = History(history.given + 1, stage)
        [key] = self._given_keys.of((SESSIONS,), [key])
        result = result_of(self._reduction, key, first, last + self._gap, self._reduction.loaded(acc))
        return Revised(result, history.given, kind, history.replaces)

    def _ended_of(self, keys: list[Any]) -> Iterator[Any]:
        sessions = {key: self._raw_records(stored) for key, stored in zip(keys, self._sessions.get_many(keys, ()), strict=True)}
        due = [(record[1], key, record) for key, records in sessions.items() for record in records if self._ends(record)]
        due.sort(key=lambda one: one[0])
        for _, key, record in due:
            update = self._given(key, record, "final" if record[3].stage == OPEN else "late", CLOSED)
            self._sessions.put(key, _flat(sessions[key]))
            yield update
        for key, records in sessions.items():
            kept = [record for record in records if record[1] + self._gap + self._allowed_us > self.watermark]
            if len(kept) < len(records):
                self.open_windows -= len(records) - len(kept)
                self._put(key, _flat(kept))
            if kept:
                self._await(key, min(map(self._deadline, kept)))

    def _ends(self, record: list[Any]) -> bool:
        return record[3].stage != CLOSED and bool(record[1] + self._gap <= self.watermark)


def _flat(records: list[list[Any]]) -> list[Any]:
    return [value for first, last, acc, history in records for value in (first, last, acc, history.stored())]
