"""Work of a task per tuple in the compiled cores (emit, take and ack, and the acker's work)."""

from collections.abc import Mapping
from time import perf_counter
from typing import Any

from bench.micro.timing import nanoseconds
from engine.kernel import (
    AckerCore,
    BoltBacklog,
    BoltCollector,
    BoltCore,
    BoltOutcome,
    Choice,
    EdgeIds,
    Mailbox,
    Outlet,
    OutStream,
    Signal,
    SignalRing,
    Source,
    SpoutCollector,
    SpoutCore,
)

VALUES = ("hello",)
SPOUT_TASK, BOLT_TASK, NEXT_TASK = 1, 2, 3


def misuse(kind: str, **what: object) -> Exception:
    """Return the error for a wrong use of the API. No benchmark should cause one."""
    return RuntimeError(f"{kind}: {what}")


def core_arguments() -> dict[str, Any]:
    """Return the arguments that every core needs."""
    return {"ids": EdgeIds(1), "ackers": [SignalRing()], "now": perf_counter, "misuse": misuse, "backlog": BoltBacklog()}


def stream(component: str, task: int, box: Mailbox) -> dict[str, OutStream]:
    """Return a default stream with one subscriber task."""
    outlet = Outlet(Choice.SHUFFLE, [(task + 1, box)])
    return {"default": OutStream(Source(component, "default", task, ("value",)), [outlet])}


def spout_before(box: Mailbox) -> SpoutCollector:
    """Return the emitter of a spout that is wired to a mailbox."""
    core = SpoutCore(SPOUT_TASK, verdicts=SignalRing(), **core_arguments())
    core.wire(stream("spout", SPOUT_TASK, box))
    return SpoutCollector(core)


def bolt_before(box: Mailbox, waiting: int) -> tuple[BoltCore, BoltCollector]:
    """Return a bolt's core with waiting tracked tuples, and its emitter, wired to a mailbox."""
    mailbox = Mailbox(waiting + 1)
    spout = spout_before(mailbox)
    for number in range(waiting):
        spout.emit(VALUES, number)
    core = BoltCore(BOLT_TASK, mailbox=mailbox, **core_arguments())
    core.wire(stream("bolt", BOLT_TASK, box))
    return core, BoltCollector(core)


def emit(calls: int) -> dict[str, float]:
    """Emit a thousand tuples to one mailbox. A small number uses the free list and stays in the cache, like in a run."""
    short = {"calls": min(calls, 1000), "series": max(calls // 1000, 1)}

    def spout() -> Mapping[str, Any]:
        return {"emit": spout_before(Mailbox()).emit, "values": VALUES}

    def bolt() -> Mapping[str, Any]:
        core, emitter = bolt_before(Mailbox(), 1)
        return {"emit": emitter.emit, "values": VALUES, "anchor": core.take_next(), "core": core}

    return {
        "untracked": nanoseconds("emit(values)", spout, **short),
        "tracked": nanoseconds("emit(values, 1)", spout, **short),
        "anchored": nanoseconds("emit(values, anchor)", bolt, **short),
    }


def execute(calls: int) -> dict[str, float]:
    """Take, execute and ack waiting tuples. `execute` is the compiled ack itself, or a plain function around it."""

    waiting = min(calls, 1000)
    short = {"calls": 1, "per_call": waiting, "series": max(calls // waiting, 1)}

    def filled(plain: bool) -> Mapping[str, Any]:
        core, emitter = bolt_before(Mailbox(), waiting)
        ack = emitter.ack
        core.bind((lambda tup: ack(tup)) if plain else ack, basic=False)
        return {"run_burst": core.run_burst, "more": BoltOutcome.MORE}

    drain = "while run_burst(256) == more: pass"
    return {
        "ack": nanoseconds(drain, lambda: filled(plain=False), **short),
        "function_ack": nanoseconds(drain, lambda: filled(plain=True), **short),
    }


def acker(calls: int) -> dict[str, float]:
    """Take one `init` and one `ack` per tree, and send its verdict."""

    def filled() -> Mapping[str, Any]:
        inbox, ids = SignalRing(), EdgeIds(1)
        core = AckerCore(NEXT_TASK, inbox, {SPOUT_TASK: SignalRing()}, perf_counter)
        for _ in range(calls):
            root, edge = ids.draw(), ids.draw()
            inbox.signal(Signal.INIT, root, edge, SPOUT_TASK)
            inbox.signal(Signal.ACK, root, edge)
        return {"run_burst": core.run_burst}

    return {"tree": nanoseconds("while run_burst(): pass", filled, calls=1, per_call=calls)}
