"""Number of the running try of a task, on an executor of Spark. Two tries of one task must not write the same file."""

from contextvars import ContextVar
from typing import Final

TASK_TRY: Final = ContextVar("TASK_TRY", default=0)
"""Different for each try of a partition. 0 in the engine's process, where each attempt is tried once."""
