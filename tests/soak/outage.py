"""An outage under load: `python -m tests.soak.outage [SECS] [DOWN_SECS] [SEED]`.

A web service on a real HTTP server embeds a run. An async bolt calls a downstream service over HTTP (concurrency=100), and a stateful bolt
on SQLite counts. The seed chooses the form of the bolts. The downstream service answers 500 for a while. Each request gets its own result
or failure (SV-6), and the run lives.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import engine
from engine import Config, Inlet, Reply, Topology, TopologyBuilder, TupleFailed
from tests.kills.bolt_forms import BOLTS, choose_in_turn
from tests.soak.order_bolts import COUNTS, CUSTOMERS, Charge

CLIENTS = 100


@dataclass
class Outage:
    """Record of one run."""

    down: bool = False
    refused: set[int] = field(default_factory=set)
    """Orders that the downstream service answered with 500."""
    charged: set[int] = field(default_factory=set)
    """Orders that it answered with 200."""
    answers: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Status and text that the client of each order got."""
    mixed: list[str] = field(default_factory=list)
    """Answers that belong to another order, or that give a count twice."""
    counted: Counter[int] = field(default_factory=Counter)
    """Highest count that an answer had, by customer."""
    _counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    state: str = ""
    renewals: int = 0

    def note_answer(self, number: int, answer: httpx.Response) -> None:
        """Note an answer. An answer of 200 has the number of its own order, and a count that no other answer has."""
        self.answers[number] = (answer.status_code, answer.text)
        if answer.status_code != 200:
            return
        result = answer.json()
        if result["number"] != number:
            self.mixed.append(f"order {number} got the result of order {result['number']}")
        self._counts[number % CUSTOMERS, result["count"]] += 1
        if self._counts[number % CUSTOMERS, result["count"]] > 1:
            self.mixed.append(f"two orders of customer {number % CUSTOMERS} got the count {result['count']}")
        self.counted[number % CUSTOMERS] = max(self.counted[number % CUSTOMERS], result["count"])

    def faults(self) -> list[str]:
        """Return violations of the promises SV-1 to SV-6."""
        found = [f"the run is {self.state} after the load"] * (self.state != "running") + self.mixed
        for number, (status, text) in self.answers.items():
            if self.renewals and status == 502 and '"reason":"rollback"' in text:
                continue  # the renewal of a stateful task has taken it back, wherever it was (EO-5)
            if number in self.charged and status != 200:
                found.append(f"order {number} was charged, and its client got {status} {text}")
            elif number in self.refused and (status != 502 or "500" not in text):
                found.append(f"order {number} was refused with 500, and its client got {status} {text}")
            elif number not in self.charged | self.refused:
                found.append(f"order {number} never reached the downstream; its client got {status} {text}")
        done = Counter(number % CUSTOMERS for number, (status, _) in self.answers.items() if status == 200)
        # An order that a renewal has taken back may have been counted by a checkpoint before, as its sender must expect (EO-4).
        texts = self.answers.items() if self.renewals else ()
        unsure = Counter(number % CUSTOMERS for number, (_, text) in texts if '"reason":"rollback"' in text)
        if not done <= self.counted <= done + unsure:
            found.append(f"the state counts {dict(self.counted)}, and {dict(done)} were answered with 200, {dict(unsure)} taken back")
        return found


def downstream(outage: Outage) -> Starlette:
    async def charge(request: Request) -> Response:
        number = int(request.path_params["number"])
        await asyncio.sleep(0.002)
        (outage.refused if outage.down else outage.charged).add(number)
        return Response(status_code=500 if outage.down else 200)

    return Starlette(routes=[Route("/charge/{number}", charge)])


def topology(url: str, bolts: str) -> Topology:
    """Return the topology, with a form of its bolts from `BOLTS`."""
    processes = "processes" in bolts
    builder = TopologyBuilder("outage")
    builder.set_spout("orders", lambda: Inlet("number"))
    builder.set_bolt("charge", partial(Charge, url), processes=processes).shuffle_grouping("orders")
    builder.set_bolt("count", COUNTS["bursts" in bolts], parallelism=2, processes=processes).fields_grouping("charge", "customer")
    builder.set_bolt("reply", Reply).shuffle_grouping("count")
    return builder.build()


def service(run: engine.Run) -> Starlette:
    async def order(request: Request) -> Response:
        try:
            [row] = await run.inlet("orders").call((int(request.path_params["number"]),))
        except TupleFailed as failed:
            return JSONResponse({"error": failed.failure.describe(), "reason": failed.failure.reason}, 502)
        return JSONResponse({"number": row["number"], "count": row["count"]})

    return Starlette(routes=[Route("/orders/{number}", order, methods=["POST"])])


@contextlib.asynccontextmanager
async def served(app: Starlette) -> AsyncIterator[str]:
    """Serve an application on a free port of loopback; yields its URL."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
        assert not serving.done()
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


async def play(secs: float, down_secs: float, folder: Path, bolts: str = "plain") -> Outage:
    """Put load on the service for `secs`, with the outage in the middle."""
    outage = Outage()
    config = Config(state_provider=f"sqlite:///{folder}/outage.db", state_checkpoint_interval_ms=100, message_timeout_secs=30)
    async with served(downstream(outage)) as url, engine.run(topology(url, bolts), config) as run, served(service(run)) as front:
        await _load(outage, front, secs, down_secs)
        outage.state = run.state
        outage.renewals = run.snapshot().components["charge"].restarts
        await run.drain()
    return outage


async def _load(outage: Outage, front: str, secs: float, down_secs: float) -> None:
    loop = asyncio.get_running_loop()
    loop.call_later((secs - down_secs) / 2, setattr, outage, "down", True)
    loop.call_later((secs + down_secs) / 2, setattr, outage, "down", False)
    until = loop.time() + secs

    async def client(first: int) -> None:
        number = first
        async with httpx.AsyncClient(timeout=60, verify=False) as session:
            while loop.time() < until:
                answer = await session.post(f"{front}/orders/{number}")
                outage.note_answer(number, answer)
                number += CLIENTS

    await asyncio.gather(*(client(first) for first in range(CLIENTS)))


def main() -> int:
    given = [float(text) for text in sys.argv[1:3]]
    secs, down_secs = (*given, *(60.0, 20.0)[len(given) :])
    seed = int(sys.argv[3]) if sys.argv[3:] else int.from_bytes(os.urandom(6))
    bolts = choose_in_turn(BOLTS, 0, seed)
    with tempfile.TemporaryDirectory() as folder:
        outage = asyncio.run(play(secs, down_secs, Path(folder), bolts))
    statuses = Counter(status for status, _ in outage.answers.values())
    faults = outage.faults()
    load = f"{len(outage.answers):,} requests in {secs:g} s, {down_secs:g} s of it down"
    print(f"{load}: {dict(statuses)}; {outage.renewals} renewals; {len(faults)} faults; {bolts} bolts, seed {seed}")
    for fault in faults[:20]:
        print("  " + fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
