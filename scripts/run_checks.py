"""Runs the steps of `make check`, or those named as arguments, one per core at a time. Shows the output of the steps that fail.

Exit status: 0 if all steps passed, 1 if one failed, 2 for an unknown step.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import FrameType
from typing import Final, NoReturn

PYTHON: Final = sys.executable
PROJECT_TESTS: Final = (PYTHON, "-m", "pytest", "--quiet", "--no-header", "--tb=short", "-p", "no:cacheprovider")
STUBTEST: Final = ("mypy.stubtest", "_native", "--concise", "--ignore-missing-stub", "--ignore-disjoint-bases", "--ignore-unused-allowlist")


def project_tests(*names: str) -> Sequence[str]:
    """Return the command of some tests of the source."""
    return (*PROJECT_TESTS, *(f"tests/project/test_{name}.py" for name in names))


STEPS: Final = {
    "docs": project_tests("transcripts", "docs", "front_page", "site"),
    "types": (PYTHON, "-m", "mypy"),
    "guarantees": (PYTHON, "-m", "tests.guarantees", "--check"),
    "limits": project_tests("limits", "sources", "settings_tables"),
    "layers": project_tests("layers", "determinism"),
    "site": ("scripts/build-site", PYTHON),
    "examples": project_tests("examples"),
    "face": project_tests("face", "lazy_names"),
    "doctests": (*PROJECT_TESTS, "--doctest-modules", "engine", "spark_bridge"),
    "stubs": (PYTHON, "-m", *STUBTEST, "--allowlist", "scripts/stubtest-allowlist.txt"),
    "ruff": (PYTHON, "-m", "ruff", "check", "."),
}
"""The longest steps come first."""


class Steps:
    """Running and finished steps."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()

    def run(self, name: str) -> tuple[str, int, str, float]:
        """Return the name of a step, its exit status, its output and its seconds."""
        began = time.monotonic()
        process = subprocess.Popen(STEPS[name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self._running.add(process)
        output, _ = process.communicate()
        self._running.discard(process)
        return name, process.returncode, output, time.monotonic() - began

    def end(self, number: int, frame: FrameType | None) -> NoReturn:
        """End this program and the processes of all running steps after a signal."""
        for process in tuple(self._running):
            os.killpg(process.pid, signal.SIGTERM)
        os._exit(128 + number)


def main(chosen: Sequence[str]) -> int:
    """Run the steps, and return the exit status."""
    if unknown := set(chosen) - STEPS.keys():
        print(f"check: there is no step {', '.join(sorted(unknown))}; the steps are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    steps, failed = Steps(), list[str]()
    signal.signal(signal.SIGINT, steps.end)
    signal.signal(signal.SIGTERM, steps.end)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(steps.run, name) for name in STEPS if not chosen or name in chosen]
        for ended in as_completed(running):
            name, status, output, secs = ended.result()
            print(f"{'FAILED' if status else 'ok':7} {name:11} {secs:.0f} s", flush=True)
            if status:
                failed.append(name)
                print("".join(f"    {line}\n" for line in output.splitlines()), end="", flush=True)
    if failed:
        print(f"make check: failed: {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
