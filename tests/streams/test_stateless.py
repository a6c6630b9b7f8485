"""Stateless stages of a flow: results, anchors, errors, names, fusion."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine import FailTuple, TopologyError, Tuple, UsageError, bolt
from engine.streams import Flow, Keyed, Revised, Stream, merge
from engine.testing import Capture, Feeder, replaced, run_topology
from tests.streams.flows import Click, clicks_of, run, texts_of


def words(line: str) -> Iterator[str]:
    yield from line.split()


def is_long(word: str) -> bool:
    return len(word) > 2


@pytest.mark.guarantee("TF-1")
def test_steps_run_in_one_bolt_and_results_keep_their_order() -> None:
    flow, seen = Flow("steps"), list[str]()
    lines, feeder = texts_of(flow, "to be or not", "", "that question")
    lines.flat_map(words).filter(is_long).map(str.upper).sink("seen", seen.append)
    topology = flow.topology()
    assert list(topology.components) == ["texts", "flat_map-words+filter-is_long+map-upper", "seen"]
    run_topology(topology)
    assert seen == ["NOT", "THAT", "QUESTION"]
    assert sorted(feeder.acked) == [1, 2, 3]


@pytest.mark.guarantee("TF-1")
def test_each_result_is_anchored_to_its_own_row() -> None:
    flow, held = Flow("anchors"), Capture(settles=False)
    lines, feeder = texts_of(flow, "a b", "c", "", "d")
    lines.flat_map(words).map(str.upper).sink("held", held)

    async def settle(run: Any) -> None:
        await held.arrived(4)
        assert held.values == [("A",), ("B",), ("C",), ("D",)]
        held.ack(held.tuples[0])
        held.fail(held.tuples[1])
        held.ack(held.tuples[2])
        held.fail(held.tuples[3])

    run_topology(flow.topology(), during=settle)
    assert sorted(feeder.acked) == [2, 3]
    assert sorted(message_id for message_id, _ in feeder.failed) == [1, 4]


@pytest.mark.guarantee("TF-1")
def test_a_row_that_raises_fails_alone_and_the_error_names_its_stage() -> None:
    flow, seen = Flow("guilty"), list[int]()
    texts, feeder = texts_of(flow, "1", "x", "3")
    texts.map(str.strip, name="strip").map(int, name="number").sink("seen", seen.append)
    finished = run(flow)
    assert sorted(seen) == [1, 3]
    assert sorted(feeder.acked) == [1, 3]
    ((message_id, failure),) = feeder.failed
    assert message_id == 2
    expected = "StageError: stage 'number': ValueError: invalid literal for int() with base 10: 'x' (row: 'x')"
    assert failure.error == expected
    assert [report.component_id for report in finished.errors] == ["strip+number"]


def test_the_error_of_a_stage_alone_stays_as_it_is() -> None:
    flow = Flow("alone")
    texts, feeder = texts_of(flow, "x")
    texts.map(str.strip, name="strip").map(int, name="number", retries=1).sink("seen", print)
    run(flow)
    assert feeder.failed[0][1].error == "ValueError: invalid literal for int() with base 10: 'x'"


@pytest.mark.guarantee("TF-1")
def test_fail_tuple_fails_a_row_without_a_report() -> None:
    def refuse(text: str) -> str:
        raise FailTuple(f"no {text}")

    flow = Flow("refused")
    texts, feeder = texts_of(flow, "x", "y")
    texts.map(str.strip).map(refuse).sink("seen", print)
    assert run(flow).errors == ()
    assert [failure.error for _, failure in feeder.failed] == ["no x", "no y"]


def test_branches_share_a_bolt_and_take_each_row_once() -> None:
    flow, numbers, short, rest = Flow("branches"), list[str](), list[str](), list[str]()
    texts, feeder = texts_of(flow, "1", "ab", "abc", "22")
    first, second, others = texts.branch(str.isdigit, lambda text: len(text) < 3, name="kinds")
    first.map(lambda text: f"#{text}").sink("numbers", numbers.append)
    second.sink("short", short.append)
    others.filter(is_long).map(str.upper).sink("rest", rest.append)
    topology = flow.topology()
    assert len(topology.bolts) == 4
    run_topology(topology)
    assert (numbers, short, rest) == (["#1", "#22"], ["ab"], ["ABC"])
    assert sorted(feeder.acked) == [1, 2, 3, 4]


def test_metrics_name_the_stages_of_a_bolt() -> None:
    flow = Flow("metrics")
    lines, _ = texts_of(flow, "to be or", "not that")
    lines.flat_map(words).filter(is_long).branch(str.isupper, name="cases")[1].sink("seen", print)
    found = {(metric.own_labels["stage"], metric.value) for metric in run(flow).snapshot.user_metrics if metric.name == "stage_rows"}
    assert found == {("flat_map-words", 5), ("filter-is_long", 2), ("cases", 2)}


def test_two_readers_of_one_stage_share_its_call() -> None:
    called = list[str]()

    def note(text: str) -> str:
        called.append(text)
        return text

    flow, left, right, whole = Flow("readers"), list[str](), list[str](), list[str]()
    texts, _ = texts_of(flow, "a", "b")
    noted = texts.map(note)
    noted.map(str.upper).sink("left", left.append)
    noted.map(lambda text: text * 2).sink("right", right.append)
    noted.sink("whole", whole.append)
    run(flow)
    assert (called, left, right, whole) == (["a", "b"], ["A", "B"], ["aa", "bb"], ["a", "b"])


@pytest.mark.guarantee("TF-1")
def test_a_stage_with_an_option_has_a_bolt_of_its_own() -> None:
    flow = Flow("options")
    texts, _ = texts_of(flow, "a")
    texts.map(str.strip, name="strip").map(str.upper, name="upper", parallelism=2).map(str.lower, name="lower").sink("end", print)
    topology = flow.topology()
    assert {spec.component_id: spec.parallelism for spec in topology.bolts} == {"strip": 1, "upper": 2, "lower": 1, "end": 1}


def test_a_stage_with_threads_gives_the_same_results() -> None:
    flow, seen = Flow("threads"), list[str]()
    texts, _ = texts_of(flow, "a b", "c")
    texts.flat_map(words, threads=2, name="words").sink("seen", seen.append)
    run(flow)
    assert sorted(seen) == ["a", "b", "c"]


def test_a_stage_with_threads_has_several_readers() -> None:
    flow, seen, capture, counts = Flow("threads"), list[str](), Capture(), list[Any]()
    texts, _ = texts_of(flow, "a", "b", "a")
    upper = texts.map(str.upper, threads=2, name="upper")
    upper.sink("seen", seen.append)
    upper.sink("records", capture, fields={"value": str.lower})
    upper.key_by(str.lower).count(name="counts").sink("counted", counts.append)
    run(flow)
    assert sorted(seen) == ["A", "A", "B"]
    assert sorted(capture.values) == [("a",), ("a",), ("b",)]
    assert sorted(each.value for each in counts) == [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.parametrize("other", ["map", "source"])
def test_a_merge_of_rows_with_and_without_a_key_is_refused(other: str) -> None:
    flow = Flow("mixed")
    texts, _ = texts_of(flow, "a")
    keyed = Stream(texts.key_by(len)._port, str)
    merge(keyed, texts if other == "source" else texts.map(str.upper)).sink("end", print)
    with pytest.raises(UsageError, match=r"merge\(\) got streams with different fields: \(row\) and \(row, key\)"):
        flow.topology()


def test_merge_takes_the_rows_of_all_streams() -> None:
    flow, seen = Flow("merged"), list[str]()
    first, _ = texts_of(flow, "a", "b", name="first")
    second, _ = texts_of(flow, "c", name="second")
    merge(first, second.map(str.upper), merge(first)).map(str.strip, name="all").sink("seen", seen.append)
    run(flow)
    assert sorted(seen) == ["C", "a", "b"]


def test_through_takes_a_bolt_of_the_user() -> None:
    @bolt("user", "page")
    def upper(tup: Tuple) -> tuple[str, str]:
        return tup["row"].user.upper(), tup["row"].page

    flow, seen = Flow("through"), list[Click]()
    clicks, _ = clicks_of(flow, ("ada", "/", 1))
    clicks.through(upper, Click, name="upper").map(lambda click: click).sink("seen", seen.append)
    run(flow)
    assert seen == [Click("ADA", "/", 0)]


def test_through_behind_a_key_groups_by_it() -> None:
    @bolt("text")
    def name_task(tup: Tuple) -> tuple[str]:
        return (f"{tup['key']} {tup['row'].page}",)

    flow, seen = Flow("through"), list[str]()
    clicks, _ = clicks_of(flow, ("ada", "/", 1))
    clicks.key_by("user").through(name_task, str, name="tasks", parallelism=2).sink("seen", seen.append)
    assert [each.grouping.label for each in flow.topology().components["tasks"].subscriptions] == ["fields(key)"]
    run(flow)
    assert seen == ["ada /"]


class Numbered:
    """Counts what it has seen. One instance per task."""

    made = list["Numbered"]()

    def __init__(self) -> None:
        self.ended = False
        self.count = 0
        self.made.append(self)

    async def prepare(self) -> None:
        self.task = self.context.task_index

    def __call__(self, text: str) -> str:
        self.count += 1
        return f"{text}{self.count}"

    def cleanup(self) -> None:
        self.ended = True

    context: Any


def test_a_class_has_one_instance_for_each_task() -> None:
    Numbered.made.clear()
    flow, seen = Flow("classes"), list[str]()
    texts, _ = texts_of(flow, "a", "b", "c", "d")
    texts.map(Numbered, parallelism=2, name="numbered").sink("seen", seen.append)
    run(flow)
    assert sorted(each.task for each in Numbered.made) == [0, 1]
    assert sum(each.count for each in Numbered.made) == 4
    assert all(each.ended for each in Numbered.made)
    assert sorted(text[0] for text in seen) == ["a", "b", "c", "d"]


@pytest.mark.guarantee("TF-7")
def test_automatic_names_are_readable_and_get_a_number_if_they_are_taken() -> None:
    flow = Flow("names")
    texts, _ = texts_of(flow, "a")
    texts.map(str.strip, retries=1).map(str.strip, retries=1).map(lambda text: text, retries=1).key_by(len).count().sink("end", print)
    names = list(flow.topology().components)
    assert names == ["texts", "map-strip", "map-strip-2", "map-lambda+key_by-len", "count", "end"]


def test_a_long_name_of_fused_stages_leaves_out_the_middle() -> None:
    flow = Flow("long")
    texts, _ = texts_of(flow, "a")
    stream = texts.map(str.strip, name="a" * 40)
    for number in range(4):
        stream = stream.map(str.strip, name=f"{number}" * 20)
    stream.sink("end", print)
    assert [spec.component_id for spec in flow.topology().bolts] == [f"{'a' * 40}+3+{'3' * 20}", "end"]


def test_a_test_replaces_a_source_by_its_name() -> None:
    flow, seen = Flow("replaced"), list[Revised[Keyed[str, int]]]()
    source, _ = clicks_of(flow, ("nobody", "/", 0))
    source.key_by("user").count(name="counts").sink("seen", seen.append)
    feeder = Feeder("row")
    feeder.feed((Click("ada", "/"),))
    feeder.close()
    run_topology(replaced(flow.topology(), "clicks", feeder))
    assert [each.value for each in seen] == [Keyed("ada", 1)]


@pytest.mark.guarantee("TF-7")
def test_streams_of_two_flows_do_not_mix() -> None:
    one, _ = texts_of(Flow("one"), "a")
    two, _ = texts_of(Flow("two"), "a")
    with pytest.raises(UsageError, match=r"a stream of flow 'two' cannot be used in flow 'one'"):
        merge(one, two)


@pytest.mark.guarantee("TF-7")
def test_two_stages_of_one_name_are_refused() -> None:
    flow = Flow("twice")
    texts, _ = texts_of(flow, "a")
    texts.map(str.strip, name="clean").map(str.upper, name="clean").sink("end", print)
    with pytest.raises(UsageError, match="flow 'twice' has two stages called 'clean'"):
        flow.topology()


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda texts: texts.map("upper"), r"map\(\) takes a function of a row, not 'upper'"),
        (lambda texts: texts.map(lambda: 1), r"map\(\): lambda cannot be called with one row"),
        (lambda texts: texts.map(words), r"map\(\): words is a generator\nFix: Use flat_map"),
        (lambda texts: texts.map(_later), r"map\(\): _later is an async def\nFix: Use map_async"),
        (lambda texts: texts.map_async(str.upper), r"map_async\(\): upper is no async def"),
        (lambda texts: texts.branch(), r"branch\(\) has no predicate"),
        (lambda texts: texts.map(str.upper).failed, r"stage 'map-upper' diverts no rows"),
        (lambda texts: merge(), r"merge\(\) has no streams"),
    ],
)
def test_mistakes_are_named_where_they_are_made(build: Any, text: str) -> None:
    texts, _ = texts_of(Flow("mistakes"), "a")
    with pytest.raises(UsageError, match=text):
        build(texts)


async def _later(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("method", "text"), [("map", "map() got a coroutine"), ("filter", "filter() got a coroutine"), ("sink", "sink() got a coroutine")]
)
def test_a_function_that_returns_a_coroutine_is_told_to_use_map_async(method: str, text: str) -> None:
    flow, seen = Flow("coroutines"), list[Any]()
    texts, feeder = texts_of(flow, "a")
    if method == "sink":
        texts.sink("sink", lambda row: _later(row))
    else:
        getattr(texts, method)(lambda row: _later(row)).sink("seen", seen.append)
    run(flow)
    assert seen == []
    assert text in feeder.failed[0][1].error


def test_a_row_is_no_collection_of_rows() -> None:
    flow, seen = Flow("rows"), list[Any]()
    texts, feeder = texts_of(flow, "a")
    rows: Any = texts.flat_map(lambda text: Click(text, "/"))
    rows.sink("seen", seen.append)
    run(flow)
    assert seen == []
    assert "(Click), which is no collection of rows" in feeder.failed[0][1].error


def test_a_text_is_no_collection_of_rows() -> None:
    flow = Flow("texts")
    texts, feeder = texts_of(flow, "a")
    texts.flat_map(str.upper, name="upper", retries=1).sink("end", print)
    run(flow)
    assert "flat_map() got 'A' (str), which is no collection of rows" in feeder.failed[0][1].error


def test_the_faults_of_a_topology_name_the_component() -> None:
    flow = Flow("faults")
    texts, _ = texts_of(flow, "a")
    texts.map(str.upper, name="upper", parallelism=0).sink("end", print)
    with pytest.raises(TopologyError, match="bolt 'upper': parallelism must be an integer of at least 1, not 0"):
        flow.topology()
