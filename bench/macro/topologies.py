"""The measured topologies, each with the counter of the units that it has done."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.compare.work import SENTENCE, WORDS_PER_SENTENCE
from bench.macro.components import ConstSpout, Count, Identity, LineSpout, Null, Split, UntrackedSpout
from bench.texts import standard_library_lines
from engine import Config, Spout, Topology, TopologyBuilder

MAX_SPOUT_PENDING = 1000
"""As the bare loop has it: more open trees only cost cache."""

FAN_OUT = 10


@dataclass
class Measurable:
    """A topology, its settings, and how many units it has done so far."""

    topology: Topology
    config: Config
    done: Callable[[], int]


@dataclass
class Made:
    """The instances that the factories of one topology made."""

    spouts: list[ConstSpout] = field(default_factory=list)
    counters: list[Count] = field(default_factory=list)

    def spout(self, make: Callable[[], ConstSpout]) -> Callable[[], Spout]:
        """Return a factory that remembers its spouts."""

        def factory() -> Spout:
            self.spouts.append(make())
            return self.spouts[-1]

        return factory

    def counter(self) -> Count:
        """Make a counting bolt."""
        self.counters.append(Count())
        return self.counters[-1]


def measurable(work: str, pending: int = MAX_SPOUT_PENDING) -> Measurable:
    """Return the topology of a work; `pending` 0 sets no bound on open trees."""
    made, builder = Made(), TopologyBuilder(work)
    config = Config(max_spout_pending=pending or None)
    if work == "un-acked":
        builder.set_spout("spout", made.spout(lambda: UntrackedSpout(("hello",))))
        builder.set_bolt("null", Null).shuffle_grouping("spout")
        return Measurable(builder.build(), Config(acker_executors=0), lambda: made.spouts[0].emitted)
    if work.startswith("word-count"):
        lines = [SENTENCE] if work == "word-count" else standard_library_lines()
        return Measurable(_word_count(builder, made, lines), config, _words_done(made, lines))
    builder.set_spout("spout", made.spout(lambda: ConstSpout(("hello",))))
    _add_bolts(builder, work)
    units = FAN_OUT if work == "fan-out" else 1
    return Measurable(builder.build(), config, lambda: made.spouts[0].settled * units)


def _add_bolts(builder: TopologyBuilder, work: str) -> None:
    match work:
        case "const-null":
            builder.set_bolt("null", Null).shuffle_grouping("spout")
        case "const-id-null":
            builder.set_bolt("id", Identity).shuffle_grouping("spout")
            builder.set_bolt("null", Null).shuffle_grouping("id")
        case "fan-out":
            builder.set_bolt("null", Null, parallelism=FAN_OUT).all_grouping("spout")
        case _:
            raise SystemExit(f"unknown work: {work}")


def _word_count(builder: TopologyBuilder, made: Made, lines: list[str]) -> Topology:
    """The fixed sentence comes from a const spout, as on the bare loop; a text from its lines, over and over."""
    if len(lines) == 1:
        builder.set_spout("lines", made.spout(lambda: ConstSpout((lines[0],))))
    else:
        builder.set_spout("lines", made.spout(lambda: LineSpout(itertools.cycle(lines))))
    builder.set_bolt("split", Split, parallelism=2).shuffle_grouping("lines")
    builder.set_bolt("count", made.counter, parallelism=4).fields_grouping("split", "word")
    return builder.build()


def _words_done(made: Made, lines: list[str]) -> Callable[[], int]:
    if len(lines) == 1:
        return lambda: made.spouts[0].settled * WORDS_PER_SENTENCE
    return lambda: sum(counter.counts.total() for counter in made.counters)
