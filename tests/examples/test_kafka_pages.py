"""The programs of docs/KAFKA.md and docs/KAFKA_MIGRATING.md read and write on a real broker."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.kafka.play import produce
from tests.kafka.sink_play import written
from tests.project.pages import read
from tests.project.sources import ROOT
from tests.project.test_docs import write_files
from tests.servers.kafka_admin import create_topic, fresh_name

LINES = ["to be or not to be", "that is the question"]
WORDS = Counter(word for line in LINES for word in line.split())
COUNTED = [(word, number) for word, count in WORDS.items() for number in range(1, count + 1)]
PATIENCE_SECS = 60.0
END_SECS = 10.0
LOOP = ("-c", "import asyncio, loop; asyncio.run(loop.main())")


def run(name: str) -> tuple[str, ...]:
    return ("-m", "engine", "run", name)


class Page:
    """Program files of a page. Its topics and its group are used by no other test."""

    def __init__(self, kafka: str, folder: Path, topics: dict[str, str]) -> None:
        self.kafka, self.folder, self.topics = kafka, folder, topics

    def write(self, name: str) -> None:
        """Write the page's files, for this broker and these topics."""
        write_files(read(ROOT / "docs" / name)[1], self.folder)
        group = fresh_name("group")
        own = {"127.0.0.1:9092": self.kafka, 'group="count"': f'group="{group}"', 'group_id="count"': f'group_id="{group}"'}
        for said, topic in self.topics.items():
            own |= {f'topics="{said}"': f'topics="{topic}"', f'topic="{said}"': f'topic="{topic}"', f'"{said}", boot': f'"{topic}", boot'}
        for file in self.folder.glob("*.py"):
            text = file.read_text(encoding="utf-8")
            for said, meant in own.items():
                text = text.replace(said, meant)
            file.write_text(text, encoding="utf-8")

    @asynccontextmanager
    async def running(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        """Run a program, yield its output, and end it with Ctrl-C."""
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, cwd=self.folder, env=environment, stdout=PIPE, stderr=DEVNULL
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE_SECS):
                yield process.stdout
        finally:
            process.send_signal(signal.SIGINT)
            await asyncio.wait([waiting := asyncio.ensure_future(process.wait())], timeout=END_SECS)
            if not waiting.done():  # a loop without signal handlers may hang when its consumer stops
                process.kill()
                await waiting

    async def until_printed(self, arguments: tuple[str, ...], expected: list[str]) -> None:
        """Run a program until it has printed exactly these lines, in any order."""
        left = Counter(expected)
        async with self.running(*arguments) as printed:
            while left.total():
                line = (await printed.readline()).decode().strip()
                assert line in left, f"{line!r} was not expected; {left} was"
                left -= Counter([line])

    async def until_written(self, arguments: tuple[str, ...], topic: str, expected: list[tuple[bytes, bytes]]) -> None:
        """Run a program until a topic has these keys and values, in any order."""
        found: list[tuple[bytes, bytes]] = []
        async with self.running(*arguments):
            while found != sorted(expected):
                found = sorted((record.key or b"", record.value) for record in await written(self.kafka, self.topics[topic]))


@pytest.fixture
async def page(kafka: str, tmp_path: Path) -> Page:
    names = ("lines", "loud", "counts", "lines.dead")
    topics = {name: await create_topic(kafka, fresh_name(name), partitions=1) for name in names}
    await produce(kafka, topics["lines"], LINES)
    return Page(kafka, tmp_path, topics)


async def test_the_first_program_of_the_page(page: Page) -> None:
    page.write("KAFKA.md")
    await page.until_written(run("shout.py"), "loud", [(b"", line.upper().encode()) for line in LINES])


@pytest.mark.parametrize("arguments", [LOOP, run("after_loop.py"), run("after_storm.py")], ids=["loop", "after_loop", "after_storm"])
async def test_the_programs_before_and_after_migration_count_the_same(page: Page, arguments: tuple[str, ...]) -> None:
    page.write("KAFKA_MIGRATING.md")
    await page.until_printed(arguments, [f"{word} {number}" for word, number in COUNTED])


async def test_the_stateful_bolt_of_the_page_replaces_a_table(page: Page) -> None:
    page.write("KAFKA_MIGRATING.md")
    counts = [(word.encode(), str(number).encode()) for word, number in COUNTED]
    await page.until_written(run("after_faust.py"), "counts", counts)
