"""A Python with all installed packages but without this one, as on a cluster or a remote server."""

import stat
import sys
import sysconfig
from pathlib import Path

import pytest


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """Return this Python without this checkout. An editable install is a .pth file, which only `site` reads."""
    libraries = f"{sysconfig.get_path('purelib')}:{sysconfig.get_path('platlib')}"
    return _program(tmp_path / "python", f'PYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"')


@pytest.fixture
def barest_python(tmp_path: Path) -> Path:
    """Return this Python without any installed package."""
    return _program(tmp_path / "python", f'exec {sys.executable} -S "$@"')


def _program(path: Path, command: str) -> Path:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
