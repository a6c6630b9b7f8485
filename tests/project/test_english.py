"""Folders that are rewritten in plain English stay so."""

from typing import Final

import pytest

from tests.project.english import ROOT, faults, files, rule_broken, sentences

REWRITTEN: Final = (
    "_native/flow.pxd",
    "_native/flow.pyi",
    "_native/flow.pyx",
    "docs/COMMAND_LINE.md",
    "docs/FAILURES.md",
    "docs/FLOW.md",
    "docs/JOURNEY_TRANSACTION.md",
    "docs/SPARK.md",
    "docs/STATE.md",
    "docs/TESTING.md",
    "docs/TRANSACTIONS.md",
    "docs/decisions/0007-house.md",
    "engine/__init__.py",
    "engine/__main__.py",
    "engine/backoff.py",
    "engine/cli",
    "engine/clock.py",
    "engine/config",
    "engine/errors.py",
    "engine/flow",
    "engine/in_thread.py",
    "engine/log.py",
    "engine/metrics",
    "engine/names.py",
    "engine/raised.py",
    "engine/randomness.py",
    "engine/state",
    "engine/testing",
    "engine/transactional",
    "engine/version.py",
    "spark_bridge/handover",
    "spark_bridge/process",
    "spark_bridge/source",
    "spark_bridge/writer",
    "tests/budgets.py",
    "tests/cli",
    "tests/config",
    "tests/runtime/stage.py",
    "tests/flow",
    "tests/metrics",
    "tests/project/english.py",
    "tests/project/test_english.py",
    "tests/spark_bridge/handover",
    "tests/spark_bridge/writer",
    "tests/state",
    "tests/test_backoff.py",
    "tests/test_clock.py",
    "tests/test_errors.py",
    "tests/test_in_thread.py",
    "tests/test_log.py",
    "tests/test_names.py",
    "tests/test_randomness.py",
    "tests/testing",
    "tests/tiers.py",
    "tests/transactional/values",
)
"""Files and folders, from the project's root."""


@pytest.mark.parametrize("path", [str(path.relative_to(ROOT)) for path in files(*REWRITTEN)])
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
