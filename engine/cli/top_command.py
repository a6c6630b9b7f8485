"""`top` shows the live table of a run in another process."""

import asyncio
from collections import deque
from contextlib import closing
from math import ceil
from typing import Final

import click

from engine.cli.console.commands import Duration
from engine.cli.console.session import ViewName
from engine.cli.remote_run import MOST_WAIT_SECS, AskedSnapshot, RemoteError, RemoteRun, RunGone, remote_run
from engine.cli.run_session import make_view
from engine.cli.run_views import Outcome, PlainLines, View
from engine.runtime.snapshot import END_STATES, Snapshot

HELP: Final = """\
Show the live table of a run in another process. The run was started with --http, or a service has mounted its page.

\b
  top 8080                              on this machine
  top http://example.com:8000/engine/   mounted in a service
  top 8080 --json | jq .event           JSON lines for programs

Ctrl-C ends the table, and not the run.

\b
Exit status:
  0  the run has ended, or Ctrl-C
  1  no run answers, or the connection is lost
  2  the command line is wrong
"""


class _RemoteLines(PlainLines):
    """Plain lines of a run elsewhere."""

    ctrl_c_text = "Ctrl-C ends these lines, and not the run."


@click.command("top", short_help="Show the live table of a run elsewhere.", help=HELP)
@click.argument("url")
@click.option(
    "--interval", "interval_secs", metavar="DURATION", type=Duration(), default="1s", help="Time between two updates. Default: 1s."
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON lines to standard output, for programs.")
@click.option("--plain", is_flag=True, help="Write plain lines on a terminal too, instead of the live table.")
def command(url: str, interval_secs: float, *, as_json: bool, plain: bool) -> int:
    """Show the run until it ends."""
    if as_json and plain:
        raise click.UsageError("--json and --plain exclude each other. Choose one.")
    name: ViewName = "json" if as_json else "plain" if plain else "auto"
    view = make_view(name, interval_secs)
    return watch(remote_run(url), _RemoteLines(interval_secs) if isinstance(view, PlainLines) else view, interval_secs)


def watch(remote: RemoteRun, view: View, interval_secs: float) -> int:
    """Show a run until it ends or the user interrupts, and return the exit status. Raise RemoteError if the run is gone."""
    before, now = None, None
    try:
        now = remote.snapshot()
        asyncio.run(view.begin(now.topology_name))
        with closing(_NextSnapshots(remote, view, interval_secs)) as following:
            while now.state not in END_STATES:
                following.ask()
                view.show(before, now)
                before, now = now, _later(following, now)
        view.show(before, now)
    except KeyboardInterrupt:
        view.end(Outcome(0, now))
        return 0
    except RemoteError as error:
        if now is None:
            raise
        view.end(Outcome(1, now))  # restores the terminal
        if not isinstance(error, RunGone):
            raise
        hint = "The process of the run has ended without a last answer. Its log may have the reason."
        raise RunGone(f"the connection to {remote.url} is lost", hint=hint) from error
    view.end(Outcome(0, now))
    return 0


def _later(following: "_NextSnapshots", now: Snapshot) -> Snapshot:
    """Return the next snapshot that is not `now`. The server may send one twice, because it takes one a second for all readers."""
    while True:
        taken = following.take()
        if taken.uptime_secs != now.uptime_secs or taken.state != now.state or not taken.components:
            return taken
        following.ask()


class _NextSnapshots:
    """The snapshots of a run, one each interval.

    Two requests are open at each moment, and the older one is answered first. So the end of the run always finds an open request,
    although its server is gone a moment later.
    """

    def __init__(self, remote: RemoteRun, view: View, interval_secs: float) -> None:
        self._remote = remote
        self._view = view
        self._steps = max(1, ceil(interval_secs / (MOST_WAIT_SECS / 2)))
        """Answers until the interval is over. The server accepts no longer waits."""
        self._step_secs = interval_secs / self._steps
        self._asked: deque[AskedSnapshot] = deque()

    def ask(self) -> None:
        """Open the requests that are missing. Raise RemoteError if this is not possible, and none is open."""
        while len(self._asked) < 2:
            try:
                self._asked.append(self._remote.ask_snapshot(self._step_secs * (len(self._asked) + 1)))
            except RunGone:
                if not self._asked:
                    raise
                return  # the older request has the last snapshot

    def take(self) -> Snapshot:
        """Return the snapshot at the end of the interval, or the last one of the run."""
        for _ in range(self._steps - 1):
            now = self._answer()
            if now.state in END_STATES:
                return now
            self.ask()
        return self._answer()

    def close(self) -> None:
        """Close the open requests."""
        while self._asked:
            self._asked.popleft().close()

    def _answer(self) -> Snapshot:
        """Wait for the older request. Ask again if the run does not answer in time, because its loop may be blocked."""
        asked = self._asked.popleft()
        try:
            return asked.wait()
        except RunGone:
            raise
        except RemoteError as error:
            while error.status is None:
                self._view.note(f"{error.message}. Trying again.")
                try:
                    return self._remote.snapshot()
                except RunGone:
                    raise
                except RemoteError as again:
                    error = again
            raise error from None
        finally:
            asked.close()
