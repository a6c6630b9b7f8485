"""Event time on the sources of a flow, and what is refused (ET-1)."""

from typing import Any, ClassVar

import pytest

from engine import Fields, Spout, SpoutExhausted, UsageError
from engine.streams import Flow, merge, minutes, tumbling
from engine.testing import Feeder, replaced, run_topology
from tests.streams.test_windows import Visit, at, visits_of


@pytest.mark.guarantee("ET-1")
def test_rows_that_do_not_fit_leave_on_failed() -> None:
    flow, failed, seen = Flow("failed"), list[Any](), list[Any]()
    feeder = Feeder("user", "page", "at")
    feeder.feed_all([("ada", "/", at(1)), ("ada", "/", "noon"), ("ada", "/", at(2))])
    feeder.close()
    source = flow.stream("visits", feeder, Visit, divert=True)
    source.event_time("at").key_by("user").window(tumbling(minutes(1))).count(name="counts").sink("seen", seen.append)
    source.failed.sink("failed", failed.append)
    assert run_topology(flow.topology()).state == "complete"
    assert [each.value for each in seen] == [2]
    assert failed[0].row["at"] == "noon"
    assert failed[0].stage == "visits"
    assert "not a time" in failed[0].error
    assert sorted(feeder.acked) == [1, 2, 3]


@pytest.mark.guarantee("ET-1")
def test_steps_in_front_of_the_time_run_at_the_source() -> None:
    flow, seen = Flow("steps"), list[Any]()
    feeder = Feeder("line")
    feeder.feed_all([("1 ada bob",), ("",), ("2 eve",), ("x ada",)])
    feeder.close()

    def visits(line: str) -> list[Visit]:
        secs, *users = line.split()
        return [Visit(user, "/", at(int(secs))) for user in users]

    lines = flow.stream("lines", feeder, str).filter(bool).flat_map(visits, name="visits")
    lines.event_time("at").key_by("page").window(tumbling(minutes(1))).collect(name="users").sink("seen", seen.append)
    topology = flow.topology()
    assert list(topology.components) == ["lines", "users", "seen"]
    finished = run_topology(topology)
    assert [sorted(visit.user for visit in each.value) for each in seen] == [["ada", "bob", "eve"]]
    assert "stage 'visits'" in str(finished.errors[0])
    assert "'x'" in str(finished.errors[0])
    assert len(finished.errors) == 1


@pytest.mark.guarantee("ET-1")
def test_a_replaced_source_keeps_its_event_time() -> None:
    flow, seen = Flow("replaced"), list[Any]()
    visits_of(flow, ("nobody", "/", 0))[0].key_by("user").window(tumbling(minutes(1))).count(name="counts").sink("seen", seen.append)
    feeder = Feeder("user", "page", "at")
    feeder.feed(("eve", "/", at(5)))
    feeder.close()
    run_topology(replaced(flow.topology(), "visits", feeder))
    assert [(each.key, each.value) for each in seen] == [("eve", 1)]


def with_window(stream: Any) -> Any:
    return stream.key_by("user").window(tumbling(minutes(1))).count(name="counts")


@pytest.mark.guarantee("ET-1", "WI-1")
@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda source, timed: with_window(source), "without event times"),
        (lambda source, timed: with_window(merge(source, timed)), "different fields"),
        (lambda source, timed: timed.key_by("user").window("1 minute"), "takes windows"),
        (lambda source, timed: with_window(timed.key_by("user").count(name="running")), "updates"),
        (
            lambda source, timed: with_window(timed.key_by("user").window(tumbling(minutes(1)), early=True).count(name="early").map(str)),
            "updates",
        ),
        (lambda source, timed: timed.key_by("user").window(tumbling(minutes(1)), allowed_lateness=5), "allowed_lateness"),
        (lambda source, timed: source.map_async(returns_itself).event_time("at"), "nobody knows the partition"),
        (lambda source, timed: source.map(str, retries=2).event_time("at"), "nobody knows the partition"),
        (lambda source, timed: source.event_time("at", idle_secs=-1), "idle_secs"),
        (lambda source, timed: source.event_time("att"), "att"),
        (lambda source, timed: timed.key_by("user").window(tumbling(minutes(1))).count(processes=True), "processes"),
    ],
)
def test_what_has_no_meaning_is_refused_with_its_remedy(build: Any, text: str) -> None:
    flow = Flow("refused")
    source = flow.stream("plain", Feeder("user", "page", "at"), Visit)
    timed = flow.stream("timed", Feeder("user", "page", "at"), Visit).event_time("at")

    def built() -> None:
        build(source, timed)
        flow.topology()

    with pytest.raises(UsageError, match=text):
        built()


async def returns_itself(visit: Visit) -> Visit:
    return visit


@pytest.mark.guarantee("ET-1")
def test_a_second_reader_in_front_of_the_time_is_refused() -> None:
    flow = Flow("two")
    source = flow.stream("visits", Feeder("user", "page", "at"), Visit)
    source.event_time("at").key_by("user").sink("a", print)
    source.sink("b", print)
    with pytest.raises(UsageError, match="another stage reads its rows without a time"):
        flow.topology()


class TwoStreams(Spout):
    """Emits visits on two streams."""

    output_fields: ClassVar = {"default": Fields(*Visit._fields), "robots": Fields(*Visit._fields)}

    def open(self) -> None:
        self.next = 0

    def next_tuple(self) -> None:
        if self.next == 6:
            raise SpoutExhausted
        for user, stream in (("ada", "default"), ("bot", "robots")):
            self.collector.emit((user, "/", at(10 * self.next)), message_id=(user, self.next), stream=stream)
        self.next += 1


@pytest.mark.guarantee("ET-1")
@pytest.mark.parametrize("timed_first", [True, False])
def test_one_of_two_streams_of_a_spout_may_be_timed(timed_first: bool) -> None:
    flow, counted, seen = Flow("two"), list[Any](), list[Visit]()

    def timed() -> None:
        visits = flow.stream("visits", TwoStreams, Visit).event_time("at")
        with_window(visits).sink("counted", lambda each: counted.append((each.key, each.value)))

    def plain() -> None:
        flow.stream("visits", TwoStreams, Visit, stream="robots").sink("seen", seen.append)

    for build in (timed, plain) if timed_first else (plain, timed):
        build()
    assert run_topology(flow.topology()).state == "complete"
    assert counted == [("ada", 6)]
    assert [row.user for row in seen] == ["bot"] * 6


@pytest.mark.guarantee("ET-1")
def test_times_on_two_streams_of_a_spout_are_refused_with_the_remedy() -> None:
    flow = Flow("two")
    for stream in ("default", "robots"):
        flow.stream("visits", TwoStreams, Visit, stream=stream).event_time("at").sink(stream, print)
    with pytest.raises(UsageError, match=r"source 'visits' has event_time\(\) on two streams of its spout, 'default'") as refused:
        flow.topology()
    assert "a source with another name" in str(refused.value.hint)
