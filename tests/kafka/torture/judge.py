"""Judge of the journals of a group: proofs of its guarantees, or violations. Reads only; the rules are KS-1, KS-2, KS-6 and KS-7."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from tests.kafka.torture.journal import Emission, Life, Sent, Tenure

UNCLEAN: Final = ("killed", "lost", "uncommitted")
"""Ends of a tenure at which the last records could not be committed."""
MOST_SHOWN: Final = 9

Place: TypeAlias = tuple[int, int]
"""Partition and offset."""


@dataclass
class Evidence:
    """All that is known in the end."""

    lives: Sequence[Life]
    killed: Collection[str]
    """The journals of those that were killed, by name."""
    ends: Mapping[int, int]
    """The offset that the next record of each partition would get."""
    numbers: Mapping[Place, int]
    """Produced records whose offsets the broker has acknowledged."""
    committed: Mapping[int, int] = field(default_factory=dict)
    """The commits of the group in the end."""
    struck: Collection[str] = ()
    """The journals of those with a bolt whose process was killed, by name."""


@dataclass
class Verdict:
    """Counts, and violations of the guarantee."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def violated(self, what: str, places: Sequence[object]) -> None:
        """Note what is wrong, and with which."""
        if places:
            self.violations.append(f"{len(places)} {what}: {', '.join(map(str, places[:MOST_SHOWN]))}")

    def line(self) -> str:
        """The counts, for a person."""
        return ", ".join(f"{name} {count:,}" for name, count in sorted(self.counts.items()))


def judge(evidence: Evidence, guarantee: str, *, carries_set: bool) -> Verdict:
    """Judge a group that has come to its end: its members have left, or were killed."""
    verdict = Verdict()
    emissions = _by_place(evidence)
    _count(verdict, evidence, emissions)
    _judge_numbers(verdict, evidence, emissions)
    _judge_ends(verdict, evidence)
    alone = [one for life in evidence.lives if life.path.name not in evidence.struck for one in life.emissions.values() if one.is_struck]
    verdict.violated("records failed by the death of a bolt that nobody has killed", alone)
    if guarantee == "at_most_once":
        verdict.violated("records were emitted more than once", [place for place, found in emissions.items() if len(found) > 1])
        verdict.violated("records are lost without a kill", list(_lost_unexplained(verdict, evidence, emissions)))
    elif guarantee == "no_guarantee":
        _judge_repeats(verdict, emissions, carries_set=False)
        verdict.violated("records are lost without a kill", list(_lost_unexplained(verdict, evidence, emissions)))
    else:
        verdict.violated("records are LOST", _never_done(evidence, emissions))
        processed = {place: [one for one in found if one.done is not None] for place, found in emissions.items()}
        _judge_repeats(verdict, processed, carries_set=carries_set)
        _judge_commits(verdict, evidence, emissions)
    return verdict


def _by_place(evidence: Evidence) -> dict[Place, list[Emission]]:
    """Return the emissions of each record, in the order of the partition's owners. A paused process emits its own records late."""
    found: dict[Place, list[Emission]] = defaultdict(list)
    for life in evidence.lives:
        for emission in life.emissions.values():
            found[emission.tenure.partition, emission.offset].append(emission)
    for emissions in found.values():
        emissions.sort(key=lambda emission: (emission.tenure.opened, emission.at))
    return found


def _count(verdict: Verdict, evidence: Evidence, emissions: Mapping[Place, Sequence[Emission]]) -> None:
    counts = verdict.counts
    counts["records"] = sum(evidence.ends.values())
    counts["emitted"] = sum(map(len, emissions.values()))
    counts["rebalances"] = len({generation for life in evidence.lives for generation in life.all_generations}) - 1
    counts["processes"] = len(evidence.lives)
    for life in evidence.lives:
        counts.update(f"tenures {tenure.end}" for tenure in life.tenures)
        counts["tenures drained, nothing in flight"] += sum(one.end == "drained" and not one.in_flight for one in life.tenures)
        counts["records failed by the death of a bolt"] += sum(one.is_struck for one in life.emissions.values())
        counts["commits"] += sum(one.has_succeeded for one in life.sent)


def _judge_numbers(verdict: Verdict, evidence: Evidence, emissions: Mapping[Place, Sequence[Emission]]) -> None:
    """Every record is what was produced."""
    others = [place for place, found in emissions.items() if any(one.number != evidence.numbers.get(place, one.number) for one in found)]
    verdict.violated("records have other values than were produced", others)
    verdict.violated("records stand beyond the end of their partition", [one for one in emissions if one[1] >= evidence.ends[one[0]]])


def _judge_ends(verdict: Verdict, evidence: Evidence) -> None:
    """Only a killed process leaves tenures without an end, and in the end all is committed."""
    alive = [life.path.name for life in evidence.lives if life.path.name not in evidence.killed]
    open_ends = [one for life in evidence.lives for one in life.tenures if one.end == "killed" and life.path.name in alive]
    verdict.violated("tenures of processes that were not killed have no end", open_ends)
    short = [f"{one}: {at} of {evidence.ends[one]}" for one, at in evidence.committed.items() if at != evidence.ends[one]]
    verdict.violated("partitions are not committed to their end", short)


def _never_done(evidence: Evidence, emissions: Mapping[Place, Sequence[Emission]]) -> list[Place]:
    every = ((partition, offset) for partition, end in evidence.ends.items() for offset in range(end))
    return [place for place in every if all(one.done is None for one in emissions.get(place, ()))]


def _judge_repeats(verdict: Verdict, emissions: Mapping[Place, Sequence[Emission]], *, carries_set: bool) -> None:
    """Each repeat is explained by the end of the tenure that had the record before."""
    at_end: Counter[int] = Counter()
    tenures: dict[int, Tenure] = {}
    committed, within = [], []
    for place, found in emissions.items():
        for first, second in pairwise(found):
            tenure = first.tenure
            if second.tenure is not tenure and tenure.covers(first.offset):
                committed.append((place, tenure))
            elif first.is_struck:
                verdict.counts["repeats after the death of a bolt"] += 1
            elif second.tenure is tenure:
                within.append(place)
            elif tenure.end in UNCLEAN and first.at > second.tenure.opened:
                verdict.counts[f"repeats after {tenure.end}, emitted when another one had it"] += 1
            elif tenure.end in UNCLEAN or tenure.end == "reset":
                verdict.counts[f"repeats after {tenure.end}"] += 1
            elif not carries_set and _was_above_a_hole(first):
                verdict.counts[f"repeats above a hole, {tenure.end}"] += 1
            else:
                verdict.counts[f"repeats in flight, {tenure.end}"] += 1
                at_end[id(tenure)] += 1
                tenures[id(tenure)] = tenure
    verdict.violated("records were done twice by one who kept their partition", within)
    verdict.violated("records were done again though they were committed", committed)
    beyond = [f"{count} of {tenures[key]}" for key, count in at_end.items() if count > tenures[key].in_flight]
    verdict.violated("ends of tenures repeat more than was in flight", beyond)
    verdict.counts["repeats"] = sum(count for name, count in verdict.counts.items() if name.startswith("repeats "))


def _was_above_a_hole(emission: Emission) -> bool:
    """Tell whether a record was done before the last commit, which could not say so without an acked set."""
    return emission.done is not None and emission.done < emission.tenure.decided


def _lost_unexplained(verdict: Verdict, evidence: Evidence, emissions: Mapping[Place, Sequence[Emission]]) -> Iterator[Place]:
    """Return allowed losses: records that a process committed and did not finish before its death."""
    unclean = [one for life in evidence.lives for one in life.tenures if one.end in UNCLEAN]
    for place in _never_done(evidence, emissions):
        found = emissions.get(place, ())
        verdict.counts["lost, emitted before" if found else "lost, never emitted"] += 1
        if any(one.tenure.end == "killed" or one.tenure.life in evidence.killed for one in found):
            continue
        if not found and any(one.partition == place[0] and one.start <= place[1] < one.claimed for one in unclean):
            continue
        yield place


def _judge_commits(verdict: Verdict, evidence: Evidence, emissions: Mapping[Place, Sequence[Emission]]) -> None:
    """No commit, and no acked set, ever said of a record that it is done before it was."""
    done: dict[int, list[float]] = {partition: [math.inf] * end for partition, end in evidence.ends.items()}
    for (partition, offset), found in emissions.items():
        done[partition][offset] = min((one.done for one in found if one.done is not None), default=math.inf)
    latest = {partition: [0.0, *accumulate(times, max)] for partition, times in done.items()}
    early = [sent for life in evidence.lives for sent in life.sent if _is_early(sent, done[sent.partition], latest[sent.partition])]
    verdict.violated("commits were sent before all of theirs was done", early)
    verdict.counts["acked offsets in sets"] = sum(
        sum(sent.runs[1::2]) - sum(sent.runs[::2]) for life in evidence.lives for sent in life.sent
    )


def _is_early(sent: Sent, done: Sequence[float], latest: Sequence[float]) -> bool:
    if latest[sent.offset] > sent.at:
        return True
    return any(done[offset] > sent.at for start, stop in zip(sent.runs[::2], sent.runs[1::2], strict=True) for offset in range(start, stop))
