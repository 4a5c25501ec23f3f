"""A headless Chromium, a server process for it, and what the page's tests do with both."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.conftest import ROOT

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
PATIENCE = 60  # seconds: the machine may be busy with other tests

#: Scripts that run before the page's own: no server can be reached; invented answers for URLs that contain a word.
UNREACHABLE = "window.fetch = () => Promise.reject(new TypeError('Failed to fetch'));"
INVENTED = """const real = window.fetch; window.fails = true;
window.fetch = (path, more) => window.fails && String(path).includes('%s')
  ? Promise.resolve(new Response('{"error": "invented"}', {status: %d})) : real(path, more);"""
#: For each text, its contrast with what lies behind it, by WCAG's formula.
CONTRAST = """
const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map((n) => n / 255)
  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = (node) => { for (; node; node = node.parentElement) { const colour = getComputedStyle(node).backgroundColor;
  if (!/, 0\\)$/.test(colour) && colour.startsWith('rgb(')) return colour; } return 'rgb(255, 255, 255)'; };
return [...document.querySelectorAll(arguments[0])]
  .filter((node) => node.offsetParent && node.textContent.trim()).map((node) => {
  const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
  return [(a + 0.05) / (b + 0.05), node.className || node.tagName]; });"""
TEXTS = (
    "h2, p, label, .snippet, .hit-meta, .moved, .judged, .rank, mark, dt, dd, summary, output, button, small, "
    ".bar-label, .bar-value, .note"
)


def programs() -> tuple[str, str]:
    """Chromium and its driver; the calling test is skipped where one is missing."""
    pytest.importorskip("selenium", reason="the page's tests need selenium")
    chromium = next(
        (result for name in ("chromium", "chromium-browser", "google-chrome") if (result := shutil.which(name))), None
    )
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("the page's tests need chromium and chromedriver on the path (Debian: chromium, chromium-driver)")
    return chromium, driver


@contextmanager
def serving(*flags: str) -> Iterator[str]:
    """A server process on a free port; gives its address."""
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-m", "kernelsearch.serve", "--port", "0", *flags]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        try:
            for line in process.stdout:
                log.write(line)
                if result := re.search(r"at (http://\S+?)/?$", line.strip()):
                    yield result[1]
                    break
            else:
                log.seek(0)
                pytest.fail(f"the server did not start: {log.read()}")
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


class Page:
    """The page in a browser."""

    def __init__(self, driver: Any, server: str) -> None:
        self.driver, self.server = driver, server
        self._scripts: list[str] = []

    def open(self, **view: Any) -> Page:
        """Loads the view of an address, at 1280 pixels in light colours, and waits for it."""
        self.driver.get(f"{self.server}/?{urlencode(view, doseq=True)}")
        self.wait(lambda: self.js("return document.body.classList.contains('ready')"))
        return self.settled()

    def size(self, width: int, height: int = 900, theme: str = "light") -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def before_each_page(self, script: str) -> None:
        """Runs a script before the page's own ones, until `plain` is called."""
        made = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        self._scripts.append(made["identifier"])

    def plain(self) -> None:
        """No scripts of ours, empty storage, an empty console, the usual size."""
        for identifier in self._scripts:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": identifier})
        self._scripts.clear()
        if self.driver.current_url.startswith("http"):
            self.js("localStorage.clear()")
        self.driver.get_log("browser")
        self.size(1280)

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def module(self, name: str, body: str, *arguments: Any) -> Any:
        """What an expression over one of the page's modules, `m`, and `a`, the arguments, is."""
        script = f"const a = [...arguments], done = a.pop(); import('/page/js/{name}').then((m) => done({body}))"
        return self.driver.execute_async_script(script, *arguments)

    def wait(self, condition: Callable[[], Any]) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.driver, PATIENCE, 0.05, ignored_exceptions=(StaleElementReferenceException,))
        return waiting.until(lambda _: condition())

    def settled(self) -> Page:
        """Waits until all requests are answered, so that the page shows the state of the address."""
        self.wait(lambda: not self.js("return document.querySelectorAll('[aria-busy=true], .waiting').length"))
        done = "[...document.querySelectorAll('.column')].every((column) => column.querySelector('.hit, .notice, .nothing'))"
        self.wait(lambda: self.js(f"return document.querySelector('#results').hidden || {done}"))
        return self

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def element(self, selector: str) -> Any:
        return self.wait(lambda: next(iter(self.all(selector)), None))

    def text(self, selector: str) -> str:
        return self.element(selector).text

    def click(self, element: Any) -> None:
        """Clicks in the middle of the screen, where nothing that stays in view lies over the element."""
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    @property
    def focused(self) -> Any:
        return self.driver.switch_to.active_element

    def columns(self) -> list[list[str]]:
        """The docids of each list, once every list has come."""
        result = self.js(
            "return [...document.querySelectorAll('.column')]"
            ".map((column) => [...column.querySelectorAll('.hit')].map((hit) => hit.dataset.docid))"
        )
        return result if result and all(result) else []

    def shows(self, *lists: list[str]) -> None:
        """Waits until the columns are these lists."""
        self.wait(lambda: self.columns() == list(lists))

    def ask(self, path: str, **parameters: Any) -> Any:
        """The answer of the service to a request."""
        address = f"{self.server}{path}" + (f"?{urlencode(parameters)}" if parameters else "")
        with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
            return json.loads(answer.read())

    def ranked(self, **parameters: Any) -> list[str]:
        result = self.ask("/v1/demo/search", hits=10, **parameters)
        return [entry["docid"] for entry in result["candidates"]]

    def console_errors(self) -> list[str]:
        """Warnings and errors in the browser's console."""
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] in ("WARNING", "SEVERE")]


@contextmanager
def chromium(server: str, profile: Path) -> Iterator[Page]:
    """The page in a browser with a new profile."""
    binary, driver_path = programs()
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    driver.set_script_timeout(PATIENCE)
    try:
        yield Page(driver, server)
    finally:
        driver.quit()


def keys(name: str) -> str:
    from selenium.webdriver.common.keys import Keys

    return getattr(Keys, name)


def choose(element, value: str) -> None:
    from selenium.webdriver.support.ui import Select

    Select(element).select_by_value(value)
