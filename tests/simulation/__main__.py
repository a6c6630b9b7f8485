"""`python -m tests.simulation SEED [--processes] [--trace]`: replay one simulated run, with its plan, its errors and its violations."""

import argparse
import logging
import pprint

from tests.simulation.plan import draw_plan
from tests.simulation.process_plan import draw_process_plan
from tests.simulation.simulate import simulate


def main() -> int:
    """Replay one seed; status 1 after a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Replay one simulated run.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--processes", action="store_true", help="with bolts in processes")
    parser.add_argument("--retries", action="store_true", help="with retries of most bolts")
    parser.add_argument("--trace", action="store_true", help="print every event")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    pprint.pp((draw_process_plan if arguments.processes else draw_plan)(arguments.seed), width=140)
    simulated = simulate(arguments.seed, processes=arguments.processes, retries=arguments.retries, quiet=False)
    if arguments.trace:
        for event in simulated.trace:
            print(*event)
    killed = ", ".join(simulated.killed) or "nobody"
    print(f"{simulated.state} after {simulated.secs:g} s: {simulated.roots} roots, {simulated.faults} faults")
    print(f"killed: {killed}; instances replaced: {simulated.replaced}")
    print(simulated.describe())
    return 1 if simulated.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
