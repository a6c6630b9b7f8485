"""Random programs of signals for the ack ledgers of one run, in any order, compared with the model.

A program is bytes, and three of them are one step. So hypothesis draws it at once and shrinks it well, and a failing one is short to print.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Literal, TypeVar

from engine.kernel import AckLedger
from tests.model.tree_model import LIFETIME, AckerModel, Delivery, Forest, Message

T = TypeVar("T")
SPOUTS = (1, 2, 3)
Rule = Literal["progress", "emit"]


def pick(choices: Sequence[T], number: int) -> T:
    """Choose one element by a number of any size."""
    return choices[number % len(choices)]


class LedgerProgram:
    """The ledgers of `ackers` ackers under a program. Every answer is compared with the model's, step by step."""

    STEPS = (
        *("emit", "emit", "branch", "branch", "ack", "ack", "ack", "fail", "reset"),
        *("deliver", "deliver", "deliver_all", "rotate", "lose", "drop"),
    )

    def __init__(self, ackers: int, seed: int, *, timeout_from: Rule = "progress", timeouts: bool = True) -> None:
        self.rules = {"timeout_from": timeout_from, "timeouts": timeouts}
        self.ledgers = [self._new_ledger() for _ in range(ackers)]
        self.models = [AckerModel(timeout_from=timeout_from, timeouts=timeouts) for _ in range(ackers)]
        self.random = Random(seed)
        self.forest = Forest()
        self.edges: dict[int, int] = {}
        self.live: list[Delivery] = []
        self.on_the_way: list[Message] = []
        self.open: dict[int, int] = {}
        """Spout task by root: trees without a verdict."""
        self.verdicts: Counter[int] = Counter()
        self.roots: set[int] = set()
        self.dropped: set[int] = set()

    def _new_ledger(self) -> AckLedger:
        """Return a ledger that is so small that programs fill it."""
        return AckLedger(**self.rules, least_slots=64)  # type: ignore[arg-type]

    def run(self, program: bytes) -> None:
        """Run all steps, then deliver every signal and time out every tree. Nothing may be left."""
        for step in range(0, len(program) - 2, 3):
            getattr(self, pick(self.STEPS, program[step]))(program[step + 1], program[step + 2])
            self.compare_sizes()
        self.deliver_all(0, 0)
        for _ in range(LIFETIME):
            self.rotate(0, 0)
        self.check_the_end()

    def check_the_end(self) -> None:
        """Each root of a living spout has one verdict, the others have none, and nothing is left (ACK-3, ACK-4, ACK-8)."""
        timeouts = bool(self.rules["timeouts"])
        expected = {root: 1 for root in self.roots - self.dropped if timeouts or root not in self.open}
        assert dict(self.verdicts) == expected
        assert not timeouts or not self.open
        for ledger, model in zip(self.ledgers, self.models, strict=True):
            assert len(ledger) == len(model.trees)
            assert not timeouts or not len(ledger)
            assert not [root for root, tree in model.trees.items() if tree.task is None]

    # Steps

    def emit(self, first: int, second: int) -> None:
        """A spout emits to 1 to 4 tasks."""
        root = self.random.getrandbits(64) | 1
        task = pick(SPOUTS, first)
        deliveries = self.forest.plant(root, range(1 + second % 4))
        self.live += deliveries
        self.roots.add(root)
        self.open[root] = task
        self.on_the_way.append(self.forest.init_of(root, deliveries, task))

    def branch(self, first: int, second: int) -> None:
        """A bolt emits to 1 to 3 tasks, with 1 to 4 anchors; an anchor may occur twice."""
        if self.live:
            anchors = [pick(self.live, first * (number + 1) + second) for number in range(1 + second % 4)]
            self.live += self.forest.branch(anchors, range(1 + first % 3))

    def ack(self, first: int, second: int) -> None:
        """A bolt acks one tuple."""
        if self.live:
            self.on_the_way += self.forest.ack(self.live.pop((first * 256 + second) % len(self.live)))

    def fail(self, first: int, second: int) -> None:
        """A tuple fails or is forgotten."""
        if self.live and first % 2:
            self.on_the_way += self.forest.fail(self.live.pop(second % len(self.live)), "failed")

    def reset(self, first: int, second: int) -> None:
        """A bolt resets a timeout, or the engine refreshes a waiting tuple."""
        if self.live:
            self.on_the_way += self.forest.reset(pick(self.live, first * 256 + second))

    def deliver(self, first: int, second: int) -> None:
        """One signal arrives, not necessarily the oldest."""
        if self.on_the_way:
            self.arrive(self.on_the_way.pop((first * 256 + second) % len(self.on_the_way)))

    def deliver_all(self, first: int, second: int) -> None:
        """All signals arrive in a random order."""
        if first % 2:
            self.random.shuffle(self.on_the_way)
        while self.on_the_way:
            self.arrive(self.on_the_way.pop(0))

    def rotate(self, first: int, second: int) -> None:
        """Every acker rotates, in slices of any size."""
        for index, (ledger, model) in enumerate(zip(self.ledgers, self.models, strict=True)):
            over = ledger.rotate(slots_per_slice=1 + first * 16)
            assert len({root for root, _ in over}) == len(over)
            assert {(root, task) for root, task in over if task >= 0} == model.rotate(), f"acker {index}"
            for root, task in over:
                if task >= 0:
                    self.tell(root, task)

    def lose(self, first: int, second: int) -> None:
        """An acker dies: its ledger is lost, and each spout fails the trees that it has there (ACK-13)."""
        if second % 4:
            return
        lost = first % len(self.ledgers)
        self.ledgers[lost] = self._new_ledger()
        self.models[lost] = AckerModel(**self.rules)  # type: ignore[arg-type]
        for root in [root for root in self.open if root % len(self.ledgers) == lost]:
            self.tell(root, self.open[root])
        # The signals on their way to the acker are lost, too.
        self.on_the_way = [message for message in self.on_the_way if message.root % len(self.ledgers) != lost]

    def drop(self, first: int, second: int) -> None:
        """A spout's instance dies: the ackers forget its trees. All its inits have arrived by then."""
        if second % 4:
            return
        task = pick(SPOUTS, first)
        for message in [message for message in self.on_the_way if message.kind == "init" and message.task == task]:
            self.on_the_way.remove(message)
            self.arrive(message)
        gone = [root for root, owner in self.open.items() if owner == task]
        for root in gone:
            del self.open[root]
        self.dropped |= set(gone)
        for ledger, model in zip(self.ledgers, self.models, strict=True):
            before = len(model.trees)
            model.drop(task)
            assert ledger.on_drop_task(task) == before - len(model.trees)

    # Ledger and model together

    def arrive(self, message: Message) -> None:
        """Apply one signal to the ledger and to the model, and compare their answers."""
        index = message.root % len(self.ledgers)
        ledger = self.ledgers[index]
        said = self.signal(ledger, message)
        verdict = self.models[index].take(message)
        if verdict is None:
            assert said == "open", (message, said)
        else:
            assert (said, ledger.last_task) == (verdict.outcome, verdict.task), message
            self.tell(verdict.root, verdict.task)

    def signal(self, ledger: AckLedger, message: Message) -> str:
        """Apply a message to the compiled ledger, and return its answer."""
        if message.kind == "init":
            return ledger.on_init(message.root, self.xor(message.opens), message.task)
        if message.kind == "ack":
            return ledger.on_ack(message.root, self.xor(message.closes) ^ self.xor(message.opens))
        if message.kind == "fail":
            return ledger.on_fail(message.root)
        ledger.on_reset(message.root)
        return "open"

    def xor(self, links: frozenset[int]) -> int:
        """XOR of the edge ids of some links; each link draws its own id."""
        value = 0
        for link in sorted(links):
            if link not in self.edges:
                self.edges[link] = self.random.getrandbits(64) or 1
            value ^= self.edges[link]
        return value

    def tell(self, root: int, task: int) -> None:
        """Pass a verdict to its spout task, which accepts only one."""
        if self.open.get(root) == task:
            del self.open[root]
            self.verdicts[root] += 1

    def compare_sizes(self) -> None:
        """Both sides hold the same trees."""
        for ledger, model in zip(self.ledgers, self.models, strict=True):
            assert len(ledger) == len(model.trees)
            assert all(root in ledger for root in model.trees)
