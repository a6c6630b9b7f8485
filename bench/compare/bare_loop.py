"""The bare loop: what a tuple costs when nothing but the tree's bookkeeping is done. Built from a copy, outside its folder.

Acked works run `shared/floor` as it is. It has no un-acked mode, so that one runs `unacked_loop.pyx`, written in its style.
"""

import sys
from pathlib import Path

from bench.cache import build_cython
from bench.child import PROJECT, Child
from bench.compare.work import UNACKED, Work

FLOOR = PROJECT.parent / "shared" / "floor"
LOOP = Path(__file__).with_name("unacked_loop.pyx")
BURST = 256


def unavailable() -> str | None:
    """Return why the bare loop cannot be measured here, or None."""
    return None if (FLOOR / "floor.pyx").is_file() else "there is no folder ../shared/floor beside the project"


def child(work: Work, *, quick: bool) -> Child:
    """Return the command that runs a work on the bare loop, building it first where it is not built."""
    units = work.quick_tuples if quick else work.tuples
    if work is UNACKED:
        folder = build_cython("unacked-loop", [LOOP], ["-m", "Cython.Build.Cythonize", "--inplace", LOOP.name])
        argv = (sys.executable, "-m", "bench.compare.unacked_run", str(units), str(BURST))
        return Child(argv, environment={"PYTHONPATH": str(folder)})
    sources = sorted(FLOOR.glob("*.py*"))
    folder = build_cython("floor", sources, ["setup.py", "-q", "build_ext", "--inplace"])
    return Child((sys.executable, "run.py", work.name, str(units), str(BURST)), cwd=folder)
