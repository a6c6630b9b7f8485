"""Costs of the compiled parts, called from Python."""

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

from bench.micro.timing import nanoseconds
from engine.kernel import (
    AckLedger,
    Choice,
    EdgeIds,
    Mailbox,
    Outlet,
    RotatingMap,
    Signal,
    SignalRing,
    Source,
    key_group,
    make_tuple,
    stable_hash,
)

OPEN_TREES = 1000
KEYS = 1000


def edge_ids(calls: int) -> dict[str, float]:
    """Draw random ids."""
    return {"draw": nanoseconds("draw()", lambda: {"draw": EdgeIds(1).draw}, calls=calls)}


def hashing(calls: int) -> dict[str, float]:
    """Hash keys of a fields grouping."""
    keys: dict[str, object] = {"str": "jumps", "int": 123_456, "tuple": ("jumps", 7)}
    found = {
        name: nanoseconds("stable_hash(key)", partial(dict, stable_hash=stable_hash, key=key), calls=calls) for name, key in keys.items()
    }
    names = {"key_group": key_group, "key": "jumps"}
    return found | {"key_group": nanoseconds("key_group(key, 128)", lambda: names, calls=calls)}


def mailbox_hop(calls: int) -> dict[str, float]:
    """Post a tuple and take it, through an empty mailbox and through one that contains a burst. Send a signal."""

    def filled(waiting: int) -> Mapping[str, Any]:
        box, tup = Mailbox(), make_tuple(("hello",), Source("spout", "default", 1, ("value",)))
        for _ in range(waiting):
            box.post(tup)
        return {"post": box.post, "take": box.take, "tup": tup}

    hop = "post(tup); take()"
    return {
        "hop_empty": nanoseconds(hop, lambda: filled(0), calls=calls),
        "hop_256": nanoseconds(hop, lambda: filled(256), calls=calls),
        "signal": nanoseconds(
            "signal(ack, 1, 1)", lambda: {"signal": SignalRing().signal, "ack": int(Signal.ACK)}, calls=min(calls, 50_000)
        ),
    }


def rotating_map(calls: int) -> dict[str, float]:
    """Put, look up, and rotate, with a thousand entries in three buckets."""

    def filled() -> Mapping[str, Any]:
        entries: RotatingMap[int, int] = RotatingMap(3)
        for key in range(KEYS):
            entries.put(key, key)
            if key in (KEYS // 3, 2 * KEYS // 3):
                entries.rotate()
        return {"put": entries.put, "get": entries.get, "rotate": entries.rotate, "keys": itertools.cycle(range(KEYS))}

    return {
        "put": nanoseconds("put(next(keys), 1)", filled, calls=calls),
        "get": nanoseconds("get(next(keys))", filled, calls=calls),
        "rotate_empty": nanoseconds("rotate()", filled, calls=calls),
    }


def ledger(calls: int) -> dict[str, float]:
    """Open a tree and ack it completely, while a thousand others are open. Rotate the ledger; this time is per open tree."""

    def filled() -> Mapping[str, Any]:
        table, ids = AckLedger(), EdgeIds(1)
        for _ in range(OPEN_TREES):
            table.on_init(ids.draw(), ids.draw(), 1)
        roots = itertools.cycle([ids.draw() for _ in range(8192)])
        return {"on_init": table.on_init, "on_ack": table.on_ack, "roots": roots, "rotate": table.rotate}

    return {
        "tree": nanoseconds("root = next(roots); on_init(root, 77, 1); on_ack(root, 77)", filled, calls=calls),
        "rotate_per_tree": nanoseconds("rotate()", filled, calls=8, per_call=OPEN_TREES),
    }


GROUPINGS: Mapping[str, tuple[Choice, tuple[int, ...]]] = {
    "shuffle": (Choice.SHUFFLE, ()),
    "fields": (Choice.BY_FIELDS, (0,)),
    "all": (Choice.TO_ALL, ()),
    "global": (Choice.TO_FIRST, ()),
    "partial_key": (Choice.PARTIAL_KEY, (0,)),
    "load_aware": (Choice.LEAST_LOADED, ()),
    "custom": (Choice.CUSTOM, ()),
}
"""Choice of each grouping, and the positions of its fields. A direct grouping makes no choice. The groupings none and local-or-shuffle
choose like shuffle."""


def groupings(calls: int) -> dict[str, float]:
    """Choose among four tasks, by each grouping."""

    def outlet(choice: Choice, positions: tuple[int, ...]) -> Mapping[str, Any]:
        targets = [(task, Mailbox()) for task in range(4)]
        chooser = (lambda values: (2,)) if choice is Choice.CUSTOM else None
        return {"choose": Outlet(choice, targets, positions=positions, chooser=chooser).choose, "values": ("jumps",)}

    return {
        name: nanoseconds("choose(values)", partial(outlet, choice, positions), calls=calls)
        for name, (choice, positions) in GROUPINGS.items()
    }
