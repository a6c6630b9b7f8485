"""The engine beside each peer on one broker, in turn; then what is measured alone."""

import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from bench.benchmark import PER_SECOND, Benchmark, Figure
from bench.cache import BuildFailed
from bench.child import Child, Reading, RunFailed, module_child, run_child
from bench.kafka.broker import VARIABLE, broker_address, why_not
from bench.kafka.catalog import ALONE, WORKS, Contender, Work
from bench.kafka.job import Job, whole_topic
from bench.results import Measured, Missing, Results, measured, paired
from bench.rounds import Say, alternate, run_alone

QUICK = 20
FIGURES = (
    PER_SECOND,
    Figure("start_secs", "from the start of its process to the first record", "s"),
    Figure("whole_secs", "from there to the last", "s"),
)


def measure(names: list[str], rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure what is named: works with all their peers, peers, what is measured alone; all where nothing is."""
    reason = why_not()
    if reason is not None:
        say(f"kafka: skipped: {reason}")
        return Results(missing=(Missing("kafka", "all of it", reason),))
    with broker_address() as address:
        field = _Field(address, rounds, say, quick=quick)
        results = Results()
        for work in WORKS:
            results += field.work(work, [peer for peer in work.peers if not names or work.name in names or peer.name in names])
        for benchmark in ALONE:
            if not names or benchmark.name in names:
                results += run_alone(_on(benchmark, address), rounds, say, quick=quick)
    return results


def _on(benchmark: Benchmark, address: str) -> Benchmark:
    """Tell the child which broker."""
    return replace(benchmark, child=lambda quick: replace(benchmark.child(quick), environment={VARIABLE: address}))


class _Field:
    """Where all of them run: one broker, whose full topics are filled once."""

    def __init__(self, address: str, rounds: int, say: Say, *, quick: bool) -> None:
        self._address, self._rounds, self._say, self._quick = address, rounds, say, quick
        self._full: set[int] = set()

    def work(self, work: Work, peers: list[Contender]) -> Results:
        """Measure one work beside these peers; the engine's figures of all pairs together."""
        results, own = Results(), []
        for peer in peers:
            reason = peer.unavailable()
            if reason:
                self._say(f"{peer.name}: skipped: {reason}")
                results += Results(missing=(Missing("compare", f"{work.name} on {peer.name}", reason),))
                continue
            self._say(f"{work.name}: stormcell | {peer.name}")
            try:
                ours, theirs = alternate(self._runs(work, work.own), self._runs(work, peer), self._rounds, self._say)
            except (RunFailed, BuildFailed) as error:
                self._say(f"  failed: {error}")
                results += Results(missing=(Missing("kafka", f"{work.name} on {peer.name}", str(error)),))
                continue
            own += ours
            pairing = paired((work.name, "record"), (peer.name, peer.note), ours, theirs)
            results += Results(measured=(_rates(work, peer, theirs),), pairings=(pairing,))
        return Results(measured=(_rates(work, work.own, own),)) + results if own else results

    def _runs(self, work: Work, contender: Contender) -> Callable[[], Child]:
        """Return what makes the command of one run, of a new group or for a new topic."""
        records = contender.records // (QUICK if self._quick else 1)
        if not work.fills:
            self._fill(records)

        def child() -> Child:
            unique = f"stormcell-bench-{uuid.uuid4().hex}"
            topic = unique if work.fills else whole_topic(records)
            return contender.child(Job(self._address, topic, unique, records, time.monotonic()))

        return child

    def _fill(self, records: int) -> None:
        if records not in self._full:
            self._say(f"filling a topic with {records:,} records")
            run_child(module_child("bench.kafka.topics", self._address, records))
            self._full.add(records)


def _rates(work: Work, contender: Contender, readings: list[Reading]) -> Measured:
    return measured(Benchmark("kafka", f"{work.name}, {contender.name}", contender.note, FIGURES, lambda quick: Child(())), readings)
