"""Type checkers accept good flows, and refuse bad ones at the right line with a text that helps."""

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "typing"
ROOT = Path(__file__).parents[2]
EXPECTED = re.compile(r"# error(?:\[(?P<checker>\w+)\])?: (?P<texts>.+)$")
"""`# error: a|b` is an error whose text has a or b. `# error[pyright]: a` is one that only this checker finds."""
REPORTED = {
    "mypy": re.compile(r"^(?P<file>.+?):(?P<line>\d+): error: (?P<text>.+)$"),
    "pyright": re.compile(r"^\s*(?P<file>.+?):(?P<line>\d+):\d+ - error: (?P<text>.+)$"),
}


def run_checker(name: str) -> dict[tuple[str, int], str]:
    """Return the texts of all errors by file and line."""
    options = {"mypy": ["--strict", "--no-error-summary"], "pyright": ["--pythonpath", sys.executable]}[name]
    files = sorted(str(path.relative_to(ROOT)) for path in PROGRAMS.glob("*_*.py"))
    done = subprocess.run([sys.executable, "-m", name, *options, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    found: dict[tuple[str, int], str] = {}
    for line in done.stdout.splitlines():
        match = REPORTED[name].match(line)
        if match is not None and Path(match["file"]).parent.name == PROGRAMS.name:
            place = Path(match["file"]).name, int(match["line"])
            found[place] = f"{found.get(place, '')} {match['text']}".strip()
    assert found or done.returncode == 0, done.stdout + done.stderr
    return found


def expected(checker: str) -> Iterator[tuple[str, int, list[str]]]:
    for path in sorted(PROGRAMS.glob("bad_*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = EXPECTED.search(line)
            if match is not None and match["checker"] in (None, checker):
                yield path.name, number, match["texts"].split("|")


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_checkers_accept_good_flows_and_refuse_bad_ones(checker: str) -> None:
    if checker == "pyright" and (importlib.util.find_spec("pyright") is None or shutil.which("node") is None):
        pytest.skip("pyright needs the package pyright, and node")
    found = run_checker(checker)
    wanted = {(name, line): texts for name, line, texts in expected(checker)}
    assert len(wanted) > 15
    assert found.keys() == wanted.keys(), {place: found.get(place) for place in found.keys() ^ wanted.keys()}
    for place, texts in wanted.items():
        assert any(text.strip() in found[place] for text in texts), (place, texts, found[place])
