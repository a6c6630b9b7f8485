"""Checks that a test of servers closes its sockets."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Collect the garbage of the test after its loop has ended. An open socket in it is a ResourceWarning, which fails the test.

    Older objects are frozen meanwhile. They do not belong to this test, and visiting all of them would take a tenth of a second.
    """
    gc.freeze()
    yield
    gc.collect()
    gc.unfreeze()
