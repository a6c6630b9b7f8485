"""Broken topology files and command lines, and their output. `python -m tests.cli.broken_topologies` shows them all."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECS = 60

HEAD = """\
from engine import BasicBolt, Bolt, Fields, TopologyBuilder, bolt, spout

@spout("line")
def lines():
    yield ("to be or not to be",)

@bolt()
def count(tup):
    pass

def wire(component, name="words"):
    builder = TopologyBuilder(name)
    builder.set_spout("lines", lines)
    builder.set_bolt("broken", component).shuffle_grouping("lines")
    return builder
"""


@dataclass(frozen=True)
class Broken:
    """A file or none, the arguments of a command, and the expected output."""

    what: str
    text: str | None
    arguments: tuple[str, ...]
    exit_status: int
    seen: str | tuple[str, ...]
    """The whole standard error after `normalised`, or parts of it. Standard output is empty."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.what.replace(" ", "-")


@dataclass(frozen=True)
class Seen:
    """Output and exit status of a command."""

    exit_status: int
    output: str
    errors: str


def run(case: Broken, folder: Path) -> Seen:
    """Write the case's file into a folder, and run its command there."""
    if case.text is not None:
        (folder / "flow.py").write_text(case.text, encoding="utf-8")
    command = [sys.executable, "-m", "engine", *case.arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1", **case.environment}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECS)
    return Seen(done.returncode, done.stdout, done.stderr)


def normalised(text: str, folder: Path) -> str:
    """Return the text without folders, times, and what Python adds: marks below lines of code, and suggestions since 3.12."""
    text = text.replace(f"{folder.resolve()}{os.sep}", "").replace(str(folder.resolve()), "FOLDER").replace(sys.executable, "PYTHON")
    text = re.sub(r"^\d\d:\d\d:\d\d ", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ *[~^]+\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\. Did you mean: '\w+'\?$", "", text, flags=re.MULTILINE)
    return re.sub(r"after \d+\.\d s", "after 0.0 s", text)


def main() -> None:
    """Run all cases, and print their output."""
    from tests.cli.broken_cases import CASES

    for number, case in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as folder:
            seen = run(case, Path(folder))
        print(f"--- {number}. {case.what}")
        print("".join(f"{name}={value} " for name, value in case.environment.items()), end="")
        print(f"$ python -m engine {' '.join(case.arguments)}")
        print(seen.output + seen.errors, end="")
        print(f"[exit status {seen.exit_status}]\n", flush=True)


if __name__ == "__main__":
    main()
