"""`flow-report`: how a run's flow control went, as a picture and a table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from engine.cli.figures import aligned, count_text, ms_text, percent_text, rate_text
from engine.cli.flow_course import FlowCourse, course_name
from engine.cli.show_error import show_error
from engine.errors import UsageError

COLUMNS: Final = ("task", "NORMAL", "SLOW", "BUSY", "window", "in flight", "service ms", "p99 ms", "records", "resends")
WRONG: Final = 2


@click.command("flow-report", short_help="Draw how a run's flow control went.")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE.svg", help="Default: beside FILE, with the ending .svg.")
@click.option("--spout", metavar="NAME", help="This spout only, where several have flow control.")
def command(path: Path, output: Path | None, spout: str | None) -> int:
    """Draw the windows and states of all bolt tasks over time, from what `run --json` wrote into FILE; `-` is standard input.

    \b
      run topology.py --json -c stats_interval_secs=0.25 > run.jsonl
      flow-report run.jsonl                    writes run.svg
      flow-report run.jsonl -o flow.svg
      zcat run.jsonl.gz | flow-report - -o flow.svg

    \b
    The picture has, for each spout task with flow control,
      records/s            that the tasks did, in whatever order
      since checkpoint     what a crash would have repeated
      a lane a bolt task   its window as a line, what was in flight below it,
                           the background by its state: NORMAL, SLOW, BUSY

    The table on standard output has the share of the time in each state, the means of window and in flight, and the last figures.
    """
    from engine.cli.flow_log import STANDARD_INPUT, read_courses
    from engine.cli.flow_plot import flow_plot

    try:
        courses = read_courses(path, spout)
    except UsageError as error:
        show_error(error)
        return WRONG
    target = output or (Path("flow.svg") if path == STANDARD_INPUT else path.with_suffix(".svg"))
    picture = flow_plot(courses)
    try:
        target.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{target} cannot be written: {error.strerror}. Name another file with -o.") from None
    click.echo("\n\n".join(report_text(course, courses) for course in courses))
    click.echo(f"{target} is written", err=True)
    return 0


def report_text(course: FlowCourse, courses: Sequence[FlowCourse]) -> str:
    """Return the figures of one spout task: a line for all of it, and one for each bolt task."""
    done, span = course.done_records[-1], course.span_secs
    headline = (
        f"{course_name(course, courses)}: {span:.1f} s in {count_text(len(course.secs))} snapshots, {count_text(round(done))} records done "
        f"({rate_text(done / span)}), at most {count_text(round(max(course.since_checkpoint)))} since the checkpoint"
    )
    rows = []
    for task_id, task in course.tasks.items():
        shares = [percent_text(share) for share in course.shares(task).values()]
        means = [f"{course.mean(values):.1f}" for values in (task.windows, task.in_flight)]
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
