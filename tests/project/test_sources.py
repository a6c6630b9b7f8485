"""The checks check: what they read from source, pages and marks is what stands there."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import guarantees
from tests.project.pages import anchors, definitions, links, read
from tests.project.sources import PACKAGES, Source, sources
from tests.project.test_determinism import violations


def source(folder: Path, name: str, text: str) -> Source:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return Source(path, root=folder)


def test_imports_of_python(tmp_path: Path) -> None:
    text = """
from typing import TYPE_CHECKING
from engine.api import bolt, Nothing
if TYPE_CHECKING:
    import rich
def late():
    import click
"""
    found = [(one.module, one.typing_only, one.lazy) for one in source(tmp_path, "a.py", text).imports]
    assert found == [
        ("typing", False, False),
        ("engine.api.bolt", False, False),
        ("engine.api", False, False),
        ("rich", True, False),
        ("click", False, True),
    ]


def test_imports_of_cython(tmp_path: Path) -> None:
    text = "cimport cython\nfrom libc.stdint cimport uint64_t\nfrom _native.tuples cimport Tuple\nimport os\n"
    assert [one.module for one in source(tmp_path, "a.pyx", text).imports] == ["cython", "libc.stdint", "_native.tuples", "os"]


def test_functions_of_cython(tmp_path: Path) -> None:
    text = """
cdef class Ring:
    cdef int total
    cdef inline bint push(self, void* item,
                          int count) except -1:
        if count:

            return True
        return False

    def pop(self, *, int n=1): return n

cdef int declared(int a) noexcept
cdef int value = len(())
"""
    found = [(one.name, one.length, one.parameters) for one in source(tmp_path, "a.pyx", text).functions]
    assert found == [("push", 6, 2), ("pop", 1, 1)]


def test_parameters_of_python_leave_out_self_and_stars(tmp_path: Path) -> None:
    text = "class A:\n    def f(self, a, /, b, *rest, c=1, **more):\n        pass\n"
    assert [(one.name, one.parameters) for one in source(tmp_path, "a.py", text).functions] == [("f", 3)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "import time"),
        ("a.py", "from random import Random"),
        ("a.py", "import os\nos.urandom(8)"),
        ("a.py", "from uuid import uuid4"),
        ("a.py", "import datetime\ndatetime.datetime.now()"),
        ("a.pyx", "from libc.time cimport time"),
        ("a.pyx", "    x = rand()"),
    ],
)
def test_time_and_chance_are_seen(tmp_path: Path, name: str, text: str) -> None:
    assert list(violations(source(tmp_path, name, text)))


def test_headings_blocks_and_definitions(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# The face, once\n```python no-run\nx = 1\n```\n# A\n# A\n", encoding="utf-8")
    assert anchors(page) == {"the-face-once", "a", "a-1"}
    assert [(block.language, block.line, block.text) for block in read(page)[1]] == [("python", 3, "x = 1\n")]
    assert definitions("push", "x = push()\ncdef bint push(self):\n    pass\n") == [2]


def test_promises_are_read_from_the_page() -> None:
    text = "Built so far: ACK, RM.\n- **ACK-1** a\n- **RM-1** b\n- **CP-1** c\n"
    assert guarantees.promises(text) == ["ACK-1", "RM-1", "CP-1"]
    collected = guarantees.Collected()
    collected.tests.update({"ACK-1": ["t"], "ACK-9": ["u"]})
    assert guarantees.faults(guarantees.promises(text), collected, guarantees.built_groups(text)) == [
        "RM-1: no test is marked with it",
        "ACK-1: all of its tests are deep, and `make test` must prove each item",
        "ACK-9: not in docs/SEMANTICS.md, named by u",
    ]


def test_every_compiled_module_has_its_index_and_its_stub() -> None:
    compiled = [one.path for one in sources("_native") if one.path.suffix == ".pyx"]
    assert not [path.name for path in compiled for suffix in (".pxd", ".pyi") if not path.with_suffix(suffix).is_file()]


def test_links_that_stand_side_by_side(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[`a`](a.py#L1) calls [`b.c`](b.py), not `[d](d.py)` and [e](e.md) ![f](f.svg)\n", encoding="utf-8")
    assert [(link.label, link.target) for link in links(page)] == [("`a`", "a.py#L1"), ("`b.c`", "b.py"), ("e", "e.md"), ("f", "f.svg")]


_DEFINED = (re.compile(r"\b(?:class|def)\s+(\w+)"), re.compile(r"^\s*(?:self\.)?(\w+)\b[^=\n]*=", re.MULTILINE))
_SEE = re.compile(r"[Ss]ee `([A-Za-z_.]+)`")


def unknown_names(found: Iterable[Source]) -> list[str]:
    """Return the texts that refer with "see" to a name that does not exist."""
    every = list(found)
    known = {one.path.stem for one in every} | {name for one in every for pattern in _DEFINED for name in pattern.findall(one.text)}
    return [
        f"{one.name}: see `{name}`, and there is no {name}"
        for one in every
        for name in _SEE.findall(one.text)
        if name.split(".")[-1] not in known
    ]


def test_a_reader_is_sent_to_what_is_there(tmp_path: Path) -> None:
    assert not unknown_names(sources(*PACKAGES))
    gone = source(tmp_path, "a.py", 'def here():\n    """As there; see `redis_scripts`, or see `here`."""\n')
    assert unknown_names([gone]) == ["a.py: see `redis_scripts`, and there is no redis_scripts"]
