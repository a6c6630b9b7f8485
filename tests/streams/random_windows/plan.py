"""Draws a flow with windows, its rows, and the processes that run it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from engine import Config
from engine.names import CHECKPOINT_COMPONENT
from engine.streams.windows import calendar, session, sliding, tumbling
from engine.testing import ACKER, Fault, RaiseError
from tests.checkpoint import process
from tests.checkpoint.plan import HOOKS, STORE_STEPS
from tests.checkpoint.process import PROVIDER
from tests.checkpoint.slow_store import StoreStrike
from tests.streams.random_windows.sources import Row, Source

START: Final = datetime(2023, 10, 28, tzinfo=UTC)
"""Time of the first rows. The clock of Berlin changes on the next day."""
KEYS: Final = ("a", "b", "c", "d", "e")
HOUR_MS: Final = 3_600_000
STEPS: Final = ("map", "filter", "map_async", "unordered", "flaky", "retries", "divert")
FILTERED: Final = 7
"""A filter drops the numbers that it divides."""
POISONED: Final = 11
"""A stage that diverts fails for the numbers that it divides."""

Aggregation: TypeAlias = Literal["collect", "count", "sum"]


@dataclass(frozen=True, kw_only=True)
class ProcessPlan(process.ProcessPlan):
    """Settings and faults of one process."""

    tasks: dict[str, int]
    faults: Sequence[Fault]
    fails: float
    waits: float
    target_fails: float
    """Chance that a step of publishing raises."""
    sink_fails: int
    """How often a result fails in a plain sink."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A flow, from its first process to the one that completes it."""

    seed: int
    sources: Sequence[Source]
    steps: Sequence[str]
    spec: Any
    aggregation: Aggregation
    updates: dict[str, Any]
    """Arguments of the first windows with which they give updates. Empty: each window has one result."""
    second: Any
    """Windows over the results of the first ones. None: there are none."""
    slice: int
    """Results that are emitted at once when windows are closed."""
    unbound: frozenset[int]
    """Rows beyond the bound, and those of a partition that was idle. They may be late."""
    is_exact: bool
    is_calm: bool
    resident: bool
    fold_txids: int
    processes: Sequence[ProcessPlan]

    @property
    def rows(self) -> list[Row]:
        """All rows of all sources."""
        return [row for source in self.sources for row in source.rows]


def draw_plan(seed: int, *, is_calm: bool | None = None, is_exact: bool | None = None) -> Plan:
    """Draw a plan."""
    draws = random.Random(seed)
    calm = draws.random() < 0.15 if is_calm is None else is_calm
    drawn = draws.random() < 0.75
    exact = drawn if is_exact is None else is_exact
    is_calendar = draws.random() < 0.12
    unit_ms = HOUR_MS if is_calendar else 1000
    sources, unbound = _drawn_sources(draws, unit_ms, exact, calm)
    spec = calendar("day", tz="Europe/Berlin") if is_calendar else _drawn_windows(draws, 1)
    steps = draws.sample(STEPS[:-1] if not exact else STEPS, draws.choice([0, 0, 1, 2, 3]))
    if calm:
        steps = [step for step in steps if step not in ("flaky", "retries")]
    second = None
    if draws.random() < 0.4:
        second = _drawn_windows(draws, 24 * 3600 if is_calendar else 3)
    base = _drawn_config(draws, calm)
    deaths = 0 if calm else draws.choice([0, 0, 1, 1, 2, 3])
    processes = [_drawn_process(draws, sources, base, calm, dies=number < deaths) for number in range(0 if calm else deaths + 1)]
    processes.append(_drawn_process(draws, sources, base, True, dies=False))
    return Plan(
        seed=seed,
        updates=_drawn_updates(random.Random(f"{seed} updates"), 3600 if is_calendar else 1) if exact else {},
        sources=sources,
        steps=steps,
        spec=spec,
        aggregation=draws.choice(["collect", "collect", "collect", "count", "sum"]),
        second=second,
        slice=draws.choice([1, 2, 5, 2000]),
        unbound=frozenset(unbound),
        is_exact=exact,
        is_calm=calm,
        resident=draws.random() < 0.5,
        fold_txids=draws.choice([1, 2, 4, 30]),
        processes=processes,
    )


def _drawn_windows(draws: random.Random, unit_secs: int) -> Any:
    unit = timedelta(seconds=unit_secs)
    kind = draws.choice(["tumbling", "sliding", "session"])
    if kind == "tumbling":
        return tumbling(draws.choice([1, 3, 10]) * unit, draws.choice([0, 0, 2]) * unit)
    if kind == "sliding":
        every = draws.choice([1, 2, 3])
        return sliding(draws.choice([3, 5, 8]) * unit, every=every * unit)
    return session(gap=draws.choice([1, 2, 5]) * unit)


def _drawn_updates(draws: random.Random, unit_secs: int) -> dict[str, Any]:
    if draws.random() < 0.6:
        return {}
    allowed = draws.choice([None, 0, 1, 3, 10])
    if allowed is None:
        return {"early": True}
    return {"allowed_lateness": timedelta(seconds=allowed * unit_secs), "early": draws.random() < 0.6}


def _drawn_sources(draws: random.Random, unit_ms: int, exact: bool, calm: bool) -> tuple[list[Source], set[int]]:
    sources, unbound, number = [], set[int](), 0
    for index in range(draws.choice([1, 1, 2])):
        bound_ms = draws.choice([0, 1, 4]) * unit_ms
        partitions, pauses = [], {}
        for partition in range(draws.choice([1, 1, 2, 4])):
            count = draws.choice([0, 3, 10, 25])
            rows, beyond = _drawn_rows(draws, number, count, unit_ms, bound_ms, draws.choice([0.0, 0.0, 0.15]))
            number += count
            unbound |= beyond
            partitions.append(rows)
            if count > 4 and draws.random() < 0.25:
                at = draws.randrange(1, count)
                pauses[partition, at] = draws.choice([1.0, 5.0, 20.0])
                unbound |= {row.number for row in rows[at:]}
        sources.append(
            Source(
                f"s{index}",
                partitions,
                bound_ms,
                rewinds=exact,
                is_partitioned=exact and draws.random() < 0.5,
                has_ids=draws.random() < 0.5,
                pauses=pauses,
                pace_secs=draws.choice([0.0, 0.01, 0.1, 0.3]),
                draws=random.Random(draws.getrandbits(32)),
            )
        )
    return sources, unbound


def _drawn_rows(
    draws: random.Random, first: int, count: int, unit_ms: int, bound_ms: int, beyond: float
) -> tuple[list[Row], set[int]]:
    """Draw rows whose times rise by and by. Return them, and the numbers of those that are beyond the bound."""
    start = round(START.timestamp() * 1000)
    now = greatest = start + draws.choice([0, 0, 20]) * unit_ms
    rows, unbound = [], set()
    keys = KEYS[: draws.choice([1, 2, 5])]
    for number in range(first, first + count):
        now += draws.choice([0, 0, 1, 1, 2, 6]) * unit_ms * draws.choice([1, 1, 0.5]) // 1
        at = int(now) - (draws.randint(0, bound_ms) if draws.random() < 0.5 else 0)
        if draws.random() < beyond:
            at = int(now) - bound_ms - draws.choice([1, 2, 10, 30]) * unit_ms
        if rows and draws.random() < 0.1:
            at = rows[-1].at  # the same time again
        greatest = max(greatest, at) if rows else at
        if at < greatest - bound_ms:
            unbound.add(number)
        rows.append(Row(number, draws.choice(keys), at))
    return rows, unbound


def _drawn_config(draws: random.Random, is_calm: bool) -> Config:
    return Config(
        state_provider=PROVIDER,
        max_spout_pending=draws.choice([None, 1, 7, 50]),
        state_checkpoint_interval_ms=draws.choice([100, 150, 1000, 5000]),
        checkpoint_timeout_secs=600 if is_calm else draws.choice([600, 600, 60, 15]),
        state_timeout_secs=draws.choice([20, 60]),
        state_cache_keys=draws.choice([1, 3, 100_000]),
        acker_executors=draws.choice([1, 1, 2]),
        executor_receive_buffer_size=draws.choice([2, 16, 32768]),
        burst=draws.choice([1, 8, 256]),
        max_task_restarts=10_000,
        max_retries=None,
        key_groups=16,
    )


BOLTS: Final = ("first", "second", "out", "late", "out2", "m0", "m1", "m2")
"""Components that may die. A flow lacks some of them."""


def _drawn_process(draws: random.Random, sources: Sequence[Source], base: Config, is_calm: bool, *, dies: bool) -> ProcessPlan:
    victims = [*BOLTS, "first", "first", "second", *(source.name for source in sources), ACKER, CHECKPOINT_COMPONENT, CHECKPOINT_COMPONENT]
    span = draws.choice([0.5, 2.0, 20.0])
    kills: list[tuple[float, tuple[str | None, int]]] = []
    strikes: list[StoreStrike] = []
    outages: list[tuple[float, float]] = []
    faults: list[Fault] = []
    if not is_calm:
        strikes = [_drawn_strike(draws, draws.choice(victims)) for _ in range(draws.choice([0, 0, 1, 2, 4]))]
        kills = [(span * draws.random() ** 2, (draws.choice(victims), draws.randrange(3))) for _ in range(draws.choice([0, 0, 1, 2, 4]))]
        faults = [_drawn_fault(draws) for _ in range(draws.choice([0, 0, 1, 2, 4]))]
        if draws.random() < 0.2:
            begin = span * draws.random()
            outages = [(begin, begin + draws.choice([0.3, 3.0, 12.0]))]
    if dies and draws.random() < 0.6:
        strikes.append(_drawn_strike(draws, None))
    ending: tuple[Literal["stop", "drain"], float] | None = None
    if dies and draws.random() < 0.3:
        ending = (draws.choice(["stop", "drain"]), span * draws.random())
    elif dies:
        kills.append((span * draws.random(), (None, 0)))
    return ProcessPlan(
        config=base.replace(seed=draws.getrandbits(32)),
        tasks={name: draws.randint(1, 3) for name in (*BOLTS, *(source.name for source in sources))},
        scale_secs=draws.choice([0.0, 0.001, 0.05, 0.05, 0.4]),
        failure_chance=0.0 if is_calm else draws.choice([0.0, 0.0, 0.02, 0.1]),
        outages=outages,
        strikes=strikes,
        kills=kills,
        ending=ending,
        faults=faults,
        fails=0.0 if is_calm else draws.choice([0.0, 0.0, 0.02, 0.1]),
        waits=draws.choice([0.0, 0.2, 0.5]),
        target_fails=0.0 if is_calm else draws.choice([0.0, 0.0, 0.1, 0.3]),
        sink_fails=0 if is_calm else draws.choice([0, 0, 1, 3]),
    )


def _drawn_strike(draws: random.Random, victim: str | None) -> StoreStrike:
    step = draws.choice(STORE_STEPS[:2] if draws.random() < 0.4 else STORE_STEPS[:8] if draws.random() < 0.7 else STORE_STEPS[8:])
    return StoreStrike(step, draws.randint(1, 30 if step.endswith("write") else 12), victim, draws.randrange(3))


def _drawn_fault(draws: random.Random) -> Fault:
    method = draws.choice([*HOOKS[:4], "execute_many", "execute_many", "pass_watermark"])
    number = draws.randint(1, 30) if method in ("execute_many", "pass_watermark") else draws.randint(1, 4)
    return RaiseError(draws.choice(["first", "first", "second"]), at_call=number, method=method)
