"""One source and 12 unlike tasks: flow control beside groupings that know nothing of the tasks, each with its best fixed window.

The best window of a grouping is, of those whose rate is within 5 % of its best, the one with the least p99: more open trees than that only
wait. In virtual time a run is what it is, and is made once; in real time the timers' slack and the loop's own work are in it. Imports no
engine: only the children do.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bench.benchmark import PER_SECOND, Figure
from bench.child import Reading, RunFailed, module_child, run_child
from bench.results import Measured, Missing, Results
from bench.rounds import Say
from bench.spread import spread

GROUP: Final = "flow"
WINDOWS: Final[Mapping[str, tuple[int, ...]]] = {
    "hash": (12, 100, 1000),
    "shuffle": (1, 12, 24, 48, 96, 384),
    "load-aware": (12, 24, 48, 96, 384),
}
QUICK_WINDOWS: Final[Mapping[str, tuple[int, ...]]] = {"hash": (100,), "shuffle": (12,), "load-aware": (24,)}
PACED_PER_SECOND: Final = 1200
"""A little more than half of what the tasks can do."""

SUMMARIES: Final = (
    ("unlike-tasks", "12 tasks, a heavy tail, one 10 times slower, one that stalls: flow control beside groupings with their best windows"),
    ("unlike-tasks-virtual", "the same in virtual time"),
    ("unlike-tasks-paced", f"the same in virtual time from a source of {PACED_PER_SECOND:,} records a second, without windows"),
)
NAMES: Final = tuple(name for name, _ in SUMMARIES)

POINT: Final = (
    PER_SECOND,
    Figure("of_ideal", "rate, to what the tasks can do", "×"),
    Figure("p50_ms", "made to done, p50", "ms"),
    Figure("p99_ms", "made to done, p99", "ms"),
)
OWN: Final = (*POINT, Figure("recovery_secs", "from the end of a stall to the full rate", "s"))


def measure(names: Sequence[str], rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure what is named; all where nothing is."""
    results = Results()
    for name, summary in SUMMARIES:
        if names and name not in names:
            continue
        say(f"{GROUP} {name}: {summary}")
        try:
            results += _measure(name, 1 if name != "unlike-tasks" else rounds, say, quick=quick)
        except RunFailed as error:
            say(f"  failed: {error}")
            results += Results(missing=(Missing(GROUP, name, str(error)),))
    return results


def _measure(name: str, rounds: int, say: Say, *, quick: bool) -> Results:
    ways: list[tuple[str, int | None]] = [("flow", None)]
    options = ["--virtual"] if quick or name != "unlike-tasks" else []
    if name == "unlike-tasks-paced":
        options += ["--rate", str(PACED_PER_SECOND)]
        ways += [("round-robin", None), ("load-aware", None), ("shuffle", None)]
    else:
        windows = QUICK_WINDOWS if quick else WINDOWS
        ways += [(way, pending) for way, values in windows.items() for pending in values]
    readings: dict[tuple[str, int | None], list[Reading]] = {way: [] for way in ways}
    for number in range(1, rounds + 1):
        for way, pending in ways:
            bound = [] if pending is None else ["--pending", str(pending)]
            reading = run_child(module_child("bench.flow.unlike_tasks", way, *bound, *options, timeout_secs=300))
            readings[way, pending].append(reading)
            shown = f"{reading['per_second']:>7,.0f}/s  {reading['of_ideal']:.3f} of ideal  p99 {reading['p99_ms']:,.1f} ms"
            say(f"  {number}/{rounds}  {way} {'' if pending is None else pending}: {shown}")
    points = tuple(
        _summary(f"{name} {way}{'' if pending is None else f' {pending}'}", OWN if way == "flow" and "paced" not in name else POINT, values)
        for (way, pending), values in readings.items()
    )
    return Results(measured=(*points, _ratios(name, readings)))


def _ratios(name: str, readings: Mapping[tuple[str, int | None], list[Reading]]) -> Measured:
    """Flow control beside each other way at its best window, round by round."""
    own = readings["flow", None]
    figures: list[Figure] = []
    values: dict[str, list[float]] = {}
    for way in dict.fromkeys(way for way, _ in readings if way != "flow"):
        best = _best({pending: found for (each, pending), found in readings.items() if each == way})
        bound = "" if best is None else f" {best}"
        for key, label in (("per_second", "rate"), ("p99_ms", "p99")):
            figures.append(Figure(f"{way}_{key}", f"{label}, to {way}{bound}", "×"))
            pairs = zip(own, readings[way, best], strict=True)
            values[f"{way}_{key}"] = [mine[key] / other[key] for mine, other in pairs]
    return Measured(GROUP, name, tuple((figure, spread(values[figure.key])) for figure in figures))


def _best(swept: Mapping[int | None, list[Reading]]) -> int | None:
    def mean(pending: int | None, key: str) -> float:
        return sum(reading[key] for reading in swept[pending]) / len(swept[pending])

    most = max(mean(pending, "per_second") for pending in swept)
    return min((pending for pending in swept if mean(pending, "per_second") >= 0.95 * most), key=lambda pending: mean(pending, "p99_ms"))


def _summary(name: str, figures: Sequence[Figure], readings: Sequence[Reading]) -> Measured:
    return Measured(GROUP, name, tuple((figure, spread([reading[figure.key] for reading in readings])) for figure in figures))
