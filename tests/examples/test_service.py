"""The example service over real HTTP: it answers an order when its tree is done, and shuts down completely."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import uvicorn

from engine import Config
from tests.patience import PATIENCE_SECS


@contextlib.asynccontextmanager
async def served(service: ModuleType, config: Config) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the example on a free port; shut it down at the end."""
    app = service.create_app(config)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    listening = socket.create_server(("127.0.0.1", 0))  # a client that connects before the server is up waits
    port = listening.getsockname()[1]
    serving = asyncio.create_task(server.serve([listening]))
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        await serving
    assert app.state.run.state == "drained"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def order(client: httpx.AsyncClient, item: str, quantity: int = 1) -> tuple[int, Any]:
    answer = await client.post("/orders", json={"item": item, "quantity": quantity})
    return answer.status_code, answer.json()


@pytest.mark.guarantee("RUN-5")
async def test_an_order_is_answered_when_it_is_booked(service: ModuleType) -> None:
    async with served(service, Config()) as client:
        assert await order(client, "tea", 2) == (200, {"takings": 7.0})
        assert await order(client, "tea") == (200, {"takings": 10.5})
        answers = await asyncio.gather(*(order(client, "cake") for _ in range(20)))
        assert [status for status, _ in answers] == [200] * 20
        assert sorted(answer["takings"] for _, answer in answers) == [5.0 * count for count in range(1, 21)]
        assert (await order(client, "cake"))[1] == {"takings": 105.0}


@pytest.mark.guarantee("SV-6", "SV-8")
async def test_the_takings_survive_a_restart(service: ModuleType, tmp_path: Path) -> None:
    config = Config(state_provider=f"sqlite:///{tmp_path}/orders.db")
    for first in (0, 20):
        async with served(service, config) as client:
            answers = await asyncio.gather(*(order(client, "cake") for _ in range(20)))
            assert sorted(answer["takings"] for _, answer in answers) == [5.0 * (first + count) for count in range(1, 21)]


async def test_health_is_that_of_the_run(service: ModuleType) -> None:
    async with served(service, Config()) as client:
        assert ((answer := await client.get("/healthz")).status_code, answer.json()) == (200, {"state": "running"})


async def test_an_order_that_the_topology_refuses_is_a_client_error(service: ModuleType) -> None:
    async with served(service, Config()) as client:
        assert await order(client, "snow") == (422, {"error": "there is no 'snow' to order"})
        assert await order(client, "tea", 0) == (422, {"error": "an order of 0 is no order"})
        assert (await order(client, "tea"))[0] == 200


async def test_an_order_that_fails_is_answered_with_the_reason(service: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(item: str) -> float:
        raise ConnectionError("no prices today")

    monkeypatch.setattr(service, "price_of", broken)
    async with served(service, Config()) as client:
        status, answer = await order(client, "tea")
    assert (status, answer) == (500, {"error": "'price' (task 2) raised: ConnectionError: no prices today"})


@pytest.mark.guarantee("ACK-16")
async def test_a_timed_out_order_names_the_task_that_owes_the_ack(service: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(item: str) -> float:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    monkeypatch.setattr(service, "price_of", never)
    async with served(service, Config(message_timeout_secs=0.2, state_checkpoint_interval_ms=50, drain_timeout_secs=0.1)) as client:
        status, answer = await order(client, "tea")
    assert status == 504
    assert "timed out; 'price' (task 2) still owes an ack: it took <Tuple ('tea', 1)" in str(answer)


@pytest.mark.parametrize(
    "body",
    [b"tea, please", b"\xff", b"[]", b'{"item": "tea"}', b'{"item": "tea", "quantity": "two"}', b'{"item": "tea", "quantity": Infinity}'],
)
async def test_an_invalid_order_is_refused(service: ModuleType, body: bytes) -> None:
    async with served(service, Config()) as client:
        answer = await client.post("/orders", content=body)
    assert (answer.status_code, answer.json()) == (400, {"error": "an order is a JSON object with item and quantity"})


async def test_metrics_are_served_as_openmetrics(service: ModuleType) -> None:
    async with served(service, Config()) as client:
        await order(client, "tea")
        answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert 'stormcell_acked_tuples_total{topology="orders",component="book"' in answer.text
    assert answer.text.endswith("# EOF\n")


@pytest.mark.guarantee("WEB-1")
async def test_the_page_of_the_run_is_mounted(service: ModuleType) -> None:
    async with served(service, Config()) as client:
        assert (await client.get("/engine/")).status_code == 200
        await order(client, "tea")
        async with asyncio.timeout(PATIENCE_SECS):  # a snapshot may be a second old
            while (await client.get("/engine/api/snapshot")).json()["components"]["book"]["executed"] != 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        refused = await client.post("/engine/api/drain", headers={"authorization": "Bearer x"})
        assert (refused.status_code, refused.json()["error"]) == (403, "this server allows no changes")
        assert (await client.get("/engine/nothing")).status_code == 404
        async with client.stream("GET", "/engine/api/events") as events:
            assert (await anext(events.aiter_lines())) == "event: history"
