"""`python -m bench.flow.controller_cost`: what the controller of a flow costs, as JSON.

12 tasks. `decide_ns`: to choose a pack's task, to note its emit and its ack, in C (`TaskWindow`, `TaskChooser`), per tuple.
`all_of_N_ns`: with the packing, the done prefix and the bookkeeping, per record, in tuples of N records.
"""

import argparse
import json
import time

from engine.flow import FlowController, FlowSettings
from engine.kernel import TaskChooser, TaskWindow

TASKS = 12


def decide(packs: int) -> float:
    """Nanoseconds per pack for its task, its emit and its ack."""
    windows = [TaskWindow(task, initial_size=2, max_size=64, threshold_secs=0, pack_secs=0.005) for task in range(TASKS)]
    chooser = TaskChooser(windows)
    sent = [window.open_delivery(None, 1, 0.0) for window in windows]
    began = time.perf_counter_ns()
    for turn in range(packs):
        now = turn * 0.0005
        old = sent[turn % TASKS]
        old.window.note_ack(old, now)
        window = chooser.choose(now)
        assert window is not None
        sent[turn % TASKS] = window.open_delivery(None, 1, now)
        chooser.note_sent(window)
    return (time.perf_counter_ns() - began) / packs


def bare(packs: int) -> float:
    """The loop of `decide` without it."""
    sent = list(range(TASKS))
    began = time.perf_counter_ns()
    for turn in range(packs):
        now = turn * 0.0005
        old = sent[turn % TASKS]
        assert now >= 0
        sent[turn % TASKS] = old
    return (time.perf_counter_ns() - began) / packs


def whole(packs: int, records: int) -> float:
    """Nanoseconds per record, with everything."""
    controller = FlowController(FlowSettings(pack_records=records, pack_age_ms=0), range(TASKS))
    sent, now, number = [], 0.0, 0
    began = time.perf_counter_ns()
    for turn in range(packs):
        now = turn * 1e-9
        for _ in range(controller.records_wanted(now)):
            number += 1
            controller.offer_record(number, number, now)
        delivery = controller.next_delivery(now)
        if delivery is not None:
            sent.append(delivery)
        if len(sent) >= TASKS:
            old = sent.pop(0)
            controller.note_task_ack(old, now)
            controller.note_tree_ack(old, now)
    return (time.perf_counter_ns() - began) / max(number, 1)


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--packs", type=int, default=300_000)
    packs = parser.parse_args().packs
    print(
        json.dumps(
            {
                "decide_ns": round(min(decide(packs) for _ in range(3)) - min(bare(packs) for _ in range(3))),
                "all_of_1_ns": round(min(whole(packs, 1) for _ in range(3))),
                "all_of_20_ns": round(min(whole(packs // 10, 20) for _ in range(3))),
                "all_of_200_ns": round(min(whole(packs // 100, 200) for _ in range(3))),
            }
        )
    )


if __name__ == "__main__":
    main()
