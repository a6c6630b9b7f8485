"""The text of the main job: the sources of the running interpreter's standard library."""

import sysconfig
from pathlib import Path


def standard_library_lines() -> list[str]:
    """Return the lines of the library's single-file modules, in the order of their names: about 130,000."""
    modules = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return [line for path in modules for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
