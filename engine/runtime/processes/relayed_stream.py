"""`relay_streams` lets a child print through the run, whose live table would otherwise overwrite the lines."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, TextIO

from engine.runtime.processes.relay import Relay
from engine.stream_replacement import StreamReplacement

MOST_UNFINISHED: Final = 1 << 16
"""Characters of a line without an end, such as a progress bar, that are kept until they are sent."""


class RelayedStream(StreamReplacement):
    """Replaces a standard stream. Sends whole lines, so that lines of several processes and threads do not mix."""

    def __init__(self, stream: TextIO, send: Callable[[str], bool]) -> None:
        """send: sends a text to the run, and returns False if that is not possible any more."""
        super().__init__(stream)
        self._send = send
        self._unfinished: dict[int, str] = {}
        """The text behind the last line end, by thread."""

    def write(self, text: str) -> int:
        """Send the complete lines, and keep the rest until its line ends."""
        thread = threading.get_ident()
        lines, newline, rest = (self._unfinished.pop(thread, "") + text).rpartition("\n")
        if len(rest) > MOST_UNFINISHED:
            lines, newline, rest = lines + newline + rest, "", ""
        if rest:
            self._unfinished[thread] = rest
        if lines or newline:
            self._pass_on(lines + newline)
        return len(text)

    def flush(self) -> None:
        """Do nothing, because another process may print before this line ends."""

    def close(self) -> None:
        """Send the unfinished lines."""
        while self._unfinished:
            self._pass_on(self._unfinished.popitem()[1] + "\n")

    def _pass_on(self, text: str) -> None:
        if not self._send(text):
            self._stream.write(text)


@contextmanager
def relay_streams(relay: Relay) -> Iterator[None]:
    """Send what this process prints to the run. A process that it forks prints directly, because it has no connection of its own."""
    before = {"stdout": sys.stdout, "stderr": sys.stderr}
    relayed = [None if stream is None else RelayedStream(stream, partial(relay.print, name)) for name, stream in before.items()]
    sys.stdout, sys.stderr = relayed
    try:
        yield
    finally:
        for stream in relayed:
            if stream is not None:
                stream.close()
        sys.stdout, sys.stderr = before.values()
