"""A world in which nothing can be lost unseen: sources that replay, and stateful bolts that remember every message they have counted."""

import random
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from engine import BasicBolt, Fields, Spout, SpoutExhausted, StatefulBolt, Topology, TopologyBuilder, Tuple

KEYS = 5


@dataclass
class Source:
    """Messages `name:0` to `name:n-1`, each emitted until it is acked; it outlives the instances of its spout."""

    name: str
    waiting: list[str]
    open: set[str] = field(default_factory=set)
    acked: Counter[str] = field(default_factory=Counter)
    replayed: set[str] = field(default_factory=set)


class ReplayingSpout(Spout):
    """Emits what its source has, a few at a time."""

    output_fields = Fields("key", "message")

    def __init__(self, source: Source) -> None:
        self.source = source

    def open(self) -> None:
        for message in sorted(self.source.open):  # an instance before this one has died
            self.again(message)

    def again(self, message: str) -> None:
        self.source.open.discard(message)
        self.source.replayed.add(message)
        self.source.waiting.append(message)

    def next_tuple(self) -> None:
        if not self.source.waiting:
            raise SpoutExhausted
        message = self.source.waiting.pop(0)
        self.source.open.add(message)
        self.collector.emit((int(message.split(":")[1]) % KEYS, message), message)

    def ack(self, message_id: Any) -> None:
        self.source.open.discard(message_id)
        self.source.acked[message_id] += 1

    def fail(self, message_id: Any) -> None:
        self.again(message_id)


class PassOn(BasicBolt):
    """Hands on what it gets."""

    output_fields = Fields("key", "message")

    def execute(self, tup: Tuple) -> tuple[Any, ...]:
        return tup.values


@dataclass
class Effects:
    """What the stateful bolts did, as their states say at the end, and at each cut."""

    states: dict[tuple[str, int], Any] = field(default_factory=dict)
    """By component and task index."""
    cuts: dict[tuple[int, str, int], Counter[str]] = field(default_factory=dict)
    """By txid, component and task index: what the state held when PREPARE set it aside."""

    def counted(self, component_id: str) -> Counter[str]:
        """How often a component has counted each message, over all of its tasks."""
        return sum((held(state) for (owner, _), state in self.states.items() if owner == component_id), Counter())


class Remember(StatefulBolt):
    """Keeps every message that it has seen, by key, in a list that it changes in place: the state must not mind."""

    output_fields = Fields("key", "message")

    def __init__(self, effects: Effects) -> None:
        self.effects = effects

    def init_state(self, state: Any) -> None:
        self.state = state
        self.effects.states[self.context.component_id, self.context.task_index] = state

    def execute(self, tup: Tuple) -> None:
        seen = self.state.get(tup["key"], [])
        seen.append(tup["message"])
        self.state.put(tup["key"], seen)
        self.collector.emit(tup.values, tup)
        self.collector.ack(tup)

    def pre_prepare(self, txid: int) -> None:
        self.effects.cuts[txid, self.context.component_id, self.context.task_index] = held(self.state)

    def pre_commit(self, txid: int) -> None:
        return None

    def pre_rollback(self) -> None:
        return None


def held(state: Any) -> Counter[str]:
    """Every message in a state, as often as it was counted."""
    return Counter(message for _, messages in state.items() for message in messages)


@dataclass
class World:
    """One topology with its sources, its effects, and what each bolt has to count."""

    topology: Topology
    sources: list[Source]
    effects: Effects
    paths: dict[str, Counter[str]]
    """By component: on how many paths the messages of each source come."""
    stateful: list[str]
    feeds: dict[str, list[str]]

    def expected(self, component_id: str, message: str) -> int:
        """How often a message that never failed is counted."""
        return self.paths[component_id][message.split(":")[0]]


def random_world(draws: random.Random, messages: int) -> World:
    """Draw a DAG: one to three spouts, up to three layers of up to two bolts, at least one of them stateful."""
    effects = Effects()
    sources = [Source(f"s{index}", [f"s{index}:{n}" for n in range(messages)]) for index in range(draws.randint(1, 3))]
    builder = TopologyBuilder("world")
    paths: dict[str, Counter[str]] = {source.name: Counter({source.name: 1}) for source in sources}
    feeds: dict[str, list[str]] = {}
    for source in sources:
        builder.set_spout(source.name, partial(ReplayingSpout, source))
    layers = [[source.name for source in sources]]
    stateful: list[str] = []
    depth = draws.randint(1, 3)
    for level in range(depth):
        layer = []
        for index in range(draws.randint(1, 2)):
            name = f"b{level}{index}"
            keeps = draws.random() < 0.6 or (level == depth - 1 and not stateful)
            above = [each for upper in layers for each in upper]
            chosen = draws.sample(above, draws.randint(1, min(3, len(above))))
            if level == 0 and index == 0:
                chosen = [source.name for source in sources]
            keyed = draws.random() < 0.6
            factory: Any = (lambda: Remember(effects)) if keeps else PassOn
            declarer = builder.set_bolt(name, factory, parallelism=draws.randint(1, 3))
            for each in chosen:
                declarer = declarer.fields_grouping(each, "key") if keyed else declarer.shuffle_grouping(each)
            paths[name] = Counter()
            for each in chosen:
                paths[name].update(paths[each])
            feeds[name] = chosen
            layer.append(name)
            if keeps:
                stateful.append(name)
        layers.append(layer)
    return World(builder.build(), sources, effects, paths, stateful, feeds)
