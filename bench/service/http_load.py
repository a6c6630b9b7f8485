"""HTTP clients on kept connections in a process of their own. Imports the standard library only, because peers use it too."""

import asyncio
import json
import socket
from contextlib import AsyncExitStack
from typing import Any

from bench.process import call_in_process
from bench.service.closed_loop import measure_clients


class Connection:
    """One kept connection to a service on this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def post(self, path: str, content: object) -> Any:
        """Return the JSON of the answer to one request."""
        body = json.dumps(content).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        if not answer.startswith("http/1.1 200 "):
            raise SystemExit(f"the service answered {answer.splitlines()[0]}")
        length = int(answer.split("content-length: ", 1)[1].split("\r\n", 1)[0])
        return json.loads(await self.reader.readexactly(length))


async def load(port: int, clients: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the figures of the clients."""
    async with AsyncExitStack() as ends:
        free: list[Connection] = []
        for _ in range(clients):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            ends.callback(writer.close)
            free.append(Connection(reader, writer))

        async def ask(item: str, quantity: int) -> float:
            connection = free.pop()
            answer = await connection.post("/orders", {"item": item, "quantity": quantity})
            free.append(connection)
            return float(answer["total"])

        return await measure_clients(ask, clients, warm_secs, measured_secs)


async def measure_app(app: Any, clients: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Serve an ASGI application in this process, and load it from another one. Return the figures of the clients."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, http="h11"))
    listening = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(server.serve([listening]))
    arguments = {"port": listening.getsockname()[1], "clients": clients, "warm_secs": warm_secs, "measured_secs": measured_secs}
    try:
        return dict(await asyncio.to_thread(call_in_process, "bench.service.http_load:load", arguments))
    finally:
        server.should_exit = True
        await serving
