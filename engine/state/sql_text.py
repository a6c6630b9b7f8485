"""Checks the text of an SQL statement before a database sees it, and translates its placeholders."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from engine.errors import UsageError

STARTS: Final = frozenset({"insert", "update", "delete", "replace", "merge", "with", "select", "call"})
"""First words of statements that change rows. None of them can end a transaction."""
_TOKEN: Final = re.compile(
    r"""
      (?P<skipped> [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | --[^\n]* | /\*.*?\*/
                 | \$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$ )
    | (?P<number> \$\d+ )
    | (?P<word> [^\W\d][\w$]* )
    | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)
"""Literals, quoted names and comments are skipped, because a `$1` or a `;` in them means nothing."""


def checked_statement(text: str, fields: Sequence[str]) -> str:
    """Return a statement without its last semicolon. Raises UsageError unless it is one statement with a placeholder for each field.

    >>> checked_statement("INSERT INTO visits(page) VALUES ($1); ", ["page"])
    'INSERT INTO visits(page) VALUES ($1)'
    """
    tokens = [(token.lastgroup, token.group(), token.start()) for token in _TOKEN.finditer(text)]
    word = first_word(text)
    if word not in STARTS:
        begins = f"begins with {word.upper()}" if word else "is empty"
        hint = "Give one INSERT, UPDATE, DELETE, REPLACE, MERGE, WITH, SELECT or CALL. The committer begins and ends the transaction."
        raise UsageError(f"the statement of SqlCommitter {begins}: {text!r}", hint=hint)
    ends = [at for kind, _, at in tokens if kind == "end"]
    if ends:
        if any(at > ends[0] and kind != "end" and kind != "skipped" for kind, _, at in tokens):
            hint = "Give one statement. Several changes fit into one with WITH, into a function, or into a trigger."
            raise UsageError(f"the statement of SqlCommitter has a ';' with another statement behind it: {text!r}", hint=hint)
        text = text[: ends[0]]
    _check_numbers({int(number[1:]) for kind, number, _ in tokens if kind == "number"}, text, fields)
    return text.strip()


def first_word(text: str) -> str:
    """Return the first word of a statement in lower case, comments skipped.

    >>> first_word("/* all */ CALL put($1)")
    'call'
    """
    return next((token.group().lower() for token in _TOKEN.finditer(text) if token.lastgroup == "word"), "")


def _check_numbers(numbers: set[int], text: str, fields: Sequence[str]) -> None:
    if numbers == set(range(1, len(fields) + 1)):
        return
    has = ", ".join(f"${number}" for number in sorted(numbers)) or "no placeholder like $1"
    wanted = ", ".join(f"${number} for {name!r}" for number, name in enumerate(fields, 1))
    raise UsageError(f"the statement of SqlCommitter has {has}, but its fields are {', '.join(fields)}: {text!r}", hint=f"Write {wanted}.")


def with_question_marks(text: str) -> str:
    """Return a statement with SQLite's placeholders.

    >>> with_question_marks("INSERT INTO t VALUES ($1, '$2', $2)")
    "INSERT INTO t VALUES (?1, '$2', ?2)"
    """
    return "".join(_translated(text))


def _translated(text: str) -> Iterator[str]:
    behind = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "number":
            yield f"{text[behind : token.start()]}?{token.group()[1:]}"
            behind = token.end()
    yield text[behind:]
