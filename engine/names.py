"""Reserved names of components and streams, and suggestions for misspelt names."""

from collections.abc import Iterable
from typing import Any, Final

DEFAULT_STREAM: Final = "default"
"""Stream of an emit or a subscription that names no stream."""

RESERVED_PREFIXES: Final = ("__", "$")
"""Prefixes of the engine's own component ids and streams. Ids of users must not have them (GRP-5)."""

ACKER_COMPONENT: Final = "__acker"
"""Component of the ackers."""

CHECKPOINT_COMPONENT: Final = "__checkpoint"
"""Spout that drives the checkpoints of a run with state."""

CHECKPOINT_STREAM: Final = "$checkpoint"
"""Stream of the checkpoint barriers."""

MARK_STREAM: Final = "$mark"
"""Stream of the marks, which carry watermarks."""

SYSTEM_COMPONENT: Final = "__system"
"""Source of tuples that no component emits, such as ticks."""

BATCH_STREAM: Final = "$batch"
"""Stream from a transaction coordinator to its emitters."""

COMMIT_STREAM: Final = "$commit"
"""Stream from a transaction coordinator to the committers."""

ROWS_STREAM: Final = "$rows"
"""Stream on which a transaction coordinator names the rows that bolts leave out of an attempt."""

REPORT_STREAM: Final = "$report"
"""Stream on which a task reports how many tuples of a batch it sent."""

FAILED_STREAM: Final = "failed"
"""Stream on which a bolt with `on_error="divert"` emits its inputs that have failed for good."""

POOL_NAME: Final = "stormcell"
"""Prefix of the thread names of a bolt's pool. The component id follows."""

TAKES_PACKS: Final = "takes_packs"
"""Class attribute of bolts whose inputs are packs of records."""
BEFORE_CALL: Final = "_before_concurrent_call"
"""Method of a bolt of the engine that is called with each input in order of arrival, before one of several calls at once begins."""
TICK_STREAM: Final = "$tick"
"""Stream of ticks."""


def plain_text(name: Any) -> Any:
    """Return a text of a derived class, such as a StrEnum, as a plain str, and any other object unchanged.

    Names are converted where they enter the engine. The compiled code takes only plain texts, and pickle may not find the class.
    """
    return str.__str__(name) if isinstance(name, str) else name


def is_reserved(name: str) -> bool:
    """Tell whether this name of a component or stream is reserved for the engine."""
    return name.startswith(RESERVED_PREFIXES)


def is_writable(name: str) -> bool:
    """Tell whether UTF-8 can encode a name. UTF-8 cannot encode a lone surrogate, which a broken file name may hold."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to `name`, or None if none is near."""
    import difflib  # imported here, because only an error needs it

    by_folded = {candidate.casefold(): candidate for candidate in known}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `Did you mean 'x'?` for the nearest known name, else the list of all. `name` may be any object."""
    names = sorted(known)
    near = nearest(name, names) if isinstance(name, str) else None
    if near is not None:
        return f"Did you mean {near!r}?"
    return f"Known: {', '.join(map(repr, names))}." if names else "There are none."
