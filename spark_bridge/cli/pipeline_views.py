"""Views of a pipeline, which show a live table, plain lines, JSON lines, or nothing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from engine.cli.console.formatting import aligned, count_text, duration_text, ms_text, rate_text
from engine.cli.console.live_display import LiveDisplay, empty_table, is_terminal
from engine.cli.console.output import write_last_event
from engine.cli.console.session import Display, ViewName
from engine.cli.console.views import JsonView, PlainView, SilentView
from engine.errors import EngineError
from spark_bridge.pipeline.progress import PipelineSnapshot, QuerySnapshot, row_rate

if TYPE_CHECKING:
    from rich.console import Group

QUERY_COLUMNS: Final = ("query", "status", "txid", "lag", "rows", "rows/s", "batch ms", "state rows", "batches", "restarts")
TEXT_COLUMNS: Final = 2


@dataclass(frozen=True, slots=True)
class PipelineOutcome:
    """Result of a pipeline in a terminal."""

    exit_status: int
    """0 stopped or caught up, 1 a query failed, 2 wrong input, 3 stopped before it had caught up, 130 stopped at once."""
    snapshot: PipelineSnapshot | None
    """The last snapshot. None if the pipeline never started."""
    error: EngineError | None = None

    def summary(self) -> str:
        """Return one line: the final state, the duration and the counts."""
        return summary_line(self.snapshot, self.exit_status)


class PipelineView(Display[PipelineSnapshot], Protocol):
    """Shows a pipeline. Every method is called on the loop's thread and must return quickly."""

    def end(self, outcome: PipelineOutcome) -> None:
        """Show the result."""


class LivePipeline(LiveDisplay):
    """Live table, the view of a terminal."""

    def show(self, before: PipelineSnapshot | None, now: PipelineSnapshot) -> None:
        """Draw the table again."""
        self.draw(lambda width, height: picture(before, now))

    def end(self, outcome: PipelineOutcome) -> None:
        """Leave the table of the whole run on the screen, with the summary below."""
        now = outcome.snapshot
        if now is not None:
            self.finish(lambda width: picture(None, now), outcome.summary(), succeeded=outcome.exit_status == 0)


class PlainPipeline(PlainView):
    """View without a terminal. Writes a line to standard error every few seconds, and all counts at the end."""

    ctrl_c_text = "Ctrl-C stops after the current micro-batch."

    def show(self, before: PipelineSnapshot | None, now: PipelineSnapshot) -> None:
        """Write one line."""
        self.note(plain_line(before, now))

    def end(self, outcome: PipelineOutcome) -> None:
        """Write the table of the whole run, then the summary."""
        if outcome.snapshot is None:
            return
        if outcome.snapshot.queries:
            rows = [QUERY_COLUMNS, *query_rows(None, outcome.snapshot)]
            self.note(aligned(rows, text_columns=TEXT_COLUMNS))
        self.note(outcome.summary())


class JsonPipeline(JsonView[PipelineSnapshot]):
    """View of `--json`."""

    name_field = "pipeline"


def write_refusal(error: EngineError) -> None:
    """Write the event `end` for a pipeline that was refused before the start. The caller raises or shows the error after that."""
    write_last_event(lambda: JsonPipeline(0).end(PipelineOutcome(error.exit_status, None, error)))


def make_view(name: ViewName, interval_secs: float) -> PipelineView:
    """Return the view of a name. `auto` is the live table on a terminal, else plain lines every `interval_secs`."""
    if name == "live" or (name == "auto" and is_terminal()):
        return LivePipeline()
    if name == "json":
        return JsonPipeline(interval_secs)
    return SilentView() if name == "silent" else PlainPipeline(interval_secs)


def picture(before: PipelineSnapshot | None, now: PipelineSnapshot) -> "Group":
    """Return the live display with headline, table of the queries and last errors."""
    from rich.console import Group
    from rich.text import Text

    table = empty_table(QUERY_COLUMNS, text_columns=(0, 1), gap=1)
    for row, query in zip(query_rows(before, now), now.queries.values(), strict=True):
        table.add_row(*map(Text, row), style={"failed": "red", "restarting": "yellow"}.get(query.status))
    errors = [Text(text, style="yellow", no_wrap=True, overflow="ellipsis") for text in query_errors(now)]
    return Group(Text(headline(now), style="bold", no_wrap=True, overflow="ellipsis"), table, *errors, Text(""))


# Text


def query_rows(before: PipelineSnapshot | None, now: PipelineSnapshot) -> list[tuple[str, ...]]:
    """Return one row of `QUERY_COLUMNS` for each query. rows/s is the rate since `before`."""
    return [_row(query, row_rate(before, now, query.name)) for query in now.queries.values()]


def headline(now: PipelineSnapshot) -> str:
    """Return one line with the pipeline, its state, its uptime and the newest txid."""
    deaths = f" · Spark was restarted {now.deaths} {'time' if now.deaths == 1 else 'times'}" if now.deaths else ""
    return f"{now.name} · {now.state} · {duration_text(now.uptime_secs)} · newest txid {count_text(now.newest_txid)}{deaths}"


def plain_line(before: PipelineSnapshot | None, now: PipelineSnapshot) -> str:
    """Return the state of a pipeline in one line. Rates are since `before`, counts since the start."""
    parts = [f"{now.name} {now.state} {now.uptime_secs:.1f} s", f"newest txid {count_text(now.newest_txid)}"]
    parts += [_in_short(query, row_rate(before, now, query.name)) for query in now.queries.values()]
    return " | ".join(parts)


def query_errors(now: PipelineSnapshot) -> list[str]:
    """Return one line per query with its last error."""
    return [f"{query.name}: {query.trouble.partition(chr(10))[0]}" for query in now.queries.values() if query.trouble]


def summary_line(now: PipelineSnapshot | None, exit_status: int) -> str:
    """Return one line: the final state, the duration and the counts."""
    if now is None:
        return "the pipeline did not start"
    state = {130: "stopped at once", 1: "failed", 2: "failed"}.get(exit_status, now.state)
    rows, batches = (sum(getattr(query, name) for query in now.queries.values()) for name in ("rows", "batches"))
    counts = f"{count_text(rows)} rows in {count_text(batches)} {'batch' if batches == 1 else 'batches'}, lag {count_text(now.lag)}"
    done = counts if now.queries else "no query was started"
    return f"{now.name}: {state} after {duration_text(now.uptime_secs)}: {done}"


def _row(query: QuerySnapshot, per_sec: float | None) -> tuple[str, ...]:
    return (
        query.name,
        query.status,
        *map(count_text, (query.txid, query.lag, query.rows)),
        rate_text(per_sec).removesuffix("/s"),
        ms_text(query.batch_ms),
        *map(count_text, (query.state_rows, query.batches, query.restarts)),
    )


def _in_short(query: QuerySnapshot, per_sec: float | None) -> str:
    status = "" if query.status == "running" else f" {query.status}"
    counts = f"txid {count_text(query.txid)} lag {count_text(query.lag)} rows {count_text(query.rows)}"
    return f"{query.name}{status} {counts} ({rate_text(per_sec)})"
