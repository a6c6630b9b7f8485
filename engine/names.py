"""Names that the engine keeps for itself, and the nearest name to a misspelt one."""

from collections.abc import Iterable
from typing import Final

DEFAULT_STREAM: Final = "default"
"""The stream of an emit and of a subscription that name none."""

RESERVED_PREFIXES: Final = ("__", "$")
"""How the engine's own component ids and streams begin; no user's id may (GRP-5)."""

ACKER_COMPONENT: Final = "__acker"
"""The component whose tasks keep the ledgers."""

CHECKPOINT_COMPONENT: Final = "__checkpoint"
"""The spout that drives the checkpoints of a run with state."""

CHECKPOINT_STREAM: Final = "$checkpoint"
"""The stream of its barriers."""

SYSTEM_COMPONENT: Final = "__system"
"""The source of what no component emits, ticks among it."""

BATCH_STREAM: Final = "$batch"
"""The stream of a transaction coordinator to its emitters."""

COMMIT_STREAM: Final = "$commit"
"""The stream of a transaction coordinator to the committers."""

REPORT_STREAM: Final = "$report"
"""The stream by which a task tells what it sent of a batch."""

POOL_NAME: Final = "stormcell"
"""How the names of the threads of a bolt's pool begin; its component follows."""

TICK_STREAM: Final = "$tick"
"""The stream of ticks."""


def is_reserved(name: str) -> bool:
    """Tell whether only the engine may use this name for a component or a stream."""
    return name.startswith(RESERVED_PREFIXES)


def is_writable(name: str) -> bool:
    """Tell whether a name can be written out: a lone surrogate, as a broken file name may hold, cannot."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` most probably was meant to be, or None when none is near."""
    import difflib  # only an error needs it, and `import engine` stays light

    by_folded = {candidate.casefold(): candidate for candidate in known}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `Did you mean 'x'?` for the nearest known name, else the list of what there is; a name may be anything a user gives."""
    names = sorted(known)
    near = nearest(name, names) if isinstance(name, str) else None
    if near is not None:
        return f"Did you mean {near!r}?"
    return f"There is {', '.join(map(repr, names))}." if names else "There is none."
