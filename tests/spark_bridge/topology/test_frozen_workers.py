"""A frozen worker fails its attempt, from the engine's side, and the batch is replayed on another one (CL-3)."""

import asyncio
import ctypes
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine import BasicBolt, Config, Tuple
from engine.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder
from spark_bridge.process import SparkChild, SparkConfig
from spark_bridge.topology import cluster_run
from spark_bridge.topology.frozen_watch import LOOKS_PER_LIMIT, FrozenWatch, Running, RunningTask, WorkerFrozen
from spark_bridge.topology.heartbeats import HeartbeatReceiver, sending
from spark_bridge.topology.job import Job, run_job
from tests.project.sources import ROOT
from tests.servers.spark_cluster import driver_settings
from tests.servers.spark_fixtures import NewSparkCluster
from tests.spark_bridge.spark_fixtures import LOCAL, is_running, until
from tests.spark_bridge.topology.both_engines import Committed, play
from tests.spark_bridge.topology.local_jobs import LocalJobs
from tests.spark_bridge.topology.test_failures import Adds, numbers

HAS_IPV6 = Path("/proc/net/if_inet6").is_file() and "00000000000000000000000000000001" in Path("/proc/net/if_inet6").read_text()
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.guarantee("CL-3")]

RUN_SECS = 110


def running(beats: int, number: int = 1, *, executor: str = "3", pid: int | None = 77, are_short: bool = False) -> Running:
    return Running((RunningTask(number, "partition 4 of 'work'", "db7", executor, pid, beats),), are_short=are_short)


def look(watch: FrozenWatch, seen: Running, times: int) -> None:
    for _ in range(times):
        watch.on_event(seen)


async def test_a_silent_worker_is_frozen_and_one_with_heartbeats_may_take_long() -> None:
    watch = FrozenWatch(15, heartbeats_arrive=True)
    for beats in range(100):
        watch.on_event(running(beats))
    look(watch, running(99), LOOKS_PER_LIMIT - 1)
    with pytest.raises(WorkerFrozen) as caught:
        watch.on_event(running(99))
    text = "the Python worker 77 at db7 (executor 3) is frozen: it gave no sign of life for 15 s (batch_timeout_secs), "
    assert str(caught.value).startswith(f"{text}while it ran partition 4 of 'work'")
    assert caught.value.executor == "3"
    assert "paused" in (caught.value.hint or "")


async def test_each_task_has_its_own_time() -> None:
    watch = FrozenWatch(15, heartbeats_arrive=True)
    for number in range(10 * LOOKS_PER_LIMIT):
        watch.on_event(running(0, number // 4))


async def test_a_worker_that_cannot_send_heartbeats_is_not_judged() -> None:
    """The cluster may drop datagrams to the engine's machine."""
    watch = FrozenWatch(15, heartbeats_arrive=False)
    look(watch, running(0, pid=None), 3 * LOOKS_PER_LIMIT)
    watch.on_event(running(1, 2))  # its executor can send, as this task shows
    with pytest.raises(WorkerFrozen, match="a Python worker at db7"):
        look(watch, running(0, 3, pid=None), LOOKS_PER_LIMIT + 1)


async def test_a_short_task_is_judged_without_heartbeats() -> None:
    watch = FrozenWatch(15, heartbeats_arrive=False)
    with pytest.raises(WorkerFrozen):
        look(watch, running(0, are_short=True), LOOKS_PER_LIMIT + 1)


@pytest.fixture
def receiver() -> HeartbeatReceiver:
    return HeartbeatReceiver("127.0.0.1", "127.0.0.1")


async def test_heartbeats_are_counted_by_task_while_its_block_runs(receiver: HeartbeatReceiver) -> None:
    def beats(task: int) -> int:
        heard = receiver.heard(task)
        return 0 if heard is None else heard.beats

    with sending(receiver.pulse(0.01), 5):
        await until(lambda: beats(5) > 3)
    heard = receiver.heard(5)
    assert heard is not None
    assert heard.pid == os.getpid()
    assert beats(6) == 0


async def test_other_datagrams_are_no_heartbeats(receiver: HeartbeatReceiver) -> None:
    pulse = receiver.pulse(60)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for datagram in (b"", b"\xff" * 1000, b"a 1 2", f"{pulse.key} x 2".encode(), f"{pulse.key} 8".encode()):
            stranger.sendto(datagram, (pulse.host, pulse.port))
    with sending(pulse, 9):
        await until(lambda: receiver.heard(9) is not None)
    assert receiver.heard(1) is receiver.heard(8) is None


@pytest.mark.parametrize("host", ["[127.0.0.1]", pytest.param("[::1]", marks=pytest.mark.skipif(not HAS_IPV6, reason="no IPv6 here"))])
async def test_a_host_is_in_brackets_as_in_the_settings_of_spark(host: str) -> None:
    """Spark demands them around an address of IPv6."""
    receiver = HeartbeatReceiver(host, host)
    with sending(receiver.pulse(0.01), 5):
        await until(lambda: receiver.heard(5) is not None)


async def test_a_host_that_cannot_be_reached_disturbs_no_task() -> None:
    with sending(HeartbeatReceiver("no such host", "127.0.0.1").pulse(0.01), 5):
        await asyncio.sleep(0)


async def test_the_attempt_fails_and_the_executor_is_replaced_and_the_batch_is_replayed() -> None:
    replaced: list[Any] = []

    class FreezesOnce(LocalJobs):
        async def call(self, function: Any, job: Job, **options: Any) -> Any:
            if function is not run_job:
                return replaced.append(job)
            if self.jobs == 0:
                self.jobs += 1
                while True:
                    options["on_event"](running(3))
            return await super().call(function, job)

    played = await play(lambda committed: numbers(committed, Adds), jobs=FreezesOnce(), batch_timeout_secs=7)
    assert played.committed.rows() == [(number + 2,) for number in range(40)]
    [error] = played.errors
    assert "WorkerFrozen: the Python worker 77 at db7 (executor 3) is frozen" in error
    assert "is tried again" in error
    assert replaced == ["3"]


# On a real Spark


class Freezes(BasicBolt):
    """Freezes its Python process at number 25, once, with processes above it. generations: how many. None: keeps Python's lock instead."""

    output_fields = "number"

    def __init__(self, marker: Path, generations: int | None) -> None:
        self.marker = marker
        self.generations = generations

    def execute(self, tup: Tuple) -> tuple[int]:
        if tup["number"] == 25 and not self.marker.exists():
            pids = [os.getpid()]
            for _ in range(self.generations or 0):
                pids.append(int(Path(f"/proc/{pids[-1]}/stat").read_text().rpartition(")")[2].split()[1]))
            self.marker.write_text(" ".join(map(str, pids)))
            if self.generations is None:
                ctypes.PyDLL(None).sleep(RUN_SECS)
            for pid in reversed(pids):
                os.kill(pid, signal.SIGSTOP)
        return (tup["number"],)


def frozen_in(marker: Path) -> list[int]:
    """Return the frozen processes: the Python worker, and those above it."""
    return [int(pid) for pid in marker.read_text().split()]


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    """Yield the file with the frozen processes, which go on after the test, so that they end."""
    path = tmp_path / "frozen"
    yield path
    for pid in frozen_in(path):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def _errors(marker: Path, generations: int | None, spark: SparkConfig) -> list[str]:
    committed = Committed()
    spout = MemoryTransactionalSpout([(number,) for number in range(40)], "number", take=20)
    builder: Any = TransactionalTopologyBuilder("frozen", "numbers", spout)
    builder.set_bolt("freezes", lambda: Freezes(marker, generations), 2).fields_grouping("numbers", "number")
    builder.set_committer("keep", committed.committer).global_grouping("freezes")
    async with asyncio.timeout(RUN_SECS), cluster_run.run(builder.build(), Config(batch_timeout_secs=5), spark=spark) as run:
        await run.completed()
        errors = [report.describe() for report in run.snapshot().errors]
    assert committed.rows() == [(number,) for number in range(40)]
    assert [txid for txid, _ in committed.attempts] == [1, 2]
    return errors


@pytest.mark.deep
@pytest.mark.timeout(180)
@pytest.mark.parametrize("generations", [0, None], ids=["stopped", "keeps Python's lock"])
async def test_a_frozen_worker_is_named_and_the_batch_is_replayed(generations: int | None, spark_child: SparkChild, marker: Path) -> None:
    [error] = await _errors(marker, generations, LOCAL)
    [worker] = frozen_in(marker)
    assert f"the Python worker {worker} at localhost is frozen: it gave no sign of life for 5 s (batch_timeout_secs)" in error
    assert "of 'freezes'" in error
    await until(lambda: not is_running(worker))


@pytest.mark.deep
@pytest.mark.timeout(180)
async def test_a_paused_executor_is_replaced(new_spark_cluster: NewSparkCluster, marker: Path) -> None:
    """Like a container that is paused, with the executor's JVM and all of its Python processes."""
    cluster = await asyncio.to_thread(new_spark_cluster)
    conf = driver_settings()
    memory = conf.pop("spark.executor.memory")
    conf["spark.executorEnv.PYTHONPATH"] = str(ROOT)
    errors = await _errors(marker, 2, SparkConfig(cluster.master, driver_memory="512m", executor_memory=memory, conf=conf))
    worker, _, executor = frozen_in(marker)
    names = f"the Python worker {worker} at 127.0.0.1 (executor ", "a Python worker at 127.0.0.1 (executor "  # paused before its heartbeat
    assert any(any(name in error for name in names) and "of 'freezes'" in error for error in errors)
    await until(lambda: executor not in cluster.executors())
