"""`RowlessInputs`: failed inputs that belong to no row of a source, such as results of windows (EO-6). It uses no clock and no store."""

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final, NamedTuple, TypeAlias

from engine.api import Tuple
from engine.checkpoint.given_up import GaveUp, GivenUpRow
from engine.errors import Failure
from engine.safe_text import safe_repr
from engine.topology.task_port import BoltPort

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
        self.failed: Final[list[FailedInput]] = []
        """Those that repeat the interval."""
        self.letters: Final[list[FailedInput]] = []
        """Those of this pass that are given up."""
        self._passes: Counter[Place] = Counter()
        self._given_up: set[Place] = set()
        """What fails here becomes a dead letter."""
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
        if place not in self._given_up or not self._may_give_up():
            self.failed.append(failed)
            return
        self.letters.append(failed)
        error = GaveUp(
            f"bolt {place[0]!r}: the input {safe_repr(row.row[0])} of {place[1]!r}, which belongs to no row of a source, was given up, "
            f"because such inputs failed in {row.passes} pass{'es' * (row.passes > 1)}",
            hint="Nothing behind the bolt has it. Correct the bolt, or let it divert what it cannot process.",
        )
        port.report(error, "the input becomes a dead letter: python -m engine dead-letters")

    @property
    def have_failed_before_barrier(self) -> bool:
        """True if one of the failed inputs belongs before the last barrier."""
        return any(each.round < self._round for each in self.failed)

    @property
    def has_work(self) -> bool:
        """True while a checkpoint must decide what becomes of a failed input."""
        return bool(self.failed or self.letters)

    def end_pass(self, worked: Collection[str]) -> bool:
        """Count the places where inputs have failed. Return True if one counts. worked: components that have processed something."""
        has_counted = False
        for place in {each.place for each in self.failed if each.place[0] in worked}:
            has_counted = True
            self._count(place)
        return has_counted

    def _count(self, place: Place) -> None:
        self._passes[place] += 1
        if self._max_retries is not None and self._passes[place] >= self._max_retries and self._may_give_up():
            self._given_up.add(place)

    def give_up_first(self, passes: int) -> None:
        """Give up the first of the failed inputs, although its component has processed nothing else for so many passes."""
        place = self.failed[0].place
        self._passes[place] = passes - 1
        self._count(place)

    def begin_pass(self) -> None:
        """Begin a pass."""
        self.failed.clear()
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
                self.failed.append(letter)
        self.letters.clear()
        self._passes.clear()
        self._given_up.clear()
