"""Writes the archive with which executors run topologies: this engine, its compiled part, and its dependencies.

Executors then need only a Python of the same version. The files are those of the running environment, so no compiler and no network is
needed. The same environment always gives the same archive.
"""

import gzip
import importlib.metadata
import importlib.util
import io
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import UsageError

DISTRIBUTION: Final = "stormcell"
PACKAGES: Final = ("_native", "engine", "spark_bridge")
"""Packages of this distribution. An editable installation does not list their files."""
SUFFIXES: Final = (".tar.gz", ".tgz")
"""Spark unpacks archives with these suffixes."""
NOT_PACKED: Final = frozenset({"pyspark", "py4j"})
"""Spark gives them to its Python workers itself."""
LONG_AGO: Final = 315_532_800
"""Time of each file, the first day of 1980."""
_SOURCES: Final = (".c", ".pxd", ".pyc", ".pyi", ".pyx")
_OF_THE_INSTALLATION: Final = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
_REQUIREMENT: Final = re.compile(r"\s*(?P<name>[\w.-]+)\s*(?:\[(?P<extras>[^\]]*)\])?[^;]*(?:;(?P<marker>.*))?")
_EXTRA: Final = re.compile(r"""\bextra\s*==\s*["']([^"']+)["']""")


class _Requirement(NamedTuple):
    name: str
    extras: frozenset[str]
    is_conditional: bool
    """True if it depends on the system or on the version of Python."""


def write_engine_archive(path: str | os.PathLike[str], extras: Iterable[str] = ()) -> str:
    """Write the archive and return its path, for `archives=[f"{path}#environment"]` of SparkConfig.

    extras: of this distribution, such as `kafka`. Raises UsageError for an unknown extra, and for a package without files.

    >>> write_engine_archive("/tmp/env.tar.gz", ["kafka"])              # doctest: +SKIP
    """
    target = os.fspath(path)
    if not target.endswith(SUFFIXES):
        raise UsageError(f"{target} is no name for the archive", hint=f"Let it end in {' or '.join(SUFFIXES)}, which Spark unpacks.")
    files = dict(_own_files())
    for distribution in _needed(frozenset(map(_normal, extras))):
        files.update(_files_of(distribution))
    with open(target, "wb") as output, gzip.GzipFile("", "wb", 6, output, LONG_AGO) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(files):
                content = files[name].read_bytes()
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime, entry.mode = len(content), LONG_AGO, 0o644
                archive.addfile(entry, io.BytesIO(content))
    return target


def _own_files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        folder = Path(found.origin).parent
        for file in folder.rglob("*"):
            if file.is_file() and file.suffix not in _SOURCES:
                yield f"{package}/{file.relative_to(folder).as_posix()}", file


def _needed(extras: frozenset[str]) -> list[Distribution]:
    """Return the distributions that this one needs with these extras, and all that they need."""
    own = _distribution(DISTRIBUTION)
    known = {_normal(extra) for extra in own.metadata.get_all("Provides-Extra") or ()}
    if extras - known:
        raise UsageError(f"there is no extra {min(extras - known)!r}", hint=f"The extras are {', '.join(sorted(known))}.")
    wanted: dict[str, frozenset[str]] = {}
    waiting = [(own, extras)]
    while waiting:
        distribution, chosen = waiting.pop()
        for required in _requirements(distribution, chosen):
            before = wanted.get(required.name)
            if required.name in NOT_PACKED or (before is not None and required.extras <= before):
                continue
            try:
                found = own if required.name == DISTRIBUTION else _distribution(required.name)
            except UsageError:
                if required.is_conditional:  # of another system or another Python
                    continue
                raise
            wanted[required.name] = required.extras | (before or frozenset())
            waiting.append((found, wanted[required.name]))
    return [_distribution(name) for name in sorted(wanted) if name != DISTRIBUTION]


def _requirements(distribution: Distribution, extras: frozenset[str]) -> Iterator[_Requirement]:
    """Yield the requirements of a distribution with these extras. Conditions other than extras were judged when it was installed."""
    for text in distribution.requires or ():
        found = _REQUIREMENT.match(text)
        assert found is not None
        marker = found["marker"] or ""
        of_extras = {_normal(extra) for extra in _EXTRA.findall(marker)}
        if not of_extras or of_extras & extras:
            names = frozenset(_normal(extra) for extra in (found["extras"] or "").split(",") if extra.strip())
            yield _Requirement(_normal(found["name"]), names, bool(_EXTRA.sub("", marker).strip()))


def _files_of(distribution: Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files of an installed distribution by their names below site-packages. Programs and compiled Python are left out."""
    name, count = distribution.metadata["Name"], 0
    for file in distribution.files or ():
        if ".." in file.parts or file.is_absolute() or file.suffix in (".pyc", ".pth") or file.name in _OF_THE_INSTALLATION:
            continue
        count += not file.parts[0].endswith(".dist-info") and not file.name.startswith("__editable__")
        yield file.as_posix(), Path(str(file.locate()))
    if not count:
        text = f"the package {name!r} does not list its files, because it is an editable installation or a package of the system"
        raise UsageError(text, hint=f"Install it from a wheel: pip install --force-reinstall {name}.")


def _distribution(name: str) -> Distribution:
    try:
        return importlib.metadata.distribution(name)
    except PackageNotFoundError as error:
        raise UsageError(f"the package {name!r} is needed, but is not installed", hint=f"pip install {name}") from error


def _normal(name: str) -> str:
    """Return the name of a package or an extra in its normal form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).strip().lower()
