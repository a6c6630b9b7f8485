"""The flow control of spouts as text: a headline and a table for each spout task, and one part of a plain line (FC-7)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, get_args

from engine.cli.figures import NONE, compact_text, count_text, ms_text, name_text
from engine.cli.label_tables import FRAME_LINES, LEAST_ROWS, MOST_LABEL_CHARACTERS, LabelTable
from engine.cluster.snapshot import Snapshot, weighted_mean
from engine.flow.status import FlowSnapshot, FlowState, FlowTaskSnapshot

COLUMNS: Final = ("task", "state", "window", "in flight", "pack records", "service ms", "p99 ms", "records", "resends")
TEXT_COLUMNS: Final = 2
STATE_STYLES: Final[Mapping[str, str]] = {"SLOW": "yellow", "BUSY": "red"}


def flow_tables(now: Snapshot, *, compact: bool = False, lines: int | None = None) -> list[LabelTable]:
    """Return the table of each spout task, its headline as the title.

    `lines` are what there is room for, for all of them; None: there is enough. Where not all bolt tasks fit, those that are
    not NORMAL come before the others, and the last row is what is left, together.
    """
    most_rows = None if lines is None or not now.flow else max(lines // len(now.flow) - FRAME_LINES, LEAST_ROWS)
    names = Counter(flow.component_id for flow in now.flow)
    return [
        LabelTable(
            headline(flow, alone=names[flow.component_id] == 1), COLUMNS, TEXT_COLUMNS, _rows(flow.tasks, most_rows, compact=compact)
        )
        for flow in now.flow
    ]


def least_lines(now: Snapshot) -> int:
    """Return how many lines the tables take at least."""
    return sum(FRAME_LINES + min(LEAST_ROWS, len(flow.tasks)) for flow in now.flow)


def headline(flow: FlowSnapshot, *, alone: bool = True) -> str:
    """Return where a spout task is, and what holds it; its task id only beside others of the same spout."""
    name = name_text(flow.component_id) if alone else f"{name_text(flow.component_id)} (task {flow.task_id})"
    parts = [
        f"{name}: {'no position yet' if flow.position is None else f'position {_clipped(flow.position)}'}",
        f"{count_text(flow.records_since_checkpoint)} records since the checkpoint",
        f"{count_text(flow.buffered_records)} buffered",
    ]
    return " · ".join(parts if flow.holds is None else [*parts, f"holds: {name_text(flow.holds)}"])


def flow_texts(now: Snapshot) -> list[str]:
    """Return one short text for each spout: the states of its bolt tasks, the sum of their windows, what a crash would repeat."""
    spouts: dict[str, list[FlowSnapshot]] = {}
    for flow in now.flow:
        spouts.setdefault(flow.component_id, []).append(flow)
    return [_text(component_id, flows) for component_id, flows in spouts.items()]


def _text(component_id: str, flows: Sequence[FlowSnapshot]) -> str:
    tasks = [task for flow in flows for task in flow.tasks]
    holds = next((flow.holds for flow in flows if flow.holds is not None), None)
    parts = [
        f"flow {name_text(component_id)}: {_states(tasks)} of {count_text(len(tasks))}",
        f"window {count_text(sum(task.window for task in tasks))}",
        f"{count_text(sum(flow.records_since_checkpoint for flow in flows))} since checkpoint",
    ]
    return ", ".join(parts if holds is None else [*parts, f"holds: {name_text(holds)}"])


def _rows(tasks: Sequence[FlowTaskSnapshot], most_rows: int | None, *, compact: bool) -> list[tuple[str, ...]]:
    if most_rows is None or len(tasks) <= most_rows:
        return [_row(task, compact=compact) for task in tasks]
    by_need = sorted(range(len(tasks)), key=lambda index: tasks[index].state == "NORMAL")
    shown, rest = sorted(by_need[: most_rows - 1]), [tasks[index] for index in by_need[most_rows - 1 :]]
    return [*(_row(tasks[index], compact=compact) for index in shown), _row_of_rest(rest, compact=compact)]


def _row(task: FlowTaskSnapshot, *, compact: bool) -> tuple[str, ...]:
    written = compact_text if compact else count_text
    return (
        str(task.task_id),
        task.state,
        count_text(task.window),
        count_text(task.in_flight),
        written(task.pack_records),
        ms_text(task.service_ms),
        ms_text(task.service_p99_ms),
        written(task.records),
        written(task.resends),
    )


def _row_of_rest(tasks: Sequence[FlowTaskSnapshot], *, compact: bool) -> tuple[str, ...]:
    """Return the sums; of the service times the mean over all packs, and the greatest 99th percentile."""
    written = compact_text if compact else count_text
    return (
        f"and {count_text(len(tasks))} more",
        _states(tasks) if any(task.state != "NORMAL" for task in tasks) else "NORMAL",
        count_text(sum(task.window for task in tasks)),
        count_text(sum(task.in_flight for task in tasks)),
        NONE,
        ms_text(weighted_mean((task.service_ms, task.settled) for task in tasks)),
        ms_text(max((task.service_p99_ms for task in tasks if task.service_p99_ms is not None), default=None)),
        written(sum(task.records for task in tasks)),
        written(sum(task.resends for task in tasks)),
    )


def _states(tasks: Iterable[FlowTaskSnapshot]) -> str:
    """Return how many tasks are in each state but NORMAL: `2 SLOW, 1 BUSY`; where all are NORMAL, how many these are."""
    counts = Counter(task.state for task in tasks)
    told = [f"{count_text(counts[state])} {state}" for state in get_args(FlowState) if state != "NORMAL" and counts[state]]
    return ", ".join(told) or f"{count_text(counts['NORMAL'])} NORMAL"


def _clipped(position: str) -> str:
    text = name_text(position)
    return text if len(text) <= MOST_LABEL_CHARACTERS else f"{text[: MOST_LABEL_CHARACTERS - 1]}…"
