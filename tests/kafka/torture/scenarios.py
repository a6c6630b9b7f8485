"""Scenarios of a group. Each returns the verdict. Small counts are tests, the full ones a soak."""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.kafka.torture.group import Group, Member, read_values
from tests.kafka.torture.judge import Verdict
from tests.kafka.torture.state import judge_counts, stored_counts
from tests.kafka.torture.watched import AFTER_DEAD_LETTER
from tests.servers.kafka_admin import create_topic, fresh_name
from tests.servers.kafka_broker import KafkaBroker

MOST_MEMBERS: Final = 4
STRIKING_SHARE: Final = 0.25
"""Share of the events after which the process of a bolt is killed or stopped, too."""
PROGRESS: Final = 100
"""Records that are done between two faults, at least."""
BROKER_SETTINGS: Final[Mapping[str, object]] = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
"""Limit for the restart of a killed broker on a busy machine."""


def _drawn_kind(draws: random.Random, live: int) -> str:
    if live < 2:
        return "join"
    if live >= MOST_MEMBERS:
        return draws.choice(["leave", "kill", "pause"])
    return draws.choice(["join", "join", "leave", "kill", "pause"])


def _strike_bolt(group: Group, draws: random.Random) -> None:
    """Kill or stop the process of a bolt now and then. Without acks, nothing replays what it had."""
    if group.spec.guarantee == "at_least_once" and draws.random() < STRIKING_SHARE:
        group.strike_bolt(draws)


async def _strike(group: Group, kind: str, draws: random.Random) -> None:
    """Force a rebalance of one kind, and wait until the group has settled again."""
    before, victim = group.generation, draws.choice(group.live)
    _strike_bolt(group, draws)
    if kind == "join":
        group.join(tasks=draws.choice([1, 1, 2]))
    elif kind == "leave":
        await group.leave(victim)
    elif kind == "kill":
        await group.kill(victim)
    else:
        group.pause(victim)
        await group.settle(before)
        before = group.generation
        await group.progress(PROGRESS)
        group.go_on(victim)
    await group.settle(before)
    await group.progress(draws.choice([1, PROGRESS, 3 * PROGRESS]))


async def rebalances(
    brokers: str, folder: Path, count: int, seed: int, *, guarantee: str = "at_least_once", commit_acked_set: bool = True
) -> Verdict:
    """Force rebalances under load, with acks out of order, failures, and some records that outlive the drain."""
    draws = random.Random(seed)
    kinds: Counter[str] = Counter()
    shares = {"fail_share": 0.02, "slow_share": 0.01} if guarantee == "at_least_once" else {}
    async with Group(brokers, folder, seed=seed, guarantee=guarantee, commit_acked_set=commit_acked_set, **shares) as group:
        group.load.start()
        group.join(tasks=1)
        await group.settle()
        first = group.generation
        while group.generation - first < count:
            kind = _drawn_kind(draws, len(group.live))
            kinds[kind] += 1
            await _strike(group, kind, draws)
        verdict = await group.verdict()
    verdict.counts.update({f"forced {kind}": number for kind, number in kinds.items()})
    return verdict


async def pause_with_backlog(brokers: str, folder: Path, backlog: int, seed: int) -> Verdict:
    """Pause a process with waiting records beyond its session, until another one has finished all. Then resume it."""
    async with Group(brokers, folder, seed=seed, pending=backlog // 2) as group:
        await group.load.produce(backlog)
        paused = group.join()
        await group.progress(PROGRESS)
        group.pause(paused)
        before = group.generation
        goal = group.done + backlog - paused.life.done  # before the other member begins: it may be far when the group has settled
        group.join()
        await group.settle(before)
        await group.until(lambda: group.done >= goal, f"{goal:,} records are done")
        before = group.generation
        group.go_on(paused)
        await group.settle(before)
        return await group.verdict()


async def broker_faults(broker: KafkaBroker, folder: Path, kills: int, freezes: int, seed: int) -> Verdict:
    """Kill and freeze the broker of two processes under load, and have them make progress between two faults."""
    draws = random.Random(seed)
    faults = ["kill"] * kills + ["freeze"] * freezes
    draws.shuffle(faults)
    async with Group(broker.bootstrap, folder, seed=seed, fail_share=0.02) as group:
        group.load.start()
        for _ in range(2):
            group.join(tasks=draws.choice([1, 2]))
        await group.settle()
        for fault in faults:
            await group.progress(draws.choice([PROGRESS, 3 * PROGRESS]))
            _strike_bolt(group, draws)
            if fault == "kill":
                await asyncio.to_thread(broker.kill)
                await asyncio.sleep(draws.choice([0.0, 1.0, 4.0]))
                await asyncio.to_thread(broker.start)
            else:
                broker.freeze()
                await asyncio.sleep(draws.choice([1.0, 5.0]))
                broker.thaw()
        await group.progress(PROGRESS)
        await group.settle()
        verdict = await group.verdict()
    verdict.counts.update({"broker kills": kills, "broker freezes": freezes})
    return verdict


async def deaths_at_steps(
    brokers: str, folder: Path, steps: Sequence[tuple[str, int]], seed: int, *, guarantee: str = "at_least_once"
) -> Verdict:
    """Kill processes at the n-th time of a named step, three at once. Each is a member of the group until then."""
    fail_share = 0.02 if guarantee == "at_least_once" else 0.0
    async with Group(brokers, folder, seed=seed, guarantee=guarantee, fail_share=fail_share) as group:
        group.load.start()
        group.join()
        await group.settle()
        victims: list[Member] = []
        for first in range(0, len(steps), 3):
            before = group.generation
            new = [group.join(step=step, step_number=number) for step, number in steps[first : first + 3]]
            victims += new
            await _until_death_or_settled(group, new, before)
            await _until_dead(group, victims, 0 if first + 3 >= len(steps) else 2)
        await group.settle()
        verdict = await group.verdict()
    verdict.counts["killed at steps"] = len(victims)
    return verdict


async def _until_death_or_settled(group: Group, members: Sequence[Member], before: int) -> None:
    names = ", ".join(member.name for member in members)
    await group.until(lambda: any(one.was_killed for one in members) or group.is_settled(before), f"one of {names} dies, or all settle")


async def _until_dead(group: Group, victims: Sequence[Member], but: int) -> None:
    """Move partitions until all victims except a few have died: one process joins, and all others leave."""
    while len(remaining := [victim for victim in victims if not victim.was_killed]) > but:
        others = [member for member in group.live if member not in victims]
        before = group.generation
        new = group.join()
        await _until_death_or_settled(group, [*remaining, new], before)
        await group.progress(PROGRESS)
        for other in others:
            await group.leave(other)


async def kills(brokers: str, folder: Path, count: int, seed: int, *, guarantee: str) -> Verdict:
    """Kill one of two members at random instants, again and again; another joins at once."""
    draws = random.Random(seed)
    async with Group(brokers, folder, seed=seed, guarantee=guarantee) as group:
        group.load.start()
        group.join()
        await group.settle()
        for _ in range(count):
            before = group.generation
            group.join(tasks=draws.choice([1, 2]))
            await group.settle(before)
            await group.progress(draws.randrange(1, 2 * PROGRESS))
            await group.kill(draws.choice(group.live))
        await group.settle(before)
        verdict = await group.verdict()
    verdict.counts["random kills"] = count
    return verdict


async def poison(brokers: str, folder: Path, records: int, seed: int) -> Verdict:
    """One record always fails. The process that wrote its dead letter dies before the answer, and another one continues.

    The letter counts as the end of the record, so the judge finds a commit that passes it before the broker has the letter.
    """
    draws = random.Random(seed)
    number = draws.randrange(records // 10)
    dead = await create_topic(brokers, fresh_name("torture-dead"), 1)
    extra = {"max_retries": 4, "dead_letter_topic": dead}
    async with Group(brokers, folder, seed=seed, poison=number, pending=4000, extra=extra) as group:
        await group.load.produce(records)
        victim = group.join(step=AFTER_DEAD_LETTER)
        await group.until(lambda: victim.was_killed, "the poison record is buried")
        group.join()
        verdict = await group.verdict()
        letters = await read_values(brokers, dead)
    verdict.violated("dead letters are not of the poison record", [value for value in letters if value != str(number).encode()])
    verdict.violated("poison record has no dead letter", [] if letters else [number])
    verdict.counts["dead letters"] = len(letters)
    return verdict


async def state_kills(brokers: str, folder: Path, count: int, seed: int) -> Verdict:
    """Kill processes that count in SQLite, and restart them on their files. Sometimes one leaves and comes back.

    Checkpoints by the clock are too far apart for a revoke: what drains does so because the revoke has asked for one (KS-6).
    """
    draws = random.Random(seed)
    files = [folder / "state-0.db", folder / "state-1.db"]
    kinds: Counter[str] = Counter()
    async with Group(brokers, folder, seed=seed, fail_share=0.01, drain_ms=3000, checkpoint_ms=4500, pending=4000) as group:
        group.load.start()
        slots = [group.join(state_url=f"sqlite:///{file}") for file in files]
        await group.settle()
        while kinds["kill"] < count:
            await group.progress(draws.randrange(1, 4 * PROGRESS))
            slot, kind, before = draws.randrange(2), draws.choice(["kill", "leave"]), group.generation
            kinds[kind] += 1
            _strike_bolt(group, draws)
            await (group.kill(slots[slot]) if kind == "kill" else group.leave(slots[slot]))
            slots[slot] = group.join(state_url=f"sqlite:///{files[slot]}", checkpoint_ms=draws.choice([300, 4500]))
            await group.settle(before)
        verdict = await group.verdict()
    counted: Counter[int] = sum([await stored_counts(file) for file in files], Counter())
    judge_counts(verdict, counted, [member.life for member in group.members], group.load.numbers.values())
    verdict.counts.update({f"processes with state: {kind}": number for kind, number in kinds.items()})
    return verdict
