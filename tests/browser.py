"""A real browser for the tests of the page: headless Chromium, asked through selenium, with explicit waits only."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select, WebDriverWait

from helpers import HANG

PATIENCE = HANG
WIDE, PHONE = (1280, 900), (360, 740)
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
_CHROMIUM, _DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
T = TypeVar("T")


def require_browser() -> None:
    """Without one these tests are skipped; where tests must be complete, that is an error."""
    if (_CHROMIUM is None or _DRIVER is None) and "CI" not in os.environ:
        pytest.skip("chromium and chromedriver are not installed: scripts/system-packages")


class Browser:
    """One window of Chromium."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """A page as if for the first time: nothing is remembered of the one before."""
        self.driver.get("about:blank")
        self.driver.get(url)

    def all(self, selector: str) -> list[WebElement]:
        found: list[WebElement] = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found

    def one(self, selector: str) -> WebElement:
        """The first such element that is shown; waits for it."""
        return self.until(lambda: next((one for one in self.all(selector) if one.is_displayed()), None), selector)

    def texts(self, selector: str) -> list[str]:
        """What all such elements say, read at one moment."""
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        found: list[str] = self.script(script, selector)
        return found

    def text(self, selector: str) -> str:
        return self.texts(selector)[0]

    def values(self, selector: str, attribute: str) -> list[str | None]:
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.getAttribute(arguments[1]))"
        found: list[str | None] = self.script(script, selector, attribute)
        return found

    def script(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, found: Callable[[], T | None], what: str) -> T:
        """Wait until a question has an answer that is not nothing; an element that is not there is none."""
        wait = WebDriverWait(self.driver, PATIENCE, 0.05, [StaleElementReferenceException, IndexError])
        try:
            result = wait.until(lambda _: found())
        except TimeoutException:
            result = None
        if result is None:
            pytest.fail(f"waited in vain for {what}; the page says {self.messages()}")
        return result

    def messages(self) -> list[str]:
        return [text for text in self.texts(".message:not([hidden])") if text]

    def click(self, selector: str) -> None:
        """Where an answer draws an element anew in between, once more."""

        def clicked() -> bool:
            element = self.one(selector)
            self.script("arguments[0].scrollIntoView({ block: 'center' })", element)
            element.click()
            return True

        self.until(clicked, f"a click on {selector}")

    def type(self, selector: str, text: str) -> None:
        """In the place of what was there."""
        field = self.one(selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE, text)

    def choose(self, selector: str, value: str) -> None:
        """One of the options of a select."""
        Select(self.one(selector)).select_by_value(value)

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def drag(self, selector: str, pixels: int) -> None:
        """A slider's thumb, by the pointer, in several steps."""
        thumb = self.one(selector)
        self.script("arguments[0].scrollIntoView({ block: 'center' })", thumb)
        move = ActionChains(self.driver).move_to_element(thumb).click_and_hold()
        for _ in range(5):
            move.move_by_offset(pixels // 5, 0)
        move.release().perform()

    def resize(self, size: tuple[int, int]) -> None:
        shape = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)

    def prefer(self, **features: str) -> None:
        """What the system prefers: `color_scheme="dark"`, `reduced_motion="reduce"`."""
        media = [{"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})

    def complaints(self) -> list[str]:
        """What the console has said since it was asked last."""
        said = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [f"{entry['level']} {entry['source']}: {entry['message']}" for entry in said]

    def serious_findings(self) -> list[str]:
        """What axe-core holds against the page as it is now, of impact serious or critical."""
        self.script((resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf8"))
        ask = "const [done] = arguments; axe.run(document).then((found) => done(JSON.stringify(found)))"
        found = json.loads(self.driver.execute_async_script(ask))
        assert found["passes"], "axe-core has looked at nothing"
        assert all(one["nodes"] for one in found["incomplete"]), "a rule of axe-core has broken down"
        return [
            f"{one['impact']} {one['id']}: {node['html'][:160]} {node['failureSummary']}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(_CHROMIUM)
    for flag in (*_FLAGS.split(), f"--user-data-dir={profile}", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(_DRIVER)))
    try:
        driver.set_script_timeout(PATIENCE)
        yield Browser(driver)
    finally:
        driver.quit()
