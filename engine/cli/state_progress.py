"""How far a long command is, on standard error where that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(done: str) -> Iterator[Callable[[int], None]]:
    """Yield what is told how many more keys are done; `done` is the word for it."""
    if not sys.stderr.isatty():
        yield lambda keys: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(f"{{task.completed:,}} keys {done}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(done, total=None)
        yield lambda keys: shown.advance(task, keys)
