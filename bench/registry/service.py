"""Requests that get results."""

from typing import Any, Final

from bench.registry.runs import PER_SECOND, new_figures, new_run, servers_of
from bench.work import Peer, Run, Work

CLIENTS: Final = 100
LATENCIES: Final = new_figures("ms", p50_ms=f"{CLIENTS} clients, p50", p99_ms=f"{CLIENTS} clients, p99")


def _clients(function: str, package: str = "", **arguments: Any) -> Run:
    """Return a run of clients that each wait for the result of their request."""
    quick = {"warm_secs": 0.2, "measured_secs": 0.5}
    return new_run(function, quick, package=package, **arguments, clients=CLIENTS, warm_secs=1.0, measured_secs=4.0)


def _calls(store: str) -> Work:
    kept = "without state" if store == "none" else f"with state in {store}"
    figures = new_figures("ms", one_p50_ms="1 client, p50", one_p99_ms="1 client, p99") + PER_SECOND + LATENCIES
    run = _clients("bench.service.calls:measure", store=store)
    return Work("service", f"calls-{store}", f"calls of an inlet, {kept}", run, figures, "call", needs=servers_of(store))


def _http(store: str, *peers: Peer) -> Work:
    summary = f"requests over HTTP to a topology, state: {store}"
    run = _clients("bench.service.apps:measure", store=store)
    return Work("service", f"http-{store}", summary, run, PER_SECOND + LATENCIES, "request", peers, servers_of(store))


def _watched(name: str, summary: str, rate: str, path: str) -> Work:
    quick = {"pairs": 1, "warm_secs": 0.1, "measured_secs": 0.5}
    run = new_run("bench.service.watching:measure", quick, readers=10, path=path, pairs=9, warm_secs=3.0, measured_secs=4.0)
    rates = new_figures("/s", plain_per_second="words without a server", watched_per_second=rate)
    return Work("service", name, summary, run, new_figures("%", cost_percent="throughput lost") + rates)


SERVICE: Final = (
    _calls("none"),
    _calls("sqlite"),
    _calls("redis"),
    _http(
        "none",
        Peer("starlette-direct", "Starlette calls the same function directly", _clients("bench.service.apps:measure_direct")),
        Peer("fastapi-direct", "FastAPI calls it directly", _clients("bench.peers.fastapi_app:measure", "service/fastapi")),
    ),
    _http("sqlite"),
    Work(
        "service",
        "calls-ask",
        "calls of an inlet beside requests that are records of Kafka",
        _clients("bench.service.calls:measure", store="none"),
        new_figures("ms", one_p50_ms="1 client, p50") + PER_SECOND + LATENCIES,
        "call",
        (Peer("faust-ask", "an agent's ask, on uvloop", _clients("bench.peers.faust_app:ask", "kafka/faust-streaming")),),
        ("kafka",),
    ),
    _watched(
        "watching",
        "the word count of macro while ten pages watch it, beside the same run without a server",
        "words with ten pages",
        "/api/events",
    ),
    _watched(
        "flood",
        "the word count of macro while ten clients ask for its metrics without pause, beside the same run without a server",
        "words with ten clients",
        "/metrics",
    ),
)
