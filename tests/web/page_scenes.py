"""Scenes for the page: made-up runs with a topology, and a sample for each second.

A scene is a plain function of a number of seconds, so each test and each screenshot sees the same figures.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.web.page_panels import START, Json, checkpoint, event_time, flow, guarantees, jobs, partition

HOSTILE: Final = (
    "<img src=x onerror=alert(1)>",
    '"><script>alert(1)</script>',
    "javascript:alert(1)",
    "left\u202eright",
    "' onmouseover='alert(1)",
    "a-very-long-name-of-a-component-" * 6,
)
"""Names that try to become markup, script or an address, or that hide what they are."""


@dataclass
class Scene:
    """One made-up run. `change` edits the sample of a second before it is sent."""

    topology: Json
    change: Callable[[Json, int], None] = lambda sample, second: None
    seed: int = 1

    def sample(self, second: int) -> Json:
        """Return the sample of this second."""
        draws = Random(self.seed * 1000 + second)
        wave = 1 + 0.15 * math.sin(second / 5) + 0.05 * draws.random()
        components = [component_figures(each, wave, draws, second) for each in self.topology["components"]]
        sources: Json = {each["id"]: each for each in components}
        edges = [
            {"source": edge["source"], "target": edge["target"], "stream": edge["stream"], "tuples": round(1000 * second * wave)}
            | {"rate": round(sources[edge["source"]]["out_rate"], 1)}
            for edge in self.topology["edges"]
        ]
        sample = {
            "seq": second,
            "time": START + second,
            "topology": self.topology["topology"],
            "state": "running",
            "uptime_secs": 60.0 + second,
            "bottleneck": {"kind": "idle", "component": None, "share": None, "text": "The run keeps up with its input."},
            "total": total_figures(components, second, wave),
            "components": components,
            "edges": edges,
            "failures": [],
            "errors": [],
            "owed": [],
            "traces": [],
            "checkpoint": None,
            "transactions": None,
            "dead_letters": None,
            "jobs": None,
            "event_time": [],
            "flow": [],
            "kafka": [],
            "metrics": [],
            "log_level": "INFO",
        }
        self.change(sample, second)
        return sample

    def history(self, second: int) -> Json:
        """Return the figures of the minute before this second."""
        names = ("emitted_rate", "acked_rate", "failed_rate", "loop_busy", "open_trees", "p50_ms", "p99_ms")
        samples = [self.sample(each) for each in range(max(second - 59, 0), second + 1)]
        return {"samples": [{"time": each["time"], **{name: each["total"][name] for name in names}} for each in samples]}


def component_figures(component: Json, wave: float, draws: Random, second: int) -> Json:
    """Return the figures of one component. Its entry in the topology may have `load`, `speed` and `waits`."""
    is_spout, tasks = component["kind"] == "spout", component["tasks"]
    speed = component.get("speed", 4000.0) * wave
    share = min(component.get("load", 0.3) * wave, 1.0)
    waiting = round(component.get("waits", 0) * wave)
    rows = [
        {
            "task": component["first_task"] + index,
            "index": index,
            "in_rate": 0.0 if is_spout else speed / tasks,
            "out_rate": speed / tasks,
            "waiting": waiting // tasks,
            "capacity": share,
            "loop_share": share * 0.7,
            "acked": 100 * second,
            "failed": 0,
            "pending": 20 if is_spout else None,
            "restarts": 0,
            "errors": 0,
            "status": "polling" if is_spout else "",
        }
        for index in range(tasks)
    ]
    return {
        "id": component["id"],
        "kind": component["kind"],
        "system": component["system"],
        "tasks": tasks,
        "in_rate": 0.0 if is_spout else speed,
        "out_rate": speed,
        "executed": 4000 * second,
        "emitted": 4000 * second,
        "acked": 4000 * second,
        "failed": 0,
        "acked_rate": speed,
        "failed_rate": 0.0,
        "waiting": waiting,
        "mailbox_capacity": 32768,
        "fill": waiting / 32768,
        "loop_share": share * component.get("blocks", 0.4),
        "capacity": share,
        "slots": component.get("slots", 1),
        "execute_ms": None if is_spout else share / speed * 1000,
        "process_ms": None if is_spout else 1.7 * wave,
        "pending": 812 if is_spout else None,
        "max_pending": 1000 if is_spout else None,
        "p50_ms": 8.4 * wave if is_spout else None,
        "p99_ms": 41.0 * wave if is_spout else None,
        "restarts": 0,
        "errors": 0,
        "status": "polling" if is_spout else "",
        "retries": 0 if is_spout else 3,
        "diverted": 0,
        "given_up": 2 if is_spout else 0,
        "failures": {},
        "task_rows": rows,
    }


def total_figures(components: Sequence[Json], second: int, wave: float) -> Json:
    """Return the totals of a sample."""
    spouts = [each for each in components if each["kind"] == "spout"]
    speed = sum(each["out_rate"] for each in spouts)
    return {
        "loop_busy": min(0.78 * wave, 1.0),
        "open_trees": sum(each["pending"] for each in spouts),
        "emitted": 4000 * second,
        "acked": 4000 * second,
        "failed": 0,
        "emitted_rate": speed,
        "acked_rate": speed,
        "failed_rate": 0.0,
        "p50_ms": 8.4 * wave,
        "p99_ms": 41.0 * wave,
        "errors": 0,
    }


def topology(name: str, components: Sequence[Json], edges: Sequence[tuple[str, str]], *, can_steer: bool = True) -> Json:
    """Return a topology. Each component gets its numbers of tasks."""
    first, filled = 1, []
    for each in components:
        whole = {"kind": "bolt", "tasks": 1, "system": False, "streams": {"default": ["value"]}, "first_task": first, **each}
        first += whole["tasks"]
        filled.append(whole)
    linked = [{"source": source, "target": target, "stream": "default", "grouping": "shuffle"} for source, target in edges]
    size = {"width": max(each["x"] for each in filled) + 1, "height": max(each["y"] for each in filled) + 1}
    return {"topology": name, "components": filled, "edges": linked, **size, "inlets": [], "can_steer": can_steer}


def three() -> Scene:
    """Three components. `sign` blocks the loop."""
    made = topology(
        "payments",
        [
            {"id": "orders", "kind": "spout", "x": 0, "y": 0, "load": 0.05},
            {"id": "sign", "tasks": 2, "x": 1, "y": 0, "load": 0.87, "blocks": 1.0, "waits": 1234},
            {"id": "store", "tasks": 4, "x": 2, "y": 0, "load": 0.22, "slots": 8},
            {"id": "__acker", "kind": "acker", "system": True, "x": 3, "y": 0, "load": 0.04},
        ],
        [("orders", "sign"), ("sign", "store"), ("store", "__acker")],
    )

    def change(sample: Json, second: int) -> None:
        text = "'sign' blocks the loop 87% of the time. Make it async, or give it threads."
        sample["bottleneck"] = {"kind": "loop", "component": "sign", "share": 0.87, "text": text}

    return Scene(made, change)


def many(number: int, change: Callable[[Json, int], None] = lambda sample, second: None) -> Scene:
    """Return a layered topology with this number of components."""
    draws = Random(number)
    layers = max(round(math.sqrt(number) * 0.9), 2)
    layer_of = [0, *sorted(1 + draws.randrange(layers - 1) for _ in range(number - 1))]
    seen: dict[int, int] = {}
    components: list[Json] = []
    for index, layer in enumerate(layer_of):
        row = seen[layer] = seen.get(layer, -1) + 1
        name = f"{draws.choice(('parse', 'join', 'rank', 'enrich', 'count', 'route'))}-{index}"
        made = {"id": f"lines-{index}" if layer == 0 else name, "kind": "spout" if layer == 0 else "bolt", "x": layer, "y": float(row)}
        components.append(made | {"tasks": draws.choice((1, 1, 2, 4, 8)), "load": draws.random() ** 2, "speed": 10 ** draws.uniform(0, 5)})
    for each in components:
        each["y"] += (max(seen.values()) - seen[each["x"]]) / 2
    edges: list[tuple[str, str]] = []
    for index, layer in enumerate(layer_of[1:], 1):
        before = [each["id"] for each, at in zip(components, layer_of, strict=True) if at < layer and layer - at <= 2]
        before = before or [components[0]["id"]]
        edges += [(source, components[index]["id"]) for source in draws.sample(before, min(len(before), draws.choice((1, 1, 2))))]
    return Scene(topology(f"topology of {number}", components, edges), change, seed=number)


def hostile() -> Scene:
    """Return a run whose every name, value and error text is hostile."""
    ids = [*HOSTILE]
    components = [{"id": name, "kind": "bolt" if index else "spout", "x": index, "y": 0} for index, name in enumerate(ids)]
    made = topology(HOSTILE[0], components, list(itertools.pairwise(ids)))

    def change(sample: Json, second: int) -> None:
        bad = HOSTILE[0]
        sample["bottleneck"] = {"kind": "component", "component": ids[1], "share": 0.9, "text": f"'{ids[1]}' is slow."}
        failure = {"time": START, "component": ids[0], "task": 1, "message_id": bad, "reason": HOSTILE[1]}
        sample["failures"] = [failure | {"failed_component": ids[2], "failed_task": 3, "error": HOSTILE[2]}]
        sample["errors"] = [error(ids[1], 2, HOSTILE[1], bad)]
        sample["owed"] = [{"component": ids[1], "task": 2, "tuple": bad, "age_secs": 3.0}]
        sample["traces"] = [{"component": ids[0], "message_id": bad, "state": HOSTILE[1], "text": HOSTILE[2]}]
        sample["components"][1] |= {"status": bad, "failures": {HOSTILE[1]: 2}, "failed": 2}
        sample["checkpoint"] = checkpoint(second) | {"step": bad, "held": HOSTILE[1], "cause": bad, "waits_for": [bad]}
        sample["checkpoint"]["guarantees"] = guarantees([ids[0], HOSTILE[1]], ids[1], HOSTILE[3])
        sample["transactions"] = {"committed_txid": 4, "committed_rate": 1.0, "open": 1, "failed": 0, "phases": {bad: [5]}}
        sample["kafka"] = [partition(0, second) | {"topic": bad, "component": HOSTILE[1]}]
        sample["metrics"] = [{"component": bad, "task": 1, "name": HOSTILE[1], "kind": bad, "labels": {bad: HOSTILE[3]}, "value": 1}]
        sample["dead_letters"] = {"stored": 1, "given_up": 1, "last_component_id": HOSTILE[1], "last_error": bad}
        sample["jobs"] = jobs(second) | {"ui": HOSTILE[2], "master": bad, "application": HOSTILE[1]}
        sample["jobs"]["newest"][1]["stages"][0] |= {"components": [bad], "slowest_components": [HOSTILE[3]]}
        sample["event_time"] = event_time([bad, HOSTILE[1]], second, HOSTILE[3])
        sample["flow"] = flow(second)
        sample["flow"][0] |= {"component_id": bad, "position": HOSTILE[1], "holds": HOSTILE[2]}

    return Scene(made, change)


def error(component: str, task: int, text: str, tup: str | None, at: float = START) -> Json:
    """Return an entry of `errors`."""
    trace = f'Traceback (most recent call last):\n  File "topology.py", line 17, in execute\n    price = tup["price"]\n{text}'
    shown = {"time": f"2026-01-01T10:{int(at) % 60:02d}:00.000+00:00", "component": component, "task": task, "error": text}
    return shown | {"tuple": tup, "traceback": trace, "next_step": "the input is failed, and the task goes on"}


def everything() -> Scene:
    """Return twenty components with each panel: failures, errors, a checkpoint in trouble, transactions, flow control, Kafka, metrics."""
    scene = many(20)
    failing = next(each["id"] for each in scene.topology["components"][8:] if each["kind"] == "bolt")
    spout = scene.topology["components"][0]["id"]

    def change(sample: Json, second: int) -> None:
        bad = next(each for each in sample["components"] if each["id"] == failing)
        bad |= {"failed": 40 + 3 * second, "failed_rate": 3.0, "errors": 7, "failures": {"exception": 40 + 3 * second}, "capacity": 0.93}
        sample["components"][0] |= {"failures": {"exception": 40 + 3 * second, "timeout": 12}, "failed": 52 + 3 * second}
        sample["total"] |= {"failed": 52 + 3 * second, "failed_rate": 3.0 + math.sin(second), "errors": 7}
        text = f"'{failing}' is in its code 93% of the time. Give it more tasks, or make it faster."
        sample["bottleneck"] = {"kind": "component", "component": failing, "share": 0.93, "text": text}
        common = {"component": spout, "task": 1, "failed_component": failing, "failed_task": 14}
        sample["failures"] = [
            common
            | {"time": START + second - index, "message_id": f"('web.clicks', 3, {88_120 + second - index})"}
            # One in five of them timed out.
            | ({"reason": "timeout", "error": None} if index % 5 == 4 else {"reason": "exception", "error": "KeyError: 'price'"})
            for index in range(12)
        ]
        sample["errors"] = [
            error(failing, 14, "KeyError: 'price'", "Tuple(order=17, words=['storm', 'cell'])", START - index) for index in range(3)
        ]
        owed = [("Tuple(order=88119)", 41.5), ("Tuple(order=88131)", 12.2), ("Tuple(order=88140)", 3.1)]
        sample["owed"] = [{"component": failing, "task": 14, "tuple": text, "age_secs": age + second} for text, age in owed]
        path = f"{spout}[1] -> {failing}[14] acked after 3 ms"
        sample["traces"] = [{"component": spout, "message_id": "17", "state": "open", "text": path}]
        waits = [f"{failing}[14] waits for the barrier of {spout}[1]"]
        sample["checkpoint"] = checkpoint(second) | {"step": "commit", "step_secs": 14.0 + second, "waits_for": waits}
        trouble = "ConnectionError: Error 111 connecting to 127.0.0.1:6379. Connection refused."
        held = f"the state store is unavailable: {trouble}"
        sample["checkpoint"] |= {"trouble": trouble, "held": held, "since_commit_secs": 15.0 + second}
        sample["checkpoint"]["guarantees"] = guarantees([spout, "web.calls"], failing, sample["components"][-1]["id"])
        phases = {"processing": [318, 319, 320], "committing": [317]}
        sample["transactions"] = {"committed_txid": 316, "committed_rate": 4.2, "open": 4, "failed": 1, "phases": phases}
        sample["dead_letters"] = {"stored": 7, "given_up": 2, "last_component_id": failing, "last_error": "KeyError: 'price'\n  line"}
        sample["jobs"] = jobs(second)
        sample["flow"] = flow(second)
        sample["kafka"] = [partition(number, second) for number in range(6)]
        sample["metrics"] = [
            {
                "component": failing,
                "task": 14,
                "name": "orders_total",
                "kind": "counter",
                "labels": {"shop": "berlin"},
                "value": 1200 + second,
            },
            {"component": failing, "task": 14, "name": "price", "kind": "histogram", "labels": {}, "count": 990, "p50": 12.5, "p99": 80.25},
        ]

    scene.change = change
    return scene


def held(scene: Scene) -> Scene:
    """Return a scene whose watermark is held by a row that is not acked."""
    ids = [each["id"] for each in scene.topology["components"] if not each["system"]]
    change = scene.change

    def hold(sample: Json, second: int) -> None:
        change(sample, second)
        owing = f"{ids[1]}[2], for {40 + second} s"
        holder = f"{ids[0]}[1]: a row of {41 + second} s ago is not acked; the oldest input that is not settled is at {owing}"
        sample["event_time"] = event_time(ids, second, holder)

    scene.change = hold
    return scene


SCENES: Final[dict[str, Callable[[], Scene]]] = {
    "three": three,
    "twenty": everything,
    "two-hundred": lambda: many(200),
    "hostile": hostile,
    "held": lambda: held(three()),
    "two-hundred-held": lambda: held(many(200)),
}
