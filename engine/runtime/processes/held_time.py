"""`HeldTime` keeps virtual time still while the child of a task works."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.clock import hold_time


class HeldTime:
    """Virtual time stands still while the child has rows, or while the run waits for an answer of it.

    Time moves while the run reads nothing from the child. Then the child waits for a full mailbox, and its consumer may need time to pass.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, component_id: str) -> None:
        self._loop = loop
        self._reason = f"the process of a task of {component_id!r}"
        self._has_rows = False
        self._is_read = True
        self._waits = 0
        self._release: Callable[[], None] | None = None

    def note_rows(self, has_rows: bool) -> None:
        """Note whether the child has rows."""
        self._has_rows = has_rows
        self._update()

    def note_reading(self, is_read: bool) -> None:
        """Note whether the run reads from the child."""
        self._is_read = is_read
        self._update()

    @contextmanager
    def until_answer(self) -> Iterator[None]:
        """Hold time until the end of the block, in which the run waits for an answer."""
        self._waits += 1
        self._update()
        try:
            yield
        finally:
            self._waits -= 1
            self._update()

    def _update(self) -> None:
        is_due = self._is_read and (self._has_rows or self._waits > 0)
        if is_due and self._release is None:
            self._release = hold_time(self._loop, self._reason)
        elif not is_due and self._release is not None:
            self._release()
            self._release = None
