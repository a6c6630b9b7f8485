"""Repeats children, alone or in alternating pairs."""

from collections.abc import Callable

from bench.child import Child, Reading, run_child

Say = Callable[[str], None]
"""Takes one line of progress."""


def repeat(child: Child, rounds: int, say: Say) -> list[Reading]:
    """Run a child so many times."""
    readings = []
    for number in range(1, rounds + 1):
        readings.append(run_child(child))
        say(f"  {number}/{rounds}  {_short(readings[-1])}")
    return readings


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
