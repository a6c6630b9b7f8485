"""A transcript that is not what is printed is found, and one that is, is not."""

import pytest

from tests.project.pages import Block
from tests.project.transcripts import differences, transcripts

OUT = "Hello, world!\nHello, storm!\n/tmp/x/words.svg is written\nstormcell 1.2.3 in 3.5 ms\n"
ERR = "table\nhello: complete after 0.0 s: 2 emitted\n"


def test_a_block_is_split_at_its_commands() -> None:
    block = Block(("console",), 10, "$ python -m engine run a.py\none\ntwo\n$ make run\nthree\n$ stormcell check a.py\n")
    assert [(found.line, found.command, found.shown) for found in transcripts(block)] == [
        (10, "python -m engine run a.py", ("one", "two")),
        (15, "stormcell check a.py", ()),
    ]


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "Hello, world!\nHello, storm!\n/home/you/words.svg is written\nstormcell 0.1.0 in 12 s",
        "Hello, world!\nHello, storm!\n/home/you/words.svg is written\nstormcell 0.1.0 in 12 s\nhello: complete after 7.5 s: 2 emitted",
        "…\nHello, storm!\n…",
        "Hello, …\nHello, storm!\n…",
    ],
)
def test_what_is_printed_is_in_order(shown: str) -> None:
    assert differences(shown.splitlines(), OUT, ERR) == ""


@pytest.mark.parametrize(
    "shown",
    [
        "Hello, world!",
        "Hello, storm!\nHello, world!\n…",
        "…\nHello, Storm!\n…",
        "…\nhello: complete after 7.5 s: 3 emitted",
        "…\ntable\nhello: complete after 7.5 s: 2 emitted",
    ],
)
def test_what_is_not_printed_is_shown(shown: str) -> None:
    assert differences(shown.splitlines(), OUT, ERR).startswith("--- the page\n+++ printed\n")
