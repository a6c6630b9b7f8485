"""Table of the items of docs/SEMANTICS.md with the tests that prove them: `python -m tests.guarantees`.

With `--check` it fails if an item of a built group has no test in `make test`, or if a test names an unknown item.
"""

import argparse
import contextlib
import io
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SEMANTICS = ROOT / "docs" / "SEMANTICS.md"


def promises(text: str) -> list[str]:
    """Numbered items of the page, in order."""
    return re.findall(r"^- \*\*([A-Z]+-\d+)\*\*", text, re.MULTILINE)


def built_groups(text: str) -> set[str]:
    """Groups that the line `Built so far: …` names."""
    found = re.search(r"^Built so far: ([A-Z, ]+)\.", text, re.MULTILINE)
    if found is None:
        raise SystemExit(f"{SEMANTICS}: no line 'Built so far: GROUP, GROUP.'")
    return set(found[1].split(", "))


class Collected:
    """A pytest plugin that records the marks of all collected tests and runs none."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = defaultdict(list)
        self.in_make_test: set[str] = set()
        """Items with a test in `make test`; only `make test-all` and `make test-soak` prove the others."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Record each test under its items. All parameters of a test count as one."""
        for item in items:
            if item.get_closest_marker("skip") is not None:
                continue
            name = re.sub(r"\[.*", "", item.nodeid, flags=re.DOTALL)
            for mark in item.iter_markers("guarantee"):
                if all(item.get_closest_marker(left_out) is None for left_out in ("deep", "soak", "alone")):
                    self.in_make_test.update(mark.args)
                for promise in mark.args:
                    if name not in self.tests[promise]:
                        self.tests[promise].append(name)


def collect() -> Collected:
    """Collect the tests of each item. Ends the process with pytest's output if a test file cannot be imported."""
    collected = Collected()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = pytest.main(["--collect-only", "--quiet", "-p", "no:cacheprovider", str(ROOT / "tests")], plugins=[collected])
    if status != pytest.ExitCode.OK:
        print(output.getvalue())
        raise SystemExit(1)
    return collected


def table(items: Iterable[str], tests: Mapping[str, list[str]], built: set[str]) -> str:
    """Return a block for each item: its tests, or the reason why there is none yet."""
    lines = []
    for item in items:
        group_built = item.split("-")[0] in built
        names = tests.get(item) or ["NO TEST" if group_built else "not built yet"]
        lines += [f"{item if number == 0 else '':8}{name}" for number, name in enumerate(names)]
    return "\n".join(lines)


def faults(items: Iterable[str], collected: Collected, built: set[str]) -> list[str]:
    """Return the faults for `--check`."""
    items, tests = list(items), collected.tests
    due = [item for item in items if item.split("-")[0] in built]
    unproven = [f"{item}: no test is marked with it" for item in due if not tests.get(item)]
    deep_only = tests.keys() - collected.in_make_test
    too_deep = [f"{item}: all of its tests are deep, and `make test` must prove each item" for item in due if item in deep_only]
    unknown = [f"{item}: not in docs/SEMANTICS.md, named by {names[0]}" for item, names in tests.items() if item not in items]
    return unproven + too_deep + unknown


def main() -> int:
    """Print the table or the faults; status 1 if there are faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.guarantees", description=__doc__)
    parser.add_argument("--check", action="store_true", help="print only what is wrong, and fail on it")
    arguments = parser.parse_args()
    text = SEMANTICS.read_text(encoding="utf-8")
    items, built, collected = promises(text), built_groups(text), collect()
    if not arguments.check:
        print(table(items, collected.tests, built))
        return 0
    found = faults(items, collected, built)
    print("\n".join(found) or f"{len([item for item in items if collected.tests.get(item)])} items are proven by tests")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
