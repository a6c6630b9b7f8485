"""The page shows names, values and errors of users as text. No script of theirs runs (WEB-2)."""

from collections.abc import Callable

import pytest

from tests.web.browser import OpenPage
from tests.web.page_scenes import HOSTILE, hostile

OpenScene = Callable[..., OpenPage]

ADD_MARKUP = """
const added = document.createElement("div");
added.innerHTML = '<img src="x" onerror="window.ran = 1">';
document.body.append(added);
"""

pytestmark = pytest.mark.guarantee("WEB-2")


def test_hostile_names_stay_text(open_page: OpenScene) -> None:
    page = open_page(hostile())
    page.script("window.alert = () => { window.alerted = true; }")
    for _ in range(2):
        page.tick()
    shown = page.texts(".box-name")
    assert shown == [name.replace("\u202e", "\\u202e") for name in HOSTILE]
    for selector in ("#topology", "#components .name", ".where", "#limit-text", "[aria-label='Newest failed trees'] td", ".trouble"):
        assert any(name in text for text in page.texts(selector) for name in HOSTILE), selector
    added = "return document.querySelectorAll('img, iframe, object, embed, base, [onerror], [onmouseover], a[href^=javascript]').length"
    assert page.script(added) == 0
    assert page.script("return document.querySelectorAll('a[href]:not(.skip)').length") == 0
    assert page.script("return document.querySelectorAll('script').length") == 1
    assert page.script("return window.alerted") is None


def test_a_hostile_component_can_be_selected(open_page: OpenScene) -> None:
    page = open_page(hostile())
    page.script("for (const box of document.querySelectorAll('.box')) box.click()")
    assert page.text("#details-title") == HOSTILE[-1]
    assert "\u202e" not in page.script("return document.body.textContent")


def test_a_script_in_the_page_is_refused(open_page: OpenScene) -> None:
    page = open_page(hostile())
    page.allowed = ("Content Security Policy", "404")  # the picture of the markup does not exist
    page.script(ADD_MARKUP)
    page.wait(lambda: page.driver.get_log("browser"))  # type: ignore[no-untyped-call]
    assert page.script("return window.ran") is None
