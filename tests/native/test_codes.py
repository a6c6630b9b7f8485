"""The numbers that cross the border to C: engine/kernel/codes.py says the same as the enums of the .pxd files."""

import re
from enum import IntEnum
from pathlib import Path

import pytest

from engine.kernel.codes import BoltOutcome, Choice, Signal, SpoutOutcome

NATIVE = Path(__file__).resolve().parents[2] / "_native"


def c_enum(file: str, name: str) -> dict[str, int]:
    """The members of a `cdef enum` of a .pxd file."""
    text = (NATIVE / file).read_text(encoding="utf-8")
    found = re.search(rf"^cdef enum {name}:.*\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    assert found, f"{file} has no cdef enum {name}"
    return {member: int(value) for member, value in re.findall(r"^    (\w+) = (\d+)\b", found[1], re.MULTILINE)}


@pytest.mark.parametrize(
    ("codes", "file", "name"),
    [
        (BoltOutcome, "bolt.pxd", "BoltOutcome"),
        (SpoutOutcome, "spout.pxd", "SpoutOutcome"),
        (Choice, "task.pxd", "Choice"),
        (Signal, "queues.pxd", "SignalKind"),
    ],
)
def test_python_and_c_number_alike(codes: type[IntEnum], file: str, name: str) -> None:
    assert {member.name: member.value for member in codes} == c_enum(file, name)
