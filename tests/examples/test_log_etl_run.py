"""examples/log_etl runs with real Spark. Its tables and its report equal a plain computation."""

import json
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.examples.log_etl import plain, tables
from tests.project.sources import ROOT
from tests.servers import spark_programs
from tests.servers.required import required

pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(300),
]  # Spark takes half a minute to start on a quiet machine, and minutes on a busy one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output folder of a run."""
    required(spark_programs.why_not())
    folder = tmp_path_factory.mktemp("run") / "log-etl"
    command = [sys.executable, str(ROOT / "examples" / "log_etl"), "--lines", "8000", "--batch-lines", "100", "--folder", str(folder)]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}  # the installed pyspark, as for a user
    done = subprocess.run(command, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "Every row equals a plain computation over the same lines."
    return folder


@pytest.mark.guarantee("SP-1")
def test_every_table_equals_the_plain_computation(folder: Path) -> None:
    made = tables.read(folder)
    assert made == plain.compute(folder / "logs")
    assert made.duplicates > made.duplicates_in_batches > 0, "the engine and Spark must each drop some"


class Page(HTMLParser):
    """The external links of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.places: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.places += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in ("meta", "path", "line", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "line", "rect"):
            assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        self.text += text


def test_the_report_is_self_contained_and_has_the_numbers(folder: Path) -> None:
    html = (folder / "report.html").read_text()
    page, made = Page(html), tables.read(folder)
    assert not page.places
    assert "url(" not in html
    assert "@import" not in html
    assert not page.open, "an element is not closed"
    for number in (made.lines, made.totals[0], len(made.sessions), made.rows):
        assert f"{number:,}" in page.text
    assert "equal a plain computation" in page.text


def test_a_difference_is_reported(folder: Path, tmp_path: Path) -> None:
    from tests.examples.log_etl import report

    made = tables.read(folder)
    other = plain.Tables(**(vars(made) | {"lines": made.lines + 1, "traffic": dict(list(made.traffic.items())[1:])}))
    faults = made.differences(other)
    assert len(faults) == 2
    report.write(tmp_path / "report.html", made, faults=faults, footer="")
    assert 'class="verdict bad"' in (tmp_path / "report.html").read_text()


def test_only_files_in_the_log_of_a_delta_table_count(folder: Path, tmp_path: Path) -> None:
    files = list((folder / "tables" / "pages").rglob("*.parquet"))
    table = tmp_path / "tables" / "pages"
    (table / "_delta_log").mkdir(parents=True)
    for number, file in enumerate(files):
        shutil.copy(file, table / f"{number}.parquet")
        shutil.copy(file, table / f"torn-{number}.parquet")
        (table / "_delta_log" / f"{number:020}.json").write_text(json.dumps({"add": {"path": f"{number}.parquet"}}) + "\n")
    assert tables.table(tmp_path, "pages") == tables.table(folder, "pages")


def test_duplicate_rows_are_reported(folder: Path, tmp_path: Path) -> None:
    for copy in "ab":
        shutil.copytree(folder / "tables" / "pages", tmp_path / "tables" / "pages" / copy)
    with pytest.raises(SystemExit, match="are duplicates"):
        tables.table(tmp_path, "pages")


def test_a_foreign_folder_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "log_etl"), "--folder", str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "name another folder" in done.stderr
    assert (tmp_path / "precious").exists()
