"""Choice of the topology in a file, and the errors if there is none or there are several."""

import pytest

from engine.cli.topology_file import load_topology
from tests.cli.topology_files import Write, load_error


@pytest.mark.parametrize(
    "text",
    [
        "topology = _builder().build()",
        "anything = _builder().build()",
        "builder = _builder()",
        "builder = _builder()\ntopology = builder.build()",
        "topology = _builder().build()\nalias = topology",
        "_base = _builder('base')\ntopology = _builder().build()",
        "class Anything:\n    def __getattr__(self, name): raise OSError(name)\nother = Anything()\ntopology = _builder().build()",
        "class Own:\n    def build(self) -> Topology: return _builder().build()\nown = Own()",
        "class Unrelated:\n    def build(self): raise SystemExit\nhouse = Unrelated()\ntopology = _builder().build()",
        "def topology(): return _builder()",
        "def build_topology(path='x'): return _builder().build()",
        "def flow() -> Topology: return _builder().build()",
        "def flow() -> 'Topology': return _builder().build()",
        "def flow() -> TopologyBuilder: return _builder()",
        "async def flow() -> Topology: return _builder().build()",
        "def topology():\n    async def late(): return _builder()\n    return late()",
        "class Mine(TopologyBuilder): pass\nmine = Mine('words')\nmine.set_spout('lines', Lines)",
    ],
)
def test_one_topology_needs_no_name(write: Write, text: str) -> None:
    assert load_topology(write(text)).topology.name == "words"


def test_a_topology_is_preferred_to_a_function_and_a_named_function_to_others(write: Write) -> None:
    ready = "topology = _builder('ready').build()\ndef flow() -> Topology: raise SystemExit\n"
    named = "def topology(): return _builder('named')\ndef base() -> TopologyBuilder: raise SystemExit\n"

    assert load_topology(write(ready)).topology.name == "ready"
    assert load_topology(write(named, "named.py")).topology.name == "named"


def test_a_topology_that_another_module_built_counts(write: Write) -> None:
    write("topology = _builder().build()", "flows.py")

    assert load_topology(write("from flows import topology", head="")).topology.name == "words"


@pytest.mark.parametrize(
    "helper",
    [
        "def helper(): raise AssertionError('the helper was called')",
        "def _helper() -> Topology: raise AssertionError('the helper was called')",
        "def topologies() -> list[Topology]: raise AssertionError('the helper was called')",
        "def factory() -> 'Callable[[], Topology]': raise AssertionError('the helper was called')",
        "def topology(path): raise AssertionError('the helper was called')",
        "def topology(*, path): raise AssertionError('the helper was called')",
        "def topology():\n    raise AssertionError('the helper was called')\n    yield",
        "from flows import topology",
        "class Topologies:\n    def topology(self): raise AssertionError('the helper was called')",
    ],
)
def test_a_helper_function_is_not_called(write: Write, helper: str) -> None:
    write("def topology(): raise AssertionError('the helper was called')", "flows.py")

    assert "contains no topology." in load_error(write(helper))


def test_several_topologies_are_selected_by_variable_or_topology_name(write: Write) -> None:
    spec = write(
        "one = _builder('word-count').build()\ntwo = _builder('second')\ndef three() -> Topology: return _builder('third').build()"
    )

    assert load_topology(f"{spec}:one").topology.name == "word-count"
    assert load_topology(f"{spec}:word-count").topology.name == "word-count"
    assert load_topology(f"{spec}:two").topology.name == "second"
    assert load_topology(f"{spec}:second").topology.name == "second"
    assert load_topology(f"{spec}:three").topology.name == "third"


def test_a_function_that_is_named_needs_no_annotation(write: Write) -> None:
    spec = write("def flow(): return _builder()\ndef _hidden(*paths, **options): return _builder('hidden')")

    assert load_topology(f"{spec}:flow").topology.name == "words"
    assert load_topology(f"{spec}:_hidden").topology.name == "hidden"


@pytest.mark.parametrize(
    ("text", "miss"),
    [
        ("", ""),
        ("def topology(path, *, limit): pass", " topology() would count if it needed no arguments (path, limit)."),
        ("def my_topology(): pass", " my_topology() would count with the annotation `-> Topology`."),
        ("_topology = _builder().build()", " _topology would count with a public name."),
        ("class Mine(TopologyBuilder): pass", " Mine is a class: create an instance of it."),
    ],
)
def test_the_error_of_a_file_without_a_topology_names_similar_values(write: Write, text: str, miss: str) -> None:
    spec = write(text)

    named = f" If a function returns the topology, name it: {spec}:my_topology." if "my_topology" in text else ""
    assert load_error(spec) == f"{spec} contains no topology.{miss}\nFix: Add `topology = builder.build()` to the file.{named}"


def test_the_error_of_a_file_without_a_topology_shows_how_to_name_its_functions(write: Write) -> None:
    """Without an annotation, nobody can tell which function returns a topology."""
    spec = write("def orders(): return _builder('orders')\ndef returns(): return _builder('returns')\ndef needy(path): pass")

    assert load_error(spec).endswith(f"If a function returns the topology, name it: {spec}:orders or {spec}:returns.")


def test_two_topologies_without_a_name_are_listed(write: Write) -> None:
    spec = write("one = _builder('first').build()\ntwo = _builder('second')\n")

    text = load_error(spec)

    assert "contains 2 topologies:" in text
    assert "\n  - one (topology 'first')\n  - two (builder of 'second')\n" in text
    assert text.endswith(f"Fix: Name one of them, for example {spec}:one")


def test_two_functions_without_a_name_are_listed(write: Write) -> None:
    spec = write("def one() -> Topology: raise SystemExit\ndef two() -> Topology: raise SystemExit")

    assert "\n  - one (function)\n  - two (function)\n" in load_error(spec)


def test_two_topologies_with_the_same_name_need_the_variable(write: Write) -> None:
    spec = write("one = _builder().build()\ntwo = _builder().build()")

    assert load_error(f"{spec}:words").endswith("contains 2 topologies called 'words'\nFix: Name the variable: one or two.")


def test_the_error_for_an_unknown_name_names_the_nearest(write: Write) -> None:
    spec = write("one = _builder('word-count').build()\ndef pipeline(): return _builder()")

    assert load_error(f"{spec}:word_cuont").endswith(f"Fix: Did you mean {spec}:word-count?")
    assert load_error(f"{spec}:pipelin").endswith(f"Fix: Did you mean {spec}:pipeline?")
    assert load_error(f"{spec}:zzz").endswith("contains no topology called 'zzz'\nFix: The file contains one (topology 'word-count').")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Lines", ":Lines is the class Lines, not a topology"),
        ("number", ":number is of type int, not a topology"),
        ("needy", ":needy is a function that needs arguments (path)"),
    ],
)
def test_the_error_for_a_name_of_another_object_names_its_type(write: Write, name: str, what: str) -> None:
    assert what in load_error(write("number = 3\ndef needy(path, limit=3): return _builder()") + f":{name}")
