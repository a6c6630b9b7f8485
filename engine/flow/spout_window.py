"""`max_spout_pending="auto"`: the window of a whole spout, found by trying (FC-8).

A plain object: it is told of each burst of the spout's tasks, and returns how many trees each of them may have open. More in flight
is worth it while it brings more acks a second: the queue in front of the slowest bolt brings none. So twice the window is tried beside
the window, and half of it, in short rounds in turn (A B B A …), which a machine that slows down for a while slows alike. Which of the
two wins is a question of the mean of the pairs and of its error: what is clear is decided by the first pair, what is not by the last.

The tasks of one spout have one window, and are judged together: alone, each would gain by taking the others' share. See docs/FLOW.md.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from engine.flow.status import FlowState

FIRST_WINDOW: Final = 4
MOST: Final = 262_144
"""The greatest window of a task. Open trees cost memory, some 300 bytes each."""
WORTH: Final = 0.025
"""Twice the window is to bring so much more acks (as a difference of logarithms); half the window may cost so much."""
ROUND_SECS: Final = 0.02
LONG_ROUND_SECS: Final = 1.0
"""From then on a round is over when its windows have come back once, instead of twice."""
MOST_PAIRS: Final = 48
FEW_PAIRS: Final = 4
USUAL_NOISE, LEAST_NOISE = 0.2, 0.05
"""What two rounds of the same window differ by, while few are known, and at least."""
SURE: Final = 2.0
"""Standard errors from which on a trial is decided early."""
FIRST_HOLD_SECS, LONGEST_HOLD_SECS = 0.1, 12.8
"""From a trial that is lost to the next one: doubled with each that is lost."""
HOLD_ROUNDS: Final = 4
"""At least so many rounds, where they are long."""
OTHER_RATE: Final = 1.6
"""A rate that is so many times another one, or one so many times it, is no chance."""
CHANCE_FAILURES: Final = 32
"""So few failures say nothing."""


@dataclass(slots=True)
class _Task:
    """One spout task as it was after its last burst."""

    acked: int = 0
    failed: int = 0
    open_trees: int = 0
    window: int = FIRST_WINDOW
    """What it was told last."""
    kept_since: float | None = None
    """Since when something else than the window has kept it from being polled."""


@dataclass(slots=True)
class _Round:
    """What came in one round."""

    task_index: int
    """The task after whose burst it began, and is to end: so each task has had as many turns."""
    began: float
    ignores: int = 0
    """Trees that were under way when the window changed: they come before the round."""
    acked: int = 0
    failed: int = 0
    kept_secs: float = 0.0
    limited: bool = False


@dataclass(slots=True)
class _Trial:
    """Another window beside the one that holds, in pairs of rounds."""

    base: int
    other: int
    pairs: int = 0
    total: float = 0.0
    squares: float = 0.0
    acks: list[int] = field(default_factory=lambda: [0, 0])
    first: float | None = None
    """The logarithm of the rate of the first round of a pair."""

    @property
    def turn(self) -> int:
        """Whose round is next, 0 the base's and 1 the other's: 0 1 1 0 0 1 1 0."""
        return (self.pairs + (self.first is not None)) % 2

    @property
    def window(self) -> int:
        """The window of the next round."""
        return self.other if self.turn else self.base

    def take(self, rate: float, acks: int) -> bool | None:
        """Note a round; True when the other window has won, False when it has lost, None while that is open."""
        turn = self.turn
        self.acks[turn] += acks
        if self.first is None:
            self.first = math.log(rate)
            return None
        gain = (math.log(rate) - self.first) * (1 if turn else -1)
        gain = max(-1.0, min(1.0, gain))
        self.pairs, self.first = self.pairs + 1, None
        self.total += gain
        self.squares += gain * gain
        return self._verdict()

    def _verdict(self) -> bool | None:
        mean = self.total / self.pairs
        advantage = mean - WORTH if self.other > self.base else mean + WORTH
        if self.pairs < MOST_PAIRS and abs(advantage) < SURE * self._error(mean):
            return None
        return advantage > 0

    def _error(self, mean: float) -> float:
        """The standard error of the mean: by how the pairs differ, and while they are few, by what is usual or so few acks leave open."""
        usual = LEAST_NOISE**2
        if self.pairs < FEW_PAIRS:
            usual = max(USUAL_NOISE**2, self.pairs * sum(1 / acks for acks in self.acks))
        return math.sqrt(usual + max(0.0, self.squares - self.pairs * mean**2)) / self.pairs


class SpoutWindow:
    """How many trees each task of a spout may have open."""

    def __init__(self, tasks: int = 1) -> None:
        self.state: FlowState = "NORMAL"
        self._tasks = [_Task() for _ in range(tasks)]
        self._window = FIRST_WINDOW
        self._trial: _Trial | None = None
        self._hold_secs = FIRST_HOLD_SECS
        self._hold_until = 0.0
        self._hold_rounds = 0
        self._held_rate = 0.0
        """Of the first round of a hold; 0: none yet."""
        self._polled = 0
        """Trees that one poll of a spout emitted beyond its window, at most; since the last trial began."""
        self._round: _Round | None = None

    @property
    def max_pending(self) -> int:
        """The window of the moment."""
        return self._window if self._trial is None else self._trial.window

    def after_burst(self, task_index: int, now: float, acked: int, failed: int, open_trees: int, limited: bool | None) -> int:
        """Take what a task has come to, and return its window.

        `acked` and `failed` are all trees so far. `limited`: whether the window keeps the task from being polled; None: nothing does.
        """
        task, this = self._tasks[task_index], self._round
        if this is None:
            this = self._round = _Round(task_index, now)
        acks, fails = acked - task.acked, failed - task.failed
        if open_trees > task.open_trees:
            self._polled = max(self._polled, open_trees - task.window)
        task.acked, task.failed, task.open_trees = acked, failed, open_trees
        this.acked += acks
        this.failed += fails
        if task.kept_since is not None:
            this.kept_secs += now - max(task.kept_since, this.began)
        task.kept_since = now if limited is False else None
        this.limited = this.limited or limited is True
        if fails and self._is_overrun(this):
            self._give_way(fails, task_index, now)
        elif this.ignores:
            if this.acked + this.failed >= this.ignores:
                self._round = _Round(task_index, now)
        elif self._is_over(this, task_index, now):
            before = self.max_pending
            self._end_round(this, now)
            in_flight = sum(each.open_trees for each in self._tasks)
            self._round = _Round(task_index, now, in_flight if self.max_pending != before else 0)
        task.window = self.max_pending
        return task.window

    # Rounds

    def _is_over(self, this: _Round, task_index: int, now: float) -> bool:
        settled, secs = this.acked + this.failed, now - this.began
        in_flight = max(self.max_pending, self._polled) * len(self._tasks)
        if secs >= LONG_ROUND_SECS:
            return settled >= in_flight
        return task_index == this.task_index and secs >= ROUND_SECS and settled >= 2 * in_flight

    def _end_round(self, this: _Round, now: float) -> None:
        if self.state == "BUSY":
            if this.failed <= this.acked:
                self._hold(now, "NORMAL")
        elif not this.limited or this.kept_secs * 4 > (now - this.began) * len(self._tasks) or not this.acked:
            self._trial = None  # a window that is not used up says nothing
        elif self._trial is not None:
            won = self._trial.take(this.acked / (now - this.began), this.acked)
            if won is not None:
                self._end_trial(self._trial, now, won=won)
        else:
            self._note_held(this.acked / (now - this.began))
        if self._trial is None and self._hold_rounds <= 0 and now >= self._hold_until and self.state != "BUSY":
            self._begin_trial(now)

    def _note_held(self, rate: float) -> None:
        """A round between two trials; where the rate is another one than before, the window that was found may be no more the right one."""
        self._hold_rounds -= 1
        self._held_rate = self._held_rate or rate
        if not 1 / OTHER_RATE < rate / self._held_rate < OTHER_RATE:
            self._hold_until, self._hold_secs = 0.0, FIRST_HOLD_SECS

    # Trials

    def _begin_trial(self, now: float) -> None:
        wider = max(self._window * 2, self._polled)  # beside a poll that emits a thousand, 8 is no more than 4
        other = min(wider, MOST) if self.state == "NORMAL" else max(self._window // 2, 1)
        self._polled = 0
        if other == self._window:
            self._turn_round(now)
        else:
            self._trial = _Trial(self._window, other)

    def _end_trial(self, trial: _Trial, now: float, *, won: bool) -> None:
        self._trial = None
        if won:
            self._window, self._hold_secs = trial.other, FIRST_HOLD_SECS
        else:
            self._turn_round(now)

    def _turn_round(self, now: float) -> None:
        """What was tried brought nothing: the other way next, after a longer pause."""
        self._hold(now, "SLOW" if self.state == "NORMAL" else "NORMAL")
        self._hold_secs = min(self._hold_secs * 2, LONGEST_HOLD_SECS)

    def _hold(self, now: float, state: FlowState) -> None:
        self.state, self._hold_until, self._hold_rounds = state, now + self._hold_secs, HOLD_ROUNDS
        self._held_rate = 0.0

    # Failures

    def _is_overrun(self, this: _Round) -> bool:
        """True where more trees fail than are acked. Fewer cost acks, which the trials see: what fails for what it holds needs no room."""
        return this.failed > this.acked and (self.state == "BUSY" or this.failed > CHANCE_FAILURES)

    def _give_way(self, fails: int, task_index: int, now: float) -> None:
        if self.state != "BUSY":
            self.state, self._trial = "BUSY", None
            self._round = _Round(task_index, now)
        self._window = max(1, self._window - fails)
