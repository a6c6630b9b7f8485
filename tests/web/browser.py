"""A real Chromium without a window for tests of the page, one for the whole session. Each test opens a page of its own.

The browser and its driver are packages of the system: `scripts/install-system-packages chromium`. Nothing is downloaded.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.patience import PATIENCE_SECS
from tests.servers.required import required
from tests.web.page_scenes import Scene
from tests.web.page_server import PageServer

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
DRIVER: Final = "chromedriver"
SIZE: Final = (1280, 800)

_T = TypeVar("_T")


def why_not() -> str | None:
    """Return the reason why there is no browser here, or None."""
    missing = [name for name, found in ((PROGRAMS[0], browser_program()), (DRIVER, shutil.which(DRIVER))) if found is None]
    return f"{' and '.join(missing)} not installed: scripts/install-system-packages chromium" if missing else None


def browser_program() -> str | None:
    """Return the path of the browser."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


def new_driver() -> webdriver.Chrome:
    """Start a browser. Its profile is a temporary folder, and it talks to nobody by itself."""
    options = webdriver.ChromeOptions()
    options.binary_location = browser_program() or ""
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-gpu")
    for option in ("--headless=new", f"--window-size={SIZE[0]},{SIZE[1]}", "--disable-dev-shm-usage", "--hide-scrollbars", *quiet):
        options.add_argument(option)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # the sandbox of Chromium does not work for root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service(executable_path=shutil.which(DRIVER)))


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """Return the browser of the session."""
    required(why_not())
    driver = new_driver()
    yield driver
    driver.quit()


class OpenPage:
    """The page of one test, in the browser of the session. `server` plays made-up samples, unless the page shows a real run."""

    def __init__(self, driver: webdriver.Chrome, url: str, server: PageServer | None = None) -> None:
        self.driver, self.url, self._server = driver, url, server
        self.allowed: tuple[str, ...] = ()
        """Parts of console messages that this test expects."""

    @property
    def server(self) -> PageServer:
        """Server of the made-up samples."""
        assert self._server is not None
        return self._server

    def load(self, *, token: str | None = None) -> None:
        """Open the page, and wait for the first figures."""
        self.driver.get("about:blank")  # a change of the fragment alone would not load the page again
        self.driver.get(self.url + ("" if token is None else f"#token={token}"))
        self.wait(lambda: self.find("body.drawn .box"))

    def wait(self, condition: Callable[[], _T]) -> _T:
        """Wait until a condition returns something true."""

        def tried(driver: Any) -> Any:
            try:
                return condition()
            except (StaleElementReferenceException, IndexError):
                return None

        found: _T = WebDriverWait(self.driver, PATIENCE_SECS, poll_frequency=0.03).until(tried)
        return found

    def find(self, selector: str) -> WebElement | None:
        """Return the first element of a selector of CSS, or None."""
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found[0] if found else None

    def element(self, selector: str) -> WebElement:
        """Wait for an element that is shown."""
        return next(
            each
            for each in self.wait(lambda: [each for each in self.driver.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()])
        )

    def text(self, selector: str) -> str:
        """Return the text of an element, or an empty text."""
        return str(self.script("return document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements."""
        return list(self.script("return [...document.querySelectorAll(arguments[0])].map(each => each.textContent)", selector))

    def click(self, selector: str) -> None:
        """Click an element that is shown."""
        self.element(selector).click()

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def script(self, text: str, *arguments: Any) -> Any:
        """Run a script in the page. The driver's scripts are not subject to the policy of the page."""
        return self.driver.execute_script(text, *arguments)

    def tick(self) -> None:
        """Send the next sample, and wait until the page has drawn it."""
        drawn = self.script("return performance.getEntriesByName('draw').length")
        self.server.play()
        self.wait(lambda: self.script("return performance.getEntriesByName('draw').length") > drawn)

    def picture(self, path: Path) -> None:
        """Save a picture of the window."""
        self.driver.save_screenshot(str(path))

    def emulate(self, *, scheme: str = "light", motion: str = "no-preference") -> None:
        """Set the preferences of the system that the page sees."""
        features = [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window that the page sees."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def complaints(self) -> list[str]:
        """Return the warnings and errors of the console that the test does not expect. Violations of the policy are among them."""
        entries: list[dict[str, Any]] = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        loud = [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]
        return [text for text in loud if not any(part in text for part in self.allowed)]


@pytest.fixture
def open_url(browser: webdriver.Chrome) -> Iterator[Callable[..., OpenPage]]:
    """Open the page of a server: `open_url("http://127.0.0.1:8080/")`. At the end, nothing may stand in the console."""
    opened: list[OpenPage] = []

    def open_page_of(url: str, *, token: str | None = None, server: PageServer | None = None) -> OpenPage:
        page = OpenPage(browser, url, server)
        opened.append(page)
        browser.get_log("browser")  # type: ignore[no-untyped-call]
        page.emulate()
        page.resize(*SIZE)
        page.load(token=token)
        return page

    yield open_page_of
    complaints = [text for page in opened for text in page.complaints()]
    browser.get("about:blank")
    assert complaints == []


@pytest.fixture
def scene_servers() -> Iterator[ExitStack]:
    """Servers of scenes. They end after the page has left them."""
    with ExitStack() as servers:
        yield servers


@pytest.fixture
def open_page(scene_servers: ExitStack, open_url: Callable[..., OpenPage]) -> Callable[..., OpenPage]:
    """Open the page of a scene: `open_page(three())`."""

    def open_scene(scene: Scene, *, token: str | None = None) -> OpenPage:
        server = scene_servers.enter_context(PageServer(scene).running())
        return open_url(server.url, token=token, server=server)

    return open_scene
