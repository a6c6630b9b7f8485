"""Folders that are rewritten in plain English stay so."""

from typing import Final

import pytest

from tests.project.english import ROOT, faults, files, rule_broken, sentences

SCANNED: Final = (
    "CHANGELOG.md",
    "README.md",
    "setup.py",
    "_native",
    "bench",
    "docs",
    "engine",
    "examples",
    "scripts",
    "spark_bridge",
    "tests",
)
"""Files and folders, from the project's root."""


@pytest.mark.parametrize("path", [str(path.relative_to(ROOT)) for path in files(*SCANNED)])
def test_prose_is_plain_english(path: str) -> None:
    assert not [str(fault) for fault in faults(ROOT / path)]


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("What is folded already is let go of.", "starts with What"),
        ("Where nothing is written, no task can mend it.", "starts with Where"),
        ("As Storm does.", "starts with As"),
        ("It is the spout that knows.", "starts with It is ... that"),
        ("One; two; three.", "is a chain of semicolons"),
        ("word " * 26, "has 26 words, at most 25"),
        ("Drops deltas that the base already contains.", None),
        ("Return `What`; raise nothing.", None),
    ],
)
def test_a_sentence_that_breaks_a_rule_is_found(sentence: str, rule: str | None) -> None:
    assert rule_broken(sentence) == rule


def test_examples_and_tables_are_no_prose() -> None:
    text = "Return a.\n\n>>> that()\nWhat\n\n| Which | As |\n\n- One thing.\n- Another; thing."
    assert list(sentences(text)) == ["Return a.", "One thing.", "Another; thing."]
