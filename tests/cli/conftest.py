"""A fixture that writes and imports topology files."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.topology_files import HEAD, Write


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Yield a function that writes a topology file after `HEAD`. At the end, forget the modules that were imported."""
    modules, folders = set(sys.modules), list(sys.path)

    def write(text: str, name: str = "flow.py", head: str = HEAD) -> str:
        (tmp_path / name).write_text(head + text, encoding="utf-8")
        return str(tmp_path / name)

    yield write
    sys.path[:] = folders
    for module in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]
