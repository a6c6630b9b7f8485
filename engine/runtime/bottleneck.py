"""Decides what limits a run, from two snapshots. The terminal table and the page show the same sentence.

The rules are tried in one order, and the first that applies decides. A cause stands before its effects: a loop that is busy fills
mailboxes, and full mailboxes fill the open trees of the spouts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias

from engine.names import is_reserved
from engine.runtime.latency_snapshot import LatencySnapshot
from engine.runtime.snapshot import ComponentSnapshot, Snapshot, task_capacities

BottleneckKind: TypeAlias = Literal["starting", "idle", "source", "loop", "component", "mailbox", "pending", "feature", "wait", "ended"]

BUSY_LOOP: Final = 0.8
"""Share of the time from which a busy loop is the limit."""
NEARLY_BUSY_LOOP: Final = 0.6
"""Share of the time from which the answer names the component that holds the loop, before it is the limit."""
FULL: Final = 0.9
"""Share from which calls are all taken, or a mailbox or the open trees are full."""
UNEVEN: Final = 0.6
"""Mean capacity of the tasks, as a share of the largest, below which one task is the limit."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The limit of a run."""

    kind: BottleneckKind
    component_id: str | None
    """The component to look at. None if no single one is the cause."""
    share: float | None
    """Busy share of the loop or of the calls, or the fill level of the mailbox. None if the kind has none."""
    text: str
    """One or more plain sentences with advice."""


@dataclass(frozen=True)
class _Load:
    """Figures of the time between two snapshots. Without `before` the time begins with the run."""

    before: Snapshot | None
    now: Snapshot

    @cached_property
    def elapsed_secs(self) -> float:
        return self.now.uptime_secs - (0.0 if self.before is None else self.before.uptime_secs)

    def per_sec(self, component: ComponentSnapshot, figure: Callable[[ComponentSnapshot], float]) -> float:
        """Return the increase of a figure per second."""
        earlier = self._earlier(component)
        return max(figure(component) - (0.0 if earlier is None else figure(earlier)), 0.0) / self.elapsed_secs

    def _earlier(self, component: ComponentSnapshot) -> ComponentSnapshot | None:
        return None if self.before is None else self.before.components.get(component.component_id)

    def loop_share(self, component: ComponentSnapshot) -> float:
        """Return the share of the time in which the component's code held the loop."""
        return self.per_sec(component, lambda each: each.loop_secs)

    def busy_share(self, component: ComponentSnapshot) -> float:
        """Return the time of all calls, as a multiple of the time that has passed."""
        return self.per_sec(component, lambda each: each.busy_secs)

    @cached_property
    def held_share(self) -> float:
        """Share of the time in which code of any component held the loop."""
        return sum(map(self.loop_share, self.now.components.values()))

    @cached_property
    def cpu_share(self) -> float | None:
        """CPU time of the loop's thread as a share of the time. None if unknown."""
        earlier = 0.0 if self.before is None else self.before.loop_cpu_secs
        if self.now.loop_cpu_secs is None or earlier is None:
            return None
        return max(self.now.loop_cpu_secs - earlier, 0.0) / self.elapsed_secs

    @cached_property
    def loop_busy(self) -> float:
        """Busy share of the loop. Code that blocks uses no CPU, and work beside the components is in no component."""
        return min(max(self.held_share, self.cpu_share or 0.0), 1.0)

    @property
    def is_blocked(self) -> bool:
        """True if the code that holds the loop mostly waits: it uses no CPU."""
        return self.cpu_share is not None and self.cpu_share < self.held_share / 2

    def capacities(self, component: ComponentSnapshot) -> list[float]:
        return task_capacities(self.before, self.now, component.component_id)

    def process_secs(self, component: ComponentSnapshot) -> float:
        """Return the mean process latency. 0 if no input was measured."""
        earlier, latency = self._earlier(component), component.process_latency or LatencySnapshot()
        if earlier is not None and earlier.process_latency is not None:
            latency = latency.since(earlier.process_latency)
        return latency.mean_secs or 0.0

    @cached_property
    def bolts(self) -> list[ComponentSnapshot]:
        """The user's bolts."""
        return [each for each in self.now.components.values() if each.kind == "bolt" and not is_reserved(each.component_id)]

    @cached_property
    def full_bolts(self) -> dict[str, ComponentSnapshot]:
        """The user's bolts with a full mailbox, by component id. Their senders wait."""
        return {bolt.component_id: bolt for bolt in self.bolts if bolt.queue_fill >= FULL}

    @cached_property
    def waiting_senders(self) -> set[str]:
        """Components that send to a bolt with a full mailbox."""
        return {edge.source for edge in self.now.edges if edge.target in self.full_bolts and edge.target != edge.source}

    @cached_property
    def slowest_bolt(self) -> ComponentSnapshot | None:
        """The bolt in which an input stays longest. None if no input was measured."""
        found = max(self.bolts, key=self.process_secs, default=None)
        return found if found is not None and self.process_secs(found) > 0 else None

    @cached_property
    def emitted_per_sec(self) -> float:
        return sum(self.per_sec(spout, lambda each: each.emitted) for spout in self.now.spouts)

    @cached_property
    def open_trees(self) -> int:
        return sum(spout.pending or 0 for spout in self.now.spouts)


def loop_busy(before: Snapshot | None, now: Snapshot) -> float | None:
    """Return the share of the time between two snapshots in which the event loop was busy, 0 to 1. None if no time has passed.

    Without `before` the time begins with the run.
    """
    load = _Load(before, now)
    return load.loop_busy if load.elapsed_secs > 0 else None


def loop_share(before: Snapshot | None, now: Snapshot, component_id: str) -> float | None:
    """Return the share of the time in which the code of a component held the event loop. None if no time has passed."""
    load = _Load(before, now)
    return load.loop_share(now.components[component_id]) if load.elapsed_secs > 0 else None


def find_bottleneck(before: Snapshot | None, now: Snapshot) -> Bottleneck:
    """Return what limits the run between two snapshots. Without `before` the time begins with the run."""
    load = _Load(before, now)
    for rule in _RULES:
        found = rule(load)
        if found is not None:
            return found
    return _without_limit(load)


# The rules, in their order


def _not_running(load: _Load) -> Bottleneck | None:
    """Apply before the first measurement, and after the end."""
    state = load.now.state
    if state == "waiting":
        return Bottleneck("starting", None, None, "The run is on standby: it waits until another process ends.")
    if state not in ("starting", "running", "draining"):
        return Bottleneck("ended", None, None, f"The run is {state}.{_largest_share(load)}" if state != "failed" else "The run has failed.")
    if load.now.waits:
        return None
    if state == "starting" or load.elapsed_secs <= 0 or not load.now.components:
        return Bottleneck("starting", None, None, "The run starts.")
    return None


def _held_by_feature(load: _Load) -> Bottleneck | None:
    """Apply while a feature holds the spouts, such as checkpoints without their store."""
    for entry in load.now.entries:
        text = entry.holds_run()
        if text is not None:
            return Bottleneck("feature", None, None, text)
    return None


def _long_wait(load: _Load) -> Bottleneck | None:
    """Apply while the run waits long for something outside. A feature that holds the spouts meanwhile adds its reason."""
    waits = load.now.waits
    if not waits:
        return None
    more = f", and for {len(waits) - 1} more" if len(waits) > 1 else ""
    held = _held_by_feature(load)
    text = f"The run has been waiting for {waits[0].what} for {waits[0].secs:,.0f} s{more}."
    return Bottleneck("wait", None, None, text if held is None else f"{text} {held.text}")


def _busy_loop(load: _Load) -> Bottleneck | None:
    """Apply if the loop is busy. Name the component that holds it longest."""
    busy, held = load.loop_busy, load.held_share
    if busy < BUSY_LOOP:
        return None
    if held < busy / 2:
        text = (
            f"The event loop is busy {busy:.0%} of the time, but code of components takes only {held:.0%}. Look at other work on this "
            "loop: background tasks, many short async calls, the program around the run."
        )
        return Bottleneck("loop", None, busy, text)
    top = max(load.now.components.values(), key=load.loop_share)
    share = load.loop_share(top)
    if load.is_blocked:
        return Bottleneck(
            "loop", top.component_id, share, f"{top.component_id!r} blocks the loop {share:.0%} of the time. {_unblock(load, top)}"
        )
    advice = "Run more processes."
    if top.kind == "bolt":
        advice = "Move its work to threads if it releases the interpreter, or give it processes=True."
    text = (
        f"The event loop is busy {busy:.0%} of the time, and one core is the limit. {top.component_id!r} takes the most: "
        f"{share:.0%}. {advice}"
    )
    return Bottleneck("loop", top.component_id, share, text)


def _unblock(load: _Load, component: ComponentSnapshot) -> str:
    """Return the advice for a component that blocks the loop without using the CPU."""
    if load.busy_share(component) > 1.2 * load.loop_share(component):
        return "Its async code blocks: await each slow operation, or move it to asyncio.to_thread()."
    return "Make it async, or give it threads." if component.kind == "bolt" else "Make it async, or read its source in the background."


def _taken_calls(load: _Load) -> Bottleneck | None:
    """Apply if a bolt has a call in all of its slots. Calls that may wait in `collector.ready()` for a full mailbox are an effect."""
    causes = [bolt for bolt in load.bolts if bolt.component_id not in load.waiting_senders]
    found = max(((max(load.capacities(bolt), default=0.0), bolt) for bolt in causes), key=lambda pair: pair[0], default=None)
    if found is None or found[0] < FULL:
        return None
    share, bolt = found
    name, tasks, slots = repr(bolt.component_id), len(bolt.tasks), bolt.slots
    mean = sum(load.capacities(bolt)) / tasks
    if mean < UNEVEN * share:
        text = f"One task of {name} is busy {share:.0%} of the time, the mean of its {tasks} tasks is {mean:.0%}."
        text += " Spread its inputs more evenly."
    elif slots > 1:
        text = f"The {slots} calls of {name} are all taken {share:.0%} of the time. Raise its concurrency, threads or parallelism."
    else:
        text = f"{name} is busy {share:.0%} of the time, and mostly waits. Raise its concurrency, threads or parallelism."
    return Bottleneck("component", bolt.component_id, share, text)


def _full_mailbox(load: _Load) -> Bottleneck | None:
    """Apply if a mailbox is full. Name the last such component on the way of the tuples, because the senders wait for it."""
    full = tuple(load.full_bolts.values())
    if not full:
        return None
    bolt = next((each for each in full if each.component_id not in load.waiting_senders), full[0])
    executed = load.per_sec(bolt, lambda each: each.executed)
    text = (
        f"A mailbox of {bolt.component_id!r} is {bolt.queue_fill:.0%} full, so its senders wait: {bolt.waiting:,} tuples wait, and it "
        f"takes {executed:,.0f} in a second. Raise its concurrency, threads or parallelism."
    )
    return Bottleneck("mailbox", bolt.component_id, bolt.queue_fill, text)


def _full_pending(load: _Load) -> Bottleneck | None:
    """Apply if the spouts have as many open trees as they may have."""
    full = [spout for spout in load.now.spouts if spout.max_pending and (spout.pending or 0) >= FULL * spout.max_pending]
    if not full:
        return None
    spout = full[0]
    begin = f"{spout.component_id!r} waits for acks: {spout.pending:,} of {spout.max_pending:,} trees are open, and nothing is busy."
    for entry in load.now.entries:
        text = entry.delays_acks(spout.component_id)
        if text is not None:
            return Bottleneck("pending", spout.component_id, None, f"{begin} {text}")
    slow = load.slowest_bolt
    if slow is None:
        return Bottleneck("pending", spout.component_id, None, f"{begin} Raise max_spout_pending.")
    text = f"{begin} Raise max_spout_pending, or look at {slow.component_id!r}: an input takes {_time_text(load.process_secs(slow))} there."
    return Bottleneck("pending", slow.component_id, None, text)


def _last_trees(load: _Load) -> Bottleneck | None:
    """Apply if no more input comes, and the last trees are open."""
    exhausted = bool(load.now.spouts) and all(spout.status == "exhausted" for spout in load.now.spouts)
    if load.now.state != "draining" and not (exhausted and load.open_trees):
        return None
    slow = load.slowest_bolt
    begin = "The run drains" if load.now.state == "draining" else "The sources are exhausted"
    hint = "" if slow is None else f" An input takes longest in {slow.component_id!r}: {_time_text(load.process_secs(slow))}."
    return Bottleneck(
        "pending", None if slow is None else slow.component_id, None, f"{begin}, and {load.open_trees:,} trees are open.{hint}"
    )


def _waiting_source(load: _Load) -> Bottleneck | None:
    """Apply if an async spout waits in its method for most of the time."""
    for spout in load.now.spouts:
        share = max(load.capacities(spout), default=0.0)
        if share >= FULL and load.loop_share(spout) < share / 2:
            rate = load.per_sec(spout, lambda each: each.emitted)
            text = (
                f"{spout.component_id!r} waits for its source {share:.0%} of the time, and emits {rate:,.0f} tuples/s. "
                "If the source has more, read it in the background."
            )
            return Bottleneck("source", spout.component_id, share, text)
    return None


_RULES: Final[tuple[Callable[[_Load], Bottleneck | None], ...]] = (
    _not_running,
    _long_wait,
    _held_by_feature,
    _busy_loop,
    _taken_calls,
    _full_mailbox,
    _full_pending,
    _last_trees,
    _waiting_source,
)


def _without_limit(load: _Load) -> Bottleneck:
    """Return the answer if no rule applies: the sources decide."""
    spouts, busy = load.now.spouts, load.loop_busy
    if spouts and all(spout.status in ("inactive", "drained") for spout in spouts):
        return Bottleneck("idle", None, busy, "The spouts are deactivated. Activate the run to go on.")
    nearly, emitted = _nearly_busy_loop(load), load.emitted_per_sec
    if emitted > 0 and nearly:
        return Bottleneck("source", None, busy, f"Nothing limits the run yet: the sources give {emitted:,.0f} tuples/s. {nearly}")
    if emitted > 0:
        text = f"Nothing limits the run: the sources give {emitted:,.0f} tuples/s, and the event loop is busy {busy:.0%}."
        return Bottleneck("source", None, busy, text)
    if any(load.per_sec(each, lambda component: component.executed) > 0 for each in load.bolts):
        text = f"Nothing limits the run yet. {nearly}" if nearly else f"Nothing limits the run: the event loop is busy {busy:.0%}."
        return Bottleneck("source", None, busy, text)
    return Bottleneck("idle", None, busy, "Nothing limits the run: the sources give nothing.")


def _nearly_busy_loop(load: _Load) -> str:
    """Return sentences about the component that holds a loop that is nearly busy. Empty if the loop has time, or no code holds it."""
    busy = load.loop_busy
    if busy < NEARLY_BUSY_LOOP or load.held_share < busy / 2:
        return ""
    top = max(load.now.components.values(), key=load.loop_share)
    share, begin = load.loop_share(top), f"The event loop is busy {busy:.0%} of the time"
    if load.is_blocked:
        return f"{begin}, and {top.component_id!r} blocks it {share:.0%}. {_unblock(load, top)}"
    return f"{begin}, {share:.0%} with {top.component_id!r}."


def _largest_share(load: _Load) -> str:
    """Return a sentence about the component that held the loop longest. Empty if none did."""
    top = max(load.now.components.values(), key=lambda each: each.loop_secs, default=None)
    if top is None or load.elapsed_secs <= 0 or load.loop_share(top) <= 0:
        return ""
    share = load.loop_share(top)
    part = f", {share:.0%} with {top.component_id!r}" if share >= 0.01 else ""
    return f" The event loop was busy {load.loop_busy:.0%} of the time{part}."


def _time_text(secs: float) -> str:
    """Return `1.5 s` or `120 ms`, and three decimals below 10 ms."""
    return f"{secs:.1f} s" if secs >= 1 else f"{secs * 1000:.0f} ms" if secs >= 0.01 else f"{secs * 1000:.3f} ms"
