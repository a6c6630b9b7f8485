"""The micro benchmarks by name. Imports nothing compiled: only their children do."""

from bench.benchmark import Benchmark, Figure
from bench.child import module_child

OPERATIONS = {
    "edge-ids": ("draw a random id", {"draw": "draw"}),
    "hash": ("stable hash of a key", {"str": "str", "int": "int", "tuple": "(str, int)", "key_group": "key group of a str"}),
    "mailbox-hop": ("post and take", {"hop_empty": "hop, empty", "hop_256": "hop, 256 waiting", "signal": "signal"}),
    "rotating-map": ("RotatingMap of 1,000 keys", {"put": "put", "get": "get", "rotate_empty": "rotate, mostly empty"}),
    "ledger": ("ack ledger with 1,000 open trees", {"tree": "init and ack", "rotate_per_tree": "rotate, per tree"}),
    "emit": ("emit to one mailbox", {"untracked": "spout, untracked", "tracked": "spout, tracked", "anchored": "bolt, anchored"}),
    "execute": ("take up, execute, ack", {"ack": "execute is the ack", "function_ack": "execute is a function that acks"}),
    "acker": ("an acker's signals", {"tree": "init, ack, verdict"}),
    "state": (
        "state of a bolt",
        {
            "put": "put, a changed key",
            "get": "get, a changed key",
            "get_committed": "get, an unchanged key",
            "checkpoint_memory": "checkpoint, memory, per key",
            "checkpoint_sqlite": "checkpoint, SQLite, per key",
        },
    ),
    "grouping": (
        "choose one of four tasks",
        {name: name.replace("_", "-") for name in ("shuffle", "fields", "all", "global", "partial_key", "load_aware", "custom")},
    ),
}


def _benchmark(name: str, summary: str, operations: dict[str, str]) -> Benchmark:
    figures = tuple(Figure(key, label, "ns") for key, label in operations.items())
    return Benchmark("micro", name, summary, figures, lambda quick: module_child("bench.micro.run", name, 2_000 if quick else 200_000))


MICRO = tuple(_benchmark(name, summary, operations) for name, (summary, operations) in OPERATIONS.items())
