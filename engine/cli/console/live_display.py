"""Display that redraws itself in place on a terminal. Logs and printed lines scroll above the display."""

import asyncio
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, TextIO

from engine.cli.console.output import print_to_stderr, restore_streams
from engine.clock import Clock
from engine.stream_replacement import StreamReplacement

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

INTERVAL_SECS: Final = 0.5
MOST_DRAWING_SHARE: Final = 0.02
"""Largest share of the time that is spent on drawing."""
_SIZE: Final = re.compile("[1-9][0-9]{0,3}", re.ASCII)
"""Columns or lines of a terminal."""
FIRST_COLUMN_WIDTH: Final = 10
"""Minimum width of the first column of a table."""


class LiveDisplay:
    """Base of live views. Draws on standard error, so the output of the run can be redirected."""

    def __init__(self) -> None:
        self.interval_secs = INTERVAL_SECS
        self._clock = Clock()
        self._console: Console | None = None
        self._live: Live | None = None
        self._streams: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)

    async def begin(self, name: str) -> None:
        """Load rich in a thread beside the run, then start the display."""
        self._console = await asyncio.to_thread(_console)
        from rich.live import Live

        live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        live.start()
        restore_streams()
        self._live, self._streams = live, (sys.stdout, sys.stderr)
        sys.stderr = AboveTable(self._console, sys.stderr)
        if sys.stdout.isatty():
            sys.stdout = AboveTable(self._console, sys.stdout)

    def draw(self, render: "Callable[[int, int], RenderableType]") -> None:
        """Draw `render(columns, lines)`. On a slow machine draw less often, because drawing blocks the run."""
        if self._live is not None:
            began = self._clock.now()
            size = self._live.console.size
            self._live.update(render(size.width, size.height), refresh=True)
            self.interval_secs = max(INTERVAL_SECS, (self._clock.now() - began) / MOST_DRAWING_SHARE)

    def note(self, text: str) -> None:
        """Write a message above the display."""
        if self._console is None:
            print_to_stderr(text)
        else:
            self._console.print(text, style="bold yellow", markup=False, highlight=False)

    def finish(self, render: "Callable[[int], RenderableType]", summary: str, *, succeeded: bool) -> None:
        """Leave `render(columns)` and the summary on the screen. Restore the streams."""
        console = self._console or _console()
        if self._live is None:
            console.print(render(console.width))
        else:
            self._stop(render(console.width))
        console.print(summary, style="bold green" if succeeded else "bold red", markup=False, highlight=False)

    def _stop(self, last: "RenderableType") -> None:
        live, self._live = self._live, None
        if live is not None:
            for stream in (sys.stdout, sys.stderr):
                if isinstance(stream, AboveTable):
                    stream.close()
            sys.stdout, sys.stderr = self._streams
            live.update(last)
            live.stop()


class AboveTable(StreamReplacement):
    """Replaces a stream while the table is shown. Writes whole lines above the table.

    Works like FileProxy of rich, but never breaks a line. FileProxy breaks long lines at the width of the terminal, even inside words and
    JSON.
    """

    def __init__(self, console: "Console", stream: TextIO) -> None:
        super().__init__(stream)
        self._console = console
        self._unfinished = ""

    def write(self, text: str) -> int:
        """Write the complete lines, and keep the rest until its line ends."""
        lines, newline, self._unfinished = (self._unfinished + text).rpartition("\n")
        if newline:
            self._print(lines)
        return len(text)

    def flush(self) -> None:
        """Do nothing, because the table would overwrite an incomplete line."""

    def close(self) -> None:
        """Write the unfinished line."""
        if self._unfinished:
            self._print(self._unfinished)
            self._unfinished = ""

    def _print(self, lines: str) -> None:
        from rich.text import Text

        self._console.print(Text.from_ansi(lines), soft_wrap=True)


def empty_table(headers: tuple[str, ...], *, text_columns: tuple[int, ...], gap: int) -> "Table":
    """Return an empty table. On a narrow terminal only its first column shrinks."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False, show_edge=False, header_style="bold cyan")
    for number, header in enumerate(headers):
        justify: Literal["left", "right"] = "left" if number in text_columns else "right"
        table.add_column(
            header, justify=justify, vertical="bottom", no_wrap=number > 0, min_width=FIRST_COLUMN_WIDTH if number == 0 else None
        )
    return table


def _console() -> "Console":
    """Load the needed modules of rich and return a console."""
    for module in ("rich.live", "rich.table", "rich.box"):
        importlib.import_module(module)
    from rich.console import Console

    # `stderr=True` would look sys.stderr up again later, and find AboveTable
    return Console(file=sys.stderr, _environ=_environment())


def _environment() -> dict[str, str]:
    """Return the environment without sizes of the terminal that are none, such as COLUMNS=0. With them, rich would show nothing."""
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES") or _SIZE.fullmatch(value)}


def is_terminal() -> bool:
    """Tell whether standard error is a terminal that can draw in place."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


@contextmanager
def progress_counter(done: str, noun: str = "keys") -> Iterator[Callable[[int], None]]:
    """Show the progress of a long command on a terminal. Yield a function that adds to the count.

    done: the verb, such as `exported`. noun: the counted things.
    """
    if not sys.stderr.isatty():
        yield lambda number: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(f"{{task.completed:,}} {noun} {done}"), TimeElapsedColumn())
    with Progress(*columns, console=_console(), transient=True) as shown:
        task = shown.add_task(done, total=None)
        yield lambda number: shown.advance(task, number)
