"""The page steers the run with the token (WEB-1), and says when the connection or the run has ended."""

from collections.abc import Callable

import pytest
from selenium.webdriver.common.keys import Keys

from tests.web.browser import OpenPage
from tests.web.page_scenes import three
from tests.web.page_server import TOKEN, Change

OpenScene = Callable[..., OpenPage]


@pytest.mark.guarantee("WEB-1")
def test_a_drain_by_button_needs_the_token(open_page: OpenScene) -> None:
    page = open_page(three())
    page.click("[data-action=drain]")
    assert "needs the token" in page.element("#token-why").text
    assert page.server.changes == []
    page.element("#token-field").send_keys(TOKEN, Keys.ENTER)
    assert page.element("#confirm-title").text == "Drain the run?"
    assert page.server.changes == []  # nothing is sent before it is confirmed
    page.click("#confirm-yes")
    page.wait(lambda: page.server.changes)
    assert page.server.changes == [Change("/api/drain", TOKEN, None)]
    assert "The run drains" in page.element(".message").text


def test_the_token_of_the_address_is_kept_and_hidden(open_page: OpenScene) -> None:
    page = open_page(three(), token=TOKEN)
    assert page.driver.current_url == page.server.url
    assert page.script("return history.length") <= 60  # the address with the token was replaced, not left behind
    page.load()
    page.click("[data-action=activate]")
    page.wait(lambda: page.server.changes)
    assert page.server.changes == [Change("/api/activate", TOKEN, None)]


def test_a_change_can_be_cancelled(open_page: OpenScene) -> None:
    page = open_page(three(), token=TOKEN)
    page.click("[data-action=stop]")
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.find("#confirm-dialog[open]"))
    page.click("[data-action=stop]")
    page.click("#confirm-dialog [data-close]")
    page.tick()
    assert page.server.changes == []


def test_a_wrong_token_is_told_and_forgotten(open_page: OpenScene) -> None:
    page = open_page(three(), token="wrong")
    page.allowed = ("401",)
    page.click("[data-action=activate]")
    assert page.element(".message[role=alert]").text.startswith("the token is wrong\nTake it from the first lines of the run.")
    assert page.script("return sessionStorage.length") == 0


def test_a_task_is_restarted(open_page: OpenScene) -> None:
    page = open_page(three(), token=TOKEN)
    page.click("#details .table-box:not([hidden]) tbody tr:nth-child(2) button")
    assert "Task 3 of 'sign'" in page.element("#confirm-text").text
    page.click("#confirm-yes")
    page.wait(lambda: page.server.changes)
    assert page.server.changes == [Change("/api/tasks/3/restart", TOKEN, None)]


def test_a_message_is_traced(open_page: OpenScene) -> None:
    page = open_page(three(), token=TOKEN)
    page.element("#trace-id").send_keys("17", Keys.ENTER)
    page.wait(lambda: page.server.changes)
    assert page.server.changes == [Change("/api/trace", TOKEN, {"component": "orders", "message_id": "17"})]


def test_the_log_level_is_set(open_page: OpenScene) -> None:
    page = open_page(three(), token=TOKEN)
    assert page.script("return document.querySelector('#level').value") == "INFO"
    page.element("#level").send_keys("debug")
    page.wait(lambda: page.server.changes)
    assert page.server.changes == [Change("/api/log-level", TOKEN, {"level": "debug"})]


def test_a_server_that_only_shows(open_page: OpenScene) -> None:
    scene = three()
    scene.topology["can_steer"] = False
    page = open_page(scene, token=TOKEN)
    assert not page.element("[data-action=drain]").is_enabled()
    assert "only shows the run" in page.element("#steer-why").text


def test_a_lost_connection_is_told_and_ends(open_page: OpenScene) -> None:
    page = open_page(three())
    page.allowed = ("503", "ERR_", "EventSource")
    page.server.cut()
    assert page.element("#banner").text.startswith("Connection lost. Connecting again… The figures are ")
    assert page.find("body.stale")
    assert page.texts(".box-rate")[0].endswith("/s")  # the last figures stay
    page.server.heal()
    page.wait(lambda: not page.find("body.stale"))
    assert not page.element("#limit").find_elements("css selector", "#banner:not([hidden])")
    page.tick()


@pytest.mark.deep
def test_silence_is_a_lost_connection(open_page: OpenScene) -> None:
    page = open_page(three())
    assert page.element("#banner").text.endswith(" s old.")  # after five seconds without a sample
    page.server.play()
    page.wait(lambda: not page.find("body.stale"))


def test_an_ended_run_keeps_its_last_figures(open_page: OpenScene) -> None:
    page = open_page(three())
    page.tick()
    page.server.end("drained")
    assert page.element("#banner").text.startswith("The run has ended: drained, after ")
    assert page.text("#state") == "drained"
    assert page.texts(".box-rate")[0].endswith("/s")
    assert not page.element("[data-action=drain]").is_enabled()
    page.server.cut()  # the server ends with its run
    page.click(".box[data-id=store]")  # the page can still be read
    assert page.text("#details-title") == "store"
    assert page.text("#banner").startswith("The run has ended")
