"""The files of examples/monitoring on a real Prometheus.

Each panel has data, and each alert is valid and fires when it should.
"""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import engine
from engine import Config, KeyValueState, Topology, TopologyBuilder, Tuple, bolt, spout, stateful_bolt
from engine.web import serve
from tests.patience import PATIENCE_SECS
from tests.servers.process import HOST, free_port
from tests.servers.required import required

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text())
WITHOUT_DATA = ("transactions_committed_total", "kafka_lag")
"""Metrics that this topology does not have."""


def program(name: str) -> str:
    """Return the path of a program of Prometheus. Skips the test if it is missing."""
    found = shutil.which(name)
    required(None if found else f"{name} is not installed: scripts/install-system-packages prometheus")
    return found or name


@pytest.fixture
def promtool() -> str:
    return program("promtool")


def run_in_folder(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False)


def expressions() -> list[str]:
    """Return the expressions of all panels, with the variables that Grafana would put in."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [expression.replace("$topology", ".*").replace("$__rate_interval", "5s") for expression in found]


def test_the_alerts_fire_when_they_should(promtool: str) -> None:
    said = run_in_folder(promtool, "test", "rules", "alerts_test.yml")
    assert said.returncode == 0, said.stdout + said.stderr


def test_the_configuration_and_the_alerts_are_valid(promtool: str) -> None:
    said = run_in_folder(promtool, "check", "config", "prometheus.yml")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "9 rules found" in said.stdout


def test_each_alert_says_what_to_do() -> None:
    rules = (FOLDER / "alerts.yml").read_text()
    assert rules.count("alert: ") == rules.count("action: ") == rules.count("summary: ") == 9


@spout("number", restartable=True)
async def numbers() -> AsyncIterator[tuple[int]]:
    for number in range(1_000_000):
        yield (number,)
        await asyncio.sleep(0.002)


@stateful_bolt("number")
def count(tup: Tuple, state: KeyValueState[int, int]) -> tuple[int]:
    state.put(tup["number"] % 10, tup["number"])
    return (tup["number"],)


@bolt()
def picky(tup: Tuple) -> None:
    if tup["number"] % 10 == 0:
        raise ValueError("a number that ends with 0")


def topology() -> Topology:
    builder = TopologyBuilder("numbers")
    builder.set_spout("numbers", numbers)
    builder.set_bolt("count", count).fields_grouping("numbers", "number")
    builder.set_bolt("picky", picky).shuffle_grouping("count")
    return builder.build()


@pytest.fixture
async def prometheus(tmp_path: Path) -> AsyncIterator[tuple[str, int]]:
    """A Prometheus that scrapes a port each second. Yields its URL and that port."""
    own, scraped = free_port(), free_port()
    config = (FOLDER / "prometheus.yml").read_text().replace("127.0.0.1:8080", f"{HOST}:{scraped}").replace("5s", "1s")
    (tmp_path / "prometheus.yml").write_text(config)
    shutil.copy(FOLDER / "alerts.yml", tmp_path)
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program("prometheus"),
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address={HOST}:{own}",
            stderr=log,
            stdout=log,
        )
    try:
        yield f"http://{HOST}:{own}", scraped
    finally:
        process.terminate()
        await process.wait()


async def test_each_panel_of_the_dashboard_has_data_from_a_real_run(prometheus: tuple[str, int]) -> None:
    url, port = prometheus
    empty: list[str] = []
    async with (
        engine.run(topology(), Config(state_checkpoint_interval_ms=100)) as run,
        serve(run, f"{HOST}:{port}"),
        httpx.AsyncClient(base_url=url) as client,
        asyncio.timeout(PATIENCE_SECS),
    ):
        while (empty := await _panels_without_data(client)) and run.state == "running":  # noqa: ASYNC110 - Prometheus has no event
            await asyncio.sleep(0.2)
        targets = (await client.get("/api/v1/targets")).json()["data"]["activeTargets"]
        rules = (await client.get("/api/v1/rules")).json()["data"]["groups"]
    assert empty == []
    assert [target["health"] for target in targets] == ["up"], targets
    assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}


async def _panels_without_data(client: httpx.AsyncClient) -> list[str]:
    """Return the expressions that are wrong or give nothing. A Prometheus that is not up yet gives nothing at all."""
    found = []
    for expression in expressions():
        if any(name in expression for name in WITHOUT_DATA):
            continue
        try:
            answer = (await client.get("/api/v1/query", params={"query": expression})).json()
        except (httpx.TransportError, ValueError):
            return expressions()
        assert answer.get("status") == "success" or "errorType" not in answer, f"{expression}: {answer}"
        if not answer["data"]["result"]:
            found.append(expression)
    return found


def test_the_dashboard_uses_the_labels_of_the_run_alone() -> None:
    selectors = [selector for expression in expressions() for selector in re.findall(r"\{([^}]*)\}", expression)]
    assert selectors
    assert all('topology=~".*"' in selector for selector in selectors)
