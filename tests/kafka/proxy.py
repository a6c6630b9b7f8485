"""A TCP proxy on this machine that a test can slow down or cut."""

import asyncio
from types import TracebackType

from tests.servers.process import HOST


class Proxy:
    """Passes bytes on between its clients and one port; `delay_secs` holds each piece of an answer back."""

    def __init__(self, port: int, target_port: int) -> None:
        self.delay_secs = 0.0
        self._port, self._target = port, target_port
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: asyncio.Server | None = None
        self._passing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "Proxy":
        self._serving = await asyncio.start_server(self._accept, HOST, self._port)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Accept no more connections, and break all. A second call has no effect."""
        assert self._serving is not None
        self._serving.close()
        self.cut()
        if self._passing:
            await asyncio.wait(self._passing)

    def lead_to(self, target_port: int) -> None:
        """Pass later connections on to another port."""
        self._target = target_port

    def cut(self) -> None:
        """Break all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target_reader, target_writer = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.close()
            return
        for source, sink, answers in ((reader, target_writer, False), (target_reader, writer, True)):
            self._writers.add(sink)
            task = asyncio.ensure_future(self._pass(source, sink, answers=answers))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool) -> None:
        try:
            while piece := await source.read(65536):
                if answers and self.delay_secs:
                    await asyncio.sleep(self.delay_secs)
                sink.write(piece)
                await sink.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(sink)
            sink.close()
