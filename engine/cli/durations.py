"""Durations as a person writes them: `500ms`, `30s`, `5m`, `1h`, `1h30m`."""

import math
import re
from typing import Final

_SECS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhd])\s*", re.ASCII)


def parse_duration(text: str) -> float:
    """Return seconds; ValueError, with the fix, for what is no duration or no time at all.

    >>> parse_duration("1m30s")
    90.0
    """
    lowered = text.strip().lower()
    parts = _PART.findall(lowered)
    if not parts or _PART.sub("", lowered):
        number = re.fullmatch(r"\d+(\.\d+)?", lowered, re.ASCII)
        hint = (
            f"Write {lowered}s for seconds, {lowered}m for minutes."
            if number
            else "Write a number and ms, s, m, h or d: 500ms, 30s, 1h30m."
        )
        raise ValueError(f"{text!r} is {'a number without a unit' if number else 'not a duration'}. {hint}")
    secs = sum(float(number) * _SECS[unit] for number, unit in parts)
    if not 0 < secs < math.inf:
        raise ValueError(f"{text!r} is {'no time at all' if secs == 0 else 'too long'}. Write a duration such as 30s.")
    return secs


def duration_text(secs: float) -> str:
    """Return a duration for a person: `0.5 s`, `12 s`, `2 m 05 s`, `3 h 20 m`, `2 d 01 h`.

    >>> duration_text(125)
    '2 m 05 s'
    """
    if secs < 10:
        return f"{secs:.1f} s"
    whole = int(secs)
    for greater, lesser, size in (("d", "h", 3600), ("h", "m", 60), ("m", "s", 1)):
        step = 24 if greater == "d" else 60
        if whole >= size * step:
            return f"{whole // (size * step)} {greater} {whole // size % step:02d} {lesser}"
    return f"{whole} s"
