"""The report in a real browser: no error, no request to the outside, no sideways scrolling, tabs and links that work.

Chromium is driven through its debugging pipe, so nothing but the standard library is needed.
"""

import itertools
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path

import pytest

from fedparity.experiment.runner import execute
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.experiment.spec_parts import Population

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed (apt-get install chromium)")
PATIENCE = 600.0
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe",
)  # fmt: skip


class Browser:
    """One page of a headless Chromium, spoken to in the DevTools protocol (NUL-ended JSON on descriptors 3 and 4)."""

    def __init__(self, profile: Path) -> None:
        down, self._write = os.pipe()
        self._read, up = os.pipe()
        actions = [
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(profile / "stderr.txt"), os.O_WRONLY | os.O_CREAT, 0o600),
            # Through high numbers, since 3 and 4 may be among the pipes' own.
            (os.POSIX_SPAWN_DUP2, down, 103), (os.POSIX_SPAWN_DUP2, up, 104),
            (os.POSIX_SPAWN_DUP2, 103, 3), (os.POSIX_SPAWN_DUP2, 104, 4),
        ]  # fmt: skip
        args = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._pid = os.posix_spawn(CHROMIUM, args, dict(os.environ), file_actions=actions)
        os.close(down)
        os.close(up)
        self._ids, self._buffer, self.events, self._session = itertools.count(1), b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda m: m.get("id") == number)
        assert "error" not in answer, answer
        return answer["result"]

    def _until(self, wanted):
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" in self._buffer:
                raw, _, self._buffer = self._buffer.partition(b"\0")
                message = json.loads(raw)
                self.events.append(message)
                if wanted(message):
                    return message
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "chromium did not answer in time"
            data = os.read(self._read, 1 << 16)
            assert data, "chromium ended"
            self._buffer += data

    def open(self, path, width, *, scheme="light"):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.media(scheme=scheme)
        self.events.clear()
        self.call("Page.navigate", url=path if isinstance(path, str) else path.as_uri())
        if not any(m.get("method") == "Page.loadEventFired" for m in self.events):
            self._until(lambda m: m.get("method") == "Page.loadEventFired")

    def media(self, kind="", scheme="light"):
        self.call(
            "Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def ask(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def seen(self, *methods):
        return [m["params"] for m in self.events if m.get("method") in methods]

    def close(self):
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._write)
        os.close(self._read)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    pytest.importorskip("jinja2")
    from fedparity.report import write_report

    names = ("parity", "uniform", "cup_paper", "inverse")
    spec = Spec(
        name="a_rather_long_name_for_a_run_that_has_to_fit_on_a_small_phone",
        rounds=40,
        cohort=4,
        seeds=2,
        population=Population(clients=30, availability="bernoulli:low=0.05,high=0.9", dropout=0.2),
        data={"set": "logistic"},
        methods=(*(MethodSpec(name=n) for n in names), MethodSpec(name="own_" + "x" * 60, scheduler="uniform")),
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report(execute(spec), path)
    return path


@pytest.mark.parametrize("width", [1200, 800, 390, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_error_request_or_sideways_scrolling(browser, page, width, scheme):
    browser.open(page, width, scheme=scheme)
    assert browser.ask("document.querySelectorAll('section').length") == 9
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert [r["request"]["url"] for r in browser.seen("Network.requestWillBeSent")] == [page.as_uri()]
    assert browser.seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []


def test_dark_is_dark_and_light_is_light(browser, page):
    shades = {}
    for scheme in ("light", "dark"):
        browser.open(page, 1200, scheme=scheme)
        colour = browser.ask("getComputedStyle(document.body).backgroundColor")
        shades[scheme] = sum(int(v) for v in colour.strip("rgb()").split(","))
    assert shades["light"] > 600
    assert shades["dark"] < 200


def test_a_heading_leads_to_its_open_definition(browser, page):
    browser.open(page, 1200)
    closed = "document.getElementById('def-gini').closest('details').open"
    assert browser.ask(closed) is False
    browser.ask("document.querySelector('a[href=\"#def-gini\"]').click()")
    assert browser.ask(closed) is True


SHOWN = "[...document.querySelectorAll('.layer')].findIndex(g => getComputedStyle(g).display !== 'none')"


def test_tabs_show_one_method_at_a_time(browser, page):
    browser.open(page, 1200)
    assert browser.ask(SHOWN) == 0
    browser.ask("document.querySelector('label[for=strip-2]').click()")
    assert browser.ask(SHOWN) == 2
    browser.media("print")
    assert browser.ask(SHOWN) == 0
    browser.media()


def test_text_stays_readable_on_a_phone(browser, page):
    browser.open(page, 390)
    smallest = browser.ask(
        "Math.min(...[...document.querySelectorAll('svg.chart text')]"
        ".filter(t => getComputedStyle(t).display !== 'none')"
        ".map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))"
    )
    assert smallest >= 10
