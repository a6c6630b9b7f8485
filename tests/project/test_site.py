"""The site of `make docs`: the reference names the whole public face, and every page is in the navigation."""

import importlib
import re
from collections import Counter

import pytest

from tests.project.sources import ROOT

PACKAGES = (
    "engine",
    "engine.cli",
    "engine.flow",
    "engine.kafka",
    "engine.kafka.transactional",
    "engine.metrics",
    "engine.state",
    "engine.testing",
    "engine.transactional",
    "engine.transactional.values",
    "spark_bridge",
)
ELSEWHERE = {"__version__"}


def reference() -> Counter[str]:
    """Return how often the reference names each name of a package."""
    pages = (ROOT / "docs/api").glob("*.md")
    return Counter(name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_names_the_face_of_the_package(package: str) -> None:
    module = importlib.import_module(package)
    known = {id(getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])) for name in reference()}
    assert [name for name in module.__all__ if name not in ELSEWHERE and id(getattr(module, name)) not in known] == []


def test_the_reference_names_nothing_twice_and_nothing_unknown() -> None:
    names = reference()
    assert [name for name, times in names.items() if times > 1] == []
    homes = {name: name.rpartition(".") for name in names}
    assert [name for name, (package, _, last) in homes.items() if last not in importlib.import_module(package).__all__] == []


def test_each_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]))
    docs = ROOT / "docs"
    assert {str(page.relative_to(docs)) for page in docs.rglob("*.md")} | {"index.md"} == listed
