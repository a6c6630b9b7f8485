"""Cost of the flow controller alone, with 12 tasks (`python -m bench flow controller-cost`).

`decide_ns` is the cost per tuple to choose a pack's task and note its emit and ack, in C (`TaskWindow`, `TaskChooser`). `all_of_N_ns` is
the cost per record in tuples of N records. It includes the packing, the done prefix and the bookkeeping.
"""

import time

from engine.flow import FlowController, FlowSettings
from engine.kernel import TaskChooser, TaskWindow

TASKS = 12
SERIES = 3


def measure(packs: int) -> dict[str, float]:
    """Return the least of three series of each figure."""
    decide = min(_decide(packs) for _ in range(SERIES)) - min(_bare_loop(packs) for _ in range(SERIES))
    sizes = {1: packs, 20: packs // 10, 200: packs // 100}
    whole = {f"all_of_{records}_ns": round(min(_whole(count, records) for _ in range(SERIES))) for records, count in sizes.items()}
    return {"decide_ns": round(decide), **whole}


def _decide(packs: int) -> float:
    """Return the nanoseconds per pack to choose its task and to note its emit and ack."""
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


def _bare_loop(packs: int) -> float:
    """Return the nanoseconds of the loop of `_decide` alone."""
    sent = list(range(TASKS))
    began = time.perf_counter_ns()
    for turn in range(packs):
        now = turn * 0.0005
        old = sent[turn % TASKS]
        assert now >= 0
        sent[turn % TASKS] = old
    return (time.perf_counter_ns() - began) / packs


def _whole(packs: int, records: int) -> float:
    """Return the nanoseconds per record, with all work of the controller."""
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
