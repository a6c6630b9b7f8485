"""`max_spout_pending="auto"` beside every fixed value, and the size of bursts: sweeps, each point a process of its own.

The best fixed value is picked by the sweep, whose greatest rate is too great by what chance gave it; so `"auto"` runs beside the
picked one once more, in turn, and the ratios are of these pairs. Imports no engine: only the children do.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final

from bench.benchmark import PER_SECOND, Figure
from bench.child import Child, Reading, RunFailed, module_child, run_child
from bench.results import Measured, Missing, Results
from bench.rounds import Say, alternate
from bench.spread import spread

GROUP: Final = "flow"
WORKS: Final = {
    "auto-pending-word-count": ("word-count", "the word count of macro, max_spout_pending auto beside 16 to 16,384 and none"),
    "auto-pending-async-pool": ("async-pool", "12 tasks that wait 5 ms for each tuple, max_spout_pending auto beside the same"),
}
BURSTS: Final = "burst-word-count"
NAMES: Final = (*WORKS, BURSTS)
SUMMARIES: Final = (
    *((name, summary) for name, (_, summary) in WORKS.items()),
    (BURSTS, "the word count of macro with bursts of 16 to 2,048 tuples, 1,000 open trees"),
)

FIXED: Final = (*(2**power for power in range(4, 15)), "none")
BURST_SIZES: Final = tuple(2**power for power in range(4, 12))
POINT: Final = (PER_SECOND, Figure("p50_ms", "emit to ack, p50", "ms"), Figure("p99_ms", "emit to ack, p99", "ms"))
RATIOS: Final = (
    Figure("rate_ratio", "rate, to the best fixed value", "×"),
    Figure("p50_ratio", "emit to ack p50, to the same", "×"),
    Figure("p99_ratio", "emit to ack p99, to the same", "×"),
    *POINT,
    Figure("window", "window at the end", "trees"),
    *(Figure(f"best_{figure.key}", f"best fixed value: {figure.label}", figure.unit) for figure in POINT),
)


def measure(names: Sequence[str], rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure what is named; all where nothing is."""
    results = Results()
    for name in NAMES:
        if names and name not in names:
            continue
        say(f"{GROUP} {name}: {dict(SUMMARIES)[name]}")
        try:
            results += _bursts(rounds, say, quick=quick) if name == BURSTS else _auto_pending(name, rounds, say, quick=quick)
        except RunFailed as error:
            say(f"  failed: {error}")
            results += Results(missing=(Missing(GROUP, name, str(error)),))
    return results


def _auto_pending(name: str, rounds: int, say: Say, *, quick: bool) -> Results:
    work = WORKS[name][0]
    swept = _sweep(FIXED, lambda pending: _child(work, quick, "--pending", pending), rounds, say)
    best = _best(swept)
    say(f"  auto | {best}")
    pairs = alternate(lambda: _child(work, quick, "--pending", "auto"), lambda: _child(work, quick, "--pending", best), rounds, say)
    compared = _summary(name, RATIOS, [_ratios(own, other) for own, other in zip(*pairs, strict=True)])
    return Results(measured=(*_points(name, swept), compared))


def _bursts(rounds: int, say: Say, *, quick: bool) -> Results:
    swept = _sweep(BURST_SIZES, lambda burst: _child("word-count", quick, "--pending", 1000, "--burst", burst), rounds, say)
    say(f"  best burst: {_best(swept)}")
    return Results(measured=_points(BURSTS, swept))


def _sweep(points: Sequence[object], child: Callable[[object], Child], rounds: int, say: Say) -> Mapping[object, list[Reading]]:
    """Run every point once, then all of them again, so many times: a machine that slows down for a while slows several."""
    swept: dict[object, list[Reading]] = {point: [] for point in points}
    for number in range(1, rounds + 1):
        for point in points:
            swept[point].append(run_child(child(point)))
            rate, p50, p99 = (swept[point][-1][figure.key] for figure in POINT)
            say(f"  {number}/{rounds}  {point!s:>6}  {rate:>10,.0f}/s  p50 {p50:.3g} ms  p99 {p99:.3g} ms")
    return swept


def _best(swept: Mapping[object, list[Reading]]) -> object:
    return max(swept, key=lambda point: median(reading["per_second"] for reading in swept[point]))


def _points(name: str, swept: Mapping[object, list[Reading]]) -> tuple[Measured, ...]:
    return tuple(_summary(f"{name} {point}", POINT, readings) for point, readings in swept.items())


def _summary(name: str, figures: Sequence[Figure], readings: Sequence[Reading]) -> Measured:
    return Measured(GROUP, name, tuple((figure, spread([reading[figure.key] for reading in readings])) for figure in figures))


def _ratios(own: Reading, best: Reading) -> Reading:
    ratios = {"rate_ratio": own["per_second"] / best["per_second"]}
    ratios |= {f"{share}_ratio": own[f"{share}_ms"] / best[f"{share}_ms"] for share in ("p50", "p99")}
    return {**own, **ratios, **{f"best_{figure.key}": best[figure.key] for figure in POINT}}


def _child(work: str, quick: bool, *options: object) -> Child:
    warm, secs = (0.5, 0.5) if quick else (3, 3)
    return module_child("bench.flow.point", work, *options, "--warm-secs", warm, "--secs", secs)
