"""Takes pictures of the page in all its states, to look at: `python -m tests.web.pictures FOLDER`."""

import sys
from pathlib import Path

from selenium.webdriver.common.keys import Keys

from tests.web.browser import SIZE, OpenPage, new_driver
from tests.web.page_scenes import SCENES, everything, three
from tests.web.page_server import TOKEN, PageServer

LOOKS = (("light", SIZE), ("dark", SIZE), ("light", (400, 900)))
SECOND = 60


def main(folder: Path) -> None:
    """Take all pictures, and print what the console of the browser says."""
    folder.mkdir(parents=True, exist_ok=True)
    driver = new_driver()
    try:
        for name, make in SCENES.items():
            with PageServer(make()).running() as server:
                server.second = SECOND
                scene_pictures(OpenPage(driver, server.url, server), folder, name)
        with PageServer(three()).running() as server:
            server.second = SECOND
            state_pictures(OpenPage(driver, server.url, server), folder)
        with PageServer(everything()).running() as server:
            error_picture(OpenPage(driver, server.url, server), folder)
    finally:
        driver.quit()


def scene_pictures(page: OpenPage, folder: Path, name: str) -> None:
    """Take pictures of one scene, light and dark, wide and narrow, and of its whole length."""
    for scheme, (width, height) in LOOKS:
        page.emulate(scheme=scheme, motion="reduce")
        page.resize(width, height)
        page.load(token=TOKEN)
        for _ in range(3):
            page.tick()
        page.picture(folder / f"{name}-{scheme}-{width}.png")
        if width == SIZE[0]:
            page.resize(width, page.script("return document.documentElement.scrollHeight"))
            page.picture(folder / f"{name}-{scheme}-whole.png")
    print("\n".join(f"{name}: {text}" for text in page.complaints()), end="")


def state_pictures(page: OpenPage, folder: Path) -> None:
    """Take pictures of the dialogs, of a lost connection and of an ended run."""
    page.emulate()
    page.resize(*SIZE)
    page.load(token=TOKEN)
    for name, button in (("confirm", "[data-action=stop]"), ("token", "#token-button"), ("help", "#help")):
        page.click(button)
        page.picture(folder / f"{name}.png")
        page.press(Keys.ESCAPE)
    page.server.cut()
    page.element("#banner")
    page.picture(folder / "lost.png")
    page.server.heal()
    page.wait(lambda: not page.find("body.stale"))
    page.server.end()
    page.element("#banner")
    page.picture(folder / "ended.png")


def error_picture(page: OpenPage, folder: Path) -> None:
    """Take a picture of an error that is open."""
    page.load()
    page.click("details.entry summary")
    page.script("document.querySelector('details.entry').scrollIntoView({ block: 'center' })")
    page.picture(folder / "error.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
