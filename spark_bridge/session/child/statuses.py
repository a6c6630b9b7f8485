"""In words: how a JVM has ended."""

import signal
from typing import Final

_OF_SPARK: Final = {50: "an exception that nobody caught", 52: "OutOfMemoryError"}
"""Statuses that Spark ends its JVMs with."""


def jvm_died(status: int) -> str:
    """Return how it ended.

    >>> jvm_died(-9), jvm_died(52)
    ('the JVM was killed by SIGKILL', 'the JVM ended with status 52 (OutOfMemoryError)')
    """
    if status < 0:
        try:
            return f"the JVM was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"the JVM was killed by signal {-status}"
    what = _OF_SPARK.get(status)
    return f"the JVM ended with status {status}" + (f" ({what})" if what else "")
