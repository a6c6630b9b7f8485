"""Reading ahead in a thread (FI-8), and a task that dies (FI-7)."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine import FileSpout
from engine.files.listing import Listing
from engine.files.progress import Piece
from engine.files.read_ahead import READ_BYTES, ReadAhead
from engine.files.reader import FileReader
from engine.files.settings import PIECE_BYTES, FileSettings
from engine.log import EngineLogger
from engine.testing import Capture, KillTask, run_topology, run_virtual
from tests.files.play import topology, write


@pytest.mark.guarantee("FI-8")
def test_reading_is_ahead_by_two_calls_at_most(tmp_path: Path) -> None:
    settings = FileSettings(paths=(str(write(tmp_path / "big", b"0123456789 123456789\n" * 500_000)),))

    async def main() -> tuple[list[int], list[int]]:
        reader = FileReader(settings, Listing(settings.paths), (0, 1), EngineLogger("engine.files"), lambda: 0.0)
        with ThreadPoolExecutor(1) as pool:
            reading = ReadAhead(reader, pool, lambda: None, follow=False)
            aio_task = asyncio.create_task(reading.run({}))
            waiting, sizes = [], []
            while not reading.is_finished:
                await asyncio.sleep(1)
                waiting.append(reading.waiting_bytes)
                while (event := reading.take()) is not None and reading.waiting_bytes > READ_BYTES // 2:
                    sizes += [len(event.data)] if isinstance(event, Piece) else []
                sizes += [len(event.data)] if isinstance(event, Piece) else []
            await aio_task
        return waiting, sizes

    waiting, sizes = run_virtual(main)
    assert max(waiting) <= 2 * READ_BYTES + PIECE_BYTES
    assert len(waiting) > 5
    assert sum(sizes) == 500_000 * 21
    assert max(sizes) <= PIECE_BYTES


@pytest.mark.guarantee("FI-7")
def test_a_task_that_dies_reads_its_files_again(tmp_path: Path) -> None:
    path = write(tmp_path / "rows", "".join(f"{number}\n" for number in range(3000)))
    capture = Capture()
    finished = run_topology(topology(lambda: FileSpout(path), capture=capture), faults=[KillTask("rows", at_call=6)])
    assert len(finished.strikes) == 1
    assert finished.state == "complete"
    assert {int(line) for (line,) in capture.values} == set(range(3000))
