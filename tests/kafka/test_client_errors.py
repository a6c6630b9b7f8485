"""Which errors of the client pass by themselves."""

import pytest

from engine.kafka.client_errors import passes

pytestmark = pytest.mark.guarantee("KS-2")


def test_a_broker_that_does_not_know_of_itself_yet_passes() -> None:
    assert passes(AssertionError("Did we not perform bootstrap?"))
    assert not passes(AssertionError("something else"))
