"""The report in a real browser: quiet, offline, wide and narrow, light and dark, by keyboard."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from planner.cli import main
from planner.errors import ExitCode
from tests.browser.conftest import Opened, requests

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("llm_load.null", "llm_load.host", "cluster_cold_start")
WIDTHS = (380, 768, 1280, 2560)


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reports that are looked at: two runs and an estimate."""
    folder = tmp_path_factory.mktemp("pages")
    found = {name: folder / f"{name}.html" for name in PAGES}
    plan, cluster = (
        str(ROOT / f"plans/{name}.yaml") for name in ("llm_load", "cluster_cold_start")
    )
    run = ["execute", plan, "--no-history", "-q"]
    null = [*run, "--backend", "null", "--html", str(found["llm_load.null"])]
    assert main(null) == ExitCode.DONE
    host = [*run, "--backend", "host", "--samples", "3", "--set", "weights=64MB"]
    # On a small computer an objective may be missed: the page is what is looked at.
    code = main([*host, "--html", str(found["llm_load.host"])])
    assert code in (ExitCode.DONE, ExitCode.OBJECTIVE)
    estimate = ["estimate", cluster, "-q", "--html", str(found["cluster_cold_start"])]
    assert main(estimate) == ExitCode.DONE
    return found


def _size(driver: Any, width: int, height: int = 900) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def _scheme(driver: Any, scheme: str) -> None:
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},  # a click must not chase its target
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.mark.parametrize("name", PAGES)
def test_it_opens_without_a_word_and_without_a_request(
    name: str, pages: dict[str, Path], driver: Any
) -> None:
    address = pages[name].as_uri()
    driver.get(address)
    assert driver.title.startswith(name.split(".", maxsplit=1)[0].replace("_", "-"))
    assert [entry["message"] for entry in driver.get_log("browser")] == []
    asked = [url for url in requests(driver) if not url.startswith(("data:", "chrome", "about:"))]
    assert asked == [address]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_no_width_overflows(
    name: str, width: int, scheme: str, pages: dict[str, Path], driver: Any, screenshots: Path
) -> None:
    _scheme(driver, scheme)
    _size(driver, width)
    driver.get(pages[name].as_uri())
    wide, high = driver.execute_script(
        "const e = document.documentElement; return [e.scrollWidth, e.scrollHeight]"
    )
    assert wide == width
    # Everything on one picture, for whoever wants to look.
    _size(driver, width, min(high, 16_000))
    assert driver.save_screenshot(str(screenshots / f"{name}-{width}-{scheme}.png"))


def test_light_and_dark_differ_and_the_button_decides(pages: dict[str, Path], driver: Any) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    found = {}
    for scheme in ("light", "dark"):
        _scheme(driver, scheme)
        driver.get(pages["llm_load.null"].as_uri())
        found[scheme] = driver.execute_script(background)
    assert found["light"] != found["dark"]
    button = driver.find_element("id", "theme")
    button.click()  # automatic → light, on a dark system
    assert driver.execute_script(background) == found["light"]
    button.click()
    assert driver.execute_script(background) == found["dark"]
    assert button.text == "Theme: dark"


def _centre(driver: Any, element: Any) -> None:
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)


def _click(driver: Any, selector: str) -> None:
    element = driver.find_element("css selector", selector)
    _centre(driver, element)
    element.click()


def _track(driver: Any, lane: str, number: int = 0) -> Any:
    return driver.find_elements("css selector", f'[role="group"][aria-label^="{lane}"] .track')[
        number
    ]


@pytest.mark.parametrize("name", ["llm_load.null", "llm_load.host"])
def test_hovering_a_hop_shows_its_numbers(name: str, pages: dict[str, Path], driver: Any) -> None:
    from selenium.webdriver import ActionChains

    _size(driver, 1280)
    driver.get(pages[name].as_uri())
    track = driver.find_elements("css selector", ".lane.hop .track")[-1]
    _centre(driver, track)
    tip = driver.find_element("id", "tip")
    assert not tip.is_displayed()
    # A real run may pause for most of its time, on a computer that is busy with something else.
    half = int(track.size["width"]) // 2 - 2
    for offset in sorted(range(-half, half, 4), key=abs):
        if tip.is_displayed():
            break
        ActionChains(driver).move_to_element_with_offset(track, offset, 0).perform()
    assert tip.is_displayed()
    lines = tip.text.splitlines()
    assert lines[0].startswith("weights: ")
    assert "→" in lines[0]
    assert "(measured)" in lines[0]
    # From when to when, how many bytes at what rate, how busy.
    assert lines[1].count(" – ") == 1
    assert lines[2].endswith("B/s")
    assert lines[3].startswith("busy ")


def test_the_keyboard_goes_from_slice_to_slice(pages: dict[str, Path], driver: Any) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    _size(driver, 1280)
    driver.get(pages["llm_load.null"].as_uri())
    _click(driver, '[data-zoom="all"]')
    keys = ActionChains(driver)
    keys.send_keys(Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB).perform()  # setup and copies, both ways
    keys.send_keys(Keys.TAB).perform()
    tip = driver.find_element("id", "tip")
    first = tip.text
    assert "host0 → gpu0, pinned (predicted)" in first
    ActionChains(driver).send_keys(Keys.ARROW_RIGHT).perform()
    assert "host0 → gpu0, pinned (predicted)" in tip.text
    assert tip.text != first
    ActionChains(driver).send_keys(Keys.ARROW_DOWN).perform()
    assert "(measured)" in tip.text
    ActionChains(driver).send_keys(Keys.ESCAPE).perform()
    assert not tip.is_displayed()


def test_buttons_wheel_and_keys_zoom(pages: dict[str, Path], driver: Any) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    _size(driver, 1280)
    driver.get(pages["llm_load.null"].as_uri())
    track = _track(driver, "pcie0")

    def width() -> float:
        return float(track.get_dom_attribute("viewBox").split()[2])

    def show_all() -> None:
        _click(driver, '[data-zoom="all"]')

    whole = width()
    _click(driver, '[data-zoom="in"]')
    assert width() == pytest.approx(whole / 2)
    assert " – " in driver.find_element("id", "window").text
    show_all()
    assert width() == whole
    _centre(driver, track)
    ActionChains(driver).scroll_from_origin(ScrollOrigin.from_element(track), 0, -300).perform()
    assert width() < whole
    # All lanes show the same stretch of time.
    every = driver.find_elements("css selector", ".zoomed")
    boxes = {svg.get_dom_attribute("viewBox") for svg in every}
    assert len(boxes) == 1
    show_all()
    driver.execute_script("arguments[0].focus()", track)
    ActionChains(driver).send_keys("+").perform()
    assert width() == pytest.approx(whole / 2)
    ActionChains(driver).send_keys("0").perform()
    assert width() == whole


def test_bars_show_time_share_or_error(pages: dict[str, Path], driver: Any) -> None:
    driver.get(pages["llm_load.host"].as_uri())
    shown = "return getComputedStyle(document.querySelector(arguments[0])).display !== 'none'"
    for mode, group in (("time", "t"), ("share", "s"), ("error", "e")):
        _click(driver, f"#mode-{mode}")
        groups = {g: driver.execute_script(shown, f".bars .{g}") for g in "tse"}
        assert groups == {g: g == group for g in "tse"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(
    name: str, scheme: str, pages: dict[str, Path], driver: Any
) -> None:
    spec = importlib.util.find_spec("axe_core_python")
    if spec is None or spec.origin is None:
        pytest.skip("NO AXE: axe-core-python is not installed")
    (script, *_others) = sorted(Path(spec.origin).parent.rglob("axe.min.js"))
    _scheme(driver, scheme)
    _size(driver, 1280)
    driver.get(pages[name].as_uri())
    for details in driver.find_elements("css selector", "details"):
        driver.execute_script("arguments[0].open = true", details)
    driver.execute_script(script.read_text(encoding="utf-8"))
    report = driver.execute_async_script(
        "const done = arguments[0]; axe.run().then(done, error => done(String(error)))"
    )
    assert isinstance(report, dict), report
    assert len(report["passes"]) > 10
    serious = [
        f"{found['id']}: {found['nodes'][0]['html'][:150]} ({len(found['nodes'])} nodes)"
        for found in report["violations"]
        if found["impact"] in ("serious", "critical")
    ]
    assert serious == []


@pytest.mark.parametrize("name", PAGES)
def test_all_numbers_are_there_without_javascript(
    name: str, pages: dict[str, Path], driver_of: Opened
) -> None:
    driver = driver_of(javascript=False)
    driver.get(pages[name].as_uri())
    # The protocol's own evaluation works where the page's scripts do not.
    text = driver.find_element("tag name", "body").text
    body = json.loads(main_json(pages[name]))
    estimate = body.get("estimate", body)
    from planner.units import format_time

    for flow in estimate["flows"]:
        for hop in flow["hops"]:
            assert format_time(hop["busy_s"]) in text
    for flow in body["flows"] if "estimate" in body else []:
        assert format_time(flow["steady_s"]) in text
        assert format_time(flow["first_s"]) in text
    assert "Zoom in" not in text  # what would do nothing is not shown
    drawn = driver.find_elements("css selector", ".track path")
    assert all(path.get_attribute("d").startswith("M") for path in drawn)
    assert drawn


def main_json(page: Path) -> str:
    """The result in a page."""
    from planner.review.embedded import embedded

    found = embedded(page.read_text(encoding="utf-8"))
    assert found is not None
    return found


def test_it_prints_on_a4(pages: dict[str, Path], driver: Any, screenshots: Path) -> None:
    import base64

    driver.get(pages["llm_load.host"].as_uri())
    found = driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pdf = base64.b64decode(found["data"])
    (screenshots / "llm_load.host.pdf").write_bytes(pdf)
    assert pdf.startswith(b"%PDF")
    # A4 is 210 x 297 mm: 595 x 842 points.
    assert b"/MediaBox [0 0 594.95996 841.91998]" in pdf or b"/MediaBox [0 0 595" in pdf
