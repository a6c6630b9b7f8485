"""A user's own state provider passes the suite of the engine, and works in a real job."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from engine import StateError
from engine.state import StateProvider, provider_of
from engine.testing import StateProviderSuite
from tests.project.sources import ROOT


@pytest.mark.guarantee("CP-8")
class TestLmdb(StateProviderSuite):
    has_inventory: ClassVar[bool] = False

    @pytest.fixture(autouse=True)
    def on_the_path(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.syspath_prepend(str(ROOT / "examples"))
        yield
        sys.modules.pop("lmdb_state", None)

    def provider(self, folder: Path) -> StateProvider:
        return provider_of(f"lmdb_state:provider?{folder}/state")

    def test_the_error_for_an_impossible_folder_names_it(self, tmp_path: Path) -> None:
        (tmp_path / "state").write_text("no folder")
        opening = self.provider(tmp_path).open("words")
        with pytest.raises(StateError, match=rf"the state in '{tmp_path}/state/.*' cannot be opened: "):
            opening.send(None)


def test_a_killed_job_continues_with_its_state(tmp_path: Path) -> None:
    """The job starts three times with a state URL. The first process is killed before it commits."""
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be\n" * 2000, encoding="utf-8")
    command = [sys.executable, str(ROOT / "examples" / "word_count.py"), str(text), "--state"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'examples'}"}

    def shown(url: str, status: int = 0) -> list[str]:
        done = subprocess.run([*command, url], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == status, done.stderr
        return done.stdout.splitlines()

    own = "lmdb_state:provider?counts"
    assert not shown(f"tests.checkpoint.killing:deadly_provider?before committing|1|{own}", -signal.SIGKILL)
    assert shown(own)[-1] == "The result equals a plain count of the same text."
    assert shown(own)[-2:] == ["No line was left to count: it was finished.", "The result equals a plain count of the same text."]
