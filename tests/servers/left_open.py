"""Checks that a test of servers closes its sockets."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Collect the garbage of the test after its loop has ended. An open socket in it is a ResourceWarning, which fails the test.

    Older objects are frozen meanwhile, because they do not belong to this test. Visiting them would take 0.1 s.
    """
    gc.freeze()
    yield
    gc.collect()
    gc.unfreeze()
