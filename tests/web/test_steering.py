"""The changing routes: each needs the token, and wrong requests get clear answers."""

import asyncio
import logging
from typing import Any

import httpx
import pytest

import engine
from engine import Config
from engine.errors import ConfigError, UsageError
from engine.web import app
from engine.web.answers import MOST_BODY_BYTES
from tests.web.runs import AUTHORIZED, TOKEN, client_of, ending_topology, running, topology

CHANGES = ["activate", "deactivate", "drain", "stop", "log-level", "tasks/1/restart", "trace", "call/in"]


async def post(client: httpx.AsyncClient, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    answer = await client.post(f"/api/{path}", json={} if body is None else body, headers={**AUTHORIZED, **headers})
    return answer.status_code, answer.json()


@pytest.mark.guarantee("WEB-1")
@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_changes_without_the_token(change: str) -> None:
    async with running(callable_inlets=["in"]) as (run, client):
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {TOKEN}x"}):
            answer = await client.post(f"/api/{change}", json={}, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "token" in answer.json()["hint"]
        assert run.state == "running"


@pytest.mark.guarantee("WEB-1")
@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_changes_for_another_site(change: str) -> None:
    async with running(callable_inlets=["in"]) as (run, client):
        for headers in ({"origin": "http://evil.example.com"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
            assert (await post(client, change, **headers))[0] == 403
        assert run.state == "running"


@pytest.mark.guarantee("WEB-1")
@pytest.mark.parametrize("change", CHANGES)
async def test_nothing_changes_in_a_mounted_application_without_a_token(change: str) -> None:
    async with running(token=None) as (run, client):
        status, answer = await post(client, change)
        assert (status, answer["error"]) == (403, "this server allows no changes")
        assert run.state == "running"


async def test_spouts_are_switched() -> None:
    async with running() as (run, client):
        assert await post(client, "deactivate") == (200, {"state": "running"})
        assert run.snapshot().components["in"].status in ("drained", "inactive")
        assert await post(client, "activate") == (200, {"state": "running"})


async def test_a_drain_ends_the_run() -> None:
    async with running() as (run, client):
        assert (await post(client, "drain"))[0] == 202
        await run.completed()
        assert run.state == "drained"
        status, answer = await post(client, "drain")
        assert (status, answer["error"]) == (409, "the run has ended (drained), so it cannot drain")


async def test_a_stop_ends_the_run() -> None:
    async with running() as (run, client):
        assert (await post(client, "stop"))[0] == 202
        await run.completed()
        assert run.state == "stopped"


async def test_a_run_that_has_not_begun_is_not_changed() -> None:
    run = engine.run(topology())
    async with client_of(run, callable_inlets=["in"]) as client:
        assert (await post(client, "activate"))[0] == 409
        assert (await post(client, "drain"))[0] == 409
        assert await post(client, "stop") == (
            409,
            {"error": "the run has not begun, so it cannot stop", "hint": "Stop it while it waits or runs."},
        )
        assert (await post(client, "call/in", {"values": [1]}))[0] == 503


async def test_the_level_of_the_log_is_changed() -> None:
    async with running(logger="engine.test") as (_, client):
        assert await post(client, "log-level", {"level": "Debug"}) == (200, {"level": "DEBUG"})
        assert logging.getLogger("engine.test").level == logging.DEBUG
        for wrong in ({"level": "loud"}, {"level": 10}, {"level": ""}, {}, {"level": "debug" * 1000}):
            status, answer = await post(client, "log-level", wrong)
            assert status == 400
            assert answer["hint"]


async def test_a_task_is_restarted() -> None:
    async with running() as (run, client):
        assert await post(client, "tasks/2/restart") == (202, {"task": 2})
        for _ in range(100):  # turns of the loop
            await asyncio.sleep(0)
        assert run.snapshot().components["square"].restarts == 1
        for wrong in ("99", "x", "-1", "2.0", "٢", "9" * 5000):
            assert (await post(client, f"tasks/{wrong}/restart"))[0] == 404
        assert run.state == "running"


async def test_a_message_is_traced() -> None:
    async with running() as (_, client):
        status, trace = await post(client, "trace", {"component": "in", "message_id": "17"})
        assert status == 202
        assert (trace["component"], trace["message_id"], trace["state"]) == ("in", "17", "waiting")
        assert (await client.get("/api/traces")).json()["traces"] == [trace]
        for wrong in ({"component": "no", "message_id": "17"}, {"component": "in"}, {"component": 1, "message_id": "17"}, {}):
            assert (await post(client, "trace", wrong))[0] == 400
        long = {"component": "in", "message_id": "x" * 2000}  # each sample would send it to each reader
        status, answer = await post(client, "trace", long)
        assert (status, answer["error"]) == (400, "the message id is too long to trace")


async def test_an_inlet_is_called() -> None:
    async with running(callable_inlets=["in"]) as (_, client):
        assert await post(client, "call/in", {"values": [7]}) == (200, {"rows": [{"number": 7, "square": 49}]})
        answers = await asyncio.gather(*(post(client, "call/in", {"values": [number]}) for number in range(20, 40)))
        assert [answer["rows"][0]["square"] for _, answer in answers] == [number**2 for number in range(20, 40)]


async def test_a_call_that_fails_tells_the_reason() -> None:
    async with running(callable_inlets=["in"]) as (_, client):
        status, answer = await post(client, "call/in", {"values": [13]})
        assert status == 500
        assert "ValueError: <b>thirteen</b>" in answer["error"]
        status, answer = await post(client, "call/in", {"values": [1], "timeout_secs": 0})
        assert (status, answer["error"]) == (504, "the call took longer than 0 s")


async def test_values_that_json_does_not_have_are_shown() -> None:
    async with running(callable_inlets=["in"]) as (_, client):
        status, answer = await post(client, "call/in", {"values": [10**200]})
        assert (status, answer["rows"][0]["square"]) == (200, str(10**400))
        status, answer = await post(client, "call/in", {"values": [1e200]})
        assert status == 500, "an overflow"


@pytest.mark.parametrize(
    "body",
    [{}, {"values": 7}, {"values": []}, {"values": [1, 2]}, {"values": [1], "timeout_secs": "x"}, {"values": [1], "timeout_secs": -1}, []],
)
async def test_a_wrong_call_is_refused(body: Any) -> None:
    async with running(callable_inlets=["in"]) as (_, client):
        status, answer = await post(client, "call/in", body)
    assert status == 400
    assert answer["hint"]


@pytest.mark.guarantee("WEB-1")
async def test_only_allowed_inlets_are_called() -> None:
    async with running() as (_, client):
        for inlet in ("in", "no", "in/x", "%00"):
            status, answer = await post(client, f"call/{inlet}", {"values": [7]})
            assert status == 403
            assert "--http-call" in answer["hint"]


async def test_an_inlet_may_have_any_name() -> None:
    async with engine.run(topology(inlet="a/b c?#%"), Config(seed=1)) as run, client_of(run, callable_inlets=["a/b c?#%"]) as client:
        assert (await post(client, "call/a%2Fb%20c%3F%23%25", {"values": [2]}))[1]["rows"] == [{"number": 2, "square": 4}]


async def test_an_unknown_inlet_or_token_is_refused_at_once() -> None:
    run = engine.run(topology())
    with pytest.raises(UsageError, match=r"no inlet 'inn'(?s:.*)Did you mean 'in'"):
        app(run, callable_inlets=["inn"])
    with pytest.raises(ConfigError, match="token is empty"):
        app(run, token="")


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"\xff\xfe", b"null", b"[]", b'"x"', b"NaN", b'{"level": NaN}', b'{"level": 1e999}', b"[" * 100_000, b"9" * 100_000),
        b'{"level": "\\ud800"}',
        b'{"level": Infinity}',
    ],
)
async def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    async with running() as (_, client):
        answer = await client.post("/api/log-level", content=body, headers=AUTHORIZED)
    assert answer.status_code == 400
    assert answer.json()["hint"]


async def test_a_large_body_is_refused() -> None:
    async with running() as (_, client):
        answer = await client.post("/api/log-level", content=b"x" * (MOST_BODY_BYTES + 1), headers=AUTHORIZED)
    assert answer.status_code == 413
    assert answer.json()["error"] == "the body of the request is too large"


async def test_a_complete_run_cannot_be_drained() -> None:
    run = engine.run(ending_topology())
    async with client_of(run) as client, run:
        await run.completed()
        for change in ("drain", "stop", "activate", "deactivate"):
            status, answer = await post(client, change)
            assert status == 409
            assert "complete" in answer["error"]
