"""Topology files that a test writes, imported and forgotten."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.topology_files import HEAD, Write


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Write a topology file behind `HEAD`, and forget on leaving what was imported."""
    modules, folders = set(sys.modules), list(sys.path)

    def write(text: str, name: str = "flow.py", head: str = HEAD) -> str:
        (tmp_path / name).write_text(head + text, encoding="utf-8")
        return str(tmp_path / name)

    yield write
    sys.path[:] = folders
    for module in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]
