"""Finds prose that breaks the rules of plain English: docstrings, comments, error texts and pages.

`python -m tests.project.english PATH...` prints the faults of files or folders.

The rules: the first sentence of a docstring has at most 20 words, any other sentence at most 25. No sentence starts with What, Where,
Whose, Which, As, That, or with "It is ... that". No sentence is a chain of semicolons. `SCANNED` of test_english.py has the
files and folders that `make check` reads.
"""

import ast
import inspect
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final

from tests.project import pages

ROOT: Final = pages.ROOT
MOST_WORDS: Final = 25
MOST_WORDS_OF_A_SUMMARY: Final = 20
MOST_SEMICOLONS: Final = 1

_OPENING: Final = re.compile(r"(What|Where|Whose|Which|As|That)\b(?! (is|are) the\b.*\?$)|It is\b.*\bthat\b")
_CODE: Final = re.compile(r"``[^`]*``|`[^`]*`|\"[^\"]*\"|'[^']*'|\[[^\]]*\]\([^)]*\)|\([^()]*\)")
_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`'\"(])|\n\s*\n|\n\s*(?=[-*] |\d+\. |\w+: )|(?<=[.!?])\s+(?=\w+: )")
_NO_PROSE: Final = re.compile(r"^\s*(>>>|\.\.\. |\||#|noqa|type:|pragma|cython:|distutils:|!)")


@dataclass(frozen=True)
class Fault:
    """One sentence that breaks a rule."""

    path: Path
    line: int
    rule: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.rule}: {self.sentence[:100]}"


def sentences(text: str) -> Iterator[str]:
    """Split prose into sentences; examples, blocks of `\\b`, tables and indented code are left out.

    >>> list(sentences("Return a. Raise b:\\n\\n    >>> 1\\n    1"))
    ['Return a.', 'Raise b:']
    """
    lines, in_example = [], False
    for line in text.splitlines():
        in_example = line.lstrip().startswith((">>>", "\b")) or (in_example and bool(line.strip()))
        is_code = line.startswith("    ") and lines[-1:] == [""]
        lines.append("" if in_example or is_code or _NO_PROSE.match(line) else line.strip())
    for sentence in _END.split("\n".join(lines)):
        if words := " ".join(sentence.split()).removeprefix("- ").removeprefix("* "):
            yield words


def rule_broken(sentence: str, most_words: int = MOST_WORDS) -> str | None:
    """Return the rule that a sentence breaks, None if it breaks none.

    >>> rule_broken("Which is done is committed.")
    'starts with Which'
    >>> rule_broken("Commit the offsets of finished records.")
    """
    plain = _CODE.sub("x", sentence)
    if found := _OPENING.match(plain):
        return f"starts with {found[0].split()[0] if found[1] else 'It is ... that'}"
    if plain.count(";") > MOST_SEMICOLONS:
        return "is a chain of semicolons"
    count = len(plain.split())
    return f"has {count} words, at most {most_words}" if count > most_words else None


def faults(path: Path) -> Iterator[Fault]:
    """Find the faults of one file: Python, Cython or a page."""
    for line, text, is_docstring in _prose(path):
        for number, sentence in enumerate(sentences(text)):
            rule = rule_broken(sentence, MOST_WORDS_OF_A_SUMMARY if is_docstring and number == 0 else MOST_WORDS)
            if rule is not None:
                yield Fault(path, line, rule, sentence)


def _prose(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Find the prose of a file: line, text, and whether it is a docstring."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from _of_page(path)
    elif path.suffix == ".py":
        tree = ast.parse(text)
        yield from _docstrings(tree)
        yield from _error_texts(tree)
        yield from _comments(text)
    else:
        for found in re.finditer(r'^\s*"""(.*?)"""', text, re.DOTALL | re.MULTILINE):
            yield text.count("\n", 0, found.start()) + 1, inspect.cleandoc(found[1]), True
        for found in re.finditer(r"(?:^|  )# (.*)$", text, re.MULTILINE):
            yield text.count("\n", 0, found.start()) + 1, found[1], False


def _of_page(path: Path) -> Iterator[tuple[int, str, bool]]:
    prose, _ = pages.read(path)
    paragraph: list[str] = []
    first = 1
    for number, line in [*prose, (0, "")]:
        if line.strip() and not _NO_PROSE.match(line):
            first = first if paragraph else number
            paragraph.append(line)
            continue
        if paragraph:
            yield first, "\n".join(paragraph), False
        paragraph = []


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Find docstrings, those below attributes too."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
                yield statement.lineno, inspect.cleandoc(statement.value.value), True


def _error_texts(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Find the texts of raised errors and of hints; a value that is filled in counts as one word."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            texts = [*node.exc.args[:1], *(keyword.value for keyword in node.exc.keywords if keyword.arg == "hint")]
            for text in texts:
                yield text.lineno, _filled_in(text), False


def _filled_in(text: ast.expr) -> str:
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        return text.value
    if isinstance(text, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "x" for part in text.values)  # type: ignore[misc]
    return ""


def _comments(text: str) -> Iterator[tuple[int, str, bool]]:
    """Find comments; neighbours on lines of their own are one text."""
    block: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, said = token.start[0], token.string.lstrip("#").strip()
        if _NO_PROSE.match(said):
            continue
        stands_alone = not token.line[: token.start[1]].strip()
        if block and (line != last + 1 or not stands_alone):
            yield first, " ".join(block), False
            block = []
        first = first if block else line
        block.append(said)
        last = line if stands_alone else 0
    if block:
        yield first, " ".join(block), False


def files(*names: str) -> Iterator[Path]:
    """List the files below these names that hold prose."""
    for name in names:
        path = ROOT / name
        found = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (each for each in found if each.suffix in (".py", ".pyx", ".pxd", ".pyi", ".md"))


def main() -> int:
    """Print the faults of the files that the command line names; status 1 if there are any."""
    found = [fault for path in files(*sys.argv[1:]) for fault in faults(path)]
    print(*found, f"{len(found)} faults", sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
