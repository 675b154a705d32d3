"""A headless Chromium for the tests of this folder; without one they are skipped, and say so.

Debian: `apt-get install chromium chromium-driver` (`make browser` does it as root). Screenshots go
to the folder that PLANNER_SCREENSHOTS names, else to pytest's own temporary folder.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_WAYS = {"chromium": ("chromium", "chromium-browser", "google-chrome"), "driver": ("chromedriver",)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder needs the browser."""
    for item in items:
        if Path(str(item.path)).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


def _program(what: str) -> str:
    found = next((path for name in _WAYS[what] if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"NO BROWSER: {' or '.join(_WAYS[what])} is not installed (make browser)")
    return found


Opened = Callable[..., Any]


@pytest.fixture(scope="session")
def driver_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """Makes a driver, with JavaScript or without; each is started once."""
    webdriver: Any = pytest.importorskip("selenium.webdriver", reason="NO BROWSER: no selenium")
    chromium, program = _program("chromium"), _program("driver")
    from selenium.webdriver.chrome.service import Service

    drivers: dict[bool, Any] = {}

    def make(*, javascript: bool = True) -> Any:
        if javascript not in drivers:
            options = webdriver.ChromeOptions()
            options.binary_location = chromium
            for switch in _SWITCHES:
                options.add_argument(switch)
            options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
            options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
            if not javascript:
                prefs = {"profile.managed_default_content_settings.javascript": 2}
                options.add_experimental_option("prefs", prefs)
            service = Service(program)
            drivers[javascript] = webdriver.Chrome(options=options, service=service)
        return drivers[javascript]

    yield make
    for driver in drivers.values():
        driver.quit()


@pytest.fixture
def driver(driver_of: Opened) -> Any:
    """The browser, with its logs emptied."""
    found = driver_of()
    size = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    found.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    calm = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    found.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": calm})
    found.get_log("browser")
    found.get_log("performance")
    return found


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go."""
    wanted = os.environ.get("PLANNER_SCREENSHOTS")
    folder = Path(wanted) if wanted else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def requests(driver: Any) -> list[str]:
    """Addresses that the browser asked for since the log was emptied."""
    found = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            found.append(str(message["params"]["request"]["url"]))
    return found
