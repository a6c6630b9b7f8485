"""The project's pages as data: their links, pictures, headings and code blocks.

`python -m tests.project.pages --fix` moves the line anchors of links such as [`Acker.run`](../engine/acker.py#L40) to where the
symbol now stands.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)(```+|~~~+)\s*(.*)$")
FILE = re.compile(r"# ([\w-]+\.(?:py|toml|txt))\n")
"""First line of a block that is a file, with its name."""
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
CODE_SUFFIXES = (".py", ".pyx", ".pxd", ".pyi")


@dataclass(frozen=True)
class Block:
    """One fenced block: the words behind the fence, and where its first line of text stands."""

    words: tuple[str, ...]
    line: int
    text: str

    @property
    def language(self) -> str:
        return self.words[0] if self.words else ""


@dataclass(frozen=True)
class Link:
    """One link inside the project."""

    label: str
    target: str
    line: int

    @property
    def symbol(self) -> str | None:
        """The name that a label such as `Acker.run` or `run()` promises to be found at the target."""
        found = re.fullmatch(r"`([A-Za-z_][\w.]*)(?:\(\))?`", self.label)
        return found[1].split(".")[-1] if found and not found[1].endswith(("py", "pyx", "pxd", "pyi")) else None


def pages() -> list[Path]:
    """All pages of the project."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("bench/**/*.md")])


def read(page: Path) -> tuple[list[tuple[int, str]], list[Block]]:
    """The numbered lines of prose, and the fenced blocks."""
    prose: list[tuple[int, str]] = []
    blocks: list[Block] = []
    fence, start = "", 0
    words: tuple[str, ...] = ()
    inside: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        found = FENCE.match(line)
        if fence and found and found[2].startswith(fence) and not found[3]:
            blocks.append(Block(words, start, "\n".join(inside) + "\n"))
            fence = ""
        elif fence:
            inside.append(line)
        elif found:
            fence, words, start, inside = found[2], tuple(found[3].split()), number + 1, []
        else:
            prose.append((number, line))
    return prose, blocks


def is_file(block: Block) -> bool:
    """Tell whether a block is a file, by its first line."""
    return FILE.match(block.text) is not None


def links(page: Path) -> list[Link]:
    """The links and pictures of a page that stay inside the project; what stands in inline code is no link."""
    found = []
    for number, line in read(page)[0]:
        bare = re.sub(r"\[`[^`]*`\]|`[^`]*`", lambda code: code[0] if code[0].startswith("[") else "", line)
        found += [Link(label, target, number) for label, target in LINK.findall(bare) if not re.match(r"[a-z]+:", target)]
    return found


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    slugs: set[str] = set()
    for _, line in read(page)[0]:
        if heading := re.match(r"#+\s+(.*)", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            slugs.add(slug if slug not in slugs else next(f"{slug}-{n}" for n in range(1, 99) if f"{slug}-{n}" not in slugs))
    return slugs


def definitions(symbol: str, text: str) -> list[int]:
    """The lines on which a file defines a name: a function, a class, an attribute or a constant."""
    name = re.escape(symbol)
    statement = rf"^\s*(async def|def|class|cdef|cpdef|ctypedef)\b[^=#]*?\b{name}\b"
    pattern = re.compile(rf"{statement}|^\s*{name}\s*[:=]|^\s*(inline |public |readonly )?\w+ {name}$")
    return [number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)]


def fault(page: Path, link: Link) -> str | None:
    """Return the fault of a link, or None."""
    path, _, anchor = link.target.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return f"{path} is not there"
    if target.suffix == ".md":
        return f"{target.name} has no heading #{anchor}" if anchor and anchor not in anchors(target) else None
    if target.suffix not in CODE_SUFFIXES:
        return None
    text = target.read_text(encoding="utf-8")
    if anchor and not (found := re.fullmatch(r"L(\d+)(?:-L(\d+))?", anchor)):
        return f"#{anchor} is no line anchor"
    first, last = (int(found[1]), int(found[2] or found[1])) if anchor and found else (0, 0)
    if last > len(text.splitlines()):
        return f"{target.name} has only {len(text.splitlines())} lines"
    if link.symbol is None:
        return None
    places = definitions(link.symbol, text)
    if not places:
        return f"{target.name} does not define {link.symbol}"
    if anchor and first not in places:
        return f"{link.symbol} stands on line {places[0]}, not {first} (python -m tests.project.pages --fix)"
    return None


def fix(page: Path) -> int:
    """Move the line anchors of a page to where their symbols stand; return how many moved."""
    text = page.read_text(encoding="utf-8")
    moved = 0
    for link in links(page):
        path, _, anchor = link.target.partition("#")
        target = (page.parent / path).resolve()
        if link.symbol is None or not re.fullmatch(r"L\d+", anchor) or not target.is_file():
            continue
        places = definitions(link.symbol, target.read_text(encoding="utf-8"))
        if places and int(anchor[1:]) not in places:
            text = text.replace(f"[{link.label}]({link.target})", f"[{link.label}]({path}#L{places[0]})")
            moved += 1
    page.write_text(text, encoding="utf-8")
    return moved


if __name__ == "__main__":
    if sys.argv[1:] != ["--fix"]:
        raise SystemExit("usage: python -m tests.project.pages --fix")
    for one in pages():
        print(f"{one.relative_to(ROOT)}: {fix(one)} anchors moved")
