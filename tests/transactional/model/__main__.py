"""`python -m tests.transactional.model SEED`: replay one simulated topology, and print its plan and its violations."""

import argparse
import logging
import pprint
from collections.abc import Callable

from tests.transactional.model.plan import draw_plan
from tests.transactional.model.simulate import Simulated, simulate


def main(module: str = "tests.transactional.model", simulate: Callable[..., Simulated] = simulate) -> int:
    """Replay one seed; status 1 after a violation."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description="Replay one simulated transactional topology.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--calm", action="store_true", help="without faults")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    calm = True if arguments.calm else None
    plan = draw_plan(arguments.seed, is_calm=calm)
    simulated = simulate(arguments.seed, is_calm=calm, quiet=False)
    pprint.pp(plan.shape, width=140)
    pprint.pp(plan.processes[: len(simulated.outcomes)], width=140)
    pprint.pp(simulated, width=140)
    print(simulated.describe())
    return 1 if simulated.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
