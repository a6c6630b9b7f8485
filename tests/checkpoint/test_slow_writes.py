"""Committers above a store whose every step takes long (EO-3, EO-9)."""

import asyncio
import random
from collections import Counter
from functools import partial

import pytest

from engine import Config, TopologyBuilder
from engine.dead_letters import letters_in
from engine.testing import KillTask, run_topology
from engine.transactional import BadRows
from tests.checkpoint.scenarios.kit import Numbers, Told, once
from tests.checkpoint.slow_store import IN_USE, Conditions, Disk, SlowProvider
from tests.checkpoint.test_committers import ROWS, Target, Writing


class AlwaysSlow(Conditions):
    """Every step takes the same time."""

    async def pass_time(self) -> None:
        await asyncio.sleep(0.15)


@pytest.mark.parametrize("killed", ["out", "numbers", "count"])
@pytest.mark.parametrize("secs", [4.64, 4.78, 4.85, 4.99, 5.06, 5.13])
def test_a_death_beside_the_write_of_letters_doubles_none(killed: str, secs: float) -> None:
    class Refusing(Writing):
        def finish_batch(self) -> None:
            bad = [number for number, n in enumerate(self.rows) if n % 2]
            if bad:
                raise BadRows("odd", rows=bad[:4])
            super().finish_batch()

    disk, target, told, builder = Disk(), Target(), Told(), TopologyBuilder("odd")
    IN_USE["letters"] = SlowProvider(disk, AlwaysSlow(random.Random(1)), resident=False)
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05, burst=2))
    builder.set_bolt("count", told.create).fields_grouping("numbers", "n")
    builder.set_committer("out", lambda: Refusing(target)).shuffle_grouping("numbers")
    config = Config(state_provider="tests.checkpoint.slow_store:provider?letters")
    run_topology(builder.build(), config, faults=[KillTask(killed, at_secs=secs)])
    assert Counter(target.rows) == Counter(range(0, ROWS, 2))
    assert len(letters_in(disk.ledgers["$checkpoint"])) == ROWS // 2
    assert told.counts() == once(ROWS)


@pytest.mark.guarantee("EO-3")
def test_a_write_may_take_longer_than_the_limit_of_a_checkpoint_while_it_goes_on() -> None:
    """Given a store that takes 0.15 s for each blob, and rows that are staged one by one, the run goes on from commit to commit."""
    target = Target()
    builder = TopologyBuilder("slow")
    IN_USE["slow"] = SlowProvider(Disk(), AlwaysSlow(random.Random(1)), resident=False)
    builder.set_spout("numbers", partial(Numbers, ROWS, pace_secs=0.05))
    builder.set_committer("out", lambda: Writing(target)).shuffle_grouping("numbers")
    config = Config(
        state_provider="tests.checkpoint.slow_store:provider?slow", checkpoint_timeout_secs=2, state_checkpoint_interval_ms=5000
    )
    result = run_topology(builder.build(), config, limit_secs=600)
    assert target.rows == list(range(ROWS))
    assert result.snapshot.checkpoint.recoveries == 0
