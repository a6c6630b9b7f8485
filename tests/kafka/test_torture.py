"""Members and a broker that die and pause under load: nothing is lost, and each repeat has a reason.

A tenth of what `python -m tests.soak --full --only kafka` does, by the same scenarios.
"""

import secrets
from collections.abc import Awaitable
from pathlib import Path

import pytest

from tests.kafka.torture import scenarios
from tests.kafka.torture.judge import Verdict
from tests.kafka.torture.watched import AT_MOST_ONCE_STEPS, STEPS
from tests.servers.kafka_fixtures import NewBroker

pytestmark = [pytest.mark.deep, pytest.mark.timeout(300)]


def drawn_seed() -> int:
    """Return a new seed, and print it for a failure."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return seed


async def shown(verdict: Awaitable[Verdict]) -> Verdict:
    """Print a verdict, assert that it has no violations, and return it."""
    found = await verdict
    print(found.line())
    assert found.violations == []
    return found


@pytest.mark.guarantee("KS-2", "KS-4", "KS-6", "KS-7")
async def test_forced_rebalances_lose_nothing_and_repeat_only_uncommitted_records(kafka: str, tmp_path: Path) -> None:
    verdict = await shown(scenarios.rebalances(kafka, tmp_path, 10, drawn_seed()))

    assert verdict.counts["rebalances"] >= 10
    assert verdict.counts["tenures drained"] > 0, "the first of them is a join, and what is given up there was committed"
    assert verdict.counts["acked offsets in sets"] > 0


@pytest.mark.guarantee("KS-2", "KS-6")
async def test_rebalances_without_the_acked_set_lose_nothing(kafka: str, tmp_path: Path) -> None:
    verdict = await shown(scenarios.rebalances(kafka, tmp_path, 3, drawn_seed(), commit_acked_set=False))

    assert verdict.counts["acked offsets in sets"] == 0


@pytest.mark.guarantee("KS-2", "KS-6", "KS-7")
async def test_a_process_killed_at_a_named_step_loses_nothing(kafka: str, tmp_path: Path) -> None:
    verdict = await shown(scenarios.deaths_at_steps(kafka, tmp_path, [(step, 1) for step in STEPS], drawn_seed()))

    assert verdict.counts["killed at steps"] == len(STEPS)


@pytest.mark.guarantee("KS-1")
async def test_at_most_once_repeats_nothing_after_a_kill_at_any_step(kafka: str, tmp_path: Path) -> None:
    steps = [(step, 1) for step in AT_MOST_ONCE_STEPS]

    verdict = await shown(scenarios.deaths_at_steps(kafka, tmp_path, steps, drawn_seed(), guarantee="at_most_once"))

    assert verdict.counts["emitted"] <= verdict.counts["records"]


@pytest.mark.guarantee("KS-1")
async def test_no_guarantee_loses_and_repeats_at_kills_only(kafka: str, tmp_path: Path) -> None:
    await shown(scenarios.kills(kafka, tmp_path, 2, drawn_seed(), guarantee="no_guarantee"))


@pytest.mark.guarantee("KS-2")
async def test_a_broker_that_is_killed_and_frozen_loses_nothing(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(settings=scenarios.BROKER_SETTINGS)

    await shown(scenarios.broker_faults(broker, tmp_path, 1, 1, drawn_seed()))


@pytest.mark.guarantee("CP-10", "KS-6")
async def test_state_behind_a_killed_spout_counts_each_record(kafka: str, tmp_path: Path) -> None:
    verdict = await shown(scenarios.state_kills(kafka, tmp_path, 1, drawn_seed()))

    assert verdict.counts["counted exactly once"] > 0


@pytest.mark.guarantee("KS-6")
async def test_a_process_paused_beyond_its_session_asks_the_group_before_it_emits(kafka: str, tmp_path: Path) -> None:
    verdict = await shown(scenarios.pause_with_backlog(kafka, tmp_path, 10_000, drawn_seed()))

    two_bursts = 2 * (256 + 32)  # it may be stopped within one; thousands wait
    assert verdict.counts["repeats after lost, emitted when another one had it"] <= two_bursts


@pytest.mark.guarantee("KS-4")
async def test_a_poison_record_is_committed_after_its_dead_letter(kafka: str, tmp_path: Path) -> None:
    verdict = await shown(scenarios.poison(kafka, tmp_path, 10_000, drawn_seed()))

    assert verdict.counts["dead letters"] == 2  # the first process died before it knew of its own
    assert verdict.counts["acked offsets in sets"] > 0
