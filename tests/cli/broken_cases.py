"""Cases of broken topologies, in the order of their life: read, imported, chosen, built, configured, run."""

from tests.cli.broken_topologies import HEAD, Broken

PLAIN = ("run", "flow.py", "--plain")


def _settings(*settings: str) -> tuple[str, ...]:
    return tuple(word for setting in settings for word in ("-c", setting))


READ = (
    Broken(
        "a missing file",
        None,
        ("run", "flow.py"),
        2,
        """\
Error: flow.py does not exist
Fix: There is no .py file in FOLDER.
""",
    ),
    Broken(
        "a misspelt file",
        HEAD,
        ("run", "flwo.py"),
        2,
        """\
Error: flwo.py does not exist
Fix: Did you mean flow.py?
""",
    ),
    Broken(
        "a file that is not Python",
        "def lines(:\n    pass\n",
        ("check", "flow.py"),
        2,
        """\
Error: flow.py, line 1, is not valid Python:
  File "flow.py", line 1
    def lines(:
SyntaxError: invalid syntax
Fix: Correct the file.
""",
    ),
)

IMPORTED = (
    Broken(
        "an import of what is not there",
        "import panads\n",
        ("run", "flow.py"),
        2,
        """\
Error: flow.py raised ModuleNotFoundError while it was imported:
Traceback (most recent call last):
  File "flow.py", line 1, in <module>
    import panads
ModuleNotFoundError: No module named 'panads'
Fix: Install 'panads' into this Python (PYTHON), or put panads.py beside the file.
""",
    ),
    Broken(
        "an exception while it is imported",
        'RATES = {"eur": 1.0}\n\ndef rate(currency):\n    return RATES[currency]\n\nrate("usd")\n',
        ("graph", "flow.py"),
        2,
        """\
Error: flow.py raised KeyError while it was imported:
Traceback (most recent call last):
  File "flow.py", line 6, in <module>
    rate("usd")
  File "flow.py", line 4, in rate
    return RATES[currency]
KeyError: 'usd'
Fix: Correct the file. The last line of the file in the traceback above shows the place.
""",
    ),
    Broken(
        "a misspelt method",
        'from engine import TopologyBuilder\n\nbuilder = TopologyBuilder("flow")\nbuilder.set_blot("sink", print)\n',
        ("graph", "flow.py"),
        2,
        """Error: flow.py raised AttributeError while it was imported:
Traceback (most recent call last):
  File "flow.py", line 4, in <module>
    builder.set_blot("sink", print)
AttributeError: 'TopologyBuilder' object has no attribute 'set_blot'
Fix: Did you mean 'set_bolt'?
""",
    ),
)

CHOSEN = (
    Broken(
        "no topology",
        'def words():\n    return "words"\n',
        ("run", "flow.py"),
        2,
        """\
Error: flow.py contains no topology.
Fix: Add `topology = builder.build()` to the file. If a function returns the topology, name it: flow.py:words.
""",
    ),
    Broken(
        "two topologies and no name",
        f'{HEAD}\nclicks = wire(count, "clicks").build()\nwords = wire(count).build()\n',
        ("run", "flow.py"),
        2,
        """\
Error: flow.py contains 2 topologies:
  - clicks (topology 'clicks')
  - words (topology 'words')
Fix: Name one of them, for example flow.py:clicks
""",
    ),
    Broken(
        "a misspelt name",
        f"{HEAD}\nwords = wire(count).build()\n",
        ("run", "flow.py:wrods"),
        2,
        """\
Error: flow.py contains no topology called 'wrods'
Fix: Did you mean flow.py:words?
""",
    ),
    Broken(
        "a function that returns something else",
        "async def topology():\n    return 7\n",
        ("run", "flow.py"),
        2,
        """\
Error: flow.py:topology returns a value of type int, not a topology
Fix: It must return a Topology: `builder.build()`.
""",
    ),
)

BUILT = (
    Broken(
        "a topology with several faults",
        f"""{HEAD}
builder = TopologyBuilder("words")
builder.set_spout("lines", lines)
builder.set_bolt("count", count).fields_grouping("lines", "word")
builder.set_bolt("store", count, parallelism=0).shuffle_grouping("conut")
builder.set_bolt("__log", count).shuffle_grouping("lines", stream="late")
topology = builder.build()
""",
        ("run", "flow.py"),
        2,
        """\
Error: topology 'words', 5 faults:
  - bolt 'store': parallelism must be an integer of at least 1, not 0. Fix set_bolt().
  - bolt '__log': ids that begin with '__' or '$' are the engine's own. Rename it.
  - bolt 'count': stream 'default' of 'lines' has no field 'word' (it has: line). Fix fields_grouping() or the @spout(...) of lines().
  - bolt 'store': there is no component 'conut' (there are: lines, count, store, __log). Did you mean 'count'?
  - bolt '__log': 'lines' has no stream 'late' (it has: default). Fix shuffle_grouping() or the @spout(...) of lines().
  raised in flow.py, line 22
""",
    ),
    Broken(
        "a factory that returns the wrong thing",
        f'{HEAD}\ntopology = wire(lambda: "count").build()\n',
        ("run", "flow.py"),
        2,
        """\
Error: topology 'words': bolt 'broken': its factory returned 'count' (str), not a bolt. Return a new Bolt or BasicBolt at each call.
  raised in flow.py, line 17
""",
    ),
)

CONFIGURED = (
    Broken(
        "settings of every wrong kind",
        f'{HEAD}\nconfig = {{"burst": "many"}}\ntopology = wire(count).build()\n',
        (*PLAIN, *_settings("max_spout_pendng=10", "key_groups=0", "timeout_from=emit", "enable_message_timeouts=no")),
        2,
        """\
Error: configuration, 5 faults:
  - flow.py: config burst must be an integer from 1 to 1_048_576, not 'many'.
  - ENGINE_SEED must be an integer from 0 to 18_446_744_073_709_551_615, or none, not 'x'.
  - -c: 'max_spout_pendng' is not a setting. Did you mean 'max_spout_pending'?
  - -c key_groups must be an integer from 1 to 32_768, not 0.
  - -c timeout_from and -c enable_message_timeouts: timeout_from='emit' says how trees time out, \
but enable_message_timeouts=False switches them off. Remove one of the two.
""",
        environment={"ENGINE_SEED": "x"},
    ),
    Broken(
        "a topology that these settings do not allow",
        f"""{HEAD}
builder = wire(count)
builder.set_bolt("store", count, parallelism=64).fields_grouping("lines", "line")
topology = builder.build()
""",
        ("check", "flow.py", "-c", "key_groups=16"),
        2,
        """\
Error: topology 'words': bolt 'store': parallelism 64 is above key_groups (16), so behind its fields grouping some tasks \
would get nothing. Lower it, or set Config(key_groups=64) or more.
""",
    ),
)

# Tests of the executors compare these texts exactly. Here only their main parts must reach the user.
RUN = (
    Broken(
        "a bolt that yields no tuple",
        f"""{HEAD}
@bolt("word")
def split(tup):
    for word in tup["line"].split():
        yield word

topology = wire(split).build()
""",
        PLAIN,
        3,
        ("bolt 'broken' emitted 'to' (str)", "Write ('to',)", "input: <Tuple ('to be or not to be',) from lines", "4 failed"),
    ),
    Broken(
        "the wrong number of values",
        f"""{HEAD}
@bolt("word", "count")
def split(tup):
    for word in tup["line"].split():
        yield (word,)

topology = wire(split).build()
""",
        PLAIN,
        3,
        ("'broken' (task 2)", "1 value, but the stream has 2 fields (word, count)", "next: only this input fails", "4 failed"),
    ),
    Broken(
        "a stream that is not declared",
        f"""{HEAD}
class Split(BasicBolt):
    output_fields = {{"words": Fields("word")}}
    on_error = "fail"

    def execute(self, tup):
        self.collector.emit((tup[0],), stream="wrods")

topology = wire(Split).build()
""",
        PLAIN,
        3,
        ("emitted to stream 'wrods', which it does not declare", "Did you mean 'words'?", 'File "flow.py", line 22, in execute'),
    ),
    Broken(
        "an emit after the ack",
        f"""{HEAD}
class Split(Bolt):
    output_fields = Fields("word")
    on_error = "fail"

    def execute(self, tup):
        self.collector.ack(tup)
        self.collector.emit((tup[0],), anchors=tup)

topology = wire(Split).build()
""",
        PLAIN,
        0,
        ("which is settled already", "Emit before ack() or fail()", 'File "flow.py", line 23, in execute', "1 acked"),
    ),
    Broken(
        "a key that cannot be hashed",
        f"""{HEAD}
@bolt("word")
def split(tup):
    yield ({{"word": tup[0]}},)

builder = wire(split)
builder.set_bolt("count", count, parallelism=2).fields_grouping("broken", "word")
topology = builder.build()
""",
        PLAIN,
        3,
        ("field 'word'", "dict has no stable hash", "__stable_hash__", "4 failed"),
    ),
    Broken(
        "a component that fails for good",
        f"""{HEAD}
class Store(Bolt):
    def prepare(self):
        raise ConnectionRefusedError("no database at db:5432")

    def execute(self, tup):
        self.collector.ack(tup)

topology = wire(Store).build()
""",
        PLAIN,
        1,
        ('File "flow.py", line 19, in prepare', "Error: 'broken' (task 2)", "ConnectionRefusedError: no database at db:5432", "Fix: "),
    ),
    Broken(
        "a file that vanishes while it is read",
        """\
import os
from engine import TopologyBuilder, bolt, spout

@spout("line")
def lines():
    yield ("to be or not to be",)
    os.remove("flow.py")
    for line in open("flow.py"):
        yield (line,)

@bolt()
def count(tup):
    pass

builder = TopologyBuilder("words")
builder.set_spout("lines", lines)
builder.set_bolt("count", count).shuffle_grouping("lines")
""",
        PLAIN,
        1,
        ('File "flow.py", line 8, in lines', "Error: 'lines' (task 1)", "No such file or directory: 'flow.py'", "1 acked, 0 failed"),
    ),
)

CASES = (*READ, *IMPORTED, *CHOSEN, *BUILT, *CONFIGURED, *RUN)
