"""Imports examples as modules."""

import importlib.util
from types import ModuleType

import pytest

from tests.project.sources import ROOT
from tests.servers.left_open import nothing_left_open

__all__ = ["nothing_left_open"]


def load(name: str) -> ModuleType:
    """Import an example afresh, like the command line."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def word_count() -> ModuleType:
    return load("word_count")


@pytest.fixture
def service() -> ModuleType:
    return load("service")
