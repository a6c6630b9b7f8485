"""Checks the pages: links have targets, code runs, and commands print the text below them.

In a page, ```python blocks run in order in one namespace (in README each in its own); ```python no-run is only compiled. A block whose
first line is `# name.py` (or .toml) is also written to a file of this name. The page's commands run beside it. Commands are lines of
```console blocks that begin with `$ python -m engine`, `$ python -m spark_bridge`, `$ python name.py` or `$ stormcell`. ```console no-run
is not run. A block that is a file needs nothing of the blocks before it: its code runs in a namespace of its own, without await.
`transcripts` says how the output is compared.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.project.pages import FILE, ROOT, Block, fault, is_file, links, pages, read
from tests.project.transcripts import differences, transcripts

PAGES = [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in pages()]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDEVMODE": "", "COLUMNS": "120"}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    faults = [f"{page.name}:{link.line}: [{link.label}]({link.target}): {why}" for link in links(page) if (why := fault(page, link))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("page", PAGES)
def test_code_runs(page: Path, tmp_path: Path) -> None:
    blocks = read(page)[1]
    if not any(block.language == "python" for block in blocks):
        return
    write_files(blocks, tmp_path)
    command = [sys.executable, str(Path(__file__).with_name("run_page.py")), str(page)]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    blocks = read(page)[1]
    write_files(blocks, tmp_path)
    for block in blocks:
        if block.language != "console" or "no-run" in block.words:
            continue
        for transcript in transcripts(block):
            where = f"{page.name}:{transcript.line}: {transcript.command}"
            command = [sys.executable, *shlex.split(re.sub("^stormcell", "python -m engine", transcript.command), comments=True)[1:]]
            done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, f"{where}\n{done.stdout}{done.stderr}"
            wrong = differences(transcript.shown, done.stdout, done.stderr)
            assert not wrong, f"{where}\n{wrong}"


@pytest.mark.parametrize("page", PAGES)
def test_settings_and_answers_parse(page: Path) -> None:
    for block in read(page)[1]:
        if block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)


def test_every_block_of_the_tutorial_is_a_file() -> None:
    """A newcomer copies one block, saves it, and runs it."""
    blocks = [block for block in read(ROOT / "docs" / "TUTORIAL.md")[1] if block.language == "python"]
    assert not [block.line for block in blocks if not is_file(block)]


@pytest.mark.parametrize(("text", "error"), [("print(len(kept))", "NameError"), ("await nothing()", "SyntaxError")])
def test_a_file_that_needs_another_block_is_found(text: str, error: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```python\nkept = [1]\n```\n```python\n# own.py\n{text}\n```\n")
    command = [sys.executable, str(Path(__file__).with_name("run_page.py")), str(page)]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert error in done.stderr.splitlines()[-1]


def write_files(blocks: list[Block], folder: Path) -> None:
    for block in blocks:
        if found := FILE.match(block.text):
            (folder / found[1]).write_text(block.text, encoding="utf-8")
