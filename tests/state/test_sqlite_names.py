"""SQLite: read-only files, and files with two names, are refused before SQLite opens them."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from engine.errors import StateError
from engine.state.sqlite.provider import SqliteProvider
from tests.state.test_sqlite_faults import ROOT, fill_store, open_provider, opening_error

REFUSED = """
import asyncio, os, sys
from pathlib import Path
from engine.errors import StateError
from engine.state.sqlite.provider import SqliteProvider
provider = SqliteProvider(Path(sys.argv[1]))
if os.geteuid() == 0:
    os.setuid(65534)
try:
    asyncio.run(provider.open("words"))
except StateError as error:
    print(error.message)
"""


def test_a_read_only_file_is_refused_and_not_changed() -> None:
    """Run in a process without root's permissions. The file was opened before, so it is in WAL mode."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # other users cannot read pytest's folder
    try:
        path = folder / "state.db"
        asyncio.run(fill_store(path))
        path.chmod(0o444)
        folder.chmod(0o777)
        for lock in folder.glob("*.lock"):
            lock.chmod(0o666)
        before = sorted(folder.iterdir())
        ran = subprocess.run([sys.executable, "-c", REFUSED, str(path)], cwd=ROOT, capture_output=True, text=True, check=True)
        assert "cannot be written" in ran.stdout
        assert sorted(folder.iterdir()) == before
    finally:
        shutil.rmtree(folder)


@pytest.mark.guarantee("CP-8")
async def test_a_file_with_two_names_is_refused_during_and_after_its_use_by_another_process(tmp_path: Path) -> None:
    """SQLite finds its log by the name of the file. With another name, the last commits would be missing."""
    path, link = tmp_path / "state.db", tmp_path / "other.db"
    await fill_store(path)
    provider = await open_provider(path)
    link.hardlink_to(path)
    assert "has 2 names" in (await opening_error(link)).message
    await provider.close()
    assert "has 2 names" in (await opening_error(path)).message
    with pytest.raises(StateError, match="has 2 names"):
        async with SqliteProvider(link).inventory().look("words"):
            pass
    link.unlink()
    await (await open_provider(path)).close()
