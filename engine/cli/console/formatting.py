"""Formats numbers, durations, names and tables as text.

Durations are written as `500ms`, `30s`, `5m`, `1h` or `1h30m` on the command line.
"""

import math
import re
from collections.abc import Sequence
from typing import Final

NONE: Final = "–"
"""Text for a value that does not exist."""
_SECS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhd])\s*", re.ASCII)


def parse_duration(text: str) -> float:
    """Return seconds. Raise ValueError with a fix if the text is not a positive duration.

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
        raise ValueError(f"{text!r} is {'zero' if secs == 0 else 'too long'}. Write a duration such as 30s.")
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


def aligned(rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> str:
    """Return rows as lines. The first `text_columns` columns are aligned left. The other columns are numbers and are aligned right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < text_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def count_text(count: int | None) -> str:
    """Return `1,234,567`."""
    return NONE if count is None else f"{count:,}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 task`, `2,000 tasks`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def compact_text(count: int | None) -> str:
    """Return a count in seven characters at most: `999,999`, `1.23 M`, `45.6 G`."""
    if count is None or count < 1_000_000:
        return count_text(count)
    size, unit = next(((size, unit) for size, unit in ((1e12, "T"), (1e9, "G")) if count >= size), (1e6, "M"))
    digits = 2 if count < 10 * size else 1 if count < 100 * size else 0
    return f"{count / size:.{digits}f} {unit}"


def amount_text(amount: float | None, *, compact: bool = False) -> str:
    """Return the value of a user's metric: `1,234`, `0.25`, `inf`. None and NaN give `–`."""
    if amount is None or math.isnan(amount):
        return NONE
    if amount == 0 or 1e-4 <= abs(amount) < 1e15:
        whole = compact_text if compact else count_text
        return whole(round(amount)) if amount == int(amount) or abs(amount) >= 100 else ms_text(amount)
    return f"{amount:.3g}"


def rate_text(per_sec: float | None) -> str:
    """Return `12,345/s`, or `0.5/s` with one decimal below ten."""
    if per_sec is None:
        return NONE
    return f"{per_sec:,.0f}/s" if per_sec >= 10 or per_sec == 0 else f"{per_sec:.1f}/s"


def ms_text(ms: float | None) -> str:
    """Return milliseconds. Small values have more digits: `0.0006`, `0.125`, `1.25`, `38.1`, `1,500`."""
    if ms is None:
        return NONE
    size = abs(ms)
    digits = 4 if size < 0.01 else 3 if size < 1 else 2 if size < 10 else 1 if size < 100 else 0
    return f"{ms:,.{digits}f}"


def percent_text(share: float | None) -> str:
    """Return `97%`."""
    return NONE if share is None else f"{share * 100:.0f}%"


def clipped(text: str, most_characters: int) -> str:
    """Return text of at most `most_characters` characters. Cut text ends with `…`."""
    return text if len(text) <= most_characters else f"{text[: most_characters - 1]}…"


def name_text(name: str) -> str:
    """Return a name for a terminal. A name with control characters is quoted and escaped.

    >>> print(name_text("counts"), name_text("\\x1b[2J"))
    counts '\\x1b[2J'
    """
    return name if name.isprintable() else repr(name)


def printable(text: str) -> str:
    """Return a text of users as one line for a terminal. Control characters and lone surrogates are escaped.

    >>> print(printable("\\x1b[2J 1\\n"))
    \\x1b[2J 1\\n
    """
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
