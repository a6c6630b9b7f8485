"""Whole topologies beside peers."""

from typing import Any, Final

from bench.registry.macro import throughput
from bench.registry.runs import new_run
from bench.registry.state import word_count_run
from bench.work import Peer, Run, Work


def _compare(name: str, summary: str, floor_tuples: int, unit: str = "tuple") -> Work:
    """Return one work beside all peers. Peers count tuples of the spout, or lines of the word count."""

    def sized(function: str, tuples: int, lines: int, package: str = "", **arguments: Any) -> Run:
        units = lines if name == "word-count" else tuples
        return new_run(f"bench.peers.{function}", {"tuples": units // 10}, package=package, work=name, tuples=units, **arguments)

    def bytewax(peer: str, note: str, tuples: int, lines: int, count_by: str = "running") -> Peer:
        batch = int(peer.split("-")[1])
        run = sized("bytewax_flows:run_work", tuples, lines, "compare/bytewax", batch=batch, count_by=count_by)
        return Peer(peer, f"batch {batch}, word count by {note}, tracks nothing; one worker", run)

    bare_loop = new_run("bench.peers.bare_loop:run", {"tuples": floor_tuples // 20}, timeout_secs=600, work=name, tuples=floor_tuples)
    peers = [
        Peer("bare-loop", "the floor: callbacks, ids, ledger and hops only; one core", bare_loop, ("floor",)),
        Peer("asyncio-actors", "asyncio.Queue by hand, a dict as ledger; one core", sized("asyncio_actors:run", 300_000, 30_000)),
        bytewax("bytewax-1", "stateful_map", 150_000, 20_000),
        bytewax("bytewax-256", "stateful_map", 2_000_000, 100_000),
        bytewax("bytewax-256-logic", "a StatefulLogic of one's own", 0, 200_000, "logic"),
        bytewax("bytewax-256-final", "count_final, which adds up each batch first", 0, 200_000, "final"),
        Peer(
            "pathway",
            "streaming, tracks nothing; one worker and a reader thread",
            sized("pathway_flow:run", 100_000, 60_000, "compare/pathway"),
        ),
        Peer(
            "storm",
            "LocalCluster, JVM, uses every core",
            new_run(
                "bench.peers.storm:run_work",
                {"warm_secs": 2, "measured_secs": 2},
                timeout_secs=600,
                work=name,
                warm_secs=10,
                measured_secs=10,
            ),
            ("java",),
        ),
    ]
    if name != "word-count":
        peers = [peer for peer in peers if peer.run.arguments.get("tuples") != 0]
    return Work("compare", name, summary, throughput(name), unit=unit, peers=tuple(peers))


def _bursts(name: str, summary: str, floor_tuples: int, unit: str = "tuple") -> Work:
    """Return one work with bursts, beside the bare loop with bursts, Storm, and Bytewax at its best."""
    work = f"{name}-bursts"
    bare_loop = new_run("bench.peers.bare_loop:run", {"tuples": floor_tuples // 20}, timeout_secs=600, work=work, tuples=floor_tuples)
    peers = [each for each in _compare(name, summary, 1).peers if each.name in ("bytewax-256", "bytewax-256-logic", "storm")]
    if floor_tuples:
        peers.insert(0, Peer("bare-loop", "the floor with bursts: callbacks, ids, ledger and hops only; one core", bare_loop, ("floor",)))
    return Work("compare", work, summary, throughput(work), unit=unit, peers=tuple(peers))


def _text_count(store: str, summary: str, *, exact: bool = False) -> Work:
    """Return the word count of a text in bursts, beside Flink and beside the user's code alone."""
    flink = new_run(
        "bench.peers.flink:count_words", {"warm_secs": 2, "measured_secs": 2}, timeout_secs=600, warm_secs=10, measured_secs=10
    )
    peer = Peer("flink", "one parallel chain, keyed state, exactly-once checkpoints every second; JVM, uses every core", flink, ("java",))
    plain = new_run("bench.peers.plain_python:count_words", {"warm_secs": 0.1, "measured_secs": 0.2}, warm_secs=2, measured_secs=5)
    peers = (peer, Peer("plain-python", "split() and Counter.update() of the same lines, no engine; one core", plain))
    run = word_count_run(store, bursts=True, exact=exact)
    return Work("compare", f"text-count-bursts-{store}{'-exact' if exact else ''}", summary, run, unit="word", peers=peers)


COMPARE: Final = (
    _compare("const-null", "const spout -> null bolt, every tree acked", 2_000_000),
    _compare("const-id-null", "const spout -> id bolt -> null bolt, every tree acked", 1_500_000),
    _compare("un-acked", "const spout -> null bolt, nothing tracked", 3_000_000),
    _compare("word-count", "fixed sentence, 2 splitters, 4 counters, one emit per word, every tree acked", 200_000, "word"),
    _bursts("const-null", "const spout -> null bolt in bursts, every tree acked", 4_000_000),
    _bursts("const-id-null", "const spout -> id bolt -> null bolt in bursts, every tree acked", 3_000_000),
    _bursts("un-acked", "const spout -> null bolt in bursts, nothing tracked", 0),
    _bursts("word-count", "fixed sentence, 2 splitters, 4 counters in bursts, every tree acked", 400_000, "word"),
    _text_count("none", "lines of a text, 2 splitters, 4 counters in bursts, every tree acked"),
    _text_count("sqlite", "the same, counts in SQLite with a checkpoint every second"),
    _text_count("sqlite", "the same, exactly once", exact=True),
)
