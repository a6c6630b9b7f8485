"""The programs of PostgreSQL, fetched by Maven or found on this machine. They also run if the tests run as root."""

import lzma
import os
import platform
import pwd
import shutil
import subprocess
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Final

from tests.servers.cache import cache_folder, made_once
from tests.servers.maven import FetchFailed, jar_folder, jars

NAME: Final = "postgres"
VERSION: Final = "17.6.0"
ARTIFACTS: Final = {
    ("Linux", "x86_64"): "linux-amd64",
    ("Linux", "aarch64"): "linux-arm64v8",
    ("Darwin", "x86_64"): "darwin-amd64",
    ("Darwin", "arm64"): "darwin-arm64v8",
}
DEBIAN: Final = Path("/usr/lib/postgresql")
OPEN_CACHE: Final = Path("/var/cache/stormcell/servers")
"""Folder for the programs if root runs the tests, because other users cannot read root's cache folder."""
USER: Final = "nobody"
TOOL_SECS: Final = 60


class NoPrograms(Exception):
    """PostgreSQL is not available. The text says why, and what to do."""


@cache
def programs() -> Path:
    """Return the folder of initdb and postgres. Fetches them the first time. Raises NoPrograms."""
    reasons = [reason] if (reason := _why_no_user()) else []
    for found in () if reasons else (_fetched, _installed):
        try:
            return _running(found())
        except NoPrograms as no:
            reasons.append(str(no))
    raise NoPrograms("; ".join(reasons))


def unprivileged() -> list[str]:
    """Return the command prefix that drops root, because PostgreSQL does not run as root. Empty for other users.

    Other users cannot read the folders of root's tests. The capability opens these folders.
    """
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam(USER)
    ids = ("--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups")
    return ["setpriv", *ids, "--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"]


def _why_no_user() -> str | None:
    if os.geteuid() != 0:
        return None
    if shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and setpriv (util-linux) is not installed: run the tests as another user"
    if said := _failure([*unprivileged(), "true"]):
        return f"PostgreSQL does not run as root, and root may not act as {USER} here: {said}"
    return None


def _running(folder: Path) -> Path:
    """Return the folder if its programs run on this machine, else None."""
    if said := _failure([*unprivileged(), str(folder / "postgres"), "--version"]):
        raise NoPrograms(f"{folder / 'postgres'} does not run here: {said}")
    return folder


def _failure(command: list[str]) -> str | None:
    try:
        said = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=TOOL_SECS, check=False)
    except OSError as error:
        return str(error)
    return None if said.returncode == 0 else (said.stderr + said.stdout).strip() or f"status {said.returncode}"


def _installed() -> Path:
    """Return the programs on the path. Debian does not put them on the path, so also look in the newest folder."""
    if on_path := shutil.which("postgres"):
        return Path(on_path).resolve().parent
    versions = [folder for folder in DEBIAN.glob("*/bin") if (folder / "postgres").exists()]
    if not versions:
        raise NoPrograms(f"postgres is neither on the path nor in {DEBIAN}")
    return max(versions, key=lambda folder: float(folder.parent.name))


def _fetched() -> Path:
    machine = (platform.system(), platform.machine())
    if machine not in ARTIFACTS:
        raise NoPrograms(f"Maven has no PostgreSQL for {' '.join(machine)}")
    coordinates = (f"io.zonky.test.postgres:embedded-postgres-binaries-{ARTIFACTS[machine]}:{VERSION}",)
    if shutil.which("mvn") is None and not jar_folder(NAME, coordinates).is_dir():
        raise NoPrograms("mvn, which fetches PostgreSQL, is not installed: scripts/install-system-packages maven")
    try:
        (jar,) = jars(NAME, coordinates)
        place = OPEN_CACHE if os.geteuid() == 0 else cache_folder()
        return made_once(place / f"{NAME}-{VERSION}", lambda folder: _unpack(jar, folder)) / "bin"
    except (FetchFailed, OSError, lzma.LZMAError) as error:
        raise NoPrograms(str(error)) from error


def _unpack(jar: Path, folder: Path) -> None:
    """Unpack the jar. It contains one archive with the programs and their libraries."""
    with zipfile.ZipFile(jar) as outer:
        (inner,) = (name for name in outer.namelist() if name.endswith(".txz"))
        with outer.open(inner) as file, tarfile.open(fileobj=file, mode="r|xz") as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            archive.extractall(folder)
