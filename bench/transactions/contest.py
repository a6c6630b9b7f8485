"""Runs what is measured of transactions: pairs in turn, what has no peer alone, word counts on one broker."""

import time
import uuid
from collections.abc import Callable

from bench.child import Child, RunFailed, module_child, run_child
from bench.kafka.broker import broker_address
from bench.kafka.broker import why_not as why_no_broker
from bench.kafka.job import Job
from bench.python_peers import KAFKA as PEERS
from bench.results import Missing, Results, paired
from bench.rounds import Say, alternate, run_alone
from bench.transactions.catalog import (
    ALONE,
    LINES,
    PAIRS,
    PEER_LINES,
    QUICK_LINES,
    QUICK_PEER_LINES,
    QUIX,
    WORDS,
    Pair,
    QuixWords,
    Words,
    lines_topic,
)
from bench.transactions.databases import database_url
from bench.transactions.databases import why_not as why_no_database
from bench.transactions.ledgers import why_not as why_no_ledger


def measure(names: list[str], rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure what is named; all where nothing is."""
    results = Results()
    for pair in PAIRS:
        if not names or pair.name in names:
            results += _pair(pair, rounds, say, quick=quick)
    for store, benchmark in ALONE.items():
        if not names or benchmark.name in names:
            reason = why_no_ledger(store)
            results += run_alone(benchmark, rounds, say, quick=quick) if reason is None else _skipped(benchmark.name, reason, say)
    wanted = [words for words in WORDS if not names or words.name in names]
    return results + _word_counts(wanted, rounds, say, quick=quick) if wanted else results


def _skipped(name: str, reason: str, say: Say) -> Results:
    say(f"{name}: skipped: {reason}")
    return Results(missing=(Missing("transactions", name, reason),))


def _pair(pair: Pair, rounds: int, say: Say, *, quick: bool) -> Results:
    results = Results()
    for peer in pair.peers:
        contenders = (lambda: pair.own(quick), lambda child=peer.child: child(quick))
        results += _alternated((pair.name, "tuple"), (peer.name, peer.note), contenders, rounds, say)
    return results


def _alternated(
    work: tuple[str, str], peer: tuple[str, str], contenders: tuple[Callable[[], Child], Callable[[], Child]], rounds: int, say: Say
) -> Results:
    """Run both in turn; `work` is (name, unit), `peer` is (name, note)."""
    say(f"{work[0]}: stormcell | {peer[0]}")
    try:
        own, other = alternate(*contenders, rounds, say)
    except RunFailed as error:
        say(f"  failed: {error}")
        return Results(missing=(Missing("transactions", f"{work[0]} on {peer[0]}", str(error)),))
    return Results(pairings=(paired(work, peer, own, other),))


def _word_counts(wanted: list[Words], rounds: int, say: Say, *, quick: bool) -> Results:
    """Measure word counts of a topic, each database beside each way of the peer, all on one broker."""
    reason = why_no_broker() or PEERS.unavailable("quixstreams")
    if reason is not None:
        return sum((_skipped(words.name, reason, say) for words in wanted), Results())
    results = Results()
    with broker_address() as address:
        topic = _Lines(address, say)
        for words in wanted:
            reason = why_no_database(words.store)
            if reason is not None:
                results += _skipped(words.name, reason, say)
                continue
            for quix in QUIX:
                results += _word_count(words, quix, topic, rounds, say, quick=quick)
    return results


def _word_count(words: Words, quix: QuixWords, topic: "_Lines", rounds: int, say: Say, *, quick: bool) -> Results:
    lines, peer_lines = (QUICK_LINES, QUICK_PEER_LINES) if quick else (LINES, PEER_LINES)
    topic.fill(lines)
    topic.fill(peer_lines)
    with database_url(words.store) as url:
        contenders = (lambda: words.child(url, topic.job(lines)), lambda: quix.child(topic.job(peer_lines)))
        return _alternated((words.name, "word"), (quix.name, quix.note), contenders, rounds, say)


class _Lines:
    """The topics of lines on one broker, each filled once."""

    def __init__(self, address: str, say: Say) -> None:
        self._address, self._say = address, say
        self._full: set[int] = set()

    def fill(self, lines: int) -> None:
        """Have a topic of so many lines."""
        if lines not in self._full:
            self._say(f"filling a topic with {lines:,} lines")
            run_child(module_child("bench.transactions.lines", self._address, lines))
            self._full.add(lines)

    def job(self, lines: int) -> Job:
        """Return a new job: all of them, by a group that is new."""
        return Job(self._address, lines_topic(lines), f"stormcell-bench-{uuid.uuid4().hex}", lines, time.monotonic())
