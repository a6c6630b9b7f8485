"""Time budgets of the test folders, in seconds added up over all workers.

Each number is the time on two quiet cores, times 1.5. Raise a number only with the reason in the commit.
"""

from collections.abc import Mapping
from typing import Final

TIERS: Final = ("test", "test-all")

BUDGETS: Final[Mapping[str, tuple[int, int]]] = {
    ".": (9, 9),
    "api": (5, 5),
    "checkpoint": (160, 700),
    "cli": (150, 160),
    "config": (8, 8),
    "event_time": (45, 120),
    "examples": (80, 300),
    "files": (15, 45),
    "flow": (125, 200),
    "hostile": (45, 90),
    "integration": (150, 320),
    "kafka": (450, 1100),
    "kills": (5, 5),
    "metrics": (5, 5),
    "model": (8, 20),
    "native": (20, 40),
    "processes": (120, 200),
    "runtime": (90, 150),
    "servers": (5, 300),
    "simulation": (20, 150),
    "spark_bridge": (230, 1650),
    "state": (75, 105),
    "streams": (120, 240),
    "testing": (15, 20),
    "topology": (5, 5),
    "transactional": (150, 700),
    "web": (90, 120),
}
"""By folder of `tests/`: seconds in `make test`, in `make test-all`, over the workers that scripts/run-tests starts."""
