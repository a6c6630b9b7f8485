"""In words: how a process has ended."""

import signal
from typing import Final

_OF_SPARK: Final = {50: "an exception that nobody caught", 52: "OutOfMemoryError"}
"""Statuses that Spark ends its JVMs with."""


def describe_status(status: int) -> str:
    """Return how a process ended.

    >>> describe_status(-9), describe_status(3)
    ('was killed by SIGKILL', 'ended with status 3')
    """
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def jvm_died(status: int) -> str:
    """Return how a JVM ended.

    >>> jvm_died(-9), jvm_died(52)
    ('the JVM was killed by SIGKILL', 'the JVM ended with status 52 (OutOfMemoryError)')
    """
    what = _OF_SPARK.get(status)
    return f"the JVM {describe_status(status)}" + (f" ({what})" if what else "")
