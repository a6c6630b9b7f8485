"""A picture that stays in place on a terminal: drawn anew again and again, what is logged or printed above it."""

import asyncio
import importlib
import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, TextIO

from engine.cli.output import restore, tell
from engine.clock import Clock

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

INTERVAL_SECS: Final = 0.5
DRAWING_SHARE: Final = 0.02
"""So much of the time at most goes into drawing."""
FIRST_COLUMN: Final = 10
"""So wide at least is the first column of a table."""


class LiveDisplay:
    """What views of a terminal have in common. On standard error, so that what a run prints can go elsewhere."""

    def __init__(self) -> None:
        self.interval_secs = INTERVAL_SECS
        self._clock = Clock()
        self._console: Console | None = None
        self._live: Live | None = None
        self._streams: tuple[TextIO, TextIO] = (sys.stdout, sys.stderr)

    async def begin(self, name: str) -> None:
        """Load rich beside the run, which has begun, and put up the display."""
        self._console = await asyncio.to_thread(_console)
        from rich.live import Live

        live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        live.start()
        restore()
        self._live, self._streams = live, (sys.stdout, sys.stderr)
        sys.stderr = AboveTable(self._console, sys.stderr)
        if sys.stdout.isatty():
            sys.stdout = AboveTable(self._console, sys.stdout)

    def draw(self, render: "Callable[[int, int], RenderableType]") -> None:
        """Draw the picture for so many columns and lines; less often on a slow machine, for the run stands still meanwhile."""
        if self._live is not None:
            began = self._clock.now()
            size = self._live.console.size
            self._live.update(render(size.width, size.height), refresh=True)
            self.interval_secs = max(INTERVAL_SECS, (self._clock.now() - began) / DRAWING_SHARE)

    def note(self, text: str) -> None:
        """Write it above the table."""
        if self._console is None:
            tell(text)
        else:
            self._console.print(text, style="bold yellow", markup=False, highlight=False)

    def leave(self, render: "Callable[[int], RenderableType]", summary: str, *, succeeded: bool) -> None:
        """Leave the last picture, for so many columns, on the screen, and the summary below; give the streams back."""
        console = self._console or _console()
        if self._live is None:
            console.print(render(console.width))
        else:
            self._take_down(render(console.width))
        console.print(summary, style="bold green" if succeeded else "bold red", markup=False, highlight=False)

    def _take_down(self, last_picture: "RenderableType") -> None:
        live, self._live = self._live, None
        if live is not None:
            for stream in (sys.stdout, sys.stderr):
                if isinstance(stream, AboveTable):
                    stream.close()
            sys.stdout, sys.stderr = self._streams
            live.update(last_picture)
            live.stop()


class AboveTable(io.TextIOBase):
    """Stands in for a stream while the table is shown, and writes whole lines above it, as long as they are.

    Like rich's FileProxy; differs: that one breaks long lines at the width of the terminal, within words and JSON.
    """

    def __init__(self, console: "Console", stream: TextIO) -> None:
        self._console = console
        self._stream = stream
        self._begun = ""

    def write(self, text: str) -> int:
        """Write the lines that are whole, and keep the rest until it is."""
        lines, newline, self._begun = (self._begun + text).rpartition("\n")
        if newline:
            self._print(lines)
        return len(text)

    def flush(self) -> None:
        """Keep on waiting for the end of the line: a half one would be overwritten by the table."""

    def close(self) -> None:
        """Write what is left."""
        if self._begun:
            self._print(self._begun)
            self._begun = ""

    def isatty(self) -> bool:
        """Return True: it ends in the terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream, for those who write past us."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the encoding of the stream."""
        return self._stream.encoding

    def _print(self, lines: str) -> None:
        from rich.text import Text

        self._console.print(Text.from_ansi(lines), soft_wrap=True)


def figure_table(headers: tuple[str, ...], *, text_columns: tuple[int, ...], gap: int) -> "Table":
    """Return an empty table; only its first column gives way where the terminal is narrow."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False, show_edge=False, header_style="bold cyan")
    for number, header in enumerate(headers):
        justify: Literal["left", "right"] = "left" if number in text_columns else "right"
        table.add_column(header, justify=justify, vertical="bottom", no_wrap=number > 0, min_width=FIRST_COLUMN if number == 0 else None)
    return table


def _console() -> "Console":
    """Load all of rich that is needed, and return a console."""
    for module in ("rich.live", "rich.table", "rich.box"):
        importlib.import_module(module)
    from rich.console import Console

    return Console(file=sys.stderr)  # this very stream: `stderr=True` would look it up anew, and find what stands in for it
