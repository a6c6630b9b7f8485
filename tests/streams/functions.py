"""Functions that another process can import."""

import os


def with_process(text: str) -> str:
    """Return the text with the number of the process."""
    return f"{text} {os.getpid()}"
