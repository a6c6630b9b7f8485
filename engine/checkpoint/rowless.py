"""`RowlessInputs`: failed inputs that belong to no row of a source, such as results of windows (EO-6). It uses no clock and no store."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from engine.api import Tuple
from engine.checkpoint.given_up import ALONE_AFTER, GaveUp, GivenUpRow
from engine.errors import Failure
from engine.safe_text import safe_repr
from engine.topology.task_port import BoltPort

MOST_KEPT: Final = 1_000
"""Failed inputs of a pass whose values are kept."""
Place: TypeAlias = tuple[str, str, str]
"""(bolt that fails, bolt that has emitted, stream). The values may differ in each pass, as a time does, so they say nothing."""


class FailedInput(NamedTuple):
    """One failure of an input."""

    place: Place
    row: GivenUpRow
    round: int
    """Round of the last barrier that its task had sent before."""
    port: BoltPort


class RowlessInputs:
    """The failed inputs of a run that belong to no row, through all passes since the last commit."""

    def __init__(self, max_retries: int | None, may_give_up: Callable[[], bool]) -> None:
        self._max_retries = max_retries
        self._may_give_up = may_give_up
        self.bolts: Collection[str] = ()
        """Bolts that report them: all rows that reach these come from exact spouts, so an input without a root was emitted un-anchored."""
        self.ports: Final[dict[int, BoltPort]] = {}
        """Those of their tasks."""
        self.failed: Final[list[FailedInput]] = []
        """The first of those that repeat the interval."""
        self.number = 0
        """Number of all of them."""
        self._places: dict[Place, Failure] = {}
        """Where they have failed, and the failure that says most: a death or a timeout, or else the first one."""
        self._oldest = 0
        """Round of the first one of them, in the order of the sources."""
        self.letters: Final[list[FailedInput]] = []
        """Those of this pass that are given up."""
        self._passes: Counter[Place] = Counter()
        self._given_up: set[Place] = set()
        """What fails here becomes a dead letter."""
        self._refused: dict[Place, Failure] = {}
        """Those of them whose bolt dies or hangs. Their inputs do not reach it any more, or no pass would end well."""
        self._round = -1
        """Round of the last PREPARE."""
        self._sent: dict[int, int] = {}
        """Round of the last barrier of each task."""

    def begin_prepare(self, round_: int) -> None:
        """Begin a PREPARE. All failures until now are from before its barrier."""
        self._round = round_

    def note_barrier(self, task: int, round_: int) -> None:
        """Note that a task sends its barrier. What it fails from now on belongs to the next interval."""
        self._sent[task] = round_

    def note_failed(self, task: int, port: BoltPort, tup: Tuple, failure: Failure) -> None:
        """Note that a task has failed an input. This repeats the interval, unless such inputs are given up."""
        place = (failure.component_id or "", tup.source_component, tup.stream)
        row = GivenUpRow(tup.source_component, (tuple(tup.values), tup.stream, None), failure, self._passes[place])
        failed = FailedInput(place, row, self._sent.get(task, -1), port)
        has_died_anew = failure.reason in ALONE_AFTER and place not in self._refused
        if place not in self._given_up or has_died_anew or not self._may_give_up():
            self._add(failed)
            return
        self.letters.append(failed)
        error = GaveUp(
            f"bolt {place[0]!r}: the input {safe_repr(row.row[0])} of {place[1]!r}, which belongs to no row of a source, was given up, "
            f"because such inputs failed in {row.passes} pass{'es' * (row.passes > 1)}",
            hint="Nothing behind the bolt has it. Correct the bolt, or let it divert what it cannot process.",
        )
        port.report(error, "the input becomes a dead letter: python -m engine dead-letters")

    def _add(self, failed: FailedInput) -> None:
        self._oldest = min(self._oldest, failed.round) if self.number else failed.round
        self.number += 1
        failure = failed.row.failure
        if failed.place not in self._places or failure.reason in ALONE_AFTER:
            self._places[failed.place] = failure
        if len(self.failed) < MOST_KEPT:
            self.failed.append(failed)

    def fail_overdue(self) -> None:
        """Fail the inputs that have been with their bolt for too long, because a barrier would wait for them for ever."""
        for port in self.ports.values():
            port.fail_overdue()

    def refused_by(self, bolt: str) -> Mapping[tuple[str, str], Failure] | None:
        """Return the failures of the inputs that must not reach a bolt, by sender and stream. None: there are none."""
        return {(sender, stream): failure for (by, sender, stream), failure in self._refused.items() if by == bolt} or None

    @property
    def have_failed_before_barrier(self) -> bool:
        """True if one of the failed inputs belongs before the last barrier."""
        return self.number > 0 and self._oldest < self._round

    @property
    def has_work(self) -> bool:
        """True while a checkpoint must decide what becomes of a failed input."""
        return bool(self.number or self.letters)

    def end_pass(self, worked: Collection[str]) -> bool:
        """Count the places where inputs have failed. Return True if one counts. worked: components that have processed something."""
        has_counted = False
        for place in self._places:
            if place[0] in worked:
                has_counted = True
                self._count(place)
        return has_counted

    def _count(self, place: Place) -> None:
        self._passes[place] += 1
        if self._max_retries is not None and self._passes[place] >= self._max_retries and self._may_give_up():
            self._given_up.add(place)
            if self._places[place].reason in ALONE_AFTER:
                self._refused[place] = self._places[place]

    def refuse_letters(self) -> None:
        """Refuse from now on what is given up, because the pass has come to nothing without another failure: the bolt has died of it."""
        self._refused.update({each.place: each.row.failure for each in self.letters})

    def give_up_first(self, passes: int) -> None:
        """Give up the first of the failed inputs, although its component has processed nothing else for so many passes."""
        place = next(iter(self._places))
        self._passes[place] = passes - 1
        self._count(place)

    def begin_pass(self) -> None:
        """Begin a pass."""
        self.failed.clear()
        self.number = 0
        self._places.clear()
        self.letters.clear()

    def letters_before_barrier(self) -> list[GivenUpRow]:
        """Return what was given up before the barrier."""
        return [each.row for each in self.letters if each.round < self._round]

    def note_committed(self) -> None:
        """Forget what has failed before the barrier. What has failed behind it counts anew."""
        for letter in self.letters:
            if letter.round < self._round:
                letter.port.note_given_up(1)
            else:
                self._add(letter)
        self.letters.clear()
        self._passes.clear()
        self._given_up.clear()
        self._refused.clear()
