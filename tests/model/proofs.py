"""Properties of tuple trees, Kafka offsets and flow control that hypothesis checks.

A proof runs a random program, and raises if model and engine differ. Tests run each a few hundred times, `python -m tests.soak` as often
as asked.
"""

from collections.abc import Callable

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from engine.flow.settings import FlowSettings
from tests.model.carrying_program import GROUPINGS, KINDS, CarryingProgram, Layer
from tests.model.core_program import CoreProgram
from tests.model.flow_program import FlowProgram
from tests.model.ledger_program import LedgerProgram, Rule
from tests.model.offset_program import OffsetProgram
from tests.model.run_program import RunProgram
from tests.model.strict_order_program import StrictOrderProgram

ACKERS = (1, 2, 5)
SEEDS = st.integers(0, 2**32 - 1)


def programs(least: int, most: int) -> st.SearchStrategy[bytes]:
    """Draw bytes. Hypothesis draws about twice the least length."""
    return st.binary(min_size=least, max_size=most)


def prove_ledgers(program: bytes, seed: int, ackers: int, rule: Rule, timeouts: bool) -> None:
    """Check the ledgers alone, with signals in any order."""
    LedgerProgram(ackers, seed, timeout_from=rule, timeouts=timeouts).run(program)


def prove_cores(program: bytes, seed: int, ackers: int, rule: Rule) -> None:
    """Check the compiled spouts, bolts and ackers, without a loop."""
    CoreProgram(ackers, seed, timeout_from=rule).run(program)


def prove_runs(program: bytes, seed: int, ackers: int) -> None:
    """Check whole runs in virtual time."""
    RunProgram(ackers, seed).run(program)


def prove_carrying(layers: list[Layer], trees: int, seed: int, burst_spout: bool) -> None:
    """Check trees through layers of bolts, some of which take bursts or are in processes."""
    CarryingProgram(layers, trees, seed, burst_spout=burst_spout).run()


def prove_offsets(program: bytes, seed: int, limit: int, most_bytes: int, bulk: int) -> None:
    """Check the successive owners of a Kafka partition. A bulk gives each step thousands of records."""
    OffsetProgram(seed, limit=limit, most_bytes=most_bytes, bulk=bulk).run(program if bulk == 1 else program[:60])


def prove_strict_order(program: bytes, seed: int) -> None:
    """Check a Kafka partition in strict order, where a failed record stops the others."""
    StrictOrderProgram(seed).run(program)


def prove_flow(program: bytes, seed: int, tasks: int, width: int, calm: int, settings: FlowSettings) -> None:
    """Check the controller of a flow and its tasks."""
    FlowProgram(seed, tasks=tasks, width=width, calm=calm, settings=settings).run(program)


class AllAckersTurn(CoreProgram):
    """Programs whose result cannot depend on the number of ackers: all ackers take turns together, and none dies."""

    STEPS = tuple(step for step in CoreProgram.STEPS if step != "acker_dies")

    def acker_turn(self, first: int, second: int) -> None:
        for number in range(len(self.ackers)):
            super().acker_turn(number, second)

    def rotate(self, first: int, second: int) -> None:
        for number in range(len(self.ackers)):
            super().rotate(number, second)


def prove_number_of_ackers(program: bytes, seed: int) -> None:
    """Verdicts do not depend on the number of ackers (ACK-7)."""
    histories = []
    for ackers in ACKERS:
        cores = AllAckersTurn(ackers, seed)
        cores.run(program)
        histories.append(sorted(cores.history, key=repr))
    assert histories[0] == histories[1] == histories[2]


RULES = st.sampled_from(["progress", "emit"])
NUMBERS = st.sampled_from(ACKERS)
FLOW_SETTINGS = st.builds(
    FlowSettings,
    choice=st.sampled_from(["least_wait", "least_wait", "round_robin"]),
    threshold_ms=st.sampled_from([None, None, 1.0, 50.0]),
    initial_window=st.sampled_from([1, 2, 3]),
    max_window=st.sampled_from([3, 5, 64]),
    pack_records=st.sampled_from([1, 3, 20]),
    pack_bytes=st.sampled_from([60, 1 << 20]),
    max_pending_records=st.sampled_from([20, 40, 1000]),
    max_retries=st.sampled_from([None, None, 0, 1, 3]),
)


def layers_of(processes: st.SearchStrategy[bool]) -> st.SearchStrategy[list[Layer]]:
    """Draw one to three layers."""
    layer = st.builds(Layer, kind=st.sampled_from(KINDS), tasks=st.integers(1, 2), grouping=st.sampled_from(GROUPINGS), processes=processes)
    return st.lists(layer, min_size=1, max_size=3)


WITH_PROCESSES = layers_of(st.booleans()).filter(lambda layers: any(layer.processes for layer in layers))
PROOFS: dict[str, tuple[Callable[..., None], dict[str, st.SearchStrategy[object]]]] = {
    "ledgers": (prove_ledgers, {"program": programs(60, 900), "seed": SEEDS, "ackers": NUMBERS, "rule": RULES, "timeouts": st.booleans()}),
    "cores": (prove_cores, {"program": programs(90, 1200), "seed": SEEDS, "ackers": NUMBERS, "rule": RULES}),
    "runs": (prove_runs, {"program": programs(10, 200), "seed": SEEDS, "ackers": NUMBERS}),
    "bursts": (
        prove_carrying,
        {"layers": layers_of(st.just(False)), "trees": st.integers(1, 40), "seed": SEEDS, "burst_spout": st.booleans()},
    ),
    "processes": (
        prove_carrying,
        {"layers": WITH_PROCESSES, "trees": st.integers(1, 40), "seed": SEEDS, "burst_spout": st.booleans()},
    ),
    "offsets": (
        prove_offsets,
        {
            "program": programs(60, 900),
            "seed": SEEDS,
            "limit": st.sampled_from([1, 3, 10, 40, 100_000]),
            "most_bytes": st.sampled_from([30, 64, 4096]),
            "bulk": st.sampled_from([1, 1, 1, 1, 1, 1, 1, 1, 1, 300]),
        },
    ),
    "strict order": (prove_strict_order, {"program": programs(60, 900), "seed": SEEDS}),
    "flow": (
        prove_flow,
        {
            "program": programs(300, 3000),
            "seed": SEEDS,
            "tasks": st.sampled_from([1, 2, 3, 12]),
            "width": st.sampled_from([1, 1, 4]),
            "calm": st.sampled_from([1, 10, 100]),
            "settings": FLOW_SETTINGS,
        },
    ),
    "number of ackers": (prove_number_of_ackers, {"program": programs(90, 600), "seed": SEEDS}),
}


def prove(name: str, examples: int, *, seed: int | None = None) -> None:
    """Run a proof with random programs. A failing one is shrunk and raised, with a blob that replays it.

    With a seed, hypothesis draws from it alone and stores nothing.
    """
    function, strategies = PROOFS[name]
    proof = given(**strategies)(function)
    options = settings(max_examples=examples, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
    if seed is not None:
        proof = hypothesis.seed(seed)(proof)
        options = settings(options, database=None, phases=[Phase.generate, Phase.shrink])
    options(proof)()
