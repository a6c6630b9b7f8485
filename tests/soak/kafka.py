"""Groups on a real Kafka broker under faults; each scenario has its own broker.

Usage:

    python -m tests.soak.kafka SCENARIO COUNT SEED     repeat a scenario: the same faults in the same order, at about the same instants
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
"""Number of faults of each scenario. Two thirds of the broker's faults are kills; one in so many records is poison."""
ROUND: Final[Mapping[str, int]] = {name: max(1, count // 20) for name, count in FULL.items()}

Scenario: TypeAlias = "Callable[[KafkaBroker, Path, int, int], Awaitable[Verdict]]"


@dataclass(frozen=True)
class ScenarioResult:
    """Result of one scenario."""

    name: str
    verdict: "Verdict"
    replay: str

    def describe(self) -> str:
        """Return the violations, and the command that replays the scenario."""
        lines = "\n".join(f"  - {violation}" for violation in self.verdict.violations)
        return f"Kafka, {self.name}:\n{lines}\nReplay: {self.replay}"


def why_not() -> str | None:
    """Return why no broker can run here, or None."""
    try:
        from tests.servers import kafka_broker
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed: pip install 'stormcell[kafka]'"
    return kafka_broker.why_not()


def scenarios() -> dict[str, Scenario]:
    """Return all scenarios by name."""
    from tests.kafka.torture import scenarios as torture
    from tests.kafka.torture.watched import AT_MOST_ONCE_STEPS, STEPS

    def on_broker(scenario: "Callable[..., Awaitable[Verdict]]", **settings: object) -> Scenario:
        return lambda broker, folder, count, seed: scenario(broker.bootstrap, folder, count, seed, **settings)

    def at_steps(steps: tuple[str, ...], **settings: str) -> Scenario:
        return on_broker(
            lambda at, folder, count, seed: torture.deaths_at_steps(at, folder, drawn_steps(steps, count, seed), seed, **settings)
        )

    every: tuple[Scenario, ...] = (
        on_broker(torture.rebalances),
        on_broker(torture.rebalances, commit_acked_set=False),
        on_broker(torture.rebalances, guarantee="at_most_once"),
        lambda broker, folder, count, seed: torture.broker_faults(broker, folder, count - count // 3, count // 3, seed),
        at_steps(STEPS),
        at_steps(AT_MOST_ONCE_STEPS, guarantee="at_most_once"),
        on_broker(torture.kills, guarantee="at_most_once"),
        on_broker(torture.kills, guarantee="no_guarantee"),
        on_broker(torture.state_kills),
        on_broker(torture.poison),
    )
    return dict(zip(FULL, every, strict=True))


def drawn_steps(steps: tuple[str, ...], count: int, seed: int) -> list[tuple[str, int]]:
    """Draw steps in random order, each equally often, and each at its first, second or third time."""
    draws = random.Random(seed)
    every = [(step, draws.choice([1, 1, 2, 3])) for step in (steps * (count // len(steps) + 1))[:count]]
    draws.shuffle(every)
    return every


def run(name: str, count: int, seed: int) -> ScenarioResult:
    """Run one scenario. Its files stay after a violation."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # a client without a broker logs much
    folder = Path(tempfile.mkdtemp(prefix="soak-kafka-"))
    verdict = asyncio.run(_run(name, count, seed, folder))
    if not verdict.violations:
        shutil.rmtree(folder)
    return ScenarioResult(name, verdict, f"python -m tests.soak.kafka {name!r} {count} {seed}")


async def _run(name: str, count: int, seed: int, folder: Path) -> "Verdict":
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
    """Run one scenario; status 1 after a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.kafka", description="One scenario on a Kafka broker.")
    parser.add_argument("scenario", choices=FULL)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=random.SystemRandom().getrandbits(40))
    arguments = parser.parse_args()
    if reason := why_not():
        parser.error(reason)
    result = run(arguments.scenario, arguments.count, arguments.seed)
    print(f"{result.name}, seed {arguments.seed}: {result.verdict.line()}")
    if result.verdict.violations:
        print(result.describe())
    return 1 if result.verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
