"""A pipeline in a terminal, from start to exit status: figures while it runs, signals that stop it, a summary at the end."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Unpack

from engine.cli.console.formatting import duration_text
from engine.cli.console.output import show_error
from engine.cli.console.session import ShownRun, TerminalSession, ViewName, refuse_running_loop
from engine.errors import EngineError
from spark_bridge.cli.view import PipelineOutcome, PipelineView, make_view
from spark_bridge.pipeline.progress import PipelineSnapshot
from spark_bridge.pipeline.run import Pipeline, PipelineRun, Place, RunOptions, Until, settings_of
from spark_bridge.process import SparkConfig

INTERVAL_SECS: Final = 2.0


class TerminalOptions(RunOptions, total=False):
    """What beside it a pipeline in a terminal may be told."""

    for_secs: float
    """Stop after so many seconds."""
    view: ViewName | PipelineView
    """`live`, `plain`, `json`, `silent`, or one of your own; without it the live table on a terminal, else plain lines."""


def run_pipeline_in_terminal(
    pipeline: Pipeline,
    folder: Place,
    *,
    checkpoints: Place,
    spark: SparkConfig | None = None,
    until: Until = "stopped",
    **options: Unpack[TerminalOptions],
) -> PipelineOutcome:
    """Run a pipeline until it is stopped, caught up or failed, and return how it ended; `sys.exit(outcome.exit_status)`.

    For the `main()` of a program; takes what `run_pipeline` takes, and `TerminalOptions`. Errors are printed, not raised. The first SIGINT
    or SIGTERM stops it after the micro-batch under way, the second at once. UsageError inside an event loop.
    """
    refuse_running_loop("run_pipeline_in_terminal", "await spark_bridge.run_pipeline(...)")
    view = options.get("view", "auto")
    shown = make_view(view, INTERVAL_SECS) if isinstance(view, str) else view
    try:
        settings = settings_of(pipeline, folder, checkpoints, options)
    except EngineError as error:
        return _ended(PipelineOutcome(error.exit_status, None, error), shown.end)
    grace_text = f"micro-batches under way get {duration_text(settings.stop_secs)}"
    session = TerminalSession[PipelineSnapshot](settings.name, shown, grace_text=grace_text, for_secs=options.get("for_secs"))

    @asynccontextmanager
    async def started() -> AsyncIterator[ShownRun[PipelineSnapshot]]:
        run = PipelineRun(settings, spark or SparkConfig(), until)
        run.on_note.append(lambda text: session.call_view(shown.note, text))
        yield run

    ended = session.run_until_end(started())
    return _ended(PipelineOutcome(ended.exit_status, ended.snapshot, ended.error), lambda outcome: session.call_view(shown.end, outcome))


def _ended(outcome: PipelineOutcome, end: Callable[[PipelineOutcome], object]) -> PipelineOutcome:
    end(outcome)
    if outcome.error is not None:
        show_error(outcome.error)
    return outcome
