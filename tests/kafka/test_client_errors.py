"""Transient errors of the client, and hints for unknown names."""

import pytest

from engine.kafka.client.admin_client import nearest_of
from engine.kafka.client.errors import is_transient

pytestmark = pytest.mark.guarantee("KS-2")


def test_a_broker_that_does_not_list_itself_yet_is_transient() -> None:
    assert is_transient(AssertionError("Did we not perform bootstrap?"))
    assert not is_transient(AssertionError("something else"))


def test_an_unknown_name_gets_a_hint() -> None:
    known = [f"orders-{number:02}" for number in range(25)]
    assert nearest_of("orders-7", known).startswith("Did you mean 'orders-")
    some = ", ".join(map(repr, known[:5]))
    assert nearest_of("xyz", known) == f"Correct the name. There are 25 others: {some}, …"
    assert nearest_of("xyz", ["a", "b"]) == "Correct the name. Known: 'a', 'b'."
    assert nearest_of("xyz", []) == "Create it first: none exists."
