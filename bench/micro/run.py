"""`python -m bench.micro.run NAME CALLS`: the figures of one micro benchmark, as JSON."""

import json
import sys

from bench.micro import cores, native, state

RUN = {
    "edge-ids": native.edge_ids,
    "hash": native.hashing,
    "mailbox-hop": native.mailbox_hop,
    "rotating-map": native.rotating_map,
    "ledger": native.ledger,
    "emit": cores.emit,
    "execute": cores.execute,
    "acker": cores.acker,
    "grouping": native.groupings,
    "state": state.state,
}


def main() -> None:
    """Print one line of JSON."""
    print(json.dumps(RUN[sys.argv[1]](int(sys.argv[2]))))


if __name__ == "__main__":
    main()
