"""The figures of a snapshot as text: what the live table, the plain lines and the last words have in common."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from engine.cli.durations import duration_text
from engine.cluster.snapshot import ComponentSnapshot, Snapshot, capacity, rate

NONE: Final = "–"
COORDINATOR: Final = "/coordinator"

COMPONENT_COLUMNS: Final = (
    "component",
    "tasks",
    "emitted",
    "transferred",
    "acked",
    "failed",
    "execute ms",
    "process ms",
    "capacity",
    "queue",
)
SPOUT_COLUMNS: Final = ("spout", "complete p50 ms", "p99 ms", "pending", "status")


def component_rows(before: Snapshot | None, now: Snapshot, *, compact: bool = False) -> list[tuple[str, ...]]:
    """Return one row for each component, as `COMPONENT_COLUMNS`; capacity is of the time since `before`.

    `compact` writes great counts short.
    """
    written = compact_text if compact else count_text
    return [_component_row(component, capacity(before, now, component.component_id), written) for component in now.components.values()]


def spout_rows(now: Snapshot) -> list[tuple[str, ...]]:
    """Return one row for each spout, as `SPOUT_COLUMNS`."""
    return [
        (
            spout.component_id,
            ms_text(spout.complete_p50_ms),
            ms_text(spout.complete_p99_ms),
            _pending_text(spout),
            spout.status or NONE,
        )
        for spout in now.spouts
    ]


def _pending_text(spout: ComponentSnapshot) -> str:
    """Return `1,234`, or `120 of 256` where there is a bound."""
    bound = spout.max_pending
    return count_text(spout.pending) if bound is None else f"{count_text(spout.pending)} of {count_text(bound)}"


def headline(before: Snapshot | None, now: Snapshot) -> str:
    """Return topology, state, uptime, and what was emitted and acked per second since `before`."""
    emitted, acked = rate(before, now, emitted_by_spouts), rate(before, now, acked_trees)
    speeds = f"{rate_text(emitted)} emitted · {rate_text(acked)} acked"
    return f"{now.topology_name} · {now.state} · {duration_text(now.uptime_secs)} · {speeds}"


def checkpoint_text(now: Snapshot) -> str | None:
    """Return how the checkpoints go, and what holds the one under way up; None in a run without state."""
    found = now.checkpoint
    if found is None:
        return None
    parts = [f"txid {found.txid}" if found.txid >= 0 else "none yet"]
    if found.last_ms is not None:
        parts.append(f"{ms_text(found.last_ms)} ms, {count_text(found.last_keys)} keys, {count_text(found.last_bytes)} bytes")
        parts.append(f"alignment {ms_text(found.last_alignment_ms)} ms")
    if found.step != "idle":
        parts.append(f"{found.step} for {duration_text(found.step_secs)}")
        parts += found.waits_for[:2]
    if found.recoveries:
        parts.append(f"{count_text(found.recoveries)} recoveries")
    if found.trouble:
        parts.append(found.trouble)
    return "checkpoint " + " · ".join(parts)


def transactions_text(before: Snapshot | None, now: Snapshot) -> str | None:
    """Return how the transactions go, by what their coordinator measures; None in a run without."""
    found = {metric.name: metric.value for metric in now.user_metrics if metric.labels.component_id.endswith(COORDINATOR)}
    if "transaction_committed_txid" not in found:
        return None
    parts = [
        f"txid {_amount(found, 'transaction_committed_txid')} committed ({rate_text(rate(before, now, committed_batches))})",
        f"{_amount(found, 'transactions_open')} open",
        f"{_amount(found, 'transactions_failed')} failed",
    ]
    return "transactions " + " · ".join(parts)


def committed_batches(snapshot: Snapshot) -> int:
    """Return how many transactions this run has committed."""
    return sum(int(cast(float, metric.value)) for metric in snapshot.user_metrics if metric.name == "transactions_committed")


def _amount(metrics: Mapping[str, Any], name: str) -> str:
    return amount_text(metrics.get(name))


def emitted_by_spouts(snapshot: Snapshot) -> int:
    """Return how many emits came from outside: those of the spouts."""
    return sum(spout.emitted for spout in snapshot.spouts)


def acked_trees(snapshot: Snapshot) -> int:
    """Return how many trees were processed to their end."""
    return sum(spout.acked for spout in snapshot.spouts)


def failed_trees(snapshot: Snapshot) -> int:
    """Return how many trees failed or timed out."""
    return sum(spout.failed for spout in snapshot.spouts)


def pending_trees(snapshot: Snapshot) -> int:
    """Return how many trees are open."""
    return sum(spout.pending or 0 for spout in snapshot.spouts)


def failures_text(now: Snapshot) -> str | None:
    """Return which components failed how many inputs, and why; a spout's are trees. None where nothing failed."""
    parts = [
        f"{component_id} {', '.join(f'{reason} {count_text(number)}' for reason, number in component.failures.items())}"
        for component_id, component in now.components.items()
        if component.failures
    ]
    return "failures " + " · ".join(parts) if parts else None


def errors_of(snapshot: Snapshot) -> int:
    """Return how many exceptions the components raised."""
    return sum(component.errors for component in snapshot.components.values())


def known_sum(values: Iterable[float]) -> float | None:
    """Return the sum of what users measured, without what is not known (NaN); None where nothing is."""
    known = [number for number in map(_float, values) if not math.isnan(number)]
    return sum(known) if known else None


def aligned(rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> str:
    """Return rows as lines; the first columns are text and stand to the left, the others are figures."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < text_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def count_text(count: int | None) -> str:
    """Return `1,234,567`."""
    return NONE if count is None else f"{count:,}"


def compact_text(count: int | None) -> str:
    """Return a count in seven characters at most: `999,999`, `1.23 M`, `45.6 G`."""
    if count is None or count < 1_000_000:
        return count_text(count)
    size, unit = next(((size, unit) for size, unit in ((1e12, "T"), (1e9, "G")) if count >= size), (1e6, "M"))
    digits = 2 if count < 10 * size else 1 if count < 100 * size else 0
    return f"{count / size:.{digits}f} {unit}"


def amount_text(amount: float | None, *, compact: bool = False) -> str:
    """Return any number a user may measure: `1,234`, `0.25`, `inf`; `–` for none and for one that is not known (NaN)."""
    if amount is None or math.isnan(amount):
        return NONE
    if amount == 0 or 1e-4 <= abs(amount) < 1e15:
        whole = compact_text if compact else count_text
        return whole(round(amount)) if amount == int(amount) or abs(amount) >= 100 else ms_text(amount)
    return f"{amount:.3g}"


def rate_text(per_sec: float | None) -> str:
    """Return `12,345/s`, or `0.5/s` where it is little."""
    if per_sec is None:
        return NONE
    return f"{per_sec:,.0f}/s" if per_sec >= 10 or per_sec == 0 else f"{per_sec:.1f}/s"


def ms_text(ms: float | None) -> str:
    """Return milliseconds, to the tenth of a microsecond where they are few: `0.0006`, `0.125`, `1.25`, `38.1`, `1,500`."""
    if ms is None:
        return NONE
    size = abs(ms)
    digits = 4 if size < 0.01 else 3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0
    return f"{ms:,.{digits}f}"


def percent_text(share: float | None) -> str:
    """Return `97%`."""
    return NONE if share is None else f"{share * 100:.0f}%"


def name_text(name: str) -> str:
    """Return a name for a terminal; quoted and escaped where it has what a terminal would obey.

    >>> print(name_text("counts"), name_text("\\x1b[2J"))
    counts '\\x1b[2J'
    """
    return name if name.isprintable() else repr(name)


def _component_row(component: ComponentSnapshot, busy: float | None, written: Callable[[int], str]) -> tuple[str, ...]:
    is_spout = component.kind == "spout"
    return (
        component.component_id,
        str(len(component.tasks)),
        written(component.emitted),
        written(component.transferred),
        written(component.acked),
        written(component.failed),
        NONE if is_spout else ms_text(component.execute_ms),
        NONE if is_spout else ms_text(component.process_ms),
        percent_text(busy),
        NONE if is_spout else percent_text(component.queue_fill),
    )


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an int that a counter summed up
        return math.inf
