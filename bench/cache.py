"""Where peers are built and kept: outside the checkout, in the user's cache folder."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

BUILD_SECS = 300


class BuildFailed(Exception):
    """A peer could not be built or downloaded; the text holds what the tool said."""


def cache_folder() -> Path:
    """Return `stormcell/bench` in the user's cache folder, which need not exist."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stormcell" / "bench"


def fingerprint(files: Iterable[Path]) -> str:
    """Return a short name for the contents of some files."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def build_cython(name: str, sources: list[Path], arguments: list[str]) -> Path:
    """Copy sources into the cache, run this interpreter there with arguments that build them in place, return that folder.

    What was built of the same sources, by the same interpreter, is used again.
    """
    tag = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    folder = cache_folder() / f"{name}-{fingerprint(sources)}-{tag}"
    if any(folder.glob("*.so")) or any(folder.glob("*.pyd")):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        shutil.copyfile(source, folder / source.name)
    run_tool([sys.executable, *arguments], folder)
    return folder


def run_tool(argv: list[str], cwd: Path) -> None:
    """Run a build tool to its end; raises `BuildFailed` with what it said."""
    try:
        subprocess.run(argv, cwd=cwd, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=BUILD_SECS)
    except subprocess.CalledProcessError as error:
        raise BuildFailed(f"{' '.join(argv)} failed in {cwd}:\n{(error.stderr or error.stdout).strip()[-2000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise BuildFailed(f"{' '.join(argv)} was not done after {BUILD_SECS} s in {cwd}") from error
