"""The chart of the README shows the figures of docs/BENCHMARKS.md."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import cli
from bench.chart import BARS, CHART, FIGURES, FOLDER, SpeedFigures, speed_svg, update_chart
from bench.registry import WORKS
from bench.results import Pairing, Ratio, Results, Spread
from tests.project.pages import ROOT

BENCHMARKS = ROOT / "docs" / "BENCHMARKS.md"
SVG = "{http://www.w3.org/2000/svg}"
MACHINE = {"cores": "2", "cpu": "a <fast> one", "python": "CPython 3.11.7"}


def rows(text: str, columns: int) -> Iterator[list[str]]:
    """Cells of the rows of all tables that have so many columns."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| ") and len(cells) == columns:
            yield cells


def measured(own_ns: float, peer_ns: float) -> Results:
    """Results of a report that has measured every bar, each with these medians."""
    own, peer = Spread(own_ns, own_ns, own_ns, 5), Spread(peer_ns, peer_ns, peer_ns, 5)
    ratio = Ratio(own_ns / peer_ns, Spread(own_ns / peer_ns, 0.9, 1.1, 5))
    return Results(pairings=tuple(Pairing(work, "tuple", name, "a note", own, peer, ratio) for work, name in BARS))


def bars(svg: str, kind: str) -> list[float]:
    """Lengths of the bars of a kind, from top to bottom."""
    return [float(rect.get("width", 0)) for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect") if rect.get("class") == kind]


def test_the_chart_is_drawn_from_the_stored_figures() -> None:
    """After a change of the drawing: python -m bench.chart."""
    assert speed_svg(SpeedFigures.read(FOLDER / FIGURES)) == (FOLDER / CHART).read_text(encoding="utf-8")


def test_the_stored_figures_are_those_of_the_tables() -> None:
    text = BENCHMARKS.read_text(encoding="utf-8")
    (peers,) = [cells[1:] for cells in rows(text, 7) if "bare-loop" in cells]
    times = {
        (cells[0].split(" ")[0], peer): cell.replace(",", "")
        for cells in rows(text, 7)
        for peer, cell in zip(peers, cells[1:], strict=True)
    }
    stored = SpeedFigures.read(FOLDER / FIGURES)
    assert not stored.missing()
    assert not [bar for bar in stored.bars if f"{bar.own_ns:.0f} / {bar.peer_ns:.0f}" != times[bar.work, bar.peer]]


def test_every_bar_has_a_benchmark() -> None:
    assert set(BARS) <= {(work.name, peer.name) for work in WORKS if work.group == "compare" for peer in work.peers}


def test_a_report_stores_its_figures_and_draws_them(tmp_path: Path) -> None:
    said = update_chart(measured(own_ns=400, peer_ns=800), MACHINE, "2026-11-21", tmp_path)
    assert said == f"{tmp_path / CHART} is written"
    figures = SpeedFigures.read(tmp_path / FIGURES)
    assert [(bar.work, bar.peer) for bar in figures.bars] == list(BARS)
    assert {(bar.own_ns, bar.peer_ns) for bar in figures.bars} == {(400, 800)}
    chart = (tmp_path / CHART).read_text(encoding="utf-8")
    assert chart == speed_svg(figures)
    assert {round(2 * length) for length in bars(chart, "peer")} == {round(length) for length in bars(chart, "own")}
    assert "2026-11-21, 2 cores (a &lt;fast&gt; one), CPython 3.11.7" in chart


@pytest.mark.parametrize(("words", "drawn"), [(["report"], True), (["report", "compare", "--quick"], False), (["report", "kafka"], False)])
def test_the_command_draws_what_it_measured(words: list[str], drawn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "measure_group", lambda group, *_: measured(400, 800) if group == "compare" else Results())
    monkeypatch.setattr(cli, "update_chart", partial(update_chart, folder=tmp_path))
    assert cli.main(words) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ([FIGURES, CHART] if drawn else [])


def test_a_report_without_a_peer_leaves_the_chart_alone(tmp_path: Path) -> None:
    results = measured(own_ns=400, peer_ns=800)
    without_storm = replace(results, pairings=tuple(one for one in results.pairings if one.peer != "storm"))
    said = update_chart(without_storm, MACHINE, "2026-11-21", tmp_path)
    assert said.startswith("speed.svg is unchanged")
    assert "word-count on storm" in said
    assert not list(tmp_path.iterdir())
