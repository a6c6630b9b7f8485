"""Find the best setting of each alternative, and compare the work's own run with it."""

from collections.abc import Mapping, Sequence
from statistics import median

from bench.process import Reading
from bench.results import Measured, Results, measured, spread
from bench.rounds import Rounds
from bench.work import Figure, Sweep, Work


def measure_sweep(work: Work, sweep: Sweep, rounds: Rounds) -> Results:
    """Run all points in turn, choose the best point of each alternative, and return the ratios. Raises `RunFailed`."""
    rounds.say(f"{work.group} {work.name}: {work.summary}")
    count = 1 if work.once else None
    points = {way: dict(list(runs.items())[: 1 if rounds.quick else None]) for way, runs in sweep.ways.items()}
    runs = {_name(way, point): run for way, each in points.items() for point, run in each.items()}
    own = {} if sweep.again else {work.own_name: work.run}
    readings = rounds.in_turn(own | runs, count)
    rows = [measured(work.group, f"{work.name} {name}", work.figures, taken) for name, taken in readings.items()]
    if not sweep.compared:
        return Results(measured=tuple(rows))
    best = {way: _best([_name(way, point) for point in each], readings, sweep.rate_loss) for way, each in points.items()}
    rounds.say(f"  best: {', '.join(best.values())}")
    if sweep.again:
        readings = rounds.in_turn({work.own_name: work.run} | {name: runs[name] for name in best.values()})
        rows += [measured(work.group, f"{work.name} {name}, in pairs", work.figures, taken) for name, taken in readings.items()]
    return Results(measured=(*rows, _ratios(work, sweep.compared, best, readings)))


def _name(way: str, point: str) -> str:
    return f"{way} {point}".strip()


def _best(names: Sequence[str], readings: Mapping[str, Sequence[Reading]], rate_loss: float) -> str:
    """Return the point with the lowest p99 among the points whose rate is close to the maximum."""

    def middle(name: str, key: str) -> float:
        return median(reading[key] for reading in readings[name])

    enough = (1 - rate_loss) * max(middle(name, "per_second") for name in names)
    return min((name for name in names if middle(name, "per_second") >= enough), key=lambda name: middle(name, "p99_ms"))


def _ratios(work: Work, compared: Sequence[Figure], best: Mapping[str, str], readings: Mapping[str, Sequence[Reading]]) -> Measured:
    """Return ratios of the own run to the best point of each alternative, round by round."""
    own = readings[work.own_name]
    rows = []
    for way, name in best.items():
        for figure in compared:
            values = [mine[figure.key] / other[figure.key] for mine, other in zip(own, readings[name], strict=True)]
            rows.append((Figure(f"{way}_{figure.key}", f"{figure.label}, to {name}", "×"), spread(values)))
    return Measured(work.group, work.name, tuple(rows))
