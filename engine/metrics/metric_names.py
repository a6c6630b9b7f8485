"""Which names and labels a user's metric may have: what OpenMetrics can write and Prometheus keeps apart."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias, cast

from engine.errors import UsageError
from engine.names import is_writable

MetricKind: TypeAlias = Literal["counter", "gauge", "histogram"]

ENGINE_PREFIX: Final = "stormcell_"
"""How the engine's own families begin; no user's may."""

ENGINE_LABELS: Final = frozenset({"topology", "component", "task", "le", "quantile"})
"""The labels that the export adds, to whatever kind of metric; no user's may be called so."""

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def check_name(name: object, kind: MetricKind) -> None:
    """Raise UsageError for a name that cannot be exported."""
    if not isinstance(name, str):
        raise UsageError(f"the name of a {kind} must be a text, not {name!r}", hint=f"Write {kind}('words_seen').")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{kind} {name!r}: a name has letters, digits and '_' only, and no digit first",
            hint=f"Write {_plain(name, 'words_seen')!r}.",
        )
    if name.startswith(ENGINE_PREFIX):
        raise UsageError(f"{kind} {name!r}: names that begin with {ENGINE_PREFIX!r} are the engine's own", hint="Leave the prefix out.")
    if kind == "counter" and name.endswith("_total"):
        plain = name.removesuffix("_total") or "items"
        raise UsageError(f"counter {name!r}: '_total' is added to a counter's name where it is exported", hint=f"Write {plain!r}.")


def check_label_names(names: Iterable[str], metric: str) -> None:
    """Raise UsageError for a label that cannot be exported; `metric` says whose it is."""
    for name in names:
        if not _NAME.fullmatch(name):
            text = f"{metric}: the name of the label {name!r} has other than letters, digits and '_', or a digit first"
            raise UsageError(text, hint=f"Write {_plain(name, 'queue')!r}.")
        if name.startswith("__"):
            raise UsageError(f"{metric}: labels that begin with '__', as {name!r}, are Prometheus' own", hint="Leave the prefix out.")
        if name in ENGINE_LABELS:
            raise UsageError(
                f"{metric}: the label {name!r} is the engine's own", hint=f"Give the label another name, such as 'the_{name}'."
            )


def check_label_values(labels: Mapping[str, str], metric: str) -> None:
    """Raise UsageError for a value that is no text, or one that cannot be written out."""
    for name, value in labels.items():
        if not isinstance(cast(object, value), str):
            hint = f"Write {name}='{value}'." if isinstance(cast(object, value), int) else "Give it a text."
            raise UsageError(f"{metric}: the label {name!r} must be a text, not {value!r}", hint=hint)
        if not is_writable(value):
            raise UsageError(f"{metric}: the label {name!r} is {value!r}, which UTF-8 cannot write", hint="Replace the lone surrogate.")


def _plain(name: str, otherwise: str) -> str:
    """Return the nearest name that can be exported."""
    plain = re.sub(r"[^a-zA-Z0-9_]+", "_", name).strip("_") or otherwise
    return f"_{plain}" if plain[0].isdigit() else plain
