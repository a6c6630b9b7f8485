"""Build peers in the user's cache folder, outside the checkout (Cython extensions, jars by Maven, classes by javac)."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

BUILD_SECS = 300


def build_cython(name: str, sources: list[Path], arguments: list[str]) -> Path:
    """Copy sources into the cache and build them there with this interpreter. Return the folder.

    A folder that was built from the same sources with the same interpreter is used again.
    """
    tag = sysconfig.get_config_var("SOABI") or sys.implementation.cache_tag
    folder = _cached(f"{name}-{_fingerprint(sources)}-{tag}")
    if not any(folder.glob("*.so")) and not any(folder.glob("*.pyd")):
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            shutil.copyfile(source, folder / source.name)
        _run_tool([sys.executable, *arguments], folder)
    return folder


def build_java(pom: Path, source: Path) -> str:
    """Fetch the jars of a pom and compile one source. Return the class path."""
    jars = _cached(f"{pom.parent.name}-jars-{_fingerprint([pom])}")
    if not jars.is_dir():
        loading = jars.with_suffix(".loading")
        shutil.rmtree(loading, ignore_errors=True)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={loading}", "-DincludeScope=runtime"]
        _run_tool(["mvn", "-q", "-B", "-f", str(pom), *goal], pom.parent)
        loading.rename(jars)
    classes = _cached(f"{source.stem}-{_fingerprint([pom, source])}")
    if not (classes / f"{source.stem}.class").is_file():
        classes.mkdir(parents=True, exist_ok=True)
        _run_tool(["javac", "-cp", f"{jars}/*", "-d", str(classes), str(source)], source.parent)
    return f"{classes}:{jars}/*"


def become_jvm(folder: Path, class_path: str, main_class: str, *arguments: object, options: Iterable[str] = ()) -> None:
    """Replace this process by a JVM that runs a class in a folder."""
    os.chdir(folder)
    settings = ("-Xmx2g", f"-Djava.io.tmpdir={folder}", "-Dlog4j2.level=ERROR", *options)
    os.execvp("java", ["java", *settings, "-cp", class_path, main_class, *map(str, arguments)])


def scratch_folder(name: str) -> Path:
    """Return an empty folder for one run."""
    folder = _cached(f"{name}-scratch")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _cached(name: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stormcell" / "bench" / name


def _fingerprint(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _run_tool(argv: list[str], cwd: Path) -> None:
    """Run a build tool. End this process with the tool's output if it fails."""
    try:
        subprocess.run(argv, cwd=cwd, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=BUILD_SECS)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{' '.join(argv)} failed in {cwd}:\n{(error.stderr or error.stdout).strip()[-2000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"{' '.join(argv)} was not done after {BUILD_SECS} s in {cwd}.") from error
