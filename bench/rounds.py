"""Repeats children, alone or in alternating pairs."""

from collections.abc import Callable

from bench.benchmark import Benchmark
from bench.child import Child, Reading, RunFailed, run_child
from bench.results import Missing, Results, measured

Say = Callable[[str], None]
"""Takes one line of progress."""


def repeat(child: Child, rounds: int, say: Say) -> list[Reading]:
    """Run a child so many times."""
    readings = []
    for number in range(1, rounds + 1):
        readings.append(run_child(child))
        say(f"  {number}/{rounds}  {_short(readings[-1])}")
    return readings


def run_alone(benchmark: Benchmark, rounds: int, say: Say, *, quick: bool) -> Results:
    """Run a benchmark that has no peer; a run that fails is told, and ends it."""
    say(f"{benchmark.group} {benchmark.name}: {benchmark.summary}")
    try:
        return Results(measured=(measured(benchmark, repeat(benchmark.child(quick), rounds, say)),))
    except RunFailed as error:
        say(f"  failed: {error}")
        return Results(missing=(Missing(benchmark.group, benchmark.name, str(error)),))


def alternate(a: Callable[[], Child], b: Callable[[], Child], rounds: int, say: Say) -> tuple[list[Reading], list[Reading]]:
    """Run A, B, A, B, …, so many of each: a machine that slows down for a while slows both."""
    of_a, of_b = [], []
    for number in range(1, rounds + 1):
        of_a.append(run_child(a()))
        of_b.append(run_child(b()))
        say(f"  {number}/{rounds}  {_short(of_a[-1])}  |  {_short(of_b[-1])}")
    return of_a, of_b


def _short(reading: Reading) -> str:
    if "ns" in reading:
        return f"{reading['ns']:,.1f} ns"
    return ", ".join(f"{key} {value:,.4g}" for key, value in reading.items())
