# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-unimported,untyped-decorator,unused-ignore"
"""Faust (faust-streaming) with one worker, one agent, and a commit every 2 s. It reads raw values, or answers requests."""

import asyncio
import json
import os
from collections.abc import AsyncIterable, AsyncIterator
from tempfile import TemporaryDirectory
from typing import Any

import faust

from bench.kafka.job import COMMIT_SECS, Job, Tally, filling_job, finish, reading_job
from bench.measuring import new_event_loop
from bench.service.closed_loop import measure_clients, price


def read(records: int) -> dict[str, float]:
    """Read a topic. Faust uses the current loop when its parts are created."""
    job, tally = reading_job(records), Tally(records)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        loop.run_until_complete(_read(job, tally, folder))
    return finish(job, tally)


async def _read(job: Job, tally: Tally, folder: str) -> None:
    """Read all records. `stop` commits their offsets."""
    app = faust.App(
        job.group,
        broker=f"kafka://{job.address}",
        broker_commit_interval=COMMIT_SECS,
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        web_enabled=False,
        datadir=folder,
    )
    records = app.topic(job.topic, value_type=bytes, value_serializer="raw", key_serializer="raw")
    all_seen = asyncio.Event()

    @app.agent(records)
    async def count(stream: AsyncIterable[bytes]) -> None:
        async for _ in stream:
            if tally.count_records():
                all_seen.set()

    await app.start()
    await all_seen.wait()
    await app.stop()


def ask(clients: int, warm_secs: float, measured_secs: float) -> None:
    """Ask an agent, whose requests and results are records of two topics. Prints the figures and ends the process.

    faust-streaming 0.15 cannot stop after an ask: it waits without end for the last record of the reply topic.
    """
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    with TemporaryDirectory(prefix="stormcell-bench-") as folder:
        print(json.dumps(loop.run_until_complete(_ask(folder, clients, warm_secs, measured_secs))), flush=True)
    os._exit(0)


async def _ask(folder: str, clients: int, warm_secs: float, measured_secs: float) -> dict[str, float]:
    """Return the figures of many clients, and as `one_...` the latency of a single one."""
    job = filling_job(0)
    app = faust.App(
        job.group,
        broker=f"kafka://{job.address}",
        broker_commit_interval=COMMIT_SECS,
        topic_disable_leader=True,
        web_enabled=False,
        datadir=folder,
        reply_create_topic=True,
        reply_to=f"{job.topic}-reply",
    )
    orders = app.topic(job.topic)

    @app.agent(orders, concurrency=1)
    async def totals(stream: AsyncIterable[dict[str, Any]]) -> AsyncIterator[float]:
        async for order in stream:
            yield price(order["item"], order["quantity"])

    async def total(item: str, quantity: int) -> float:
        return float(await totals.ask({"item": item, "quantity": quantity}))

    await orders.declare()
    await app.start()
    await asyncio.wait_for(total("tea", 1), 60)
    one = await measure_clients(total, 1, warm_secs, measured_secs)
    many = await measure_clients(total, clients, warm_secs, measured_secs)
    return {**many, "one_p50_ms": one["p50_ms"], "one_p99_ms": one["p99_ms"]}
