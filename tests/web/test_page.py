"""The page shows the run: rates, the bottleneck, errors, themes, keys, and many components."""

import json
from collections.abc import Callable

import pytest
from selenium.webdriver.common.keys import Keys

from tests.web.browser import OpenPage
from tests.web.page_scenes import Scene, everything, held, many, three

OpenScene = Callable[..., OpenPage]

TASK_ROWS = "return document.querySelectorAll('#details [aria-label=Tasks]:not([hidden]) tbody tr').length"
COUNT_CHANGES = """
window.touched = new Set();
window.observer = new MutationObserver((records) => {
  for (const { target } of records) {
    const box = (target.nodeType === 1 ? target : target.parentElement)?.closest(".box");
    if (box) window.touched.add(box.dataset.id);
  }
});
window.observer.observe(document.querySelector(".canvas"), { subtree: true, childList: true, characterData: true, attributes: true });
window.longFrames = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longFrames.push(Math.round(entry.duration));
}).observe({ type: "long-animation-frame" });
"""
CONTRASTS = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
function rgba(colour) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
function luminance(colour) {
  const [r, g, b] = colour.map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function groundOf(element) {
  for (let each = element; each; each = each.parentElement) {
    const colour = rgba(getComputedStyle(each).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
}
const weak = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !element.checkVisibility() || element.closest("svg") || element.disabled) continue;
  const style = getComputedStyle(element);
  const [text, ground] = [luminance(rgba(style.color)), luminance(groundOf(element))];
  const contrast = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
  if (contrast < 4.5) weak.push(`${element.className || element.tagName}: ${element.textContent.slice(0, 30)}: ${contrast.toFixed(2)}`);
}
return weak;
"""


def test_rates_move(open_page: OpenScene) -> None:
    page = open_page(three())
    rates = page.texts(".box-rate"), page.texts(".edge-rate"), page.texts(".tile-value"), page.texts("#components td")
    for _ in range(3):
        page.tick()
    moved = page.texts(".box-rate"), page.texts(".edge-rate"), page.texts(".tile-value"), page.texts("#components td")
    assert all(before != after for before, after in zip(rates, moved, strict=True))
    assert all(text.endswith("/s") for text in (*moved[0], *moved[1]))
    assert page.text("#uptime") == "up 1\u202fmin 03\u202fs"


def test_the_bottleneck_is_marked(open_page: OpenScene) -> None:
    page = open_page(three())
    assert page.text("#limit-text") == "'sign' blocks the loop 87% of the time. Make it async, or give it threads."
    assert page.texts(".box.limiting .box-name") == ["sign"]
    assert page.texts("#details-title") == ["sign"]
    assert page.script(TASK_ROWS) == 2
    assert page.texts("[aria-label='Inputs and outputs'] .name") == ["orders", "store"]


def test_thick_edges_carry_more_tuples(open_page: OpenScene) -> None:
    page = open_page(many(20))
    width = "return [...document.querySelectorAll('.edge')].map(each => Number(each.getAttribute('stroke-width')))"
    widths = page.script(width)
    assert max(widths) > 2 * min(widths)


def test_system_components_are_hidden_at_first(open_page: OpenScene) -> None:
    page = open_page(three())
    assert page.texts(".box-name") == ["orders", "sign", "store"]
    page.click("#system")
    page.wait(lambda: page.texts(".box-name") == ["orders", "sign", "store", "__acker"])
    assert "__acker" in page.texts("#components .name")


def test_an_error_appears_with_its_traceback(open_page: OpenScene) -> None:
    page = open_page(everything())
    page.click("details.entry summary")
    assert 'price = tup["price"]' in page.element("details[open] .traceback").text
    assert "Tuple(order=17" in page.element("details[open] pre").text
    page.tick()
    assert page.element("details[open] .traceback").is_displayed()  # it stays open while figures come


@pytest.mark.guarantee("DL-4")
def test_failures_and_owed_acks_are_listed(open_page: OpenScene) -> None:
    page = open_page(everything())
    reasons = page.texts("[aria-label='Failures by reason and component'] tbody tr")
    assert len(reasons) == 3
    counted = page.texts("[aria-label='Failures by reason and component'] tbody td:nth-child(2)")
    assert set(counted) == {"inputs", "trees"}  # a failed input is counted at its bolt, and its tree at the spout
    assert page.text(".letters").startswith("7 dead letters in the state provider, the newest one of ")
    assert page.text(".letters").endswith(": KeyError: 'price'")
    newest = page.texts("[aria-label='Newest failed trees'] tbody tr:first-child td")
    assert newest[1].startswith("('web.clicks', 3, ")
    assert "KeyError: 'price'" in newest[5]
    assert page.texts("[aria-label='Inputs without an ack, oldest first'] tbody tr:first-child td")[0].endswith("s")


@pytest.mark.guarantee("EO-10")
def test_retries_and_rows_that_are_left_out_are_columns_of_the_components(open_page: OpenScene) -> None:
    page = open_page(three())
    heads = page.texts("[aria-label='Components'] th")
    columns = [heads.index("Retries") + 1, heads.index("Left out") + 1]
    cells = [f"[aria-label='Components'] tbody tr:nth-child({row}) td:nth-child({column})" for row in (1, 2) for column in columns]
    assert [page.texts(cell)[0] for cell in cells] == ["0", "2", "3", "0"]


@pytest.mark.guarantee("EO-7", "EO-10")
def test_panels_appear_only_with_data(open_page: OpenScene) -> None:
    page = open_page(three())
    titles = "return [...document.querySelectorAll('.columns section:not([hidden]) h2')].map(each => each.textContent)"
    assert page.script(titles) == ["Trace a message"]
    page.server.scene = everything()
    page.tick()
    wanted = ["Checkpoint", "Transactions", "Spark jobs", "Flow control", "Kafka lag", "Metrics of the topology"]
    assert page.script(titles)[-6:] == wanted
    assert "The sources wait, because the state store is unavailable: " in page.text(".trouble")
    assert "Connection refused" in page.text(".trouble")
    exact, calls, mail = page.texts(".sources li")
    assert exact.endswith("exactly once: it has seek() and position()")
    assert calls == "web.calls at least once: it has no seek() and position()"
    assert mail.startswith("Effects outside may happen again after a failure: ")
    page.server.scene = three()
    page.tick()
    assert page.script(titles) == ["Trace a message"]


@pytest.mark.guarantee("ET-6")
@pytest.mark.parametrize("make", [three, lambda: many(200)])
def test_the_watermarks_are_listed_with_who_holds_the_one_that_stands(open_page: OpenScene, make: Callable[[], Scene]) -> None:
    page = open_page(held(make()))
    first, second = [each["id"] for each in page.server.scene.topology["components"][:2]]
    rows = "[aria-label='Watermark of each component'] tbody tr"
    assert page.texts(f"{rows} td:nth-child(1)")[:2] == [first, second]
    assert page.texts(f"{rows} td:nth-child(4)")[0] == "rises"
    assert page.texts(f"{rows} td:nth-child(4)")[1].startswith("stands ")
    told = next(text for text in page.texts(".trouble") if "stands at" in text)
    assert told.startswith(f"{second} stands at 15:05:58 for ")
    assert f"Held by {first}[1]: a row of " in told


def test_jobs_on_spark_are_listed_with_their_stages(open_page: OpenScene) -> None:
    page = open_page(everything())
    jobs = "[aria-label='Newest jobs on Spark'] tbody tr"
    assert page.texts(f"{jobs} td:nth-child(3)") == ["running", "done", "failed", "done", "replaced", "done"]
    assert page.texts(f"{jobs}:nth-child(2) td")[-1].startswith("count [")
    assert page.texts("[aria-label='Stages of a job'] tbody td:nth-child(2)") == ["lines", "split, clean", "count"]
    assert "Stages of txid 319" in page.texts("h3")
    page.click(f"{jobs}:nth-child(4)")
    assert "Stages of txid 317" in page.texts("h3")
    page.tick()
    assert "Stages of txid 317" in page.texts("h3")  # kept while figures come
    page.click(f"{jobs}:nth-child(1)")
    assert "Txid 320 has returned no stages" in page.texts("h3")
    link = page.element("a[href='http://127.0.0.1:4040']")
    assert (link.get_attribute("rel"), link.get_attribute("target")) == ("noopener noreferrer", "_blank")


def test_columns_sort(open_page: OpenScene) -> None:
    page = open_page(three())
    heads = page.texts("#components th")
    number = heads.index("Waiting") + 1
    page.click(f"#components th:nth-child({number}) button")
    assert page.texts("#components .name")[0] == "sign"
    page.click(f"#components th:nth-child({number}) button")
    assert page.texts("#components .name")[-1] == "sign"
    assert page.script("return document.querySelectorAll('#components th[aria-sort=ascending]').length") == 1


def test_a_box_selects_its_component(open_page: OpenScene) -> None:
    page = open_page(three())
    page.click(".box[data-id=store]")
    assert page.text("#details-title") == "store"
    assert page.script(TASK_ROWS) == 4
    page.tick()
    assert page.text("#details-title") == "store"  # kept, although 'sign' limits the run
    page.press(Keys.ESCAPE)
    assert page.text("#details-title") == "sign"


def test_keys(open_page: OpenScene) -> None:
    page = open_page(three())
    page.press("g")
    page.press(Keys.ARROW_RIGHT)
    page.press(Keys.ENTER)
    assert page.text("#details-title") == "store"
    page.press("?")
    assert page.element("#help-dialog").is_displayed()
    page.press(Keys.ESCAPE)
    page.wait(lambda: not page.find("#help-dialog[open]"))
    page.press("/")
    page.press("ord")
    assert page.texts(".box:not(.dim) .box-name") == ["orders"]
    assert page.texts("#components .name") == ["orders"]
    page.press(Keys.ENTER)
    assert page.text("#details-title") == "orders"


def test_the_focus_can_be_seen(open_page: OpenScene) -> None:
    page = open_page(three())
    page.press(Keys.TAB, Keys.TAB)
    style = page.script("const now = getComputedStyle(document.activeElement); return [now.outlineStyle, now.outlineWidth]")
    assert style == ["solid", "2px"]


def test_dark_and_light(open_page: OpenScene) -> None:
    page = open_page(three())
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.script(ground)
    page.emulate(scheme="dark")
    page.wait(lambda: page.script(ground) != light)
    page.click("#theme")  # light, whatever the system says
    page.wait(lambda: page.script(ground) == light)
    page.load()
    assert page.script(ground) == light  # kept
    page.click("#theme")
    page.emulate(scheme="light")
    page.wait(lambda: page.script(ground) != light)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_enough_contrast(open_page: OpenScene, scheme: str) -> None:
    page = open_page(everything())
    page.emulate(scheme=scheme, motion="reduce")
    page.tick()
    assert page.script(CONTRASTS) == []  # WCAG AA: 4.5 to 1


def test_nothing_moves_if_the_system_wants_no_motion(open_page: OpenScene) -> None:
    page = open_page(three())
    time = "return getComputedStyle(document.querySelector('.bar')).transitionDuration"
    assert page.script(time) != "0s"
    page.emulate(motion="reduce")
    page.wait(lambda: page.script(time) == "0s")


def test_narrow_windows_need_no_sideways_scrolling(open_page: OpenScene) -> None:
    page = open_page(everything())
    page.resize(400, 900)
    page.wait(lambda: page.script("return innerWidth") == 400)
    page.tick()
    assert page.script("return document.documentElement.scrollWidth") <= 400


def test_a_sample_touches_only_what_has_changed(open_page: OpenScene, capsys: pytest.CaptureFixture[str]) -> None:
    scene = many(200)
    page = open_page(scene)
    assert len(page.texts(".box")) == 200
    first = scene.sample(0)
    changed = {each["id"] for each in first["components"][:7]}

    def freeze(sample: dict[str, object], second: int) -> None:
        """Keep all figures, except the rates of a few components."""
        sample |= json.loads(json.dumps(first)) | {"seq": second}
        for component in sample["components"]:  # type: ignore[attr-defined]
            if component["id"] in changed:
                component["in_rate"] = component["out_rate"] = 5000.0 + 100 * second

    scene.change = freeze
    page.tick()
    page.script(COUNT_CHANGES)
    page.tick()
    assert set(page.script("return [...window.touched]")) == changed
    scene.change = lambda sample, second: None
    for _ in range(10):
        page.tick()
    took = sorted(page.script("return performance.getEntriesByName('draw').slice(-10).map(each => each.duration)"))
    long = page.script("return window.longFrames")
    with capsys.disabled():
        print(f"\n200 components: a sample is drawn in {took[5]:.1f} ms (median), {took[-1]:.1f} ms at most. Frames above 50 ms: {long}")
