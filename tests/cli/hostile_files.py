"""Topology files whose own code raises in a call of the engine: (the place, the file). `ERROR` in the text is the exception."""

from typing import Final

HEAD: Final = """\
import asyncio
import sys
from engine import BasicBolt, BatchBolt, Bolt, Fields, Spout, SpoutExhausted, StatefulBolt, TopologyBuilder, bolt, spout
from engine.transactional import SpoutCoordinator, SpoutEmitter, TransactionalSpout, TransactionalTopologyBuilder

class Odd(BaseException):
    pass

class Mute(Exception):
    def __str__(self):
        raise ValueError("no text")

def fails():
    raise ERROR

@spout("line")
def lines():
    yield ("to be",)

@bolt()
def sink(tup):
    pass

def wire(component, source=lines):
    builder = TopologyBuilder("words")
    builder.set_spout("lines", source)
    builder.set_bolt("broken", component).fields_grouping("lines", "line")
    return builder

class Sink(Bolt):
    def execute(self, tup):
        self.collector.ack(tup)

class Lines(Spout):
    output_fields = Fields("line")

    def next_tuple(self):
        raise SpoutExhausted

class Keeps(StatefulBolt):
    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.state.put(tup[0], 1)
        self.collector.ack(tup)

class Groups:
    def prepare(self, context, stream, targets):
        self.targets = targets

    def choose_tasks(self, source_task, values):
        return self.targets

def grouped(grouping):
    builder = TopologyBuilder("words")
    builder.set_spout("lines", lines)
    builder.set_bolt("broken", sink).custom_grouping("lines", grouping)
    return builder.build()

class Numbers(SpoutCoordinator):
    def is_ready(self):
        if self.previous == 2:
            raise SpoutExhausted
        return True

    def initialize_transaction(self, txid, previous):
        return txid

class Emits(SpoutEmitter):
    def emit_batch(self, attempt, metadata, collector):
        collector.emit((metadata,))

class Batches(TransactionalSpout):
    output_fields = Fields("number")

    def coordinator(self):
        return Numbers()

    def emitter(self):
        return Emits()

class Sums(BatchBolt):
    def execute(self, tup):
        pass

    def finish_batch(self):
        pass

def batches(spout, committer=Sums):
    builder = TransactionalTopologyBuilder("sums", "broken", spout)
    builder.set_committer("sums", committer).shuffle_grouping("broken")
    return builder.build()
"""


def _member(base: str, signature: str, decorator: str = "") -> str:
    return f"\nclass Hostile({base}):\n{decorator}    def {signature}:\n        fails()\n"


_PROPERTY: Final = "    @property\n"
_INIT: Final = "\n    def __init__(self):\n        pass\n"

REFUSED: Final[dict[str, str]] = {
    "a factory": "\ntopology = wire(fails).build()\n",
    "a constructor": _member("Sink", "__init__(self)") + "\ntopology = wire(Hostile).build()\n",
    "a constructor that only a run calls": _member("Lines", "__init__(self)") + "\ntopology = wire(sink, Hostile).build()\n",
    "output_fields": _member("Sink", "output_fields(self)", _PROPERTY) + "\ntopology = wire(Hostile).build()\n",
    "a setting": _member("Sink", "on_error(self)", _PROPERTY) + _INIT + "\ntopology = wire(Hostile).build()\n",
    "a flag": _member("Sink", "keeps_state(self)", _PROPERTY) + _INIT + "\ntopology = wire(Hostile).build()\n",
    "execute as a property": _member("Sink", "execute(self)", _PROPERTY) + _INIT + "\ntopology = wire(Hostile).build()\n",
    "a grouping's constructor": _member("Groups", "__init__(self)") + "\ntopology = grouped(Hostile)\n",
    "a grouping's copy": _member("Groups", "__deepcopy__(self, memo)") + "\ntopology = grouped(Hostile())\n",
    "a grouping's method": _member("Groups", "choose_tasks(self)", _PROPERTY) + "\ntopology = grouped(Hostile())\n",
    "a coordinator()": _member("Batches", "coordinator(self)") + "\ntopology = batches(Hostile())\n",
    "an emitter()": _member("Batches", "emitter(self)") + "\ntopology = batches(Hostile())\n",
    "a committer's constructor": _member("Sums", "__init__(self)") + "\ntopology = batches(Batches(), Hostile)\n",
    "the output_fields of batches": _member("Batches", "output_fields(self)", _PROPERTY) + "\ntopology = batches(Hostile())\n",
    "an admission": _member("Sums", "admission(self)", _PROPERTY) + _INIT + "\ntopology = batches(Batches(), Hostile)\n",
}
"""`check` refuses these with exit status 2, and names the code that raises. `run` refuses them too, or ends with 1."""

ENDED: Final[dict[str, str]] = {
    "open": _member("Lines", "open(self)") + "\ntopology = wire(sink, Hostile).build()\n",
    "activate": _member("Lines", "activate(self)") + "\ntopology = wire(sink, Hostile).build()\n",
    "next_tuple": _member("Lines", "next_tuple(self)") + "\ntopology = wire(sink, Hostile).build()\n",
    "prepare": _member("Sink", "prepare(self)") + "\ntopology = wire(Hostile).build()\n",
    "an async prepare": _member("Sink", "prepare(self)").replace("    def prep", "    async def prep")
    + "\ntopology = wire(Hostile).build()\n",
    "execute": _member("Sink", "execute(self, tup)") + "\ntopology = wire(Hostile).build()\n",
    "one of several calls": _member("Sink", "execute(self, tup)").replace("    def exec", "    concurrency = 2\n    async def exec")
    + "\ntopology = wire(Hostile).build()\n",
    "a call in a thread": _member("BasicBolt", "execute(self, tup)").replace("    def exec", "    threads = 2\n    def exec")
    + "\ntopology = wire(Hostile).build()\n",
    "background work": _member("Sink", "work(self)").replace("    def work", "    async def work")
    + "\n    def prepare(self):\n        self.context.create_task(self.work())\n\ntopology = wire(Hostile).build()\n",
    "init_state": _member("Keeps", "init_state(self, state)") + "\ntopology = wire(Hostile).build()\n",
    "pre_prepare": _member("Keeps", "pre_prepare(self, txid)") + "\ntopology = wire(Hostile).build()\n",
    "key_of": _member("Keeps", "key_of(self, key)") + "\ntopology = wire(Hostile).build()\n",
    "a grouping's prepare": _member("Groups", "prepare(self, context, stream, targets)") + "\ntopology = grouped(Hostile)\n",
    "a coordinator's open": _member("Numbers", "open(self)")
    + "\nclass Opens(Batches):\n    def coordinator(self):\n        return Hostile()\n\ntopology = batches(Opens())\n",
    "an emitter's open": _member("Emits", "open(self)")
    + "\nclass Opens(Batches):\n    def emitter(self):\n        return Hostile()\n\ntopology = batches(Opens())\n",
}
"""If these raise a BaseException, `run` ends with exit status 1 and names the component."""
