"""Views of a pipeline: a live table, plain lines, JSON lines, or nothing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.cli.console.formatting import aligned
from engine.cli.console.live_display import LiveDisplay, empty_table, is_terminal
from engine.cli.console.session import Display, ViewName
from engine.cli.console.views import JsonView, PlainView, SilentView
from engine.errors import EngineError
from spark_bridge.cli import snapshot_text
from spark_bridge.pipeline.progress import PipelineSnapshot

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, slots=True)
class PipelineOutcome:
    """Result of a pipeline in a terminal."""

    exit_status: int
    """0 stopped or caught up, 1 a query failed for good, 2 wrong input, 130 stopped at once."""
    snapshot: PipelineSnapshot | None
    """The last snapshot. None if the pipeline never started."""
    error: EngineError | None = None

    def summary(self) -> str:
        """Return one line: the final state, the duration and the counts."""
        return snapshot_text.summary(self.snapshot, self.exit_status)


class PipelineView(Display[PipelineSnapshot], Protocol):
    """Shows a pipeline. Every method is called on the loop's thread and must return quickly."""

    def end(self, outcome: PipelineOutcome) -> None:
        """Show the result."""


class LivePipeline(LiveDisplay):
    """View of a terminal: a live table."""

    def show(self, before: PipelineSnapshot | None, now: PipelineSnapshot) -> None:
        """Draw the table again."""
        self.draw(lambda width, height: picture(before, now))

    def end(self, outcome: PipelineOutcome) -> None:
        """Leave the table of the whole run on the screen, with the summary below."""
        now = outcome.snapshot
        if now is not None:
            self.finish(lambda width: picture(None, now), outcome.summary(), succeeded=outcome.exit_status == 0)


class PlainPipeline(PlainView):
    """View without a terminal: a line every few seconds on standard error, and all counts once at the end."""

    ctrl_c_text = "Ctrl-C stops after the current micro-batch."

    def show(self, before: PipelineSnapshot | None, now: PipelineSnapshot) -> None:
        """Write one line."""
        self.note(snapshot_text.plain_line(before, now))

    def end(self, outcome: PipelineOutcome) -> None:
        """Write the table of the whole run, then the summary."""
        if outcome.snapshot is None:
            return
        if outcome.snapshot.queries:
            rows = [snapshot_text.QUERY_COLUMNS, *snapshot_text.query_rows(None, outcome.snapshot)]
            self.note(aligned(rows, text_columns=snapshot_text.TEXT_COLUMNS))
        self.note(outcome.summary())


class JsonPipeline(JsonView[PipelineSnapshot]):
    """View of `--json`."""

    name_field = "pipeline"


def write_refusal(error: EngineError) -> None:
    """Write the event `end` for a pipeline that was refused before the start."""
    JsonPipeline(0).end(PipelineOutcome(error.exit_status, None, error))


def make_view(name: ViewName, interval_secs: float) -> PipelineView:
    """Return the view of a name. `auto` is the live table on a terminal, else plain lines every `interval_secs`."""
    if name == "live" or (name == "auto" and is_terminal()):
        return LivePipeline()
    if name == "json":
        return JsonPipeline(interval_secs)
    return SilentView() if name == "silent" else PlainPipeline(interval_secs)


def picture(before: PipelineSnapshot | None, now: PipelineSnapshot) -> "Group":
    """Return the live display: headline, table of the queries, last errors."""
    from rich.console import Group
    from rich.text import Text

    table = empty_table(snapshot_text.QUERY_COLUMNS, text_columns=(0, 1), gap=1)
    for row, query in zip(snapshot_text.query_rows(before, now), now.queries.values(), strict=True):
        table.add_row(*map(Text, row), style={"failed": "red", "restarting": "yellow"}.get(query.status))
    errors = [Text(text, style="yellow", no_wrap=True, overflow="ellipsis") for text in snapshot_text.query_errors(now)]
    return Group(Text(snapshot_text.headline(now), style="bold", no_wrap=True, overflow="ellipsis"), table, *errors, Text(""))
