"""`ctl` steers a run in another process."""

import json
import re
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote

import click

from engine.cli.console.commands import CommandGroup
from engine.cli.console.formatting import duration_text, name_text, plural, printable
from engine.cli.console.output import print_to_stderr, write_line
from engine.cli.console.session import UNDONE
from engine.cli.remote_run import RemoteError, RemoteRun, RunGone, remote_run
from engine.cli.run_views import plain_line
from engine.json_text import json_text
from engine.runtime.snapshot import END_STATES
from engine.undone import Undone

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
POLL_SECS: Final = 1.0
CALL_SECS: Final = 3600.0
"""Longest wait for the answer of a call. The timeout of its tree ends it before."""
FINAL_STATES: Final = frozenset({"acked", "failed", "expired"})
"""Last states of a traced message."""
_F = TypeVar("_F", bound=Callable[..., Any])

HELP: Final = """\
Steer the run at URL. Each change needs the token that the run printed at its start, or ENGINE_HTTP_TOKEN.

\b
  ctl 8080 state
  ctl 8080 drain --token TOKEN
  ctl 'http://127.0.0.1:8080/#token=...' deactivate      the URL that the run printed
  ctl 8080 call orders '["tea", 2]'

\b
Exit status:
  0  done
  1  the run refuses, is gone, or has failed
  2  the command line is wrong
  3  drained, but some messages failed for good or were still open
"""


@click.group("ctl", cls=CommandGroup, short_help="Steer a run elsewhere.", help=HELP, invoke_without_command=True)
@click.argument("url")
@click.pass_context
def command(context: click.Context, url: str) -> None:
    """Remember the URL for the subcommand."""
    if context.invoked_subcommand is None:
        if url in command.commands:
            raise click.UsageError(f"The URL of the run is missing. Write `ctl 8080 {url}`.")
        raise click.UsageError(f"The command is missing. The commands are {', '.join(command.commands)}.")
    context.obj = url


def _steers(function: _F) -> _F:
    """Give a subcommand the option --token, and the URL as its first argument."""
    help_text = "Secret of the run. Default: the token in the URL, or ENGINE_HTTP_TOKEN."
    with_option = click.option("--token", metavar="TEXT", help=help_text)(function)
    return click.pass_obj(with_option)  # type: ignore[return-value]


_no_wait = click.option("--no-wait", is_flag=True, help="Return at once, and do not wait for the end.")


@command.command("state", short_help="Show the state of the run in one line.")
@click.pass_obj
def state_command(url: str) -> int:
    """Show state, counts and the busiest component."""
    write_line(plain_line(None, remote_run(url).snapshot()))
    return 0


@command.command("activate", short_help="Start the polls of deactivated spouts.")
@_steers
def activate_command(url: str, token: str | None) -> int:
    """Start the polls of the spouts."""
    return _show_state(remote_run(url, token).post("api/activate"))


@command.command("deactivate", short_help="Stop the polls of the spouts. Bolts go on.")
@_steers
def deactivate_command(url: str, token: str | None) -> int:
    """Stop the polls of the spouts."""
    answer = remote_run(url, token).post("api/deactivate")
    write_line(f"{answer.get('state')}: the spouts are not polled")
    return 0


@command.command("drain", short_help="Stop the spouts, finish the open trees, and end the run.")
@_no_wait
@_steers
def drain_command(url: str, token: str | None, *, no_wait: bool) -> int:
    """Drain the run, and wait until it has ended. Return its exit status."""
    remote = remote_run(url, token)
    if no_wait:
        return _show_state(remote.post("api/drain"))
    has_failed, undone = _end(remote, "api/drain")
    return 1 if has_failed else UNDONE if undone else 0


@command.command("stop", short_help="End the run at once. Open trees are lost or replayed by their sources.")
@_no_wait
@_steers
def stop_command(url: str, token: str | None, *, no_wait: bool) -> int:
    """Stop the run, and wait until it has ended. What it leaves undone is no failure of this command, which lets go of the open trees."""
    remote = remote_run(url, token)
    if no_wait:
        return _show_state(remote.post("api/stop"))
    has_failed, _ = _end(remote, "api/stop")
    return int(has_failed)


@command.command("restart", short_help="Replace the instance of a task.")
@click.argument("task")
@_steers
def restart_command(url: str, token: str | None, task: str) -> int:
    """Replace the instance of TASK, as after an error. Its inputs in work fail with the reason task_died.

    TASK is a number. The page lists the tasks of a component, and errors and failures name theirs: 'sign' (task 4), sign[4].
    """
    if not re.fullmatch(r"[0-9]{1,9}", task):
        raise click.UsageError(f"TASK is {task!r}, which is no number. Write the number of a task, such as `restart 4`.")
    remote_run(url, token).post(f"api/tasks/{int(task)}/restart")
    write_line(f"task {task} gets a new instance")
    return 0


@command.command("trace", short_help="Follow the tree of a message id to its end.")
@click.argument("spout")
@click.argument("message_id")
@_no_wait
@_steers
def trace_command(url: str, token: str | None, spout: str, message_id: str, *, no_wait: bool) -> int:
    """Trace the next tree of SPOUT with this message id, and wait for its end. The message id is the text that failures show."""
    remote = remote_run(url, token)
    trace = remote.post("api/trace", {"component": spout, "message_id": message_id})
    shown = None
    while True:
        if trace != shown:
            write_line(printable(f"{trace.get('state')}: {trace.get('text') or '–'}"))
        if no_wait or trace.get("state") in FINAL_STATES:
            return 0
        shown = trace
        threading.Event().wait(POLL_SECS)
        trace = _trace_of(remote, shown)


def _trace_of(remote: RemoteRun, known: dict[str, Any]) -> dict[str, Any]:
    """Return the newest state of a trace. A run that keeps no longer this trace does not change it."""
    key = (known.get("component"), known.get("message_id"))
    traces = remote.get("api/traces").get("traces", [])
    found = [trace for trace in traces if (trace.get("component"), trace.get("message_id")) == key]
    return found[0] if found else {**known, "state": "expired"}


@command.command("log-level", short_help="Change the level of the run's log.")
@click.argument("level", metavar="LEVEL", type=click.Choice(LEVELS, case_sensitive=False))
@_steers
def log_level_command(url: str, token: str | None, level: str) -> int:
    """Change the level of the log until the run ends."""
    answer = remote_run(url, token).post("api/log-level", {"level": level})
    write_line(f"log level: {str(answer.get('level')).lower()}")
    return 0


@command.command("call", short_help="Send values to an inlet, and print the rows of its reply.")
@click.argument("inlet")
@click.argument("values")
@_steers
def call_command(url: str, token: str | None, inlet: str, values: str) -> int:
    """Send VALUES, a JSON list, to INLET. Each row that reaches a Reply is a line of JSON on standard output."""
    try:
        row = json.loads(values)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, list):
        raise click.UsageError(f"VALUES is {values!r}, which is no JSON list. Write '[\"tea\", 2]', with one value for each field.")
    answer = remote_run(url, token).post(f"api/call/{quote(inlet, safe='')}", {"values": row}, timeout_secs=CALL_SECS)
    for each in answer.get("rows", []):
        write_line(json_text(each))
    return 0


def _show_state(answer: dict[str, Any]) -> int:
    write_line(str(answer.get("state")))
    return 0


def _end(remote: RemoteRun, path: str) -> tuple[bool, Undone]:
    """End a run, and show the progress until it has ended. Return whether it failed, and what it has left undone."""
    events = remote.events()
    try:
        next(events)  # the connection is open before the run ends, so that the last event cannot be missed
    except RemoteError as error:
        if error.status != 503:
            raise
        hint = "Nothing is changed. Write --no-wait, or close other pages of this run."
        raise RemoteError(error.message, hint=hint, status=503) from error
    remote.post(path)
    shown = None
    try:
        for name, sample in events:
            if sample is None:
                continue
            progress = f"{sample['state']}: {plural(sample['total']['open_trees'], 'open tree')}"
            if name == "sample" and sample["state"] not in END_STATES and progress != shown:
                print_to_stderr(progress)
                shown = progress
    except RunGone as error:
        raise RunGone(f"the connection to {remote.url} is lost before the run said how it ended", hint="Look at its log.") from error
    if sample is None:
        raise RemoteError(f"the run at {remote.url} has ended, but its page could not be sampled", hint="Its log has the reason.")
    total = sample["total"]
    counts = f"{total['emitted']:,} emitted, {total['acked']:,} acked, {total['failed']:,} failed"
    write_line(f"{name_text(sample['topology'])}: {sample['state']} after {duration_text(sample['uptime_secs'])}: {counts}")
    undone = Undone(**(sample.get("undone") or {}))
    if undone:
        print_to_stderr(f"{name_text(sample['topology'])}: left undone: {undone.describe()}.")
    return sample["state"] == "failed", undone
