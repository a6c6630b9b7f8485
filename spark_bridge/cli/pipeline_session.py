"""Runs a pipeline in a terminal: shows its counts, stops it on signals, and prints a summary."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Unpack

from engine.cli.console.formatting import duration_text
from engine.cli.console.output import keep_streams, print_to_stderr, show_error, write_last_event
from engine.cli.console.session import UNDONE, SessionResult, ShownRun, TerminalSession, ViewName, refuse_running_loop
from engine.errors import EngineError
from spark_bridge.cli.pipeline_views import PipelineOutcome, PipelineView, make_view
from spark_bridge.pipeline.progress import PipelineSnapshot
from spark_bridge.pipeline.run import FolderPath, Pipeline, PipelineRun, RunOptions, Until, settings_of
from spark_bridge.process import SparkConfig

INTERVAL_SECS: Final = 2.0


class TerminalOptions(RunOptions, total=False):
    """Further options of a pipeline in a terminal."""

    for_secs: float
    """Stop after this many seconds."""
    view: ViewName | PipelineView
    """`live`, `plain`, `json`, `silent`, or your own view. By default the live table on a terminal, else plain lines."""


def run_pipeline_in_terminal(
    pipeline: Pipeline,
    folder: FolderPath,
    *,
    checkpoints: FolderPath,
    spark: SparkConfig | None = None,
    until: Until = "stopped",
    **options: Unpack[TerminalOptions],
) -> PipelineOutcome:
    """Run a pipeline until it is stopped, caught up or failed. Return the outcome, for `sys.exit(outcome.exit_status)`.

    Call it in the `main()` of a program. Takes the arguments of `run_pipeline` and `TerminalOptions`. Prints errors instead of raising
    them. The first SIGINT or SIGTERM stops after the current micro-batch, the second at once. Raises UsageError inside an event loop.
    """
    refuse_running_loop("run_pipeline_in_terminal", "await spark_bridge.run_pipeline(...)")
    view = options.get("view", "auto")
    shown = make_view(view, INTERVAL_SECS) if isinstance(view, str) else view
    try:
        settings = settings_of(pipeline, folder, checkpoints, options)
    except EngineError as error:
        refused = PipelineOutcome(error.exit_status, None, error)
        write_last_event(lambda: shown.end(refused))
        show_error(error)
        return refused
    grace_text = f"current micro-batches get {duration_text(settings.stop_secs)}"
    session = TerminalSession[PipelineSnapshot](settings.name, shown, grace_text=grace_text, for_secs=options.get("for_secs"))

    @asynccontextmanager
    async def started() -> AsyncIterator[ShownRun[PipelineSnapshot]]:
        run = PipelineRun(settings, spark or SparkConfig(), until)
        run.on_note.append(lambda text: session.call_view(shown.note, text))
        yield run

    with keep_streams():
        outcome = session.finish(lambda result: outcome_of(result, until), session.run_until_end(started()), shown.end)
        if outcome.exit_status == UNDONE:
            print_to_stderr(f"{settings.name}: stopped before it had caught up. The next run continues from the checkpoints.")
        if outcome.error is not None:
            show_error(outcome.error)
    return outcome


def outcome_of(result: SessionResult[PipelineSnapshot], until: Until) -> PipelineOutcome:
    """Return the outcome of a session. A pipeline that should have caught up, and was stopped before, has left something undone."""
    status, now = result.exit_status, result.snapshot
    if status == 0 and until != "stopped" and (now is None or now.state != "caught up"):
        status = UNDONE
    return PipelineOutcome(status, now, result.error)
