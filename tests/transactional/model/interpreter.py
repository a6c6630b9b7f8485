"""Sequential interpreter: the results of a topology for batches in order, in plain Python without the engine."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.transactional.model.shape import SPOUT, BoltShape, Item, Shape, streams_of

Items: TypeAlias = Counter[Item]


@dataclass
class Interpreted:
    """Results of all batches."""

    came: dict[int, dict[str, Items]] = field(default_factory=dict)
    """By txid and bolt: the items that arrive, in all tasks."""
    values: dict[str, dict[int, Items]] = field(default_factory=dict)
    """By committer and key: all committed items."""


def interpret(shape: Shape, batches: Mapping[int, Sequence[Item]]) -> Interpreted:
    """Interpret the batches in order."""
    found = Interpreted(values={bolt.name: {} for bolt in shape.bolts if bolt.keeps == "values"})
    for txid in sorted(batches):
        came = found.came[txid] = interpret_batch(shape, batches[txid])
        for name, values in found.values.items():
            for (key, item), count in came[name].items():
                values.setdefault(key, Counter())[key, item] += count
    return found


def interpret_batch(shape: Shape, batch: Sequence[Item]) -> dict[str, Items]:
    """Return the items that arrive at each bolt for one batch. Each bolt is behind its sources in the shape."""
    sent: dict[str, Items] = {SPOUT: Counter(batch)}
    came: dict[str, Items] = {}
    for bolt in shape.bolts:
        taken: Items = Counter()
        for each in bolt.inputs:
            for (key, item), count in sent[each.source].items():
                if each.stream == "direct" or each.stream in streams_of(item):
                    taken[key, item] += count * bolt.copies(each.grouping, item)
        came[bolt.name] = +taken
        sent[bolt.name] = _sent(bolt, came[bolt.name])
    return came


def _sent(bolt: BoltShape, came: Items) -> Items:
    sent: Items = Counter()
    if bolt.distinct:
        sent.update(dict.fromkeys({(key, f"{bolt.name}:{key}") for key, _ in came}, bolt.sends))
    else:
        sent.update({item: count * bolt.sends for item, count in came.items()})
    if bolt.ticks and bolt.sends:
        sent[0, f"{bolt.name}:0"] += bolt.tasks
    return +sent
