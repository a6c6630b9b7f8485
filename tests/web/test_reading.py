"""The reading routes: health, metrics, snapshots, topology and the files of the page."""

import json

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import engine
from engine import ComponentError, Config
from engine.version import __version__
from engine.web.static_files import STATIC_FILES
from tests.web.runs import client_of, ending_topology, running, topology


@pytest.mark.guarantee("WEB-2")
@pytest.mark.parametrize("path", ["/", "/healthz", "/api/snapshot", "/no/such/path", "/api/drain"])
async def test_every_answer_has_the_headers(path: str) -> None:
    async with running() as (_, client):
        answer = await client.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-stormcell-version"] == __version__
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_health_and_readiness_follow_the_run() -> None:
    run = engine.run(topology())
    async with client_of(run) as client:
        assert await statuses(client) == (200, 503)
        async with run:
            assert await statuses(client) == (200, 200)
            assert (await client.get("/readyz")).json() == {"state": "running"}
        assert await statuses(client) == (200, 503)
        assert (await client.get("/healthz")).json() == {"state": "stopped"}


async def statuses(client: httpx.AsyncClient) -> tuple[int, int]:
    return (await client.get("/healthz")).status_code, (await client.get("/readyz")).status_code


async def test_a_failed_run_is_not_healthy() -> None:
    run = engine.run(topology())
    async with client_of(run) as client:
        await run.__aenter__()
        run._end_run(ComponentError("square", 2, ValueError("broken")))
        with pytest.raises(ComponentError):
            await run.__aexit__(None, None, None)
        answer = await client.get("/healthz")
        assert answer.status_code == 503
        assert "broken" in answer.json()["error"]


async def test_a_run_on_standby_can_be_read() -> None:
    run = engine.run(topology())
    async with client_of(run) as client:
        snapshot = (await client.get("/api/snapshot")).json()
        assert (snapshot["state"], snapshot["components"]) == ("starting", {})
        described = (await client.get("/api/topology")).json()
        assert [component["id"] for component in described["components"]] == ["in", "square", "reply"]
        assert (await client.get("/metrics")).status_code == 200


async def test_the_snapshot_is_that_of_the_run() -> None:
    async with running() as (run, client):
        await run.inlet("in").send((3,))
        answer = await client.get("/api/snapshot")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["components"]["square"]["executed"] == 1


async def test_a_snapshot_can_wait_for_the_end() -> None:
    run = engine.run(ending_topology())
    async with client_of(run) as client, run:
        assert (await client.get("/api/snapshot?wait=10")).json()["state"] == "complete"
        assert (await client.get("/api/snapshot?wait=10")).json()["state"] == "complete", "also after the end"


@pytest.mark.parametrize("wait", ["x", "-1", "11", "nan", "inf", ""])
async def test_a_wrong_wait_is_refused(wait: str) -> None:
    async with running() as (_, client):
        answer = await client.get(f"/api/snapshot?wait={wait}")
    assert answer.status_code == 400
    assert answer.json()["hint"]


async def test_metrics_are_openmetrics() -> None:
    async with running() as (_, client):
        answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert list(text_string_to_metric_families(answer.text))


async def test_the_topology_has_a_layout() -> None:
    async with running(callable_inlets=["in"]) as (_, client):
        described = (await client.get("/api/topology")).json()
    own = [component for component in described["components"] if not component["system"]]
    assert [(each["id"], each["kind"], each["tasks"], each["x"]) for each in own] == [
        ("in", "spout", 1, 0.5),
        ("square", "bolt", 2, 1.5),
        ("reply", "bolt", 1, 2.5),
    ]
    assert own[1]["streams"] == {"default": ["number", "square"]}
    assert {"source": "in", "target": "square", "stream": "default", "grouping": "shuffle"} in described["edges"]
    assert [each["id"] for each in described["components"] if each["system"]] == ["__acker"]
    assert (described["inlets"], described["can_steer"], described["topology"]) == (["in"], True, "squares")


async def test_a_mounted_application_without_a_token_cannot_steer() -> None:
    async with running(token=None) as (_, client):
        assert (await client.get("/api/topology")).json()["can_steer"] is False


@pytest.mark.guarantee("WEB-2")
async def test_the_page_and_its_files_are_served() -> None:
    async with running() as (_, client):
        page = await client.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        for name, file in STATIC_FILES.items():
            answer = await client.get(f"/static/{name}")
            assert (answer.status_code, answer.content) == (200, file.content)
            assert answer.headers["content-type"] == file.media_type


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/snapshot"), ("GET", "/api/drain"), ("DELETE", "/"), ("PUT", "/api/stop")])
async def test_a_wrong_method_is_refused(method: str, path: str) -> None:
    async with running() as (_, client):
        answer = await client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"]
    assert answer.json()["hint"].startswith("Use ")


@pytest.mark.guarantee("WEB-1")
async def test_a_wrong_host_reads_nothing() -> None:
    async with running(base_url="http://evil.example.com") as (_, client):
        for path in ("/", "/api/snapshot", "/healthz", "/metrics"):
            answer = await client.get(path)
            assert answer.status_code == 421
            assert "squares" not in answer.text


@pytest.mark.guarantee("WEB-2")
async def test_hostile_names_are_data() -> None:
    names = ['<img src=x onerror="alert(1)">', "a\"b'c</script>", "日本/ü"]
    described = topology(names[0], inlet=names[1], middle=names[2])
    async with engine.run(described, Config(seed=1)) as run, client_of(run, callable_inlets=[names[1]]) as client:
        for path in ("/api/snapshot", "/api/topology"):
            answer = await client.get(path)
            assert answer.headers["content-type"] == "application/json"
            assert json.loads(answer.text)["topology"] == names[0]
        assert list(text_string_to_metric_families((await client.get("/metrics")).text))
