"""Java's producer and consumer as a process, which the campaign steers by lines (`JavaClient.java`)."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.patience import PATIENCE_SECS
from tests.servers.kafka_broker import JARS, NAME
from tests.servers.maven import jars

_JAVA: Final = ("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF")
_PROGRAM: Final = Path(__file__).with_name("JavaClient.java")

Headers = Sequence[tuple[str, bytes | None]]


NULLS: Final[Sequence[tuple[bytes | None, bytes | None, Headers]]] = [
    (None, None, []),
    (None, b"v", [("null", None)]),
    (b"", b"", [("", b""), ("", None), ("Größe", b"\xff")]),
    (b"tombstone", None, [("twice", b"1"), ("twice", None)]),
]
"""Keys, values and headers, in which each part is null, empty or foreign once."""


class Row(NamedTuple):
    """A record, as each client sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class JavaClient:
    """One process with Java's clients. Its methods raise AssertionError for an error of Java's client."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def begin(self, transactional_id: str) -> None:
        """Begin a transaction. The first one of an id ends a transaction that another process has left open."""
        await self._ask("begin", transactional_id)

    async def put(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers = (), *, partition: int = 0) -> int:
        """Append a record, within the transaction if there is one. Return its offset."""
        told = ",".join(f"{_word(name.encode())}:{_word(content)}" for name, content in headers)
        answer, _ = await self._ask("put", topic, str(partition), _word(key), _word(value), told or ".")
        return int(answer)

    async def commit(self) -> None:
        """Commit the transaction."""
        await self._ask("commit")

    async def abort(self) -> None:
        """Abort the transaction."""
        await self._ask("abort")

    async def leave(self) -> None:
        """Leave the transaction open. Later records are outside of it."""
        await self._ask("leave")

    async def read(self, topic: str, isolation: str = "read_committed") -> list[Row]:
        """Return the records of a topic up to its present end, by partition and offset."""
        answer, lines = await self._ask("read", topic, isolation)
        rows = sorted((_row(line) for line in lines), key=lambda row: (row.partition, row.offset))
        assert len(rows) == int(answer)
        return rows

    async def crash(self) -> None:
        """Kill the process, as a crash within a transaction does."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def _ask(self, *words: str) -> tuple[str, list[str]]:
        assert self._process.stdin is not None
        self._process.stdin.write((" ".join(words) + "\n").encode())
        return await self.answer()

    async def answer(self) -> tuple[str, list[str]]:
        """Return the answer to a line, and the lines before it."""
        assert self._process.stdout is not None
        lines: list[str] = []
        async with asyncio.timeout(PATIENCE_SECS):
            while True:
                line = (await self._process.stdout.readline()).decode().rstrip("\n")
                kind, _, rest = line.partition(" ")
                assert kind not in ("", "ERROR"), f"Java's client: {rest or 'has ended'}"
                if kind == "OK":
                    return rest, lines
                lines.append(line)


@asynccontextmanager
async def java_client(kafka: str) -> AsyncIterator[JavaClient]:
    """Start Java's clients, and kill them at the end of the block."""
    path = ":".join(map(str, jars(NAME, JARS)))
    process = await asyncio.create_subprocess_exec(
        *_JAVA,
        *("-cp", path, str(_PROGRAM), kafka),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    client = JavaClient(process)
    try:
        await client.answer()
        yield client
    finally:
        await client.crash()


def _word(content: bytes | None) -> str:
    return "-" if content is None else "+" + base64.b64encode(content).decode()


def _content(word: str) -> bytes | None:
    return None if word == "-" else base64.b64decode(word[1:])


def _row(line: str) -> Row:
    partition, offset, key, value, headers = line.split(" ")
    pairs = [] if headers == "." else [header.split(":") for header in headers.split(",")]
    found = tuple(((_content(name) or b"").decode(), _content(content)) for name, content in pairs)
    return Row(int(partition), int(offset), _content(key), _content(value), found)
