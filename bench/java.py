"""Peers that run on a JVM: jars by Maven, classes by javac, both into the cache folder and used again from there."""

import shutil
from pathlib import Path

from bench.cache import cache_folder, fingerprint, run_tool

TOOLS = ("java", "javac", "mvn")


def unavailable() -> str | None:
    """Return why no such peer can be measured here, or None."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"not on the path: {', '.join(missing)} (Java 17 and Maven are needed)" if missing else None


def class_path(name: str, pom: Path, source: Path) -> str:
    """Return the class path of one Java source and of what its pom asks for, fetching and compiling first where that is not done."""
    jars = _jars(name, pom)
    return f"{_classes(name, pom, source, jars)}:{jars}/*"


def scratch_folder(name: str) -> Path:
    """Return an empty folder for one run."""
    folder = cache_folder() / f"{name}-scratch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _jars(name: str, pom: Path) -> Path:
    folder = cache_folder() / f"{name}-jars-{fingerprint([pom])}"
    if not folder.is_dir():
        loading = folder.with_suffix(".loading")
        shutil.rmtree(loading, ignore_errors=True)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={loading}", "-DincludeScope=runtime"]
        run_tool(["mvn", "-q", "-B", "-f", str(pom), *goal], pom.parent)
        loading.rename(folder)
    return folder


def _classes(name: str, pom: Path, source: Path, jars: Path) -> Path:
    folder = cache_folder() / f"{name}-classes-{fingerprint([pom, source])}"
    if not (folder / f"{source.stem}.class").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        run_tool(["javac", "-cp", f"{jars}/*", "-d", str(folder), str(source)], source.parent)
    return folder
