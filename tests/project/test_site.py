"""The site of `make docs`: the reference names the whole public face, and every page is in the navigation."""

import importlib
import re
from collections import Counter

import pytest

from tests.project.sources import ROOT

PACKAGES = (
    "engine",
    "engine.cli",
    "engine.files",
    "engine.flow",
    "engine.kafka",
    "engine.kafka.transactional",
    "engine.metrics",
    "engine.state",
    "engine.streams",
    "engine.testing",
    "engine.transactional",
    "engine.transactional.values",
    "engine.web",
    "spark_bridge",
)
ELSEWHERE = {"__version__"}


def reference() -> Counter[str]:
    """Return how often the reference names each name of a package."""
    pages = (ROOT / "docs/api").glob("*.md")
    return Counter(name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE))


def named(name: str) -> object:
    """Return the object with this name. Raises AttributeError if there is none."""
    package, _, last = name.rpartition(".")
    return getattr(importlib.import_module(package), last)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_names_the_face_of_the_package(package: str) -> None:
    module = importlib.import_module(package)
    known = {id(named(name)) for name in reference()}
    assert [name for name in module.__all__ if name not in ELSEWHERE and id(getattr(module, name)) not in known] == []


def test_the_reference_names_nothing_twice_and_nothing_unknown() -> None:
    names = reference()
    assert [name for name, times in names.items() if times > 1] == []
    public = {id(getattr(module, name)) for module in map(importlib.import_module, PACKAGES) for name in module.__all__}
    assert [name for name in names if id(named(name)) not in public] == []


@pytest.mark.parametrize("name", ["spout", "bolt", "stateful_bolt"])
def test_decorators_are_named_by_their_module(name: str) -> None:
    """A package has a module of the same name, which the reference would show instead."""
    assert not {f"engine.{name}"} & set(reference())


def test_each_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]))
    docs = ROOT / "docs"
    assert {str(page.relative_to(docs)) for page in docs.rglob("*.md")} | {"index.md"} == listed
