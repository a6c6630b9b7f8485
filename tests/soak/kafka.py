"""Groups on a real Kafka broker under faults, in the counts that a release shows; each scenario has a broker of its own.

python -m tests.soak.kafka SCENARIO COUNT SEED     plays one again: the same faults in the same order, at about the same instants
"""

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from tests.kafka.torture.judge import Verdict
    from tests.servers.kafka_broker import KafkaBroker

FULL: Final[Mapping[str, int]] = {
    "rebalances": 100,
    "rebalances without the set": 100,
    "rebalances at most once": 50,
    "broker": 15,
    "steps": 39,
    "steps at most once": 33,
    "kills at most once": 20,
    "kills without guarantee": 20,
    "state": 20,
    "poison": 100_000,
}
"""How often each scenario strikes (of the broker's faults two thirds are kills), and among how many records one is poison."""
ROUND: Final[Mapping[str, int]] = {name: max(1, count // 20) for name, count in FULL.items()}

Scenario: TypeAlias = "Callable[[KafkaBroker, Path, int, int], Awaitable[Verdict]]"


@dataclass(frozen=True)
class Played:
    """What came of one scenario."""

    name: str
    verdict: "Verdict"
    replay: str

    def describe(self) -> str:
        """The violations, and the command that plays it again."""
        lines = "\n".join(f"  - {violation}" for violation in self.verdict.violations)
        return f"Kafka, {self.name}:\n{lines}\nReplay: {self.replay}"


def why_no() -> str | None:
    """Return why no broker can be had here, None where it can."""
    try:
        from tests.servers.kafka_broker import why_not
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'stormcell[kafka]'"
    return why_not()


def scenarios() -> dict[str, Scenario]:
    """All of them, by name."""
    from tests.kafka.torture import scenarios as of
    from tests.kafka.torture.watched import AT_MOST_ONCE_STEPS, STEPS

    def rebalances(broker: "KafkaBroker", folder: Path, count: int, seed: int) -> "Awaitable[Verdict]":
        return of.rebalances(broker.bootstrap, folder, count, seed)

    def without_set(broker: "KafkaBroker", folder: Path, count: int, seed: int) -> "Awaitable[Verdict]":
        return of.rebalances(broker.bootstrap, folder, count, seed, commit_acked_set=False)

    def rebalances_at_most_once(broker: "KafkaBroker", folder: Path, count: int, seed: int) -> "Awaitable[Verdict]":
        return of.rebalances(broker.bootstrap, folder, count, seed, guarantee="at_most_once")

    def broker_faults(broker: "KafkaBroker", folder: Path, count: int, seed: int) -> "Awaitable[Verdict]":
        return of.broker_faults(broker, folder, count - count // 3, count // 3, seed)

    def steps(broker: "KafkaBroker", folder: Path, count: int, seed: int) -> "Awaitable[Verdict]":
        return of.deaths_at_steps(broker.bootstrap, folder, drawn_steps(STEPS, count, seed), seed)

    def steps_at_most_once(broker: "KafkaBroker", folder: Path, count: int, seed: int) -> "Awaitable[Verdict]":
        drawn = drawn_steps(AT_MOST_ONCE_STEPS, count, seed)
        return of.deaths_at_steps(broker.bootstrap, folder, drawn, seed, guarantee="at_most_once")

    def at_most_once(broker: "KafkaBroker", folder: Path, count: int, seed: int) -> "Awaitable[Verdict]":
        return of.kills(broker.bootstrap, folder, count, seed, guarantee="at_most_once")

    def no_guarantee(broker: "KafkaBroker", folder: Path, count: int, seed: int) -> "Awaitable[Verdict]":
        return of.kills(broker.bootstrap, folder, count, seed, guarantee="no_guarantee")

    def state(broker: "KafkaBroker", folder: Path, count: int, seed: int) -> "Awaitable[Verdict]":
        return of.state_kills(broker.bootstrap, folder, count, seed)

    def poison(broker: "KafkaBroker", folder: Path, count: int, seed: int) -> "Awaitable[Verdict]":
        return of.poison(broker.bootstrap, folder, count, seed)

    every = (
        rebalances,
        without_set,
        rebalances_at_most_once,
        broker_faults,
        steps,
        steps_at_most_once,
        at_most_once,
        no_guarantee,
        state,
        poison,
    )
    return dict(zip(FULL, every, strict=True))


def drawn_steps(steps: tuple[str, ...], count: int, seed: int) -> list[tuple[str, int]]:
    """Each step as often as the count allows, in a drawn order, each at its first, second or third time."""
    draws = random.Random(seed)
    every = [(step, draws.choice([1, 1, 2, 3])) for step in (steps * (count // len(steps) + 1))[:count]]
    draws.shuffle(every)
    return every


def play(name: str, count: int, seed: int) -> Played:
    """Play one scenario; its files stay where something was violated."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a client whose broker is dead has much to say
    folder = Path(tempfile.mkdtemp(prefix="soak-kafka-"))
    verdict = asyncio.run(_play(name, count, seed, folder))
    if not verdict.violations:
        shutil.rmtree(folder)
    return Played(name, verdict, f"python -m tests.soak.kafka {name!r} {count} {seed}")


async def _play(name: str, count: int, seed: int, folder: Path) -> "Verdict":
    from tests.kafka.torture.judge import Verdict
    from tests.kafka.torture.scenarios import BROKER_SETTINGS
    from tests.servers.kafka_broker import KafkaBroker

    own = folder / "broker"
    own.mkdir()
    with KafkaBroker(own, settings=BROKER_SETTINGS) as broker:
        try:
            return await scenarios()[name](broker, folder / "group", count, seed)
        except AssertionError as error:
            return Verdict(violations=[str(error)])


def main() -> int:
    """Play one scenario; status 1 where it violates something."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.kafka", description="One scenario on a Kafka broker.")
    parser.add_argument("scenario", choices=FULL)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().getrandbits(40))
    arguments = parser.parse_args()
    if reason := why_no():
        parser.error(reason)
    played = play(arguments.scenario, arguments.count, arguments.seed)
    print(f"{played.name}, seed {arguments.seed}: {played.verdict.line()}")
    if played.verdict.violations:
        print(played.describe())
    return 1 if played.verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
