"""The registry of benchmarks names functions that exist, targets judge figures that are measured, and pairs alternate."""

import ast
import re
from collections.abc import Mapping, Sequence

import pytest

from bench import needs, rounds
from bench.cli import choose, main
from bench.needs import NEEDS
from bench.process import Reading, RunFailed, call_in_process
from bench.registry import GROUPS, REPORTED, WORKS
from bench.results import Results
from bench.rounds import Rounds, measure_alone, measure_beside
from bench.sweeps import measure_sweep
from bench.targets import TARGETS
from bench.work import Figure, Peer, Run, Sweep, Work
from tests.project.sources import ROOT

NS = Figure("ns", "time", "ns")


def all_runs(work: Work) -> list[Run]:
    swept = [run for points in work.sweep.ways.values() for run in points.values()] if work.sweep else []
    return [work.run, *(peer.run for peer in work.peers), *([work.without] if work.without else []), *swept]


RUNS = [run for work in WORKS for run in all_runs(work)]


def parameters(function: str) -> tuple[set[str], set[str]]:
    """Return all parameters and the required ones of a function, read from its source: a peer's packages may be missing."""
    module, _, name = function.partition(":")
    tree = ast.parse((ROOT / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8"))
    (found,) = [node.args for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name]
    names = [argument.arg for argument in found.args]
    keywords = {argument.arg: default for argument, default in zip(found.kwonlyargs, found.kw_defaults, strict=True)}
    required = {*names[: len(names) - len(found.defaults)], *(name for name, default in keywords.items() if default is None)}
    return {*names, *keywords}, required


@pytest.mark.parametrize("function", sorted({run.function for run in RUNS}))
def test_every_run_calls_a_function_with_its_arguments(function: str) -> None:
    allowed, required = parameters(function)
    for run in RUNS:
        if run.function == function:
            assert required <= run.arguments.keys() <= allowed
            assert run.quick.keys() <= run.arguments.keys()


def test_every_preparation_takes_records() -> None:
    prepared = {run.prepare for run in RUNS if run.prepare}
    assert [parameters(function)[0] for function in prepared] == [{"records"}] * len(prepared)
    assert all("records" in run.arguments for run in RUNS if run.prepare)


def test_names_are_unique_and_groups_are_commands() -> None:
    names = [(work.group, work.name) for work in WORKS]
    assert len(set(names)) == len(names)
    assert {work.group for work in WORKS} == GROUPS.keys() >= set(REPORTED)
    for group in GROUPS:
        works = {work.name for work in WORKS if work.group == group}
        assert not works & {peer.name for work in WORKS if work.group == group for peer in work.peers}


def test_every_need_is_known() -> None:
    named = {need for work in WORKS for need in (*work.needs, *(need for peer in work.peers for need in peer.needs))}
    assert named <= NEEDS.keys()


def figure_keys(work: Work) -> set[tuple[str, str]]:
    """Return the names and keys of the figures that a work gives."""
    own = f"{work.name} {work.own_name}" if work.sweep else work.name
    keys = {(own, figure.key) for figure in work.figures}
    if work.sweep:
        keys |= {(work.name, f"{way}_{figure.key}") for way in work.sweep.ways for figure in work.sweep.compared}
    return keys


def test_every_target_judges_a_registered_figure_or_pair() -> None:
    figures = {key for work in WORKS for key in figure_keys(work)}
    pairs = {(work.name, peer.name) for work in WORKS for peer in work.peers}
    for target in TARGETS:
        assert (target.work, target.source) in (figures if target.kind in ("figure", "rate") else pairs), target


class Machine:
    """Answers runs with numbers, and notes their order."""

    def __init__(self, readings: Mapping[str, Sequence[Reading]]) -> None:
        self.left = {name: list(each) for name, each in readings.items()}
        self.order: list[str] = []

    def take_reading(self, run: Run, *, quick: bool = False) -> Reading:
        self.order.append(run.function)
        return self.left[run.function].pop(0)


@pytest.fixture
def said() -> list[str]:
    return []


def machine_of(monkeypatch: pytest.MonkeyPatch, **readings: Sequence[Reading]) -> Machine:
    machine = Machine(readings)
    monkeypatch.setattr(rounds, "take_reading", machine.take_reading)
    return machine


def test_a_pair_alternates_and_its_ratio_is_of_medians(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    machine = machine_of(monkeypatch, own=[{"ns": 1.0}, {"ns": 4.0}, {"ns": 2.0}], other=[{"ns": 4.0}, {"ns": 4.0}, {"ns": 8.0}])
    work = Work("compare", "work", "", Run("own"), peers=(Peer("peer", "a note", Run("other")),))
    (pairing,) = measure_beside(work, work.peers, Rounds(3, said.append)).pairings
    assert machine.order == ["own", "other"] * 3
    assert pairing.time.of_medians == 0.5
    assert (pairing.time.pairwise.low, pairing.time.pairwise.high) == (0.25, 1.0)
    assert pairing.speed == 2.0


def test_a_share_is_the_difference_of_neighbouring_runs(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    machine = machine_of(monkeypatch, own=[{"ns": 30.0}], less=[{"ns": 20.0}], other=[{"ns": 5.0}])
    work = Work("spark", "work", "", Run("own"), peers=(Peer("peer", "a note", Run("other")),), without=Run("less"))
    whole, share = measure_beside(work, work.peers, Rounds(1, said.append)).pairings
    assert machine.order == ["own", "less", "other"]
    assert (whole.work, whole.own_ns.median, share.work, share.own_ns.median) == ("work", 30.0, "work-share", 10.0)


def test_a_work_alone_shows_its_figures(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    machine_of(monkeypatch, own=[{"ns": 3.0}, {"ns": 1.0}])
    work = Work("macro", "work", "", Run("own"), (NS, Figure("absent", "not in the reading", "s")))
    (measured,) = measure_alone(work, Rounds(2, said.append)).measured
    assert [(figure.key, values.median, values.runs) for figure, values in measured.figures] == [("ns", 2.0, 2)]


def test_a_sweep_compares_with_the_least_p99_of_the_fast_points(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    def point(rate: float, p99: float) -> Sequence[Reading]:
        return [{"per_second": rate, "p99_ms": p99}]

    machine_of(monkeypatch, own=point(50, 1), slow=point(10, 1), fast=point(100, 9), better=point(96, 2))
    sweep = Sweep({"way": {name: Run(name) for name in ("slow", "fast", "better")}}, (Figure("per_second", "rate", "/s"),), rate_loss=0.05)
    *_, ratios = measure_sweep(Work("flow", "work", "", Run("own"), sweep=sweep), sweep, Rounds(1, said.append)).measured
    assert [(figure.key, figure.label, values.median) for figure, values in ratios.figures] == [
        ("way_per_second", "rate, to way better", 50 / 96)
    ]


def test_a_peer_that_is_not_installed_is_said_once_and_is_no_failure(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    monkeypatch.setitem(needs.NEEDS, "java", lambda: "no java here")
    peer, turns = Peer("peer", "a note", Run("other"), ("java",)), Rounds(1, said.append)
    results = sum((measure_beside(Work("compare", name, "", Run("own")), [peer], turns) for name in "ab"), Results())
    assert said == ["peer: skipped: no java here"]
    assert [(missing.name, missing.absent_peer) for missing in results.missing] == [("peer", True)]


def test_a_run_that_fails_is_a_failure_of_its_pair(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    def fail(run: Run, *, quick: bool = False) -> Reading:
        raise RunFailed("exit status 1")

    monkeypatch.setattr(rounds, "take_reading", fail)
    work = Work("compare", "work", "", Run("own"), peers=(Peer("peer", "a note", Run("other")),))
    (missing,) = measure_beside(work, work.peers, Rounds(1, said.append)).missing
    assert (missing.name, missing.reason, missing.absent_peer) == ("work on peer", "exit status 1", False)


WORD_COUNT = Work("g", "word-count", "", Run("own"), peers=(Peer("storm", "", Run("s")), Peer("bytewax", "", Run("b"))))
SINK = Work("g", "sink", "", Run("own"), peers=(Peer("producer", "", Run("p")),))
HIDDEN = Work("g", "hidden", "", Run("own"), only_by_name=True)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ([], {"word-count": ["storm", "bytewax"], "sink": ["producer"]}),
        (["word-count"], {"word-count": ["storm", "bytewax"]}),
        (["word-count", "storm"], {"word-count": ["storm"]}),
        (["storm"], {"word-count": ["storm"]}),
        (["word-count", "producer"], {"word-count": ["storm", "bytewax"], "sink": ["producer"]}),
        (["hidden"], {"hidden": []}),
    ],
)
def test_names_choose_works_and_peers(names: list[str], chosen: dict[str, list[str]]) -> None:
    found = choose((WORD_COUNT, SINK, HIDDEN), names)
    assert {work.name: [peer.name for peer in peers] for work, peers in found} == chosen


def test_an_unknown_name_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["spark", "latncy"])
    assert caught.value.code == 2
    assert "no such benchmark: latncy (there are: hand-over, calls, latency, end-to-end, pyarrow, spark-alone)" in capsys.readouterr().err


def test_the_list_shows_every_work_and_peer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = set(re.findall(r"[\w-]+", capsys.readouterr().out))
    assert {work.name for work in WORKS} | {peer.name for work in WORKS for peer in work.peers} <= shown


def test_a_run_is_a_process_that_prints_its_figures() -> None:
    reading = call_in_process("bench.measuring:rate_figures", {"units": 10, "secs": 0.5})
    assert reading == {"units": 10, "ns": 50_000_000, "per_second": 20}
    with pytest.raises(RunFailed, match=r"exit status 1: [^\n]*\nnothing was processed in 1 s"):
        call_in_process("bench.measuring:rate_figures", {"units": 0, "secs": 1})
