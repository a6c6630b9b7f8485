"""Each rule of the bottleneck, and their order: a cause is named before its effects."""

from dataclasses import replace
from typing import Any

import pytest

from engine.checkpoint import CheckpointSnapshot
from engine.control import SnapshotEntry
from engine.runtime.bottleneck import Bottleneck, find_bottleneck, loop_busy, loop_share
from engine.runtime.latency_snapshot import LatencySnapshot
from engine.runtime.snapshot import ComponentKind, ComponentSnapshot, EdgeSnapshot, Snapshot, TaskSnapshot
from tests.cli.snapshots import entries, flow

SECS = 10.0
"""Time between the two snapshots of `found`."""


def component(name: str, kind: ComponentKind = "bolt", tasks: int = 1, **figures: Any) -> ComponentSnapshot:
    return ComponentSnapshot(name, kind, tuple(TaskSnapshot(index + 1, index, **figures) for index in range(tasks)))


def spout(**figures: Any) -> ComponentSnapshot:
    return component(
        "lines", "spout", **{"emitted": 1000, "pending": 5, "status": "polling", "loop_secs": 0.5, "busy_secs": 0.5, **figures}
    )


def snapshot(*components: ComponentSnapshot, cpu: float | None = 1.0, **fields: Any) -> Snapshot:
    together = {each.component_id: each for each in components or (spout(),)}
    return Snapshot("words", fields.pop("state", "running"), SECS, together, loop_cpu_secs=cpu, **fields)


def found(*components: ComponentSnapshot, **fields: Any) -> Bottleneck:
    """Return the bottleneck of an interval. The figures of the components count from its begin."""
    return find_bottleneck(None, snapshot(*components, **fields))


# Before and after the run


def test_before_the_first_measurement_nothing_is_known() -> None:
    empty = Snapshot("words", "starting", 0.0, {})
    assert find_bottleneck(None, empty) == Bottleneck("starting", None, None, "The run starts.")
    assert find_bottleneck(None, replace(empty, state="waiting")).text == "The run is on standby: it waits until another process ends."
    now = snapshot()
    assert find_bottleneck(now, now).kind == "starting"
    assert loop_busy(now, now) is loop_share(now, now, "lines") is None


def test_after_the_end_the_largest_share_of_the_loop_is_named() -> None:
    ended = found(spout(), component("sign", loop_secs=4.0), cpu=5.0, state="complete")
    assert ended == Bottleneck("ended", None, None, "The run is complete. The event loop was busy 50% of the time, 40% with 'sign'.")
    short = found(spout(loop_secs=0.05), cpu=5.0, state="complete")
    assert short.text == "The run is complete. The event loop was busy 50% of the time."
    assert found(state="failed").text == "The run has failed."
    assert find_bottleneck(None, Snapshot("words", "stopped", 0.0, {})).text == "The run is stopped."


# Features that hold the spouts


@pytest.mark.parametrize(
    ("checkpoint", "text"),
    [
        (
            CheckpointSnapshot("prepare", 3.0, 7, 12, trouble="redis://db does not answer"),
            "The spouts wait, because the state store is unavailable: redis://db does not answer",
        ),
        (
            CheckpointSnapshot("recover", 3.0, 7, 12, waits_for=("count[3] waits for split[2]", "and more")),
            "The spouts wait until the states are recovered. The step 'recover' has taken 3.0 s: count[3] waits for split[2].",
        ),
    ],
)
def test_a_store_or_a_recovery_that_holds_the_spouts_comes_first(checkpoint: CheckpointSnapshot, text: str) -> None:
    busy = component("sign", loop_secs=9.0, busy_secs=9.0)
    assert found(spout(), busy, entries=entries(checkpoint=checkpoint)) == Bottleneck("feature", None, None, text)


def test_a_checkpoint_in_progress_holds_nothing() -> None:
    now = CheckpointSnapshot("prepare", 0.1, 7, 12)
    assert found(entries=entries(checkpoint=now)).kind == "source"


def test_flow_control_that_sends_nothing_says_why() -> None:
    held = replace(flow(), holds="900 records wait for the one behind position 17")
    limit = found(entries=entries(held))
    assert (limit.kind, limit.text) == ("feature", "'lines' sends nothing: 900 records wait for the one behind position 17.")
    assert found(entries=entries(replace(flow(2, slow=0, busy=2), holds="every task is BUSY"))).kind == "source"


def test_an_entry_of_a_third_party_may_be_silent() -> None:
    class Beacon(SnapshotEntry):
        name, value = "beacon", 1

        def to_json(self) -> int:
            return 1

    assert found(entries=(Beacon(),)).kind == "source"


# The loop


def test_a_bolt_that_blocks_the_loop_gets_advice() -> None:
    limit = found(spout(), component("sign", loop_secs=8.7, busy_secs=8.7), cpu=0.6)
    assert limit == Bottleneck(
        "loop", "sign", pytest.approx(0.87), "'sign' blocks the loop 87% of the time. Make it async, or give it threads."
    )


def test_async_code_that_blocks_gets_other_advice() -> None:
    limit = found(spout(), component("sign", loop_secs=8.7, busy_secs=70.0, slots=8), cpu=0.6)
    assert limit.text == (
        "'sign' blocks the loop 87% of the time. Its async code blocks: await each slow operation, or move it to asyncio.to_thread()."
    )


def test_a_spout_that_blocks_the_loop_gets_its_own_advice() -> None:
    limit = found(spout(loop_secs=9.0, busy_secs=9.0), component("sign", loop_secs=0.1), cpu=0.6)
    assert (limit.component_id, limit.text) == (
        "lines",
        "'lines' blocks the loop 90% of the time. Make it async, or read its source in the background.",
    )


def test_computing_makes_one_core_the_limit() -> None:
    limit = found(spout(), component("sign", loop_secs=8.0, busy_secs=8.0), cpu=9.5)
    assert (limit.kind, limit.component_id, limit.share) == ("loop", "sign", 0.8)
    assert limit.text == (
        "The event loop is busy 95% of the time, and one core is the limit. 'sign' takes the most: 80%. "
        "Move its work to threads if it releases the interpreter, or give it processes=True."
    )
    source = found(spout(loop_secs=8.0), cpu=None)
    assert (
        source.text == "The event loop is busy 80% of the time, and one core is the limit. 'lines' takes the most: 80%. Run more processes."
    )


def test_work_beside_the_components_is_no_component() -> None:
    limit = found(spout(), cpu=9.5)
    assert (limit.kind, limit.component_id, limit.share) == ("loop", None, 0.95)
    assert limit.text.startswith("The event loop is busy 95% of the time, but code of components takes only 5%. Look at other work")


def test_only_the_interval_counts() -> None:
    before = snapshot(spout(), component("sign", loop_secs=1.0, busy_secs=1.0), cpu=1.0)
    later = snapshot(spout(emitted=3000, loop_secs=1.5), component("sign", loop_secs=2.0, busy_secs=2.0), cpu=3.0)
    now = replace(later, uptime_secs=20.0)
    assert loop_busy(before, now) == pytest.approx(0.2)
    assert loop_share(before, now, "sign") == pytest.approx(0.1)
    assert find_bottleneck(before, now).text == "Nothing limits the run: the sources give 200 tuples/s, and the event loop is busy 20%."
    assert loop_busy(replace(before, loop_cpu_secs=None), now) == pytest.approx(0.2)


# Calls, mailboxes, open trees


def test_calls_that_are_all_taken_are_the_limit() -> None:
    limit = found(spout(), component("enrich", tasks=2, slots=8, loop_secs=0.1, busy_secs=77.6, waiting=100, mailbox_capacity=100))
    assert (limit.kind, limit.component_id, limit.share) == ("component", "enrich", pytest.approx(0.97))
    assert limit.text == "The 16 calls of 'enrich' are all taken 97% of the time. Raise its concurrency, threads or parallelism."


def test_a_single_call_that_waits_is_the_limit() -> None:
    limit = found(spout(), component("enrich", loop_secs=0.1, busy_secs=9.5))
    assert limit.text == "'enrich' is busy 95% of the time, and mostly waits. Raise its concurrency, threads or parallelism."


def test_calls_that_wait_for_a_full_mailbox_are_an_effect() -> None:
    waits = component("split", loop_secs=0.1, busy_secs=10.0)  # its calls await `collector.ready()`
    full: dict[str, Any] = {"waiting": 98, "mailbox_capacity": 100, "loop_secs": 0.1}
    edges = tuple(EdgeSnapshot(source, target, "default", 9) for source, target in (("split", "enrich"), ("enrich", "enrich")))
    taken = found(spout(), waits, component("enrich", slots=2, busy_secs=19.5, **full), edges=edges)
    assert (taken.kind, taken.component_id) == ("component", "enrich")
    mailbox = found(spout(), waits, component("enrich", busy_secs=8.5, **full), edges=edges)
    assert (mailbox.kind, mailbox.component_id) == ("mailbox", "enrich")


def test_one_task_among_idle_ones_has_uneven_inputs() -> None:
    tasks = tuple(TaskSnapshot(index + 1, index, busy_secs=9.5 if index == 0 else 0.6, loop_secs=0.1) for index in range(4))
    limit = found(spout(), ComponentSnapshot("count", "bolt", tasks))
    assert limit.text == "One task of 'count' is busy 95% of the time, the mean of its 4 tasks is 28%. Spread its inputs more evenly."


def test_the_last_full_mailbox_on_the_way_is_named() -> None:
    full = {"waiting": 98, "mailbox_capacity": 100, "executed": 420, "loop_secs": 0.1}
    edges = tuple(
        EdgeSnapshot(source, target, "default", 9) for source, target in (("lines", "split"), ("split", "sink"), ("sink", "sink"))
    )
    limit = found(spout(), component("split", **full), component("sink", **full), edges=edges)
    assert limit == Bottleneck(
        "mailbox",
        "sink",
        0.98,
        "A mailbox of 'sink' is 98% full, so its senders wait: 98 tuples wait, and it takes 42 in a second. "
        "Raise its concurrency, threads or parallelism.",
    )


def test_open_trees_at_their_limit_wait_for_the_slowest_bolt() -> None:
    full = spout(pending=256, max_pending=256, status="full")
    quick, slow = LatencySnapshot(100, 0.1), LatencySnapshot(100, 12.0)
    limit = found(full, component("split", process_latency=quick), component("enrich", process_latency=slow))
    assert (limit.kind, limit.component_id, limit.share) == ("pending", "enrich", None)
    assert limit.text == (
        "'lines' waits for acks: 256 of 256 trees are open, and nothing is busy. "
        "Raise max_spout_pending, or look at 'enrich': an input takes 120 ms there."
    )
    assert found(full).text.endswith("and nothing is busy. Raise max_spout_pending.")


def test_with_state_open_trees_wait_for_the_checkpoint() -> None:
    full = spout(pending=256, max_pending=256, status="full")
    now = CheckpointSnapshot("prepare", 2.0, 7, 12, waits_for=("count[3] waits for the barrier of split[2]",), held_acks=("lines",))
    assert found(full, entries=entries(checkpoint=now)).text == (
        "'lines' waits for acks: 256 of 256 trees are open, and nothing is busy. Acks wait for the next checkpoint. "
        "Raise max_spout_pending, or lower state_checkpoint_interval_ms. "
        "The step 'prepare' has taken 2.0 s: count[3] waits for the barrier of split[2]."
    )

    exact = CheckpointSnapshot("idle", 2.0, 7, 12, held_acks=("in",))
    assert found(full, entries=entries(checkpoint=exact)).text.endswith("and nothing is busy. Raise max_spout_pending."), "acks of another spout"


def test_the_last_trees_of_a_run_wait_for_the_slowest_bolt() -> None:
    slow = component("enrich", process_latency=LatencySnapshot(2, 3.0))
    drains = found(spout(), slow, state="draining")
    assert (drains.kind, drains.component_id) == ("pending", "enrich")
    assert drains.text == "The run drains, and 5 trees are open. An input takes longest in 'enrich': 1.5 s."
    assert found(spout(status="exhausted")).text == "The sources are exhausted, and 5 trees are open."


# Sources


def test_a_spout_that_waits_in_its_method_waits_for_its_source() -> None:
    limit = found(spout(busy_secs=9.6, loop_secs=0.2))
    assert (limit.kind, limit.component_id) == ("source", "lines")
    assert limit.text == (
        "'lines' waits for its source 96% of the time, and emits 100 tuples/s. If the source has more, read it in the background."
    )


def test_without_a_limit_the_sources_decide() -> None:
    limit = found()
    assert limit == Bottleneck(
        "source", None, 0.1, "Nothing limits the run: the sources give 100 tuples/s, and the event loop is busy 10%."
    )
    batches = found(spout(emitted=0), component("count", executed=50))
    assert batches.text == "Nothing limits the run: the event loop is busy 10%."


def test_a_loop_that_is_nearly_busy_names_the_component_that_holds_it() -> None:
    sign = component("sign", loop_secs=7.4, busy_secs=7.4)
    blocked = found(spout(loop_secs=0.1), sign, cpu=0.5)
    assert (blocked.kind, blocked.component_id) == ("source", None)
    assert blocked.text == (
        "Nothing limits the run yet: the sources give 100 tuples/s. The event loop is busy 75% of the time, and 'sign' blocks it 74%. "
        "Make it async, or give it threads."
    )
    computes = found(spout(loop_secs=0.1), sign, cpu=7.0)
    assert computes.text.endswith("tuples/s. The event loop is busy 75% of the time, 74% with 'sign'.")
    batches = found(spout(emitted=0, loop_secs=0.1), replace(sign, tasks=component("sign", loop_secs=7.4, executed=50).tasks), cpu=7.0)
    assert batches.text == "Nothing limits the run yet. The event loop is busy 75% of the time, 74% with 'sign'."
    assert found(cpu=7.0).text.endswith("and the event loop is busy 70%.")  # no component holds the loop


def test_an_idle_or_deactivated_run_says_so() -> None:
    idle = found(spout(emitted=0))
    assert (idle.kind, idle.text) == ("idle", "Nothing limits the run: the sources give nothing.")
    deactivated = found(spout(emitted=0, status="drained"))
    assert (deactivated.kind, deactivated.text) == ("idle", "The spouts are deactivated. Activate the run to go on.")
