"""Kills transactional topologies again and again, on real servers and in all combinations.

Usage:

    python -m tests.soak.transactions COUNT SEED               kill COUNT processes; a seed gives the same rounds
    python -m tests.soak.transactions COUNT SEED --round 12    repeat one round: the same deaths, at about the same instants
"""

import logging
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.kills.bolt_forms import choose_in_turn
from tests.kills.rounds import Killed
from tests.soak import campaign
from tests.transactional.kills.combinations import COMBINATIONS, Combination
from tests.transactional.kills.killing import Death
from tests.transactional.kills.plan import among, chain, drawn_instant
from tests.transactional.kills.rounds import KilledTransactions, Servers, drawn_lines
from tests.transactional.kills.steps import STEPS, steps_of

ROUND: Final = 25
"""Number of processes to kill."""
STEPS_PER_ROUND: Final = 8
INSTANTS_PER_ROUND: Final = 5
SERVERS: Final = ("kafka", "redis", "postgres", "zookeeper")


def combination_of(seed: int, number: int) -> Combination:
    """Return the combination of a round."""
    return choose_in_turn(COMBINATIONS, seed, number)


class Transactions(campaign.Campaign[Servers, Killed]):
    """Kills transactional topologies, with one server of each kind."""

    name = "transactions"
    full = 1000
    enough = 800

    def why_not(self) -> str | None:
        try:
            from tests.servers import kafka_broker, postgres_server, redis_server, zookeeper_server
        except ModuleNotFoundError as error:
            return f"{error.name} is not installed: pip install 'stormcell[kafka,redis,postgres,zookeeper]'"
        reasons = (server.why_not() for server in (kafka_broker, redis_server, postgres_server, zookeeper_server))
        return next((reason for reason in reasons if reason), None)

    @contextmanager
    def running(self, folder: Path) -> Iterator[Servers]:
        from tests.servers.kafka_broker import KafkaBroker
        from tests.servers.kafka_fixtures import STEADY
        from tests.servers.postgres_server import PostgresServer, url
        from tests.servers.process import HOST
        from tests.servers.redis_server import RedisServer
        from tests.servers.zookeeper_server import ZooKeeperServer

        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # until a new topic has a leader, the client logs warnings
        own = {name: folder / name for name in SERVERS}
        for each in own.values():
            each.mkdir()
        with ExitStack() as stack:
            kafka = stack.enter_context(KafkaBroker(own["kafka"], settings=STEADY))
            redis = stack.enter_context(RedisServer(own["redis"]))
            postgres = stack.enter_context(PostgresServer(own["postgres"]))
            zookeeper = stack.enter_context(ZooKeeperServer(own["zookeeper"]))
            yield Servers(
                kafka=kafka.bootstrap,
                redis=f"redis://{HOST}:{redis.port}/0",
                postgres=url(postgres.port),
                zookeeper=f"{HOST}:{zookeeper.port}",
            )

    def begin(self, seed: int, count: int) -> campaign.KillsResult[Killed]:
        return campaign.KillsResult(seed, count, "of transactions", STEPS)

    def topology(self, servers: Servers, seed: int, number: int, folder: Path) -> KilledTransactions:
        draws = random.Random(f"{seed} lines {number}")
        lines = drawn_lines(draws, draws.choice([500, 1000, 2000]))
        name = f"round-{number}-{random.SystemRandom().randrange(2**32):08x}"
        bursts = random.Random(f"{seed} bursts {number}").random() < 0.5
        return KilledTransactions(combination_of(seed, number), servers, folder, name, lines, bursts=bursts)

    def deaths(self, seed: int, number: int) -> list[Death]:
        """Draw the deaths from the steps of the round's combination."""
        draws = random.Random(f"{seed} round {number}")
        combination = combination_of(seed, number)
        steps = steps_of(combination)
        random.Random(f"{seed} {combination}").shuffle(steps)
        steps.sort(key=lambda step: sum(step.where(each) for each in COMBINATIONS))  # steps of few combinations come first
        first = number // len(COMBINATIONS) * STEPS_PER_ROUND
        chosen = [steps[at % len(steps)] for at in range(first, first + STEPS_PER_ROUND)]
        deaths = chain(chosen, draws)
        first, last = among(chosen)
        for _ in range(INSTANTS_PER_ROUND):
            deaths.insert(draws.randrange(first, last + 1), drawn_instant(draws))
        return deaths


if __name__ == "__main__":
    sys.exit(campaign.command(Transactions()))
