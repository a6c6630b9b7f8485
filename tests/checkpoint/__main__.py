"""`python -m tests.checkpoint SEED [--processes]`: replay one simulated topology with state, and print its plan and its violations."""

import argparse
import logging
import pprint

from tests.checkpoint.plan import draw_plan
from tests.checkpoint.process_plan import draw_process_plan
from tests.checkpoint.simulate import simulate


def main() -> int:
    """Replay one seed; status 1 after a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.checkpoint", description="Replay one simulated topology with state.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--processes", action="store_true", help="with bolts in processes")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    plan = (draw_process_plan if arguments.processes else draw_plan)(arguments.seed)
    simulated = simulate(arguments.seed, processes=arguments.processes, quiet=False)
    pprint.pp(plan.world.bolts, width=140)
    print(plan.committer)
    pprint.pp(plan.processes[: len(simulated.outcomes)], width=140)
    pprint.pp(simulated, width=140)
    print(simulated.describe())
    return 1 if simulated.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
