"""Formats a snapshot of a run as table rows, single lines, and sums over the components.

The live table and the plain lines use this module. Tables show components, spouts and flow control (FC-7).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast, get_args

from engine.checkpoint import CheckpointEntry
from engine.cli.console.formatting import (
    NONE,
    amount_text,
    clipped,
    compact_text,
    count_text,
    duration_text,
    ms_text,
    name_text,
    percent_text,
    rate_text,
)
from engine.flow import FlowEntry
from engine.flow.status import FlowSnapshot, FlowState, FlowTaskSnapshot
from engine.runtime.bottleneck import Bottleneck, loop_busy, loop_share
from engine.runtime.snapshot import ComponentSnapshot, Snapshot, capacity, rate, weighted_mean

COORDINATOR: Final = "/coordinator"
"""Suffix of the component id of a transaction coordinator."""
COMPONENT_COLUMNS: Final = (
    "component",
    "tasks",
    "emitted",
    "acked",
    "failed",
    "execute ms",
    "process ms",
    "loop",
    "capacity",
    "waiting",
    "queue",
)
SPOUT_COLUMNS: Final = ("spout", "complete p50 ms", "p99 ms", "pending", "status")
FLOW_COLUMNS: Final = ("task", "state", "window", "in flight", "pack records", "service ms", "p99 ms", "records", "resends")
STATE_STYLES: Final[Mapping[str, str]] = {"SLOW": "yellow", "BUSY": "red"}

LEAST_ROWS: Final = 3
MOST_ROWS: Final = 12
"""Largest number of rows of a table. The last row sums up all further rows. A low terminal shows fewer rows."""
FRAME_LINES: Final = 5
"""Number of lines of a table besides its rows (a blank line, the title, two lines of headers, the rule)."""
MOST_LABEL_CHARACTERS: Final = 40

Count: TypeAlias = Callable[[Snapshot], int]


class TextTable(NamedTuple):
    """Table of texts. The first `text_columns` are labels. All other columns are numbers."""

    title: str
    headers: tuple[str, ...]
    text_columns: int
    rows: list[tuple[str, ...]]


# Components and spouts


def component_rows(before: Snapshot | None, now: Snapshot, *, compact: bool = False) -> list[tuple[str, ...]]:
    """Return one row of `COMPONENT_COLUMNS` for each component. Its shares of time are measured since `before`.

    compact: write large counts short.
    """
    write_count = compact_text if compact else count_text
    shares = {each: (loop_share(before, now, each), capacity(before, now, each)) for each in now.components}
    return [_component_row(component, shares[component_id], write_count) for component_id, component in now.components.items()]


def _component_row(component: ComponentSnapshot, shares: Iterable[float | None], write_count: Callable[[int], str]) -> tuple[str, ...]:
    is_spout = component.kind == "spout"
    return (
        component.component_id,
        str(len(component.tasks)),
        *map(write_count, (component.emitted, component.acked, component.failed)),
        NONE if is_spout else ms_text(component.execute_ms),
        NONE if is_spout else ms_text(component.process_ms),
        *map(percent_text, shares),
        NONE if is_spout else write_count(component.waiting),
        NONE if is_spout else percent_text(component.queue_fill),
    )


def spout_rows(now: Snapshot) -> list[tuple[str, ...]]:
    """Return one row of `SPOUT_COLUMNS` for each spout."""
    return [
        (spout.component_id, ms_text(spout.complete_p50_ms), ms_text(spout.complete_p99_ms), _pending_text(spout), spout.status or NONE)
        for spout in now.spouts
    ]


def _pending_text(spout: ComponentSnapshot) -> str:
    """Return `1,234`, or `120 of 256` if there is a limit."""
    limit = spout.max_pending
    return count_text(spout.pending) if limit is None else f"{count_text(spout.pending)} of {count_text(limit)}"


def emitted_by_spouts(snapshot: Snapshot) -> int:
    """Return the number of emits of the spouts."""
    return sum(spout.emitted for spout in snapshot.spouts)


def acked_trees(snapshot: Snapshot) -> int:
    """Return the number of completely processed trees."""
    return sum(spout.acked for spout in snapshot.spouts)


def failed_trees(snapshot: Snapshot) -> int:
    """Return the number of trees that failed or timed out."""
    return sum(spout.failed for spout in snapshot.spouts)


def pending_trees(snapshot: Snapshot) -> int:
    """Return the number of open trees."""
    return sum(spout.pending or 0 for spout in snapshot.spouts)


def error_count(snapshot: Snapshot) -> int:
    """Return the number of exceptions of all components."""
    return sum(component.errors for component in snapshot.components.values())


def committed_batches(snapshot: Snapshot) -> int:
    """Return the number of transactions that this run has committed."""
    return sum(int(cast(float, metric.value)) for metric in snapshot.user_metrics if metric.name == "transactions_committed")


# Lines about the whole run


def headline(before: Snapshot | None, now: Snapshot) -> str:
    """Return topology, state and uptime. Then the busy share of the loop and the rates of trees since `before`."""
    emitted, acked = rate(before, now, emitted_by_spouts), rate(before, now, acked_trees)
    rates = f"loop {percent_text(loop_busy(before, now))} · {rate_text(emitted)} emitted · {rate_text(acked)} acked"
    return f"{now.topology_name} · {now.state} · {duration_text(now.uptime_secs)} · {rates}"


def limit_words(found: Bottleneck) -> str:
    """Return a bottleneck in a few words: `limit loop sign 87%`. A long wait has the whole sentence."""
    if found.kind == "wait":
        return f"limit wait · {name_text(found.text)}"
    parts = ["limit", found.kind, *([name_text(found.component_id)] if found.component_id is not None else [])]
    return " ".join([*parts, percent_text(found.share)] if found.share is not None else parts)


def state_texts(before: Snapshot | None, now: Snapshot) -> list[str]:
    """Return the lines about checkpoints, transactions and failures that apply to the run."""
    own = (checkpoint_text(now), exact_text(now), transactions_text(before, now), *(entry.text() for entry in now.entries))
    return [text for text in (*own, failures_text(now), handled_text(now)) if text is not None]


def checkpoint_text(now: Snapshot) -> str | None:
    """Return the progress of the checkpoints, with the tasks that the current one waits for. None in a run without state."""
    found = now.entry(CheckpointEntry).value
    if found is None:
        return None
    parts = [f"txid {found.txid}" if found.txid >= 0 else "none yet"]
    if found.last_ms is not None:
        parts.append(f"{ms_text(found.last_ms)} ms, {count_text(found.last_keys)} keys, {count_text(found.last_bytes)} bytes")
        parts.append(f"alignment {ms_text(found.last_alignment_ms)} ms")
    parts.append(f"last commit {duration_text(found.since_commit_secs)} ago" if found.txid >= 0 else "no commit yet")
    if found.held:
        parts.append(f"the sources wait: {found.held}")
    if found.step != "idle":
        parts.append(f"{found.step} for {duration_text(found.step_secs)}")
        parts += found.waits_for[:2]
    if found.recoveries:
        parts.append(f"{count_text(found.recoveries)} recoveries")
    return "checkpoint " + " · ".join(parts)


def exact_text(now: Snapshot) -> str | None:
    """Return the sources by their guarantee, and the bolts whose effects may repeat. None in a run without state."""
    found = now.entry(CheckpointEntry).value
    if found is None or found.guarantees is None:
        return None
    known = found.guarantees
    by_guarantee: dict[str, list[str]] = {}
    for source in known.sources:
        by_guarantee.setdefault(source.guarantee, []).append(source.component_id)
    parts = [f"{guarantee} {', '.join(names)}" for guarantee, names in by_guarantee.items()]
    return " · ".join([*parts, *([f"effects may repeat {', '.join(known.may_repeat)}"] if known.may_repeat else [])])


def transactions_text(before: Snapshot | None, now: Snapshot) -> str | None:
    """Return the progress of the transactions from the metrics of their coordinator. None in a run without transactions."""
    found = {metric.name: metric.value for metric in now.user_metrics if metric.labels.component_id.endswith(COORDINATOR)}
    if "transaction_committed_txid" not in found:
        return None
    txid, is_open, failed = (
        amount_text(cast("float | None", found.get(name)))
        for name in ("transaction_committed_txid", "transactions_open", "transactions_failed")
    )
    committed = rate_text(rate(before, now, committed_batches))
    return f"transactions txid {txid} committed ({committed}) · {is_open} open · {failed} failed"


def failures_text(now: Snapshot) -> str | None:
    """Return the failed inputs of each component by reason (for a spout, its failed trees). None if nothing failed."""
    parts = [
        f"{component_id} {', '.join(f'{reason} {count_text(number)}' for reason, number in component.failures.items())}"
        for component_id, component in now.components.items()
        if component.failures
    ]
    return "failures " + " · ".join(parts) if parts else None


def handled_text(now: Snapshot) -> str | None:
    """Return what was done about failed calls and inputs, by component. None if nothing was."""
    told = (("retries", "retries"), ("diverted", "diverted"), ("given_up", "given up"))
    parts = [
        f"{component_id} {', '.join(counts)}"
        for component_id, component in now.components.items()
        if (counts := [f"{word} {count_text(number)}" for name, word in told if (number := getattr(component, name))])
    ]
    return "handled " + " · ".join(parts) if parts else None


# Values and labels


def known_sum(values: Iterable[float]) -> float | None:
    """Return the sum of the values that are not NaN. None if there are none."""
    known = [number for number in map(_float, values) if not math.isnan(number)]
    return sum(known) if known else None


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # a counter may have a very large int
        return math.inf


def label_text(label: str) -> str:
    """Return a label of a metric or a position, escaped and shortened."""
    return clipped(name_text(label), MOST_LABEL_CHARACTERS)


# Flow control


def flow_tables(now: Snapshot, *, compact: bool = False, lines: int | None = None) -> list[TextTable]:
    """Return a table for each spout task with flow control. Its title is the headline.

    lines: space for all tables together, None for unlimited space. If not all bolt tasks fit, those that are not NORMAL
    come first, and the last row sums up the others.
    """
    flows = now.entry(FlowEntry).value
    most_rows = None if lines is None or not flows else max(lines // len(flows) - FRAME_LINES, LEAST_ROWS)
    names = Counter(flow.component_id for flow in flows)
    return [
        TextTable(
            flow_headline(flow, alone=names[flow.component_id] == 1), FLOW_COLUMNS, 2, _flow_rows(flow.tasks, most_rows, compact=compact)
        )
        for flow in flows
    ]


def least_flow_lines(now: Snapshot) -> int:
    """Return the minimum number of lines of the tables of flow control."""
    return sum(FRAME_LINES + min(LEAST_ROWS, len(flow.tasks)) for flow in now.entry(FlowEntry).value)


def flow_headline(flow: FlowSnapshot, *, alone: bool = True) -> str:
    """Return the position of a spout task, and the reason if it does not send.

    alone: the spout has only this task, so its id is left out.
    """
    name = name_text(flow.component_id) if alone else f"{name_text(flow.component_id)} (task {flow.task_id})"
    parts = [
        f"{name}: {'no position yet' if flow.position is None else f'position {label_text(flow.position)}'}",
        f"{count_text(flow.records_since_checkpoint)} records since the checkpoint",
        f"{count_text(flow.buffered_records)} buffered",
    ]
    return " · ".join(parts if flow.holds is None else [*parts, f"holds: {name_text(flow.holds)}"])


def flow_summaries(now: Snapshot) -> list[str]:
    """Return a short text for each spout. The text has the states and windows of bolt tasks, and the records that a crash would repeat."""
    spouts: dict[str, list[FlowSnapshot]] = {}
    for flow in now.entry(FlowEntry).value:
        spouts.setdefault(flow.component_id, []).append(flow)
    return [_flow_summary(component_id, flows) for component_id, flows in spouts.items()]


def _flow_summary(component_id: str, flows: Sequence[FlowSnapshot]) -> str:
    tasks = [task for flow in flows for task in flow.tasks]
    holds = next((flow.holds for flow in flows if flow.holds is not None), None)
    parts = [
        f"flow {name_text(component_id)}: {_state_counts(tasks)} of {count_text(len(tasks))}",
        f"window {count_text(sum(task.window for task in tasks))}",
        f"{count_text(sum(flow.records_since_checkpoint for flow in flows))} since checkpoint",
    ]
    return ", ".join(parts if holds is None else [*parts, f"holds: {name_text(holds)}"])


def _flow_rows(tasks: Sequence[FlowTaskSnapshot], most_rows: int | None, *, compact: bool) -> list[tuple[str, ...]]:
    if most_rows is None or len(tasks) <= most_rows:
        return [_flow_row(task, compact=compact) for task in tasks]
    by_need = sorted(range(len(tasks)), key=lambda index: tasks[index].state == "NORMAL")
    shown, rest = sorted(by_need[: most_rows - 1]), [tasks[index] for index in by_need[most_rows - 1 :]]
    return [*(_flow_row(tasks[index], compact=compact) for index in shown), _flow_row_of_rest(rest, compact=compact)]


def _flow_row(task: FlowTaskSnapshot, *, compact: bool) -> tuple[str, ...]:
    write_count = compact_text if compact else count_text
    return (
        str(task.task_id),
        task.state,
        count_text(task.window),
        count_text(task.in_flight),
        write_count(task.pack_records),
        ms_text(task.service_ms),
        ms_text(task.service_p99_ms),
        write_count(task.records),
        write_count(task.resends),
    )


def _flow_row_of_rest(tasks: Sequence[FlowTaskSnapshot], *, compact: bool) -> tuple[str, ...]:
    """Return the sums, the mean service time over all packs, and the largest 99th percentile."""
    write_count = compact_text if compact else count_text
    return (
        f"and {count_text(len(tasks))} more",
        _state_counts(tasks) if any(task.state != "NORMAL" for task in tasks) else "NORMAL",
        count_text(sum(task.window for task in tasks)),
        count_text(sum(task.in_flight for task in tasks)),
        NONE,
        ms_text(weighted_mean((task.service_ms, task.settled) for task in tasks)),
        ms_text(max((task.service_p99_ms for task in tasks if task.service_p99_ms is not None), default=None)),
        write_count(sum(task.records for task in tasks)),
        write_count(sum(task.resends for task in tasks)),
    )


def _state_counts(tasks: Iterable[FlowTaskSnapshot]) -> str:
    """Return the number of tasks in each state except NORMAL: `2 SLOW, 1 BUSY`. If all are NORMAL, return their number."""
    counts = Counter(task.state for task in tasks)
    unusual = [f"{count_text(counts[state])} {state}" for state in get_args(FlowState) if state != "NORMAL" and counts[state]]
    return ", ".join(unusual) or f"{count_text(counts['NORMAL'])} NORMAL"
