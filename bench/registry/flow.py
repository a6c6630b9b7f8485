"""Flow control."""

from typing import Any, Final

from bench.registry.runs import PER_SECOND, new_figures, new_percentiles, new_run
from bench.work import Figure, Run, Sweep, Work

POINT: Final = PER_SECOND + new_percentiles("emit to ack", "p50", "p99") + new_figures("trees", window="window at the end")
UNLIKE: Final = (
    *PER_SECOND,
    *new_figures("×", of_ideal="rate, to the tasks' capacity"),
    *new_percentiles("made to done", "p50", "p99"),
    *new_figures("s", recovery_secs="from the end of a stall to the full rate"),
)
WINDOWS: Final = {"hash": (100, 12, 1000), "shuffle": (12, 1, 24, 48, 96, 384), "load-aware": (24, 12, 48, 96, 384)}
"""Windows to try for each grouping. A small run tries the first one."""
PACED_PER_SECOND: Final = 1200
"""Records per second of a source that is slower than the tasks (0.55 of their capacity)."""


def _unlike(name: str, summary: str, *, virtual: bool, rate: int = 0) -> Work:
    """Return flow control compared with groupings. Each grouping has its windows, or no windows if the source has a rate."""

    def run(way: str, pending: int = 0) -> Run:
        arguments: dict[str, Any] = {"way": way, "pending": pending, "rate": rate, "virtual": virtual}
        return new_run("bench.flow.unlike_tasks:measure", {"virtual": True}, timeout_secs=300, **arguments)

    ways = {way: {str(window): run(way, window) for window in windows} for way, windows in WINDOWS.items()}
    if rate:
        ways = {way: {"": run(way)} for way in ("round-robin", "load-aware", "shuffle")}
    sweep = Sweep(ways, PER_SECOND + new_figures("ms", p99_ms="p99"), rate_loss=0.05)
    return Work("flow", name, summary, run("flow"), UNLIKE, own_name="flow", sweep=sweep, once=virtual)


def _point(work: str, pending: int | str, burst: int = 256) -> Run:
    quick = {"warm_secs": 0.5, "measured_secs": 0.5}
    return new_run("bench.flow.point:measure", quick, work=work, pending=pending, burst=burst, warm_secs=3.0, measured_secs=3.0)


def _auto_pending(work: str, summary: str) -> Work:
    fixed = {str(pending): _point(work, pending) for pending in (*(2**power for power in range(4, 15)), "none")}
    compared = PER_SECOND + new_figures("ms", p50_ms="emit to ack p50", p99_ms="emit to ack p99")
    sweep = Sweep({"fixed": fixed}, compared, again=True)
    return Work("flow", f"auto-pending-{work}", summary, _point(work, "auto"), POINT, own_name="auto", sweep=sweep)


FLOW: Final = (
    _unlike(
        "unlike-tasks",
        "12 tasks, a heavy tail, one 10 times slower, one that stalls: flow control beside groupings with their best windows",
        virtual=False,
    ),
    _unlike("unlike-tasks-virtual", "the same in virtual time", virtual=True),
    _unlike(
        "unlike-tasks-paced",
        f"the same in virtual time from a source of {PACED_PER_SECOND:,} records a second, without windows",
        virtual=True,
        rate=PACED_PER_SECOND,
    ),
    Work(
        "flow",
        "controller-cost",
        "the controller alone, 12 tasks",
        new_run("bench.flow.controller_cost:measure", {"packs": 20_000}, packs=300_000),
        new_figures("ns", decide_ns="a tuple's task, emit and ack")
        + tuple(Figure(f"all_of_{records}_ns", f"everything, tuples of {records}, per record", "ns") for records in (1, 20, 200)),
    ),
    Work(
        "flow",
        "bad-records",
        "12 tasks, some of the records are bad: each is tried twice, and given up",
        new_run("bench.flow.bad_records:measure", {"measured_secs": 0.2}, measured_secs=4.0),
        (
            *(Figure(f"waiting_{percent}_of_ideal", f"3 ms a record, {percent} % bad: rate, to the ideal", "×") for percent in (1, 10, 30)),
            *(Figure(f"at_once_{percent}_per_second", f"nothing to do, {percent} % bad", "/s") for percent in (1, 10, 30)),
            Figure("at_once_per_second", "nothing to do, none bad", "/s"),
        ),
    ),
    _auto_pending("word-count", "the word count of macro, max_spout_pending auto beside 16 to 16,384 and none"),
    _auto_pending("async-pool", "12 tasks that wait 5 ms for each tuple, max_spout_pending auto beside the same"),
    Work(
        "flow",
        "burst-word-count",
        "the word count of macro with bursts of 16 to 2,048 tuples, 1,000 open trees",
        _point("word-count", 1000),
        POINT,
        own_name="burst 256",
        sweep=Sweep({"burst": {str(burst): _point("word-count", 1000, burst) for burst in (16, 32, 64, 128, 512, 1024, 2048)}}, ()),
    ),
)
