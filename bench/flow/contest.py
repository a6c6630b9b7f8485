"""What is measured of flow control, by name."""

from collections.abc import Sequence
from typing import Final

from bench.benchmark import Benchmark, Figure
from bench.child import module_child
from bench.flow import auto_pending, unlike_contest
from bench.results import Results
from bench.rounds import Say, run_alone

GROUP: Final = "flow"
COST: Final = Benchmark(
    GROUP,
    "controller-cost",
    "the controller alone, 12 tasks",
    (
        Figure("decide_ns", "a tuple's task, emit and ack", "ns"),
        Figure("all_of_1_ns", "everything, tuples of one record, per record", "ns"),
        Figure("all_of_20_ns", "everything, tuples of 20, per record", "ns"),
        Figure("all_of_200_ns", "everything, tuples of 200, per record", "ns"),
    ),
    lambda quick: module_child("bench.flow.controller_cost", "--packs", 20_000 if quick else 300_000),
)
BAD: Final = Benchmark(
    GROUP,
    "bad-records",
    "12 tasks, some of the records are bad: each is tried twice, and given up",
    (
        *(Figure(f"waiting_{percent}_of_ideal", f"3 ms a record, {percent} % bad: rate, to the ideal", "×") for percent in (1, 10, 30)),
        *(Figure(f"at_once_{percent}_per_second", f"nothing to do, {percent} % bad", "/s") for percent in (1, 10, 30)),
        Figure("at_once_per_second", "nothing to do, none bad", "/s"),
    ),
    lambda quick: module_child("bench.flow.bad_records", "--secs", 0.2 if quick else 4),
)
SUMMARIES: Final = (*unlike_contest.SUMMARIES, (COST.name, COST.summary), (BAD.name, BAD.summary), *auto_pending.SUMMARIES)
NAMES: Final = tuple(name for name, _ in SUMMARIES)


def measure(names: Sequence[str], rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure what is named; all where nothing is."""
    results = Results()
    if not names or set(names) & set(unlike_contest.NAMES):
        results += unlike_contest.measure(names, rounds, say, quick=quick)
    if not names or COST.name in names:
        results += run_alone(COST, rounds, say, quick=quick)
    if not names or BAD.name in names:
        results += run_alone(BAD, rounds, say, quick=quick)
    if not names or set(names) & set(auto_pending.NAMES):
        results += auto_pending.measure(names, rounds, say, quick=quick)
    return results
