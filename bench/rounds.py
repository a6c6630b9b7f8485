"""Measure one work alone, or in turn with each peer.

In turn means engine, peer, engine, peer, … because a shared machine can change its speed within minutes. The result is the ratio of
medians. The ratios of neighbouring runs show its uncertainty.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.needs import missing_need
from bench.process import Reading, RunFailed, call_in_process, take_reading
from bench.results import Missing, Results, measured, paired
from bench.work import Peer, Run, Work

Say = Callable[[str], None]
"""Takes one line of progress."""


@dataclass
class Rounds:
    """Number of repetitions. Also stores the preparations and messages that are already done."""

    count: int
    say: Say
    quick: bool = False
    _prepared: set[tuple[str, object]] = field(default_factory=set)
    _said: set[str] = field(default_factory=set)

    def in_turn(self, runs: Mapping[str, Run], count: int | None = None) -> dict[str, list[Reading]]:
        """Run all once, then all again, `count` times in total. Return the readings of each name."""
        for run in runs.values():
            self._prepare(run)
        readings: dict[str, list[Reading]] = {name: [] for name in runs}
        rounds = count or self.count
        for number in range(1, rounds + 1):
            for name, run in runs.items():
                readings[name].append(take_reading(run, quick=self.quick))
                self.say(f"  {number}/{rounds}  {name}: {_short(readings[name][-1])}")
        return readings

    def say_once(self, line: str) -> None:
        """Show a line unless it was shown before."""
        if line not in self._said:
            self._said.add(line)
            self.say(line)

    def _prepare(self, run: Run) -> None:
        records = run.sized(quick=self.quick).get("records", 0)
        if run.prepare and (run.prepare, records) not in self._prepared:
            self.say(f"  preparing {records:,} records")
            call_in_process(run.prepare, {"records": records})
            self._prepared.add((run.prepare, records))


def measure_alone(work: Work, rounds: Rounds) -> Results:
    """Run a work without peers. Raises `RunFailed`."""
    rounds.say(f"{work.group} {work.name}: {work.summary}")
    readings = rounds.in_turn({work.own_name: work.run}, 1 if work.once else None)
    return Results(measured=(measured(work.group, work.name, work.figures, readings[work.own_name]),))


def measure_beside(work: Work, peers: Sequence[Peer], rounds: Rounds) -> Results:
    """Run a work in turn with each peer. If the work has figures, show the figures of all runs of the engine and of each peer."""
    results, own = Results(), list[Reading]()
    for peer in peers:
        reason = missing_need((*peer.needs, peer.run.package))
        if reason:
            rounds.say_once(f"{peer.name}: skipped: {reason}")
            results += Results(missing=(Missing(work.group, peer.name, reason, absent_peer=True),))
            continue
        rounds.say(f"{work.name}: {work.own_name} | {peer.name}")
        try:
            results += _measure_pair(work, peer, rounds, own)
        except RunFailed as error:
            rounds.say(f"  failed: {error}")
            results += Results(missing=(Missing(work.group, f"{work.name} on {peer.name}", str(error)),))
    if own and work.figures:
        return Results(measured=(measured(work.group, f"{work.name}, {work.own_name}", work.figures, own),)) + results
    return results


def _measure_pair(work: Work, peer: Peer, rounds: Rounds, own: list[Reading]) -> Results:
    runs = {work.own_name: work.run, **({"without": work.without} if work.without else {}), peer.name: peer.run}
    readings = rounds.in_turn(runs)
    own += readings[work.own_name]
    times = {name: [reading["ns"] for reading in taken] for name, taken in readings.items()}
    pairings = [paired(work, peer, times[work.own_name], times[peer.name])]
    if work.without:
        share = [whole - rest for whole, rest in zip(times[work.own_name], times["without"], strict=True)]
        pairings.append(paired(work, peer, share, times[peer.name], "-share"))
    shown = (measured(work.group, f"{work.name}, {peer.name}", work.figures, readings[peer.name]),) if work.figures else ()
    return Results(measured=shown, pairings=tuple(pairings))


def _short(reading: Reading) -> str:
    if "ns" in reading:
        return f"{reading['ns']:,.1f} ns"
    return ", ".join(f"{key} {value:,.4g}" for key, value in reading.items())
