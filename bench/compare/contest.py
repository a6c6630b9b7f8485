"""The engine beside each peer, in turn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from bench.cache import BuildFailed
from bench.child import Child, RunFailed, module_child
from bench.compare import bare_loop, storm
from bench.compare.work import WORD_COUNT, WORKS, Work
from bench.macro.catalog import throughput_child
from bench.python_peers import COMPARE
from bench.results import Missing, Results, paired
from bench.rounds import Say, alternate

SIZES = {
    "asyncio-actors": (300_000, 30_000),
    "bytewax-1": (150_000, 20_000),
    "bytewax-256": (2_000_000, 100_000),
    "bytewax-256-logic": (0, 200_000),
    "bytewax-256-final": (0, 200_000),
    "pathway": (100_000, 60_000),
}
"""Spout tuples of one run, and lines of the word count: one to three seconds each. The others know their own."""


class MakeChild(Protocol):
    """Returns the command of one run of a work; may build or download first."""

    def __call__(self, work: Work, *, quick: bool) -> Child: ...


@dataclass(frozen=True)
class Peer:
    """One contestant beside the engine."""

    name: str
    note: str
    unavailable: Callable[[], str | None]
    child: MakeChild
    works: tuple[Work, ...] = WORKS


def _size(peer: str, work: Work, *, quick: bool) -> int:
    tuples, lines = SIZES[peer]
    return (lines if work is WORD_COUNT else tuples) // (10 if quick else 1)


def _actors(work: Work, *, quick: bool) -> Child:
    return module_child("bench.compare.actors", work.name, _size("asyncio-actors", work, quick=quick))


def _bytewax(work: Work, *, quick: bool, name: str) -> Child:
    _, batch, *form = name.split("-")
    tuples, python = _size(name, work, quick=quick), COMPARE.interpreter("bytewax") or ""
    return module_child("bench.compare.bytewax_flow", work.name, tuples, batch, *(form or ["running"]), python=python)


def _bytewax_peer(name: str, note: str, works: tuple[Work, ...] = WORKS) -> Peer:
    return Peer(name, f"{note}, tracks nothing; one worker", partial(COMPARE.unavailable, "bytewax"), partial(_bytewax, name=name), works)


def _pathway(work: Work, *, quick: bool) -> Child:
    tuples = _size("pathway", work, quick=quick)
    return module_child("bench.compare.pathway_flow", work.name, tuples, python=COMPARE.interpreter("pathway") or "")


PEERS = (
    Peer("bare-loop", "the floor: callbacks, ids, ledger and hops only; one core", bare_loop.unavailable, bare_loop.child),
    Peer("asyncio-actors", "asyncio.Queue by hand, a dict as ledger; one core", lambda: None, _actors),
    _bytewax_peer("bytewax-1", "batch 1, word count by stateful_map"),
    _bytewax_peer("bytewax-256", "batch 256, word count by stateful_map"),
    _bytewax_peer("bytewax-256-logic", "batch 256, word count by a StatefulLogic of one's own", (WORD_COUNT,)),
    _bytewax_peer("bytewax-256-final", "batch 256, word count by count_final, which adds up each batch first", (WORD_COUNT,)),
    Peer("pathway", "streaming, tracks nothing; one worker and a reader thread", partial(COMPARE.unavailable, "pathway"), _pathway),
    Peer("storm", "LocalCluster, JVM, uses every core", storm.unavailable, storm.child),
)
NAMES = tuple(work.name for work in WORKS) + tuple(peer.name for peer in PEERS)


def chosen(names: list[str]) -> tuple[list[Work], list[Peer]]:
    """Return the works and the peers that are named; all of a kind where none of it is."""
    works = [work for work in WORKS if work.name in names]
    peers = [peer for peer in PEERS if peer.name in names]
    return works or list(WORKS), peers or list(PEERS)


def compare(names: list[str], rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure the engine beside each chosen peer in each chosen work, in alternating pairs."""
    works, peers = chosen(names)
    results = Results()
    for peer in peers:
        reason = peer.unavailable()
        if reason:
            say(f"{peer.name}: skipped: {reason}")
            results += Results(missing=(Missing("compare", peer.name, reason),))
            continue
        for work in (work for work in works if work in peer.works):
            say(f"{work.name}: stormcell | {peer.name}")
            results += _pair(work, peer, rounds, say, quick=quick)
    return results


def _pair(work: Work, peer: Peer, rounds: int, say: Say, *, quick: bool) -> Results:
    own = partial(throughput_child, work.name, quick)
    try:
        readings = alternate(own, partial(peer.child, work, quick=quick), rounds, say)
    except (RunFailed, BuildFailed) as error:
        say(f"  failed: {error}")
        return Results(missing=(Missing("compare", f"{work.name} on {peer.name}", str(error)),))
    return Results(pairings=(paired((work.name, work.unit), (peer.name, peer.note), *readings),))
