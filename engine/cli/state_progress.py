"""How far a long command is, on standard error where that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(done: str, what: str = "keys") -> Iterator[Callable[[int], None]]:
    """Yield what is told how many more of them are done; `done` is the word for it."""
    if not sys.stderr.isatty():
        yield lambda number: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(f"{{task.completed:,}} {what} {done}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(done, total=None)
        yield lambda number: shown.advance(task, number)
