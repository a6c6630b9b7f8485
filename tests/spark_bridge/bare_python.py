"""A Python that has what is installed, and not this package: one of a cluster or a server elsewhere."""

import stat
import sys
import sysconfig
from pathlib import Path

import pytest


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """This Python without this checkout: an editable install is a .pth file, which only `site` reads."""
    path = tmp_path / "python"
    libraries = f"{sysconfig.get_path('purelib')}:{sysconfig.get_path('platlib')}"
    path.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
