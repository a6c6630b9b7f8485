"""Builds the Cython modules of `_native`. The rest of the project is configured in pyproject.toml.

`STORMCELL_BUILD` takes a comma-separated list of:

- `debug`: no optimisation, C line numbers, C assertions
- `trace`: line tracing, for coverage and profilers (slow)
- `sanitize`: checks of addresses and of undefined behaviour at run time (slow; `make sanitize` needs it)
- `annotate`: an HTML page beside each .pyx that shows calls of Python
- `force`: compile everything again
- `skip`: compile nothing, for an editable install whose modules `build_ext --inplace` compiles afterwards
"""

import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, PlatformError

SWITCHES = {"debug", "trace", "sanitize", "annotate", "force", "skip"}
DIRECTIVES = {"language_level": 3, "freethreading_compatible": False}
WANTED_FLAGS = {
    "unix": ["-O2", "-g0", "-fno-strict-aliasing", "-Wno-unreachable-code"],
    "msvc": ["/O2"],
}
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
SANITIZE_FLAGS = {"unix": ["-O1", "-g", "-fno-strict-aliasing", "-fno-omit-frame-pointer", *SANITIZERS]}
DEBUG_FLAGS = {"unix": ["-O0", "-g3", "-UNDEBUG"], "msvc": ["/Od", "/Z7"]}


def switches() -> set[str]:
    """Return the switches of `STORMCELL_BUILD`. An unknown one ends the build."""
    chosen = {word.strip() for word in os.environ.get("STORMCELL_BUILD", "").split(",") if word.strip()}
    unknown = sorted(chosen - SWITCHES)
    if unknown:
        raise SystemExit(f"STORMCELL_BUILD: unknown switch {', '.join(unknown)} (known: {', '.join(sorted(SWITCHES))})")
    return chosen


class BuildNative(build_ext):
    """Compiles in parallel, with the wanted flags that the compiler accepts."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count() or 1
        self.force = self.force or "force" in switches()

    def run(self) -> None:
        require_compiler()
        super().run()

    def build_extensions(self) -> None:
        chosen = switches()
        table = SANITIZE_FLAGS if "sanitize" in chosen else DEBUG_FLAGS if "debug" in chosen else WANTED_FLAGS
        flags = self.accepted(table.get(self.compiler.compiler_type, []))
        for extension in self.extensions:
            extension.extra_compile_args = [*extension.extra_compile_args, *flags]
            extension.extra_link_args = [*extension.extra_link_args, *(flag for flag in flags if flag in SANITIZERS)]
        super().build_extensions()

    def accepted(self, flags: list[str]) -> list[str]:
        """Return the flags with which an empty program compiles."""
        strict = ["-Werror"] if self.compiler.compiler_type == "unix" else []
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "empty.c"
            source.write_text("int main(void) { return 0; }\n")

            def compiles(flag: str) -> bool:
                try:
                    self.compiler.compile([str(source)], output_dir=folder, extra_postargs=[*strict, flag])
                except CompileError:
                    return False
                return True

            return [flag for flag in flags if compiles(flag)]


def require_compiler() -> None:
    """Stop without a C compiler or the headers of Python, with the command that installs them."""
    if sys.platform == "win32":
        return  # setuptools finds MSVC in the registry, and reports if it is missing
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(command) is None:
        raise PlatformError(
            f"The core of stormcell has to be compiled, but no C compiler was found (looked for {command!r}). "
            "Install one (Debian: apt-get install gcc; Fedora: dnf install gcc; macOS: xcode-select --install) or point CC at yours."
        )
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise PlatformError(
            f"The headers of {sys.executable} are missing (Python.h). "
            f"Install them (Debian: apt-get install python{version}-dev; Fedora: dnf install python3-devel)."
        )


def extensions() -> list[Extension]:
    """Return one extension for each .pyx of `_native`, as C."""
    chosen = switches()
    if "skip" in chosen:
        return []
    directives = DIRECTIVES | ({"linetrace": True, "profile": True} if "trace" in chosen else {})
    macros: list[tuple[str, str | None]] = [("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1")] if "trace" in chosen else []
    modules = [Extension(f"_native.{path.stem}", [path.as_posix()], define_macros=macros) for path in sorted(Path("_native").glob("*.pyx"))]
    return cythonize(
        modules,
        compiler_directives=directives,
        build_dir="build/cython",
        annotate="annotate" in chosen,
        force=bool(chosen & {"force", "trace"}),
        nthreads=os.cpu_count() or 1,
    )


if __name__ == "__main__":  # the processes of `cythonize` import this file, since Python 3.14 on Linux too
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildNative})
