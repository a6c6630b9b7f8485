"""The project's own source as data: modules, what they import, and where their functions begin and end."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("_native", "engine", "spark_bridge")


@dataclass(frozen=True)
class Import:
    """One imported module. `typing_only`: below `if TYPE_CHECKING`. `lazy`: inside a function."""

    module: str
    line: int
    typing_only: bool
    lazy: bool


@dataclass(frozen=True)
class Function:
    """One function. `parameters` leaves out self, cls, `*args` and `**kwargs`."""

    name: str
    line: int
    length: int
    parameters: int


@dataclass(frozen=True)
class Source:
    """One file of source."""

    path: Path
    root: Path = ROOT

    @property
    def name(self) -> str:
        """The path from the project's root."""
        return self.path.relative_to(self.root).as_posix()

    @property
    def module(self) -> str:
        """The dotted name."""
        parts = self.path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)

    @property
    def compiled(self) -> bool:
        """Whether this is Cython."""
        return self.path.suffix != ".py"

    @cached_property
    def imports(self) -> list[Import]:
        return list(_cython_imports(self.text) if self.compiled else _python_imports(self))

    @cached_property
    def functions(self) -> list[Function]:
        return list(_cython_functions(self.text) if self.compiled else _python_functions(self.tree))


@lru_cache
def sources(*folders: str) -> tuple[Source, ...]:
    """All Python and Cython files below these folders, in order."""
    paths = (path for folder in folders for suffix in ("*.py", "*.pyx", "*.pxd") for path in (ROOT / folder).rglob(suffix))
    return tuple(Source(path) for path in sorted(paths))


@lru_cache
def modules() -> dict[str, Source]:
    """The modules of the installed packages, by dotted name; a .pyx stands for itself and its .pxd."""
    return {source.module: source for source in sources(*PACKAGES) if source.path.suffix != ".pxd"}


def _python_imports(source: Source) -> Iterator[Import]:
    def walk(node: ast.AST, typing_only: bool, lazy: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, typing_only, lazy)
            elif isinstance(child, ast.ImportFrom):
                for module in _from_targets(source, child):
                    yield Import(module, child.lineno, typing_only, lazy)
            elif isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                for statement in child.body:
                    yield from walk(ast.Module([statement], []), True, lazy)
                for statement in child.orelse:
                    yield from walk(ast.Module([statement], []), typing_only, lazy)
            else:
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(child, typing_only, lazy or function)

    yield from walk(source.tree, False, False)


def _from_targets(source: Source, node: ast.ImportFrom) -> Iterator[str]:
    """`from a import b` imports the module a.b where there is one, else a."""
    base = node.module or ""
    if node.level:
        parts = source.module.split(".")
        parts = parts if source.path.name == "__init__.py" else parts[:-1]
        base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
    for alias in node.names:
        folder = ROOT / base.replace(".", "/") / alias.name
        is_module = any(folder.with_suffix(suffix).is_file() for suffix in (".py", ".pyx", ".pyi")) or folder.is_dir()
        yield f"{base}.{alias.name}" if is_module else base


def _cython_imports(text: str) -> Iterator[Import]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"(\s*)from\s+([\w.]+)\s+c?import\s", line) or re.match(r"(\s*)c?import\s+([\w.]+)", line):
            yield Import(found[2], number, False, bool(found[1]))


def _python_functions(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = [arg.arg for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
            parameters = len([name for name in names if name not in ("self", "cls")])
            yield Function(node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1, parameters)


_CYTHON_HEAD = re.compile(r"( *)(?:async )?(?:def|cdef|cpdef)\b(?! class| struct| enum| union| extern)[^(=]*?(\w+)\(")


def _cython_functions(text: str) -> Iterator[Function]:
    lines = [line.split("#")[0] for line in text.splitlines()]
    for start, line in enumerate(lines):
        found = _CYTHON_HEAD.match(line)
        if not found:
            continue
        end = start
        while end < len(lines) - 1 and _depth(lines[start : end + 1]) > 0:
            end += 1
        inside, _, behind = " ".join(lines[start : end + 1])[found.end() :].rpartition(")")
        if ":" not in behind:
            continue  # a declaration
        body = end
        for number in range(end + 1, len(lines)):
            if lines[number].strip():
                if len(lines[number]) - len(lines[number].lstrip()) <= len(found[1]):
                    break
                body = number
        names = [part.split("=")[0].strip().split(" ")[-1] for part in inside.split(",")]
        parameters = len([name for name in names if name and name not in ("self", "cls") and not name.startswith("*")])
        yield Function(found[2], start + 1, body - start + 1, parameters)


def _depth(lines: list[str]) -> int:
    return sum(line.count("(") - line.count(")") for line in lines)
