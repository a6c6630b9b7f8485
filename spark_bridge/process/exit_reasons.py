"""Exit statuses of processes in words. Both processes import this module, so it does not import the engine."""

import signal
from typing import Final

_JVM_STATUSES: Final = {50: "an uncaught exception", 52: "OutOfMemoryError"}
"""Statuses that Spark uses when it ends its JVM."""


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


def describe_jvm_status(status: int) -> str:
    """Return how a JVM ended.

    >>> describe_jvm_status(-9), describe_jvm_status(52)
    ('the JVM was killed by SIGKILL', 'the JVM ended with status 52 (OutOfMemoryError)')
    """
    meaning = _JVM_STATUSES.get(status)
    return f"the JVM {describe_status(status)}" + (f" ({meaning})" if meaning else "")


def likely_cause(exit_text: str, log_tail: str) -> tuple[str, str | None]:
    """Return the likely cause of an exit, in brackets, and a hint. The cause is empty and the hint None if nothing points to one.

    >>> likely_cause("the JVM ended with status 52 (OutOfMemoryError)", "")[0]
    ' (out of memory)'
    """
    if "OutOfMemoryError" in log_tail or "status 52" in exit_text:
        return " (out of memory)", "Raise driver_memory (executor_memory on a cluster), or make the batches smaller."
    if "SIGKILL" in exit_text:
        return " (by a person, or by the kernel to free memory)", "If nobody killed it, see dmesg, and lower driver_memory or the batches."
    return "", None
