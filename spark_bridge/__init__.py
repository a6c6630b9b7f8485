"""Committed batches become a pipeline on Spark (docs/decisions/0005). Each name is imported on first use: executors need no engine."""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_bridge.handover import Handover as Handover
    from spark_bridge.handover import HandoverError as HandoverError

_HOMES: Final = {
    "Handover": "spark_bridge.handover",
    "HandoverError": "spark_bridge.handover",
}
"""name: the package that has it."""

__all__ = ["Handover", "HandoverError"]


def __getattr__(name: str) -> Any:
    """Return a name of the face."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
