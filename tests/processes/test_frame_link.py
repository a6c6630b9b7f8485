"""A link delivers its frames in turns of its own."""

import asyncio
import socket
import struct

import pytest

from engine.runtime.processes.frame_link import FrameLink


@pytest.mark.guarantee("PR-3", "BU-1")
async def test_after_a_hold_a_link_delivers_in_a_later_turn() -> None:
    """The caller may be the core of a task in a burst. Emits in between could no longer be told from those of its call."""
    loop = asyncio.get_running_loop()
    frames: list[bytes] = []
    ours, theirs = socket.socketpair()
    link = FrameLink(loop, frames.append, lambda: None)
    await loop.create_unix_connection(lambda: link, sock=ours)
    link.hold(on=True)
    theirs.sendall(struct.pack("<Q", 3) + b"one" + struct.pack("<Q", 3) + b"two")
    await asyncio.sleep(0.01)
    link.hold(on=False)
    assert frames == []
    await asyncio.sleep(0.01)
    assert frames == [b"one", b"two"]
    link.abort()
    theirs.close()
