"""What a test leaves open is its own failure, not that of whoever comes when the garbage collector finds it."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Collect what the test has made, once its loop has ended: a socket in it is a ResourceWarning, which fails the test.

    What was there before is frozen meanwhile: it is not this test's, and to look at all of it would take a tenth of a second.
    """
    gc.freeze()
    yield
    gc.collect()
    gc.unfreeze()
