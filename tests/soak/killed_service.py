"""kill -9 of a service under load, with an outage of its backend: `python -m tests.soak.killed_service [SECS] [DOWN_SECS] [KILLS] [SEED]`.

The service of [outage](outage.py) runs in a process of its own, with SQLite. It is killed at random moments and started again. Each request
gets its own result or its own failure; for a request of a killed process, this is the broken connection. An answered order is never lost.
The seed chooses the form of the bolts. Processes of bolts are killed as well; a request that fails with one gets 502.
"""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import uvicorn

import engine
from engine import Config
from tests.kills.bolt_forms import BOLTS, DEATHS, choose_in_turn, strike_bolt_process
from tests.soak.outage import CLIENTS, CUSTOMERS, Outage, downstream, served, service, topology

START_SECS = 30.0


async def serve(port: int, url: str, database: str, bolts: str) -> None:
    """Serve orders until SIGTERM."""
    config = Config(state_provider=f"sqlite:///{database}", message_timeout_secs=30)
    async with engine.run(topology(url, bolts), config) as run:
        await uvicorn.Server(uvicorn.Config(service(run), host="127.0.0.1", port=port, log_level="warning")).serve()
        await run.drain()


class KilledService:
    """The process of the service. Each life uses the same port and the same database."""

    def __init__(self, url: str, folder: Path, bolts: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._arguments = ("serve", str(self._port), url, str(folder / "killed.db"), bolts)
        self._process: asyncio.subprocess.Process | None = None
        self.front = f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Start the process, and wait until it answers."""
        self._process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.soak.killed_service", *self._arguments)
        async with asyncio.timeout(START_SECS):
            while True:
                assert self._process.returncode is None, "the service ended by itself"
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", self._port)
                    writer.close()
                    return
                await asyncio.sleep(0.02)

    async def end(self, number: signal.Signals) -> int:
        """Send a signal, and return the exit status."""
        assert self._process is not None
        assert self._process.returncode is None, "the service ended by itself"
        self._process.send_signal(number)
        return await self._process.wait()

    def strike_bolt(self, draws: random.Random) -> bool:
        """Kill the process of a bolt. Return False if there is none."""
        assert self._process is not None
        return strike_bolt_process(self._process.pid, draws, [signal.SIGKILL])


@contextlib.asynccontextmanager
async def running(url: str, folder: Path, bolts: str) -> AsyncIterator[KilledService]:
    """Run the service, and drain it at the end."""
    process = KilledService(url, folder, bolts)
    await process.start()
    try:
        yield process
    except BaseException:
        await process.end(signal.SIGKILL)
        raise
    status = await process.end(signal.SIGTERM)
    assert status in (0, -signal.SIGTERM), f"the drained service ended with {status}"  # uvicorn raises the signal again


class Load:
    """Clients that send orders, each number once, and what became of them."""

    def __init__(self, outage: Outage) -> None:
        self.outage = outage
        self.broken = Counter[int]()
        """Orders without an answer or with a failure, because a process was killed, by customer."""
        self.strikes = 0
        """Number of strikes at processes of bolts."""

    async def client(self, front: str, first: int, until: float) -> None:
        """Send one order after the other until the time is over."""
        number, now = first, asyncio.get_running_loop().time
        async with httpx.AsyncClient(timeout=60, verify=False) as session:
            while now() < until:
                try:
                    answer = await session.post(f"{front}/orders/{number}")
                    if self.strikes and answer.status_code == 502 and answer.json()["reason"] in DEATHS:
                        self.broken[number % CUSTOMERS] += 1
                    else:
                        self.outage.note_answer(number, answer)
                except httpx.ConnectError:  # the next process is not up yet, and the order was not sent
                    await asyncio.sleep(0.02)
                except httpx.TransportError:
                    self.broken[number % CUSTOMERS] += 1
                number += CLIENTS

    def faults(self, counts: Counter[int]) -> list[str]:
        """Return the violations. `counts`: the orders in the state at the end, by customer."""
        found = list(self.outage.mixed)
        done = Counter(number % CUSTOMERS for number, (status, _) in self.outage.answers.items() if status == 200)
        taken_back = [number for number, (_, text) in self.outage.answers.items() if '"reason":"rollback"' in text]
        unsure = Counter(number % CUSTOMERS for number in taken_back) + self.broken  # a checkpoint before may have counted them
        for customer in range(CUSTOMERS):
            least, most = done[customer], done[customer] + unsure[customer]
            if not least <= counts[customer] <= most:
                found.append(f"customer {customer} has {counts[customer]} orders in the state, not {least} to {most}")
        for number, (status, text) in self.outage.answers.items():
            if self.outage.refused and status == 502 and '"reason":"rollback"' in text:
                continue  # the outage has renewed a stateful task, whose recovery has taken the order back (EO-5)
            if status not in (200, 502) or (status == 502 and number not in self.outage.refused):
                found.append(f"order {number} got {status} {text}")
        return found


async def play(secs: float, down_secs: float, kills: int, folder: Path, seed: int, bolts: str = "plain") -> tuple[Load, list[str]]:
    """Put load on the service, kill it `kills` times, and let its backend fail in the middle. Return the load and the violations."""
    loop, draws = asyncio.get_running_loop(), random.Random(seed)
    load = Load(Outage())
    deaths = [*["run"] * kills, *["bolt"] * (kills if "processes" in bolts else 0)]
    async with served(downstream(load.outage)) as url, running(url, folder, bolts) as process:
        began = loop.time()
        loop.call_later((secs - down_secs) / 2, setattr, load.outage, "down", True)
        loop.call_later((secs + down_secs) / 2, setattr, load.outage, "down", False)
        clients = [asyncio.create_task(load.client(process.front, first, began + secs)) for first in range(CLIENTS)]
        for at, death in sorted((draws.uniform(0, secs * 0.9), death) for death in deaths):
            await asyncio.sleep(max(began + at - loop.time(), 0.05))
            if death == "bolt":
                load.strikes += process.strike_bolt(draws)
                continue
            await process.end(signal.SIGKILL)
            await process.start()
        await asyncio.gather(*clients)
        counts = await _counts(process.front, load.broken)
    return load, load.faults(counts)


async def _counts(front: str, broken: Counter[int]) -> Counter[int]:
    """Return the orders in the state by customer, by one more order of each. An order fails if a bolt's process has just died."""
    counts = Counter[int]()
    async with httpx.AsyncClient(timeout=60, verify=False) as session:
        for customer in range(CUSTOMERS):
            number = customer + CUSTOMERS * 10**9
            while (answer := await session.post(f"{front}/orders/{number}")).status_code == 502:
                broken[customer] += 1
                number += CUSTOMERS
            counts[customer] = answer.json()["count"] - 1
    return counts


def main() -> int:
    """Serve, or play and print the violations."""
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(int(sys.argv[2]), *sys.argv[3:6]))
        return 0
    given = [float(text) for text in sys.argv[1:4]]
    secs, down_secs, kills = (*given, *(60.0, 20.0, 8.0)[len(given) :])
    seed = int(sys.argv[4]) if sys.argv[4:] else int.from_bytes(os.urandom(6))
    bolts = choose_in_turn(BOLTS, 0, seed)
    with tempfile.TemporaryDirectory() as folder:
        load, faults = asyncio.run(play(secs, down_secs, int(kills), Path(folder), seed, bolts))
    statuses = Counter(status for status, _ in load.outage.answers.values())
    print(
        f"{len(load.outage.answers):,} answers in {secs:g} s, {down_secs:g} s of it down: {dict(statuses)}; "
        f"{int(kills)} kills and {load.strikes} of bolts broke {load.broken.total()} requests; "
        f"{len(faults)} faults; {bolts} bolts, seed {seed}"
    )
    for fault in faults[:20]:
        print("  " + fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
