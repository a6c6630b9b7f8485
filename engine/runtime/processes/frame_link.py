"""`FrameLink` sends and receives frames over a socket: bytes with their length before them."""

import asyncio
import struct
from collections.abc import Callable
from typing import Final, cast

from engine.clock import Clock

LENGTH: Final = struct.Struct("<Q")
_SLICE_SECS: Final = 0.002
"""Time after which the delivery of frames lets the event loop run other work (BP-4)."""


class FrameLink(asyncio.Protocol):
    """One end of a connection. `on_frame` gets each frame that arrives, in order. `on_end` is called once, when the other end is gone."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_frame: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._loop = loop
        self._now = Clock.of(loop).now
        self._on_frame = on_frame
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._next_slice: asyncio.Handle | None = None
        self.is_held = self._is_paused = self._reads_rest = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._received += data
        if self._next_slice is None:
            self._deliver()

    def connection_lost(self, error: Exception | None) -> None:
        """Called by asyncio. Deliver what has arrived."""
        self._transport = None
        if self._next_slice is not None:
            self._next_slice.cancel()
        while (frame := self._take_frame()) is not None:
            self._on_frame(frame)
        self._on_end()

    def send(self, frame: bytes) -> None:
        """Send a frame after all earlier ones. Has no effect after the end of the connection."""
        if self._transport is not None and not self._transport.is_closing():  # `connection_lost` comes a turn after the end
            self._transport.write(LENGTH.pack(len(frame)) + frame)

    @property
    def unsent_bytes(self) -> int:
        """Number of bytes that the other end has not received yet, apart from those in the socket."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def hold(self, *, on: bool) -> None:
        """Stop the delivery of frames, or continue it soon. The other end of a link on hold can soon send no more.

        It continues in a later turn of the loop, because the caller may be the core of another task in the middle of a burst.
        """
        self.is_held = on and not self._reads_rest
        if not self.is_held and self._next_slice is None:
            self._next_slice = self._loop.call_soon(self._deliver)

    def read_rest(self) -> None:
        """Deliver from now on without holds, because the other end has ended. The socket bounds the rest that it has sent."""
        self._reads_rest = True
        self.hold(on=False)

    def close(self) -> None:
        """Close the connection after all frames are sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _deliver(self) -> None:
        self._next_slice = None
        until = self._now() + _SLICE_SECS
        while not self.is_held and (frame := self._take_frame()) is not None:
            self._on_frame(frame)
            if self._now() >= until:
                self._next_slice = self._loop.call_soon(self._deliver)
                break
        self._pause(on=self.is_held or self._next_slice is not None)

    def _pause(self, *, on: bool) -> None:
        if on != self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = on
            if on:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _take_frame(self) -> bytes | None:
        """Remove and return the next frame, None if it has not arrived completely."""
        received = self._received
        if len(received) < LENGTH.size:
            return None
        end = LENGTH.size + int(LENGTH.unpack_from(received)[0])
        if len(received) < end:
            return None
        frame = bytes(memoryview(received)[LENGTH.size : end])
        del received[:end]
        return frame
