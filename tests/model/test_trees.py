"""Compares the XOR ledger with explicit trees: one verdict per root, and the model's one.

Random programs have emits with several anchors and roots, acks, fails, timeouts, and double and forgotten acks. Tasks, spouts and ackers
die. There are 1, 2 or 5 ackers. Other trees go through burst bolts and bolts in processes, and carry their own plan.
`python -m tests.soak --full` runs more than 10,000 of all of them.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.model.proofs import prove
from tests.tiers import cases

ALL = ("ACK-3", "ACK-4", "ACK-7", "ACK-8", "ACK-13")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Disable the log, which injected errors would fill."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.guarantee(*ALL)
def test_a_ledger_agrees_with_sets_of_open_links_in_any_order_of_signals() -> None:
    prove("ledgers", cases(600))


@pytest.mark.guarantee("ACK-2", "ACK-5", "ACK-15", *ALL)
def test_the_compiled_cores_give_each_root_the_verdict_of_its_tree() -> None:
    prove("cores", cases(300))


@pytest.mark.guarantee("ACK-2", "ACK-5", "ACK-15", *ALL)
def test_a_run_gives_each_root_the_verdict_of_its_tree() -> None:
    prove("runs", cases(100))


@pytest.mark.guarantee("BU-1", "BU-2", "BU-3", "ACK-2", "ACK-3", "ACK-4", "ACK-5", "ACK-15")
def test_each_tree_through_burst_bolts_has_the_verdict_of_its_plan() -> None:
    prove("bursts", cases(150))


@pytest.mark.guarantee("PR-1", "BU-1", "BU-3", "ACK-2", "ACK-3", "ACK-4", "ACK-5", "ACK-15")
def test_each_tree_through_bolts_in_processes_has_the_verdict_of_its_plan() -> None:
    prove("processes", cases(20))


@pytest.mark.guarantee("ACK-7")
def test_verdicts_do_not_depend_on_the_number_of_ackers() -> None:
    prove("number of ackers", cases(50))
