"""Time budgets of the test folders, in seconds added up over all workers.

Each number is the time on two quiet cores, times 1.5. Raise a number only with the reason in the commit.
"""

from collections.abc import Mapping
from typing import Final

TIERS: Final = ("test", "test-all")

BUDGETS: Final[Mapping[str, tuple[int, int]]] = {}
"""By folder of `tests/`: seconds in `make test`, in `make test-all`."""
