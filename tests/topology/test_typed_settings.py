"""The settings that type checkers know are those that `build()` takes. tests/project/user_sample.py has the misspelt ones."""

import inspect
from typing import Any, get_type_hints

import pytest

from engine import TopologyBuilder, TransactionalTopologyBuilder
from engine.topology.settings import SETTINGS_OF_KIND, BoltSettings, SpoutSettings
from engine.topology.spec import Kind


@pytest.mark.parametrize(("kind", "typed"), [("spout", SpoutSettings), ("bolt", BoltSettings)])
def test_type_checkers_know_every_setting(kind: Kind, typed: type[Any]) -> None:
    assert get_type_hints(typed).keys() == SETTINGS_OF_KIND[kind].keys()


@pytest.mark.parametrize(
    "method",
    [
        TopologyBuilder.set_spout,
        TopologyBuilder.set_bolt,
        TransactionalTopologyBuilder.__init__,
        TransactionalTopologyBuilder.set_bolt,
        TransactionalTopologyBuilder.set_committer,
    ],
)
def test_no_method_takes_any_keyword(method: Any) -> None:
    hint = get_type_hints(method)["settings"]
    assert hint.__args__[0] in (SpoutSettings, BoltSettings)
    assert inspect.signature(method).parameters["settings"].kind is inspect.Parameter.VAR_KEYWORD
