"""`flow-report` draws the flow control of a run as a picture, and writes a table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from engine.cli.console.commands import output_file_errors
from engine.cli.console.formatting import aligned, count_text, ms_text, percent_text, rate_text
from engine.cli.console.output import print_to_stderr, show_error, write_line
from engine.cli.flow_history import FlowHistory, history_label
from engine.errors import UsageError

COLUMNS: Final = ("task", "NORMAL", "SLOW", "BUSY", "window", "in flight", "service ms", "p99 ms", "records", "resends")
WRONG: Final = 2


@click.command("flow-report", short_help="Draw the windows and states of flow control over time.")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE.svg", help="File for the picture. Default: FILE with the ending .svg."
)
@click.option("--spout", metavar="NAME", help="Only this spout.")
def command(path: Path, output: Path | None, spout: str | None) -> int:
    """Draw the windows and states of all bolt tasks over time. FILE is the output of `run --json`; `-` is standard input.

    \b
      run topology.py --json -c stats_interval_secs=0.25 > run.jsonl
      flow-report run.jsonl                    writes run.svg
      flow-report run.jsonl -o flow.svg
      zcat run.jsonl.gz | flow-report - -o flow.svg

    \b
    The picture shows, for each spout task with flow control:
      records/s              records processed per second
      since checkpoint       records that a crash would have repeated
      a lane per bolt task   the window as a line, the packs in flight as an area,
                             the state as background: NORMAL, SLOW, BUSY

    The table on standard output shows the share of the time in each state, the means of window and in flight, and the last metrics.

    Exit status: 0, or 2 if FILE cannot be read or contains no flow control.
    """
    from engine.cli.flow_history import STANDARD_INPUT, read_histories
    from engine.cli.flow_plot import flow_plot

    try:
        histories = read_histories(path, spout)
    except UsageError as error:
        show_error(error)
        return WRONG
    target = output or (Path("flow.svg") if path == STANDARD_INPUT else path.with_suffix(".svg"))
    picture = flow_plot(histories)
    with output_file_errors(target):
        target.write_text(picture, encoding="utf-8")
    write_line("\n\n".join(report_text(history, histories) for history in histories))
    print_to_stderr(f"wrote {target}")
    return 0


def report_text(history: FlowHistory, histories: Sequence[FlowHistory]) -> str:
    """Return the metrics of one spout task as text, with a headline and a row for each bolt task."""
    done, span = round(history.done_records[-1]), history.span_secs
    since_checkpoint = round(max(history.since_checkpoint))
    headline = (
        f"{history_label(history, histories)}: {span:.1f} s in {count_text(len(history.secs))} snapshots, "
        f"{count_text(done)} records done ({rate_text(done / span)}), at most {count_text(since_checkpoint)} since the checkpoint"
    )
    rows = []
    for task_id, task in history.tasks.items():
        shares = [percent_text(share) for share in history.shares(task).values()]
        means = [f"{history.mean(values):.1f}" for values in (task.windows, task.in_flight)]
        last = task.last
        rows.append(
            (
                str(task_id),
                *shares,
                *means,
                ms_text(last.service_ms),
                ms_text(last.service_p99_ms),
                count_text(last.records),
                count_text(last.resends),
            )
        )
    return f"{headline}\n{aligned([COLUMNS, *rows])}"
