"""The transactional examples print the results of a plain computation (TX-8, TX-10)."""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from engine.cli import run_in_terminal
from tests.examples.conftest import load
from tests.kills.program import command_of
from tests.project.sources import ROOT

pytestmark = pytest.mark.guarantee("TX-10")

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
GLOBAL_COUNT, FILE_WORD_COUNT = (str(ROOT / "examples" / f"transactional_{name}.py") for name in ("global_count", "file_word_count"))

LINES = 100_000
BATCH_LINES = 4_000
"""Default of the spout, for four files."""
KILLED_AT = (
    "emitter: half-way through a partition",
    "coordinator: processed, not taken in",
    "coordinator: saved, not answered",
    "sqlite: written, not committed",
    "sqlite: written, not answered",
    "coordinator: committed, and taken in",
)
"""Steps of tests.transactional.kills.steps, which kills its own topology at all of them."""
MOST_BATCHES = max(1, LINES // BATCH_LINES // (len(KILLED_AT) + 1))
"""A process dies within this number of batches. So each process reaches its step, and the last process has batches left."""


@pytest.fixture
def file_word_count() -> ModuleType:
    return load("transactional_file_word_count")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=100)


def write(path: Path, lines: int, rng: random.Random) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(" ".join(f"word{rng.randrange(200)}" for _ in range(8)) + "\n" for _ in range(lines))


def test_the_global_count_is_right_as_script_and_by_the_command_line() -> None:
    shown = "9,500 words in 15 batches; 5 were replayed when their count was stored, and skipped."
    done = run(GLOBAL_COUNT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [shown, "The result equals a plain count."]
    done = run("-m", "engine", "run", GLOBAL_COUNT)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_words_of_new_files_are_added_to_the_counts(tmp_path: Path) -> None:
    logs, rng = tmp_path / "logs", random.Random(7)
    logs.mkdir()
    write(logs / "log", 300, rng)
    for _ in range(2):
        done = run(FILE_WORD_COUNT, str(logs), "--keep", str(tmp_path / "counts"))
        assert done.returncode == 0, done.stderr
        assert "The result equals a plain count of the same text." in done.stdout
        assert f"{300 * 8 if not (logs / 'log.1').exists() else 800 * 8:,} words" in done.stdout
        write(logs / "log", 300, rng)
        (logs / "log").rename(logs / "log.1")
        write(logs / "log", 200, rng)


def test_a_folder_without_words_is_no_error(tmp_path: Path) -> None:
    done = run(FILE_WORD_COUNT, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "0 words, 0 different ones" in done.stdout


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    done = run(FILE_WORD_COUNT, str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert "does not exist" in done.stderr


def test_the_database_has_the_plain_counts(file_word_count: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("to be or not to be\n")
    assert file_word_count.plain_count(str(tmp_path)) == Counter(to=2, be=2, **{"or": 1, "not": 1})
    counts = tmp_path / "counts"
    counts.mkdir()
    assert run_in_terminal(file_word_count.build(str(tmp_path), counts), view="silent").exit_status == 0
    assert file_word_count.counted(counts) == file_word_count.plain_count(str(tmp_path))


@pytest.mark.guarantee("TX-8", "TX-9")
@pytest.mark.deep
def test_after_repeated_kills_each_word_is_counted_once(tmp_path: Path) -> None:
    logs, rng = tmp_path / "logs", random.Random(11)
    logs.mkdir()
    for name in "abcd":
        write(logs / name, LINES // 4, rng)
    command = [FILE_WORD_COUNT, str(logs), "--keep", str(tmp_path / "counts")]
    for step in KILLED_AT:
        died = run(*command_of("tests.transactional.kills.steps:STEPS", step, rng.randint(1, MOST_BATCHES), *command)[1:])
        assert died.returncode == -signal.SIGKILL, f"{step}: {died.stdout}{died.stderr}"
    done = run(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{LINES * 8:,} words, 200 different ones\nThe result equals a plain count of the same text." in done.stdout
