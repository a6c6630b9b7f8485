"""`Letters`: rows of exact sources that are given up become dead letters, in the write that makes their positions count (EO-6, DL-5).

It uses no clock and no store. The ledger of the checkpoints has the letters beside the record and the positions, so a letter and the
position that passes its row become true in one step.
"""

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias, cast

from engine.api import Values
from engine.config import Config
from engine.dead_letters import (
    ERROR_IN_VIEWS,
    SLIM_TEXT,
    DeadLetter,
    DeadLettersSnapshot,
    StoredLetters,
    clipped,
    encode_row,
    letters_to_retry,
    shown_name,
)
from engine.errors import ERROR, TASK_DIED, TIMEOUT, EngineError, Failure, StateError, UsageError
from engine.log import EngineLogger
from engine.safe_text import safe_repr
from engine.state import codec_named
from engine.waits import Wait, waiting_for

LOGGER: Final = EngineLogger("engine.checkpoint")
ALONE_AFTER: Final = frozenset({TASK_DIED, TIMEOUT})
"""Reasons of failures that also concern rows which have done nothing wrong."""
MOST_COUNTS: Final = 1_000
"""Failed rows of a spout whose counts are stored."""
Row: TypeAlias = tuple[Values, str, Any]
"""(values, stream, message id of the user or None)."""


AloneRow: TypeAlias = tuple[str, int, str, bytes | str]
"""(spout, task index, stream, identity): what a new process knows of a row."""


class GivenUpRow(NamedTuple):
    """A row that its source has not emitted again."""

    source: str
    row: Row
    failure: Failure
    """Of the last pass in which it failed."""
    passes: int
    """Passes in which it failed, or its failures if it was retried alone."""


class GaveUp(EngineError):
    """A row failed in `max_retries` passes, or alone as often. It is not processed, so that the others can be committed."""

    @classmethod
    def of(cls, row: GivenUpRow, *, alone: bool) -> "GaveUp":
        """Return the error that tells of a row. alone: it has failed when it was retried alone."""
        many = row.passes > 1
        often = f"{row.passes} time{'s' * many}" if alone else f"in {row.passes} pass{'es' * many}"
        return cls(
            f"spout {row.source!r}: the row {safe_repr(row.row[0])} failed {often}, and was given up",
            hint="Its effect is in no state. Correct the bolt that failed it, or let the bolt divert what it cannot process.",
        )


def rows_to_retry(entries: Mapping[str, object], spouts: Container[str], topology_name: str) -> dict[str, dict[str, Row]]:
    """Return the rows of dead letters that are marked for a retry, by spout and by the name of the letter's entry (DL-6).

    Raises StateError for values that cannot be read.
    """
    rows: dict[str, dict[str, Row]] = {}
    for name, letter in letters_to_retry(entries).items():
        row = letter.row
        if row.source not in spouts or row.encoded is None:
            LOGGER.warning("topology %r: the dead letter %s is not retried, because %r is no exact spout of this run", topology_name,
                           shown_name(name), row.source)  # fmt: skip
            continue
        try:
            values = tuple(cast(Iterable[Any], codec_named(cast(Any, row.codec)).decode(row.encoded)))
        except (TypeError, ValueError) as fault:
            text = f"topology {topology_name!r}: the values of the dead letter {shown_name(name)} cannot be read: {fault}"
            raise StateError(text, hint="They are damaged. Drop the letter: python -m engine dead-letters drop.") from None
        rows.setdefault(row.source, {})[name] = (values, row.stream, None)
    return rows


def emittable(rows: Mapping[str, Row], can_emit: Callable[[str], bool], spout: str) -> dict[str, Row]:
    """Return the rows of marked letters that the engine can emit. The letters of the others stay marked.

    can_emit: tells whether rows of a stream can be emitted without the spout.
    """
    found = {}
    for name, row in rows.items():
        if can_emit(row[1]):
            found[name] = row
        else:
            LOGGER.warning("the dead letter %s is not retried, because the stream %r of %r is direct, or is declared no longer",
                           shown_name(name), row[1], spout)  # fmt: skip
    return found


class RowCount(NamedTuple):
    """What a new process must know of a row that has failed (EO-6)."""

    task_index: int
    stream: str
    identity: bytes | str
    """With the stream, the key of the row."""
    passes: list[int]
    """Failed passes of each copy."""
    given_up: int
    """Number of copies that are given up."""
    failure: Failure
    """The last one."""


def stored_counts(counts: Collection[RowCount]) -> list[object] | None:
    """Return the entry of the ledger. If there are too many rows, those with the most failed passes are kept. None: there is none."""
    most = sorted(counts, key=lambda count: max(count.passes), reverse=True)[:MOST_COUNTS]
    return [[*count[:-1], *_stored(count.failure)] for count in most] or None


def _stored(failure: Failure) -> tuple[object, ...]:
    return failure.reason, failure.component_id, failure.task_id, clipped(failure.error or "", SLIM_TEXT)


def read_counts(entry: object, topology_name: str) -> list[RowCount]:
    """Return the counts in an entry of the ledger. Raises StateError if it is damaged."""
    try:
        rows = cast(list[Any], [] if entry is None else entry)
        return [
            RowCount(task, stream, identity, passes, given_up, Failure(reason, component_id, task_id, error or None))
            for task, stream, identity, passes, given_up, reason, component_id, task_id, error in rows
        ]
    except (TypeError, ValueError, UsageError) as fault:
        text = f"the failed rows of topology {topology_name!r} cannot be read: {fault}"
        raise StateError(text, hint="They are damaged, or of a newer version of the engine.") from None


class StoredCounts:
    """The failed rows in the ledger, for all spouts of a run. A new process continues their counts (EO-6)."""

    def __init__(self, topology_name: str, max_retries: int | None) -> None:
        self._topology_name = topology_name
        self._max_retries = max_retries
        self._before: dict[str, list[RowCount]] = {}
        """Those of the process before, by spout."""
        self._written: dict[str, object] = {}

    def take_up(self, entries: Mapping[str, object], spouts: Iterable[str]) -> None:
        """Read the counts of the process before. Raises StateError if they are damaged."""
        self._before = {name: read_counts(entries.get(counts_name(name)), self._topology_name) for name in spouts}

    def forget(self, spout: str) -> None:
        """Forget the counts of a spout."""
        self._before[spout].clear()

    def of(self, spout: str, task_index: int) -> list[RowCount]:
        """Return the counts of a task."""
        return [each for each in self._before.get(spout, ()) if each.task_index == task_index]

    def count_killer(self, row: AloneRow, may_give_up: Callable[[], bool]) -> None:
        """Count the death of the process before as a failed pass of the row that it was processing alone."""
        spout, *key = row
        counts = self._before.get(spout, [])
        found = next((each for each in counts if list(each[:3]) == key), None)
        failure = Failure(TASK_DIED, None, None, "the process died while the row was being processed, and no other one")
        passes = 1 if found is None else found.passes[0] + 1
        is_due = self._max_retries is not None and passes >= self._max_retries and may_give_up()
        self._before[spout] = [*(each for each in counts if each is not found), RowCount(*row[1:], [passes], int(is_due), failure)]

    def at_start(self) -> dict[str, object]:
        """Return the entries as the start has changed them."""
        return {counts_name(name): stored_counts(counts) for name, counts in self._before.items()}

    def changed(self, counts: Mapping[str, Collection[RowCount]]) -> dict[str, object]:
        """Return the entries of these counts, if they have changed since the last call."""
        entries: dict[str, object] = {counts_name(name): stored_counts(of_spout) for name, of_spout in counts.items()}
        changed = {name: entry for name, entry in entries.items() if entry != self._written.get(name)}
        self._written |= changed
        return changed


def counts_name(spout: str) -> str:
    """Return the name of the ledger's entry with the failed rows of a spout."""
    return f"failed:{spout}"


class Letters:
    """The dead letters of a run whose sources have their positions in the checkpoint."""

    def __init__(self, topology_name: str, config: Config, wall: Callable[[], float]) -> None:
        self._topology_name = topology_name
        self.outlive_run: Final = not config.state_provider.startswith("memory:")
        """True if the letters are in a store that another process can read."""
        self._codec = codec_named(config.state_codec)
        self._wall = wall
        self._stored = StoredLetters({})
        self._given_up = 0
        self._wait: Wait | None = None
        """While no row may be given up: what the run waits for."""

    def take_up(self, entries: Mapping[str, object], most_bytes: int | None) -> None:
        """Read the letters of earlier runs. Raises StateError for one that cannot be read."""
        self._stored = StoredLetters(entries, most_bytes)

    def remove(self, names: Iterable[str]) -> dict[str, object]:
        """Return the changes of the ledger that remove the letters of rows that were retried."""
        return self._stored.remove(names)

    @property
    def room(self) -> int:
        """Number of letters that may be added."""
        return self._stored.room

    def begin_commit(self, txid: int, attempt: int, rows: Iterable[GivenUpRow]) -> dict[str, object]:
        """Return the changes of the ledger that belong to the write of a commit: a letter for each row that the checkpoint has passed."""
        now = self._wall()
        letters = [self._letter(txid, attempt, each, now) for each in rows]
        self._note_given_up(txid, letters)
        return self._stored.replace(txid, letters)

    def refuse(self, txid: int, attempt: int, rows: Collection[GivenUpRow]) -> dict[str, object]:
        """Return the changes of the ledger that make letters of rows that a committer cannot publish, and say so.

        Raises StateError without room.
        """
        letters = self._letters_of_refused(txid, attempt, rows)
        self._note_given_up(txid, letters)
        return self._stored.add(txid, letters)

    def add_refused(self, txid: int, attempt: int, rows: Collection[GivenUpRow]) -> dict[str, object]:
        """Return the same changes, for a tool. Raises StateError without room."""
        return self._stored.add(txid, self._letters_of_refused(txid, attempt, rows))

    def _letters_of_refused(self, txid: int, attempt: int, rows: Collection[GivenUpRow]) -> list[DeadLetter]:
        if len(rows) > self.room:
            hint = "Look at them, and drop some: python -m engine dead-letters list."
            raise StateError(f"topology {self._topology_name!r}: no room for {len(rows):,} more dead letters", hint=hint)
        now = self._wall()
        return [replace(self._letter(txid, attempt, each, now), is_processed=True) for each in rows]

    def _letter(self, txid: int, attempt: int, given_up: GivenUpRow, now: float) -> DeadLetter:
        (values, stream, _), failure = given_up.row, given_up.failure
        return DeadLetter(
            txid,
            attempt,
            failure.component_id or given_up.source,
            -1 if failure.task_id is None else failure.task_id,
            encode_row(given_up.source, stream, tuple(values), self._codec),
            _error_of(failure),
            given_up.passes,
            now,
        )

    def _note_given_up(self, txid: int, letters: Collection[DeadLetter]) -> None:
        if letters:
            self._given_up += len(letters)
            by_component = Counter(letter.component_id for letter in letters)
            told = ", ".join(f"{count:,} row{'s' * (count > 1)} of {component!r}" for component, count in sorted(by_component.items()))
            first = next(iter(letters)).error.partition("\n")[0]
            LOGGER.warning("checkpoint %d of %r is committed without %s (%s). They are dead letters now: python -m engine dead-letters.",
                           txid, self._topology_name, told, clipped(first, ERROR_IN_VIEWS))  # fmt: skip

    def wait_for_room(self, *, on: bool) -> None:
        """Say that the run waits until letters are dropped, or that it does no longer."""
        if on and self._wait is None:
            self._wait = waiting_for(f"room for the dead letters of {self._topology_name!r}").begun()
        elif not on and self._wait is not None:
            self._wait.end()
            self._wait = None

    def snapshot(self) -> DeadLettersSnapshot:
        """Return the number of letters, and the newest one."""
        last = self._stored.last
        component_id, error = (None, None) if last is None else (last.component_id, last.error)
        return DeadLettersSnapshot(len(self._stored), self._given_up, component_id, error)


def _error_of(failure: Failure) -> str:
    """Return the error that a call has raised, or else what has happened."""
    return failure.error if failure.reason == ERROR and failure.error else failure.describe()
