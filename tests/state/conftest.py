"""What tests of states share."""

import pytest

from tests.state.slow_store import AnySlowStore, SlowLookupStore, SlowResidentStore


@pytest.fixture(params=[SlowLookupStore, SlowResidentStore], ids=["lookup", "resident"])
def store(request: pytest.FixtureRequest) -> AnySlowStore:
    made: AnySlowStore = request.param()
    return made
