"""Readers that ask without pause: they share a hundredth of the loop's time, whatever path they take (WEB-3)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

import engine
from engine.testing import run_virtual
from engine.web import server
from engine.web.access import Access
from engine.web.application import make_application, make_site
from engine.web.read_budget import ACCEPTING, MOST_DEBT_SECS, MOST_SAVED_SECS, NEW, SHARE, TURN_SECS, Party, ReadBudget
from engine.web.site import Site
from tests.patience import PATIENCE_SECS
from tests.web.runs import AUTHORIZED, TOKEN, ask, connect, served, topology

pytestmark = [pytest.mark.timeout(PATIENCE_SECS), pytest.mark.guarantee("WEB-3")]
COST_SECS = 0.0004
HOST = b"Host: localhost\r\n"
KEPT = Party("10.0.0.1", "", is_new=False)
FRESH = Party("10.0.0.1", "", is_new=True)


def in_virtual_time(main: Callable[[], Awaitable[Any]]) -> Any:
    return run_virtual(main, limit_secs=3600)


def test_readers_that_ask_without_pause_get_their_share_and_no_more() -> None:
    async def main() -> tuple[list[int], float]:
        budget, answers = ReadBudget(), [0] * 16
        budget.charge(MOST_SAVED_SECS)

        async def ask_without_pause(number: int) -> None:
            last = 0.0
            while True:
                last = await budget.turn(KEPT, last)
                budget.charge(COST_SECS)
                answers[number] += 1

        readers = [asyncio.create_task(ask_without_pause(number)) for number in range(len(answers))]
        await asyncio.sleep(100)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        return answers, sum(answers) * (TURN_SECS + COST_SECS)

    answers, taken_secs = in_virtual_time(main)
    assert 0.9 * 100 * SHARE < taken_secs < 100 * SHARE + 16 * COST_SECS
    assert max(answers) - min(answers) <= 2, "each gets as much as the others"


def test_somebody_who_has_had_no_turn_does_not_queue_behind_them() -> None:
    async def main() -> float:
        budget = ReadBudget()
        budget.charge(MOST_SAVED_SECS + MOST_DEBT_SECS)
        waiting = [asyncio.create_task(budget.turn(KEPT, 1.0 + number)) for number in range(200)]
        await asyncio.sleep(0)
        began = asyncio.get_running_loop().time()
        await budget.turn(FRESH)
        took = asyncio.get_running_loop().time() - began
        assert sum(each.done() for each in waiting) <= 1, "they take turns with it"
        budget.lift()
        await asyncio.gather(*waiting)
        return took

    assert in_virtual_time(main) == pytest.approx(MOST_DEBT_SECS / SHARE, abs=0.1)


@pytest.mark.parametrize(
    ("flood", "other"),
    [
        (FRESH, Party("10.0.0.2", "", is_new=True)),
        (KEPT, Party("10.0.0.2", "", is_new=False)),
        (FRESH, Party("10.0.0.1", "/readyz", is_new=True)),
        (FRESH, Party("10.0.0.1", "/metrics", is_new=False)),
        (Party("10.0.0.1", "/metrics", is_new=True), Party("10.0.0.1", "/metrics", is_new=False)),
        (ACCEPTING, Party("10.0.0.1", "/metrics", is_new=False)),
    ],
)
def test_a_flood_delays_nobody_else_by_more_than_a_few_turns(flood: Party, other: Party) -> None:
    async def main() -> float:
        budget = ReadBudget()
        budget.charge(MOST_SAVED_SECS)

        async def ask_without_pause() -> None:
            while True:
                await budget.turn(flood, NEW)
                budget.charge(COST_SECS)

        readers = [asyncio.create_task(ask_without_pause()) for _ in range(200)]
        longest_secs = 0.0
        for _ in range(20):
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            await budget.turn(other, began)
            longest_secs = max(longest_secs, asyncio.get_running_loop().time() - began)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        return longest_secs

    assert in_virtual_time(main) < 5 * (TURN_SECS + COST_SECS) / SHARE


@pytest.mark.parametrize("path", ["/readyz", "/healthz", "/metrics"])
def test_probes_and_scrapers_do_not_wait_for_a_flood_of_their_own_host(path: str) -> None:
    async def main() -> int:
        site, client = await site_and_client()
        async with client, site.run:
            site.budget.charge(1.0)
            flood = [asyncio.create_task(client.get("/no/such/path")) for _ in range(50)]
            await asyncio.sleep(0)
            await client.get(path)
            answered = sum(each.done() for each in flood)
            await asyncio.gather(*flood)
        return answered

    assert in_virtual_time(main) <= 2


def test_a_request_that_is_cancelled_takes_no_turn() -> None:
    async def main() -> None:
        budget = ReadBudget()
        budget.charge(1.0)
        gone = asyncio.create_task(budget.turn(FRESH))
        await asyncio.sleep(0)
        gone.cancel()
        await budget.turn(FRESH)
        assert budget.saved_secs == pytest.approx(-TURN_SECS, abs=SHARE * 0.1)

    in_virtual_time(main)


async def test_steps_of_a_coroutine_pass_results_and_errors_through() -> None:
    budget = ReadBudget()
    seen: list[object] = []

    async def steps() -> None:
        seen.append(await asyncio.sleep(0, "value"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.sleep(10)
        raise ValueError("of a handler")

    with pytest.raises(ValueError, match="of a handler"):
        await budget.run_charged(steps())
    assert seen == ["value"]
    waiting = asyncio.create_task(budget.run_charged(asyncio.sleep(10)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def site_and_client(**options: Any) -> tuple[Site, httpx.AsyncClient]:
    site = make_site(engine.run(topology()), Access(token=TOKEN, allowed_hosts=()), (), "engine")
    return site, httpx.AsyncClient(transport=httpx.ASGITransport(make_application(site)), base_url="http://127.0.0.1:8080", **options)


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/metrics", {}),
        ("GET", "/", {}),
        ("HEAD", "/healthz", {}),
        ("GET", "/no/such/path", {}),
        ("GET", "/api/snapshot?wait=x", {}),
        ("POST", "/metrics", {}),
        ("POST", "/api/stop", {}),
        ("POST", "/api/stop", {"authorization": "Bearer wrong"}),
        ("GET", "/metrics", AUTHORIZED),
        ("GET", "/", {"host": "evil.example.com"}),
    ],
)
def test_every_answer_waits_for_its_turn_also_in_a_mounted_application(method: str, path: str, headers: dict[str, str]) -> None:
    async def main() -> float:
        site, client = await site_and_client()
        async with client:
            site.budget.charge(1.0)
            began = asyncio.get_running_loop().time()
            await client.request(method, path, headers=headers)
            took = asyncio.get_running_loop().time() - began
        await site.sampler.end(has_failed=False)
        return took

    assert in_virtual_time(main) >= MOST_DEBT_SECS / SHARE


def test_a_change_with_the_token_never_waits() -> None:
    async def main() -> tuple[float, int]:
        site, client = await site_and_client(headers=AUTHORIZED)
        async with client:
            site.budget.charge(1.0)
            began = asyncio.get_running_loop().time()
            answer = await client.post("/api/log-level", json={"level": "info"})
            return asyncio.get_running_loop().time() - began, answer.status_code

    assert in_virtual_time(main) == (0.0, 200)


def test_too_many_waiting_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.web.read_budget.MOST_WAITING", 3)

    async def main() -> list[int]:
        site, client = await site_and_client()
        async with client:
            site.budget.charge(1.0)
            return [answer.status_code for answer in await asyncio.gather(*(client.get("/healthz") for _ in range(5)))]

    assert sorted(in_virtual_time(main)) == [200, 200, 200, 503, 503]


def test_readers_share_one_snapshot_and_one_text_a_second() -> None:
    async def main() -> tuple[int, list[int]]:
        site, client = await site_and_client()
        run, taken = site.run, [0]
        snapshot = run.snapshot

        def counted() -> Any:
            taken[0] += 1
            return snapshot()

        run.snapshot = counted  # type: ignore[method-assign]
        seen = []
        async with client, run:
            for _ in range(3):
                texts = {(await client.get("/metrics")).text for _ in range(20)}
                await asyncio.gather(*(client.get(path) for path in ("/api/snapshot", "/api/topology", "/api/snapshot?wait=0")))
                seen.append(len(texts))
                await asyncio.sleep(1.0)
            return taken[0], seen

    assert in_virtual_time(main) == (3, [1, 1, 1])


def test_a_snapshot_has_the_state_of_now() -> None:
    async def main() -> list[str]:
        site, client = await site_and_client(headers=AUTHORIZED)
        async with client:
            before = (await client.get("/api/snapshot")).json()["state"]
            async with site.run:
                running = (await client.get("/api/snapshot")).json()["state"]
            return [before, running, (await client.get("/api/snapshot")).json()["state"]]

    assert in_virtual_time(main) == ["starting", "running", "stopped"]


@pytest.mark.parametrize("request_bytes", [b"", b"GET / HT", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.0\r\n" + HOST + b"\r\n"])
async def test_connections_are_paid_also_without_a_request(request_bytes: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.web.read_budget.SHARE", 1e-9)  # so that the account does not fill meanwhile
    sites: list[Site] = []
    monkeypatch.setattr(server, "make_site", lambda *arguments: (sites.append(make_site(*arguments)), sites[0])[1])
    async with served() as (_, serving):
        saved_secs = sites[0].budget.saved_secs
        for _ in range(10):
            _, writer = await connect(serving)
            writer.write(request_bytes)
            writer.write_eof()
            await writer.drain()
            writer.close()
        await ask(serving, b"GET /healthz HTTP/1.0\r\n" + HOST + b"\r\n")
        assert saved_secs - sites[0].budget.saved_secs >= 11 * TURN_SECS


async def test_calls_with_the_token_get_back_what_their_connections_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.web.read_budget.SHARE", 1e-9)
    body = b'{"values": [3]}'
    head = f"POST /api/call/in HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
    async with served(callable_inlets=["in"]) as (_, serving):
        for _ in range(200):
            assert b'"square": 9' in await ask(serving, head.encode() + body)
