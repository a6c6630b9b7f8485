"""What a terminal session of a pipeline tells, and to whom: its live table, plain lines, JSON lines."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.cli.console.formatting import aligned
from engine.cli.console.live_display import LiveDisplay, empty_table, is_terminal
from engine.cli.console.output import error_fields, standard_error, write_json_event, write_line
from engine.cli.console.session import ViewName
from engine.errors import EngineError
from spark_bridge.cli import figures
from spark_bridge.pipeline.progress import PipelineSnapshot

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True, slots=True)
class PipelineOutcome:
    """How a pipeline in a terminal ended."""

    exit_status: int
    """0 stopped or caught up, 1 a query failed for good, 2 something is wrong as it stands, 130 stopped at once."""
    snapshot: PipelineSnapshot | None
    """The last one; None where the pipeline never started."""
    error: EngineError | None = None

    def summary(self) -> str:
        """Return one line: how it ended, after how long, and what was done."""
        return figures.summary(self.snapshot, self.exit_status)


class PipelineView(Protocol):
    """Shows a pipeline. Every method is called on the loop's thread, and returns soon."""

    interval_secs: float

    async def begin(self, name: str) -> None:
        """Get ready; called once."""

    def show(self, before: PipelineSnapshot | None, now: PipelineSnapshot) -> None:
        """Show how things stand; `before` is what was shown last."""

    def note(self, text: str) -> None:
        """Tell something once."""

    def end(self, outcome: PipelineOutcome) -> None:
        """Show how it ended."""


class LivePipeline(LiveDisplay):
    """The view of a terminal."""

    def show(self, before: PipelineSnapshot | None, now: PipelineSnapshot) -> None:
        """Draw the table anew."""
        self.draw(lambda width, height: picture(before, now))

    def end(self, outcome: PipelineOutcome) -> None:
        """Leave the figures of the whole run on the screen, and the summary below."""
        now = outcome.snapshot
        if now is not None:
            self.finish(lambda width: picture(None, now), outcome.summary(), succeeded=outcome.exit_status == 0)


class PlainPipeline:
    """The view where no terminal is: a line every few seconds on standard error, at the end all figures once."""

    def __init__(self, interval_secs: float) -> None:
        self.interval_secs = interval_secs

    async def begin(self, name: str) -> None:
        """Say that the pipeline is on."""
        _say(f"{name}: running; Ctrl-C stops after the micro-batch under way")

    def show(self, before: PipelineSnapshot | None, now: PipelineSnapshot) -> None:
        """Write one line."""
        _say(figures.plain_line(before, now))

    def note(self, text: str) -> None:
        """Write it."""
        _say(text)

    def end(self, outcome: PipelineOutcome) -> None:
        """Write the figures of the whole run, then its summary."""
        if outcome.snapshot is None:
            return
        if outcome.snapshot.queries:
            rows = [figures.QUERY_COLUMNS, *figures.query_rows(None, outcome.snapshot)]
            _say(aligned(rows, text_columns=figures.TEXT_COLUMNS))
        _say(outcome.summary())


class JsonPipeline:
    """The view of `--json`: one object a line on standard output. Events: `start`, `snapshot`, `note`, and last, once, `end`."""

    def __init__(self, interval_secs: float) -> None:
        self.interval_secs = interval_secs

    async def begin(self, name: str) -> None:
        """Write `start`."""
        write_json_event("start", pipeline=name)

    def show(self, before: PipelineSnapshot | None, now: PipelineSnapshot) -> None:
        """Write `snapshot`."""
        write_json_event("snapshot", **now.to_dict())

    def note(self, text: str) -> None:
        """Write `note`."""
        write_json_event("note", text=text)

    def end(self, outcome: PipelineOutcome) -> None:
        """Write `end`."""
        now, error = outcome.snapshot, outcome.error
        write_json_event(
            "end",
            exit_status=outcome.exit_status,
            state=None if now is None else now.state,
            summary=outcome.summary(),
            error=None if error is None else error_fields(error),
            snapshot=None if now is None else now.to_dict(),
        )


def write_refusal(error: EngineError) -> None:
    """Write the `end` of a pipeline that could not be described, let alone started."""
    JsonPipeline(0).end(PipelineOutcome(error.exit_status, None, error))


class SilentPipeline:
    """Shows nothing."""

    interval_secs = 3600.0

    async def begin(self, name: str) -> None:
        """Do nothing."""

    def show(self, before: PipelineSnapshot | None, now: PipelineSnapshot) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def end(self, outcome: PipelineOutcome) -> None:
        """Do nothing."""


def make_view(name: ViewName, interval_secs: float) -> PipelineView:
    """Return the view of a name; `auto` is the live table on a terminal, else plain lines every `interval_secs`."""
    if name == "live" or (name == "auto" and is_terminal()):
        return LivePipeline()
    if name == "json":
        return JsonPipeline(interval_secs)
    return SilentPipeline() if name == "silent" else PlainPipeline(interval_secs)


def picture(before: PipelineSnapshot | None, now: PipelineSnapshot) -> "Group":
    """Return the whole picture: headline, queries, what they last died of."""
    from rich.console import Group
    from rich.text import Text

    table = empty_table(figures.QUERY_COLUMNS, text_columns=(0, 1), gap=1)
    for row, query in zip(figures.query_rows(before, now), now.queries.values(), strict=True):
        table.add_row(*map(Text, row), style={"failed": "red", "restarting": "yellow"}.get(query.status))
    told = [Text(text, style="yellow", no_wrap=True, overflow="ellipsis") for text in figures.troubles(now)]
    return Group(Text(figures.headline(now), style="bold", no_wrap=True, overflow="ellipsis"), table, *told, Text(""))


def _say(text: str) -> None:
    write_line(text, standard_error())
