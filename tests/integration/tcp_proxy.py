"""A TCP proxy that cuts a connection after a number of bytes, or delays requests."""

import asyncio
from typing import Final, Literal

from tests.servers.process import HOST

Way = Literal["there", "back"]


class TcpProxy:
    """Forwards connections to a port of this machine. Use it with `async with`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._cut: tuple[Way, int] | None = None
        self.passed: Final[dict[Way, int]] = {"there": 0, "back": 0}
        """Forwarded bytes in each direction."""
        self.cuts = 0
        self.keeps = False
        """If true, the proxy holds Lua scripts back until `deliver`. Other requests pass."""
        self._kept: list[tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]] = []

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> "TcpProxy":
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)
        for _, writer, _ in self._kept:
            writer.close()
        await self._server.wait_closed()

    def cut_after(self, way: Way, size: int) -> None:
        """Cut one connection after this number of bytes in one direction. The earlier bytes pass."""
        self.passed[way] = 0
        self._cut = (way, size)

    async def deliver(self) -> list[bytes]:
        """Send each held request on the connection on which it came. Return the answers."""
        kept, self._kept = self._kept, []
        answers = []
        for reader, writer, sent in kept:
            writer.write(sent)
            answers.append(await reader.read(1000))
            writer.close()
            await writer.wait_closed()
        return answers

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        try:
            await self._link(reader, writer)
        except (OSError, asyncio.CancelledError):
            return  # one side has closed its connection, or the test has ended
        finally:
            writer.transport.abort()
            self._links.discard(link)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(HOST, self._target)
        ways = [asyncio.create_task(self._pump("there", reader, far_writer)), asyncio.create_task(self._pump("back", far_reader, writer))]
        kept = b""
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            kept = b"".join(each.result() for each in done if each.exception() is None)
        finally:
            for each in ways:
                each.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            if kept:
                self._kept.append((far_reader, far_writer, kept))
            else:
                far_writer.transport.abort()

    async def _pump(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Forward bytes until the connection ends. Return the held requests."""
        kept = b""
        while sent := await reader.read(65536):
            if way == "there" and (kept or (self.keeps and b"EVAL" in sent)):
                kept += sent
                continue
            if self._cut is not None and self._cut[0] == way and self.passed[way] + len(sent) >= self._cut[1]:
                writer.write(sent[: self._cut[1] - self.passed[way]])
                await writer.drain()
                self._cut = None
                self.cuts += 1
                return b""
            self.passed[way] += len(sent)
            writer.write(sent)
            await writer.drain()
        return kept
