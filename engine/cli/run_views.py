"""Views of a run without a live table. These views write plain lines to standard error, JSON lines to standard output, or nothing.

live_table.py has the view of a terminal.

`--json` writes one JSON object per line to standard output. The field `event` is `start` (topology), `snapshot` (all metrics), `error` (one
error of a component), `note` (text), or finally `end` (exit_status, state, summary, error, snapshot).
"""

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from engine.cli import snapshot_text
from engine.cli.console import views as console_views
from engine.cli.console.formatting import aligned, amount_text, count_text, duration_text, ms_text, percent_text, plural, rate_text
from engine.cli.console.output import write_json_event, write_last_event
from engine.cli.console.session import Display
from engine.cli.console.views import JsonView, PlainView
from engine.cli.label_tables import label_tables
from engine.errors import EngineError
from engine.runtime.bottleneck import find_bottleneck, loop_busy
from engine.runtime.error_report import ErrorReport
from engine.runtime.snapshot import Snapshot, capacity, error_dict, rate


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a run in a terminal."""

    exit_status: int
    """RUN-4: 0 complete or drained, 1 a component failed for good, 2 wrong input, 3 something is left undone, 130 stopped."""
    snapshot: Snapshot | None
    """The last snapshot. None if the run never started."""
    error: EngineError | None = None

    def summary(self) -> str:
        """Return one line: the final state, the duration and the counts. A transactional run counts batches instead of trees."""
        if self.snapshot is None:
            return "the run did not start"
        now = self.snapshot
        state = {130: "stopped at once", 1: "failed"}.get(self.exit_status, now.state)
        counts = _batch_counts(now) or [
            f"{snapshot_text.emitted_by_spouts(now):,} emitted",
            f"{snapshot_text.acked_trees(now):,} acked",
            f"{snapshot_text.failed_trees(now):,} failed",
        ]
        if errors := snapshot_text.error_count(now):
            counts.append(plural(errors, "error"))
        return f"{now.topology_name}: {state} after {duration_text(now.uptime_secs)}: {', '.join(counts)}"


def _batch_counts(now: Snapshot) -> list[str]:
    """Return the counts of a transactional run. Empty for any other run."""
    if snapshot_text.transactions_text(None, now) is None:
        return []
    committed = snapshot_text.committed_batches(now)
    failed = sum(
        int(metric.value) for metric in now.user_metrics if metric.name == "transactions_failed" and isinstance(metric.value, int | float)
    )
    return [f"{committed:,} {'batch' if committed == 1 else 'batches'} committed", f"{failed:,} failed"]


class View(Display[Snapshot], Protocol):
    """Shows a run. Every method is called on the loop's thread and must return quickly."""

    def report(self, report: ErrorReport) -> None:
        """Show an error of a component. The log contains it too."""

    def end(self, outcome: Outcome) -> None:
        """Show the result and restore the terminal. Also called if `begin` was not."""


class SilentView(console_views.SilentView):
    """Shows nothing."""

    def report(self, report: ErrorReport) -> None:
        """Do nothing."""


class PlainLines(PlainView):
    """View without a terminal. Writes one plain line at a time to standard error, and all metrics at the end."""

    ctrl_c_text = "Ctrl-C drains."

    def show(self, before: Snapshot | None, now: Snapshot) -> None:
        """Write one line."""
        self.note(plain_line(before, now))

    def report(self, report: ErrorReport) -> None:
        """Do nothing, because standard error also contains the log."""

    def end(self, outcome: Outcome) -> None:
        """Write the metrics of the whole run, then the summary."""
        now = outcome.snapshot
        if now is None:
            return
        self.note(aligned([snapshot_text.COMPONENT_COLUMNS, *snapshot_text.component_rows(None, now)]))
        self.note(aligned([snapshot_text.SPOUT_COLUMNS, *snapshot_text.spout_rows(now)]))
        failures = snapshot_text.failures_text(now)
        if failures is not None:
            self.note(failures)
        self.note(find_bottleneck(None, now).text)
        for table in (*snapshot_text.flow_tables(now), *label_tables(now)):
            self.note(f"{table.title}\n{aligned([table.headers, *table.rows], text_columns=table.text_columns)}")
        self.note(outcome.summary())


def plain_line(before: Snapshot | None, now: Snapshot) -> str:
    """Return the state of a run in one line. Rates are since `before`, counts since the start."""
    parts = [
        f"{now.topology_name} {now.state} {now.uptime_secs:.1f} s",
        f"emitted {_count_and_rate(snapshot_text.emitted_by_spouts, before, now)}",
        f"acked {_count_and_rate(snapshot_text.acked_trees, before, now)}",
        f"failed {count_text(snapshot_text.failed_trees(now))}",
        f"pending {count_text(snapshot_text.pending_trees(now))}",
        f"loop {percent_text(loop_busy(before, now))}",
    ]
    parts += [
        f"{spout.component_id} p50 {ms_text(spout.complete_p50_ms)} ms p99 {ms_text(spout.complete_p99_ms)} ms"
        for spout in now.spouts
        if spout.complete_p50_ms is not None
    ]
    busiest = max(((capacity(before, now, component_id) or 0.0, component_id) for component_id in now.components), default=None)
    fullest = max(((component.queue_fill, component_id) for component_id, component in now.components.items()), default=None)
    parts += [f"{word} {found[1]} {percent_text(found[0])}" for word, found in (("busiest", busiest), ("fullest", fullest)) if found]
    parts.append(snapshot_text.limit_words(find_bottleneck(before, now)))
    parts += _lags(now)
    parts += snapshot_text.flow_summaries(now)
    parts += snapshot_text.state_texts(before, now)
    errors = snapshot_text.error_count(now)
    return " | ".join([*parts, *([f"errors {count_text(errors)}"] if errors else [])])


def _count_and_rate(count: snapshot_text.Count, before: Snapshot | None, now: Snapshot) -> str:
    return f"{count_text(count(now))} ({rate_text(rate(before, now, count))})"


def _lags(now: Snapshot) -> list[str]:
    """Return the lag of each component, which is the sum of all gauges whose name ends with the word `lag`."""
    lags: dict[tuple[str, str], list[Any]] = {}
    for metric in now.user_metrics:
        if metric.kind == "gauge" and metric.name.rpartition("_")[2] == "lag":
            lags.setdefault((metric.labels.component_id, metric.name), []).append(metric.value)
    return [
        f"{component_id} {name.replace('_', ' ')} {amount_text(snapshot_text.known_sum(values))}"
        for (component_id, name), values in lags.items()
    ]


class JsonLines(JsonView[Snapshot]):
    """View of `--json`."""

    name_field = "topology"

    def snapshot_fields(self, now: Snapshot) -> dict[str, Any]:
        """Return the fields of a snapshot without errors, because each error had its own event."""
        fields = now.to_dict()
        del fields["errors"], fields["undone"]
        return fields

    def end_fields(self, now: Snapshot | None) -> dict[str, Any]:
        """Return what the run has left undone."""
        return {"undone": None if now is None or now.undone is None else asdict(now.undone)}

    def report(self, report: ErrorReport) -> None:
        """Write `error`."""
        write_json_event("error", **error_dict(report))


def write_refusal(error: EngineError) -> None:
    """Write the event `end` for a topology or a config that was refused before the start. The caller raises the error after that."""
    write_last_event(lambda: JsonLines(0).end(Outcome(error.exit_status, None, error)))
