"""Folders that are rewritten in plain English stay so."""

from typing import Final

import pytest

from tests.project.english import ROOT, faults, files, rule_broken, sentences

REWRITTEN: Final = (
    "README.md",
    "_native",
    "bench",
    "docs/ARCHITECTURE.md",
    "docs/BENCHMARKS.md",
    "docs/COMMAND_LINE.md",
    "docs/CONTRIBUTING.md",
    "docs/EMBEDDING.md",
    "docs/FAILURES.md",
    "docs/FLOW.md",
    "docs/GLOSSARY.md",
    "docs/JOURNEY.md",
    "docs/JOURNEY_CHECKPOINT.md",
    "docs/JOURNEY_KAFKA.md",
    "docs/JOURNEY_SPARK.md",
    "docs/JOURNEY_TRANSACTION.md",
    "docs/KAFKA.md",
    "docs/KAFKA_MIGRATING.md",
    "docs/SEMANTICS.md",
    "docs/SPARK.md",
    "docs/STATE.md",
    "docs/STORM.md",
    "docs/TESTING.md",
    "docs/TRANSACTIONS.md",
    "docs/TUTORIAL.md",
    "docs/api",
    "docs/decisions",
    "engine/__init__.py",
    "engine/__main__.py",
    "engine/api",
    "engine/backoff.py",
    "engine/cancellation.py",
    "engine/checkpoint",
    "engine/cli",
    "engine/clock.py",
    "engine/config",
    "engine/control",
    "engine/errors.py",
    "engine/features.py",
    "engine/flow",
    "engine/in_thread.py",
    "engine/kafka",
    "engine/kernel",
    "engine/lazy_names.py",
    "engine/log.py",
    "engine/maybe_await.py",
    "engine/metrics",
    "engine/names.py",
    "engine/raised.py",
    "engine/randomness.py",
    "engine/runtime",
    "engine/state",
    "engine/svg.py",
    "engine/testing",
    "engine/topology",
    "engine/transactional",
    "engine/version.py",
    "engine/waiters.py",
    "examples",
    "scripts/site_hooks.py",
    "setup.py",
    "spark_bridge",
    "tests/api",
    "tests/budgets.py",
    "tests/checkpoint",
    "tests/cli",
    "tests/config",
    "tests/conftest.py",
    "tests/examples",
    "tests/flow",
    "tests/guarantees.py",
    "tests/integration",
    "tests/kafka",
    "tests/kills",
    "tests/metrics",
    "tests/model",
    "tests/native",
    "tests/patience.py",
    "tests/project",
    "tests/runtime",
    "tests/servers",
    "tests/simulation",
    "tests/soak",
    "tests/spark_bridge",
    "tests/state",
    "tests/test_backoff.py",
    "tests/test_cancellation.py",
    "tests/test_clock.py",
    "tests/test_errors.py",
    "tests/test_in_thread.py",
    "tests/test_log.py",
    "tests/test_names.py",
    "tests/test_randomness.py",
    "tests/test_waiters.py",
    "tests/testing",
    "tests/tiers.py",
    "tests/topology",
    "tests/transactional",
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
