"""`python -m tests.streams.random_windows SEED`: replay one random flow with windows. With COUNT: run so many from the seed on."""

import argparse
import logging
import pprint
import time
from collections import Counter

from tests.streams.random_windows.plan import draw_plan
from tests.streams.random_windows.simulate import simulate


def main() -> int:
    """Replay seeds; status 1 after a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.streams.random_windows", description="Replay random flows with windows.")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?")
    parser.add_argument("--exact", action="store_true", default=None, help="with exact sources only")
    parser.add_argument("--inexact", dest="exact", action="store_false", help="with sources that send rows at least once")
    arguments = parser.parse_args()
    if arguments.count is not None:
        return run_many(arguments.seed, arguments.count, arguments.exact)
    logging.basicConfig(level=logging.WARNING)
    simulated = simulate(arguments.seed, is_exact=arguments.exact, quiet=False)
    pprint.pp(draw_plan(arguments.seed, is_exact=arguments.exact), width=140)
    pprint.pp(simulated, width=140)
    print(simulated.describe())
    return 1 if simulated.violations else 0


def run_many(first: int, count: int, is_exact: bool | None) -> int:
    """Run seeds, print each violation, and at the end what has happened."""
    began, totals, outcomes, strikes, bad = time.monotonic(), Counter[str](), Counter[str](), Counter[str](), list[int]()
    for seed in range(first, first + count):
        simulated = simulate(seed, is_exact=is_exact)
        totals.update(cuts=simulated.cuts, results=simulated.results, late=simulated.late, processes=len(simulated.outcomes))
        outcomes.update(simulated.outcomes)
        strikes += simulated.strikes
        if simulated.violations:
            bad.append(seed)
            print(simulated.describe(), flush=True)
    print(f"{count} seeds in {time.monotonic() - began:.0f} s: {dict(totals)}, {dict(outcomes)}, {strikes.total()} faults {dict(strikes)}")
    print(f"{len(bad)} with violations: {bad}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
