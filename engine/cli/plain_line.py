"""One plain line at a time on standard error, for logs and pipes; at the end all figures once."""

from typing import Any

from engine.cli import figures
from engine.cli.figures import amount_text, count_text, known_sum, ms_text, percent_text, rate_text
from engine.cli.flow_tables import flow_tables, flow_texts
from engine.cli.label_tables import label_tables
from engine.cli.output import standard_error, write_line
from engine.cli.view import Outcome
from engine.cluster.snapshot import Snapshot, capacity, rate
from engine.executor.error_report import ErrorReport


class PlainLines:
    """The view where no terminal is."""

    def __init__(self, interval_secs: float) -> None:
        self.interval_secs = interval_secs

    async def begin(self, topology_name: str) -> None:
        """Say that the run is on."""
        _say(f"{topology_name}: running; Ctrl-C drains")

    def show(self, before: Snapshot | None, now: Snapshot) -> None:
        """Write one line."""
        _say(plain_line(before, now))

    def report(self, report: ErrorReport) -> None:
        """Leave it to the log, which goes to standard error as well."""

    def note(self, text: str) -> None:
        """Write it."""
        _say(text)

    def end(self, outcome: Outcome) -> None:
        """Write the figures of the whole run, then its summary."""
        if outcome.snapshot is not None:
            _say(figures.aligned([figures.COMPONENT_COLUMNS, *figures.component_rows(None, outcome.snapshot)]))
            _say(figures.aligned([figures.SPOUT_COLUMNS, *figures.spout_rows(outcome.snapshot)]))
            failures = figures.failures_text(outcome.snapshot)
            if failures is not None:
                _say(failures)
            for table in (*flow_tables(outcome.snapshot), *label_tables(outcome.snapshot)):
                _say(f"{table.title}\n{figures.aligned([table.headers, *table.rows], text_columns=table.labels)}")
            _say(outcome.summary())


def plain_line(before: Snapshot | None, now: Snapshot) -> str:
    """Return how a run stands in one line: speeds are since `before`, counts since it began."""
    parts = [
        f"{now.topology_name} {now.state} {now.uptime_secs:.1f} s",
        _counted("emitted", before, now),
        _counted("acked", before, now),
        f"failed {count_text(figures.failed_trees(now))}",
        f"pending {count_text(figures.pending_trees(now))}",
    ]
    parts += [
        f"{spout.component_id} p50 {ms_text(spout.complete_p50_ms)} ms p99 {ms_text(spout.complete_p99_ms)} ms"
        for spout in now.spouts
        if spout.complete_p50_ms is not None
    ]
    busiest = max(((capacity(before, now, component_id) or 0.0, component_id) for component_id in now.components), default=None)
    fullest = max(((component.queue_fill, component_id) for component_id, component in now.components.items()), default=None)
    parts += [f"{word} {found[1]} {percent_text(found[0])}" for word, found in (("busiest", busiest), ("fullest", fullest)) if found]
    parts += _lags(now)
    parts += flow_texts(now)
    parts += [text for text in (figures.checkpoint_text(now), figures.transactions_text(before, now), figures.failures_text(now)) if text]
    errors = figures.errors_of(now)
    return " | ".join([*parts, *([f"errors {count_text(errors)}"] if errors else [])])


def _counted(word: str, before: Snapshot | None, now: Snapshot) -> str:
    count = figures.emitted_by_spouts if word == "emitted" else figures.acked_trees
    return f"{word} {count_text(count(now))} ({rate_text(rate(before, now, count))})"


def _lags(now: Snapshot) -> list[str]:
    """Return how far each component is behind, by its gauges whose last word is `lag`, all labels and tasks together."""
    lags: dict[tuple[str, str], list[Any]] = {}
    for metric in now.user_metrics:
        if metric.kind == "gauge" and metric.name.rpartition("_")[2] == "lag":
            lags.setdefault((metric.labels.component_id, metric.name), []).append(metric.value)
    return [f"{component_id} {name.replace('_', ' ')} {amount_text(known_sum(values))}" for (component_id, name), values in lags.items()]


def _say(text: str) -> None:
    write_line(text, standard_error())
