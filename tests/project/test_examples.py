"""Every example runs as its first lines say, and says what it should."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.sources import ROOT

TEXT = "to be or not to be\nthat is the question\n" * 50

VISITS = "".join(
    f'{{"user": "u{number % 7}", "page": "/{number % 3}", "at": "2026-01-31T{12 + number // 60:02}:{number % 60:02}:30+00:00"}}\n'
    for number in range(300)
)

# example: what stands behind `python`, and a line that it prints; FILE is the example, TEXT a file of text, VISITS one of JSON lines.
EXAMPLES: dict[str, tuple[str, str]] = {
    "flow_logs.py": ("FILE --lines 1000", "The result equals a plain computation over the same logs."),
    "hello.py": ("-m engine run FILE", "Hello, storm!"),
    "page_visits.py": ("FILE VISITS tables.db", "The windows equal a plain count of the same file."),
    "transactional_designs.py": ("FILE 4000", "Every word is counted once."),
    "transactional_file_word_count.py": ("FILE TEXT", "The result equals a plain count of the same text."),
    "transactional_global_count.py": ("FILE", "The result equals a plain count."),
    "typed_word_count.py": ("FILE TEXT", "The result equals a plain count of the same text."),
    "word_count.py": ("FILE TEXT", "The result equals a plain count of the same text."),
}

# Those that do not end by themselves, or are no programs, and who runs them.
ELSEWHERE = {
    "cluster_word_count.py": "tests/spark_bridge/topology/test_examples.py, on a real broker and on both engines",
    "kafka_word_count.py": "tests/examples/test_kafka_word_count.py, on a real broker",
    "log_etl": "tests/examples/test_log_etl_lines.py, and others beside it",
    "lmdb_state.py": "tests/examples/test_lmdb_state.py, by the suite of state providers and beneath word_count.py",
    "service.py": "tests/examples/test_service.py, over real HTTP",
}


def test_every_example_is_known() -> None:
    files = {path.name for path in (ROOT / "examples").glob("*.py")}
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/*.py")}
    assert files | folders == EXAMPLES.keys() | ELSEWHERE.keys()


def test_what_runs_elsewhere_is_there() -> None:
    assert not [name for name, test in ELSEWHERE.items() if not (ROOT / test.split(",")[0]).is_file()]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name: str, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    visits = tmp_path / "visits.jsonl"
    visits.write_text(VISITS, encoding="utf-8")
    places = {"FILE": str(ROOT / "examples" / name), "TEXT": str(text), "VISITS": str(visits)}
    words, expected = EXAMPLES[name]
    command = [sys.executable, *(places.get(word, word) for word in words.split())]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert expected in done.stdout.splitlines()
    assert "Traceback" not in done.stderr
