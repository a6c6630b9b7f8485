"""The commands of a page's ```console blocks, and whether what stands below each is what it prints.

A transcript shows standard output, then perhaps the last line of standard error: the summary of a run. A line `…` stands for any
lines, `…` in a line for the rest of it. Times, versions, folders and the width of columns may differ. A command with nothing below
it is only run.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.project.pages import Block

OURS = re.compile(r"\$ (?:python (?:-m (?:engine|spark_bridge)|\w+\.py)|stormcell)(?!\S)")
MASKS = (
    (re.compile(r"\b\d+(?:\.\d+)? (?:s|ms)\b"), "# s"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "#:#:#"),
    (re.compile(r"\b\d+\.\d+\.\d+\w*"), "#.#.#"),
    (re.compile(r"(?<![\w.])(?:/[\w.+-]+)+/"), "/#/"),
    (re.compile(r" {2,}"), "  "),
)


@dataclass(frozen=True)
class Transcript:
    """One command of ours: the line of the page where it stands, and the lines below it."""

    line: int
    command: str
    shown: tuple[str, ...]


def transcripts(block: Block) -> Iterator[Transcript]:
    """The commands of a block that run the engine."""
    lines = block.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        if OURS.match(lines[start]):
            yield Transcript(block.line + start, lines[start].removeprefix("$ "), tuple(lines[start + 1 : end]))


def differences(shown: Sequence[str], out: str, err: str) -> str:
    """How what a command printed differs from what a page shows; nothing where it does not."""
    wanted = [masked(line) for line in shown]
    printed = [masked(line) for line in out.splitlines()]
    if wanted and wanted[-1:] == [masked(line) for line in err.splitlines()[-1:]]:
        del wanted[-1]
    pattern = "".join(r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in wanted)
    if not shown or re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)):
        return ""
    return "\n".join(difflib.unified_diff(wanted, printed, "the page", "printed", lineterm=""))


def masked(line: str) -> str:
    """A line without what differs from run to run and from machine to machine."""
    for pattern, mask in MASKS:
        line = pattern.sub(mask, line)
    return line.rstrip()
