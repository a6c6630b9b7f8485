"""Single steps of a tuple."""

from typing import Final

from bench.registry.runs import new_figures, new_run
from bench.work import Work


def _micro(name: str, function: str, summary: str, **labels: str) -> Work:
    """Return a work whose function is below `bench.micro`."""
    return Work("micro", name, summary, new_run(f"bench.micro.{function}", {"calls": 2_000}, calls=200_000), new_figures("ns", **labels))


MICRO: Final = (
    _micro("edge-ids", "native:edge_ids", "draw a random id", draw="draw"),
    _micro("hash", "native:hashing", "stable hash of a key", str="str", int="int", tuple="(str, int)", key_group="key group of a str"),
    _micro("mailbox-hop", "native:mailbox_hop", "post and take", hop_empty="hop, empty", hop_256="hop, 256 waiting", signal="signal"),
    _micro("rotating-map", "native:rotating_map", "1,000 keys", put="put", get="get", rotate_empty="rotate, mostly empty"),
    _micro("ledger", "native:ledger", "1,000 open trees", tree="init and ack", rotate_per_tree="rotate, per tree"),
    _micro("emit", "cores:emit", "emit to a mailbox", untracked="spout, untracked", tracked="spout, tracked", anchored="bolt, anchored"),
    _micro("execute", "cores:execute", "take up, execute, ack", ack="execute is the ack", function_ack="execute is a function that acks"),
    _micro("acker", "cores:acker", "an acker's signals", tree="init, ack, verdict"),
    _micro(
        "state",
        "state:state",
        "state of a bolt",
        put="put, a changed key",
        get="get, a changed key",
        get_committed="get, an unchanged key",
    ),
    _micro(
        "grouping",
        "native:groupings",
        "choose one of four tasks",
        **{name: name.replace("_", "-") for name in ("shuffle", "fields", "all", "global", "partial_key", "load_aware", "custom")},
    ),
)
