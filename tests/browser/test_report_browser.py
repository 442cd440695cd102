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

    def ask(self, expression, *, wait=False):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=wait)
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

    names = ("parity", "uniform", "cup_paper", "availability_adjusted")
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
    assert browser.ask("document.querySelectorAll('section').length") == 12
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert [r["request"]["url"] for r in browser.seen("Network.requestWillBeSent")] == [page.as_uri()]
    assert browser.seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []


def test_no_name_of_ours_is_cut_in_two(browser, page):
    browser.open(page, 1200)
    ours = "[...document.querySelectorAll('#shares tbody th a')].filter(a => !a.text.startsWith('own_'))"
    heights = browser.ask(f"JSON.stringify({ours}.map(a => Math.round(a.offsetHeight)))")
    assert len(set(json.loads(heights))) == 1, heights
    assert len(json.loads(heights)) == 4


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


def type_keys(browser, *keys):
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else text
            codes = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, "Escape": 27}
            code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)


CLIENTS = "[...document.querySelectorAll('#clients tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
STATUS = "document.querySelector('#clients [role=status]').textContent"


@pytest.mark.parametrize("width", [1200, 390])
def test_clients_are_searched_sorted_and_paged_by_keyboard_alone(browser, page, width):
    browser.open(page, width)
    assert browser.ask(STATUS) == "30 of 30 clients, page 1 of 2"
    browser.ask("document.querySelector('#clients-search').focus()")
    type_keys(browser, "1")
    wanted = [str(k) for k in range(30) if "1" in str(k)]
    assert sorted(row[0] for row in browser.ask(CLIENTS)) == sorted(wanted)
    browser.ask("document.querySelectorAll('#clients thead button')[3].focus()")
    for direction in ("descending", "ascending"):
        type_keys(browser, "Enter")
        assert browser.ask("document.querySelectorAll('#clients thead th')[3].getAttribute('aria-sort')") == direction
        found = [float(row[3]) for row in browser.ask(CLIENTS)]
        assert found == sorted(found, reverse=direction == "descending")
    browser.ask(
        "const kind = document.querySelector('#clients-kind'); kind.selectedIndex = 1;"
        " kind.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    assert [float(row[3]) for row in browser.ask(CLIENTS)] == sorted(float(row[3]) for row in browser.ask(CLIENTS))
    browser.ask("document.querySelector('#clients-search').value = ''")
    browser.ask("document.querySelector('#clients-search').dispatchEvent(new Event('input', {bubbles: true}))")
    browser.ask("document.querySelectorAll('#clients-tools button')[1].focus()")
    type_keys(browser, "Enter")
    assert browser.ask(STATUS) == "30 of 30 clients, page 2 of 2"
    assert len(browser.ask(CLIENTS)) == 5
    assert browser.seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []


def test_a_table_of_methods_is_sorted_by_its_exact_values(browser, page):
    browser.open(page, 1200)
    value = (
        "[...document.querySelectorAll('#shares tbody tr')].map(r => Number(r.cells[2].querySelector('data').value))"
    )
    browser.ask("document.querySelectorAll('#shares thead th')[2].querySelector('button').click()")
    assert browser.ask(value) == sorted(browser.ask(value), reverse=True)
    browser.ask("document.querySelectorAll('#shares thead th')[2].querySelector('button').click()")
    assert browser.ask(value) == sorted(browser.ask(value))


def box_of(browser, what):
    """Left, top, width and height on the screen, once it stands still."""
    browser.ask(f"document.querySelector('{what}').scrollIntoView({{behavior: 'instant', block: 'center'}})")
    browser.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))", wait=True)
    place = f"const b = document.querySelector('{what}').getBoundingClientRect(); [b.x, b.y, b.width, b.height]"
    return browser.ask(f"{{ {place} }}")


TIP = "document.querySelector('.tip').hidden ? '' : document.querySelector('.tip').textContent"


@pytest.mark.parametrize("chart", ["#rounds svg.lines", "#lorenz svg.lorenz"])
def test_values_are_shown_under_the_pointer_and_by_arrow_keys(browser, page, chart):
    browser.open(page, 1200)
    assert browser.ask(TIP) == ""
    box = box_of(browser, chart)
    place = {"x": box[0] + box[2] * 0.4, "y": box[1] + box[3] * 0.5}
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", **place)
    said = browser.ask(TIP)
    for name in ("parity", "uniform", "cup_paper"):
        assert name in said
    browser.ask(f"document.querySelector('{chart}').focus()")
    type_keys(browser, "ArrowLeft", "ArrowRight")
    last = browser.ask(TIP)
    assert last.startswith("round 40" if "lines" in chart else "100")
    type_keys(browser, "ArrowLeft")
    assert browser.ask(TIP) != last
    type_keys(browser, "Escape")
    assert browser.ask(TIP) == ""


def test_under_the_pointer_the_strip_says_who_and_when(browser, page):
    browser.open(page, 1200)
    box = box_of(browser, "#presence svg")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] * 0.51, y=box[1] + 5)
    first = browser.ask("JSON.parse(document.querySelector('#presence svg').dataset.rows)[0]")
    assert browser.ask(TIP).startswith(f"round 21{first}")


def test_rows_of_dots_say_their_numbers_under_the_pointer_and_by_tab(browser, page):
    browser.open(page, 1200)
    rows = "[...document.querySelectorAll('svg.dots [data-says]')]"
    assert browser.ask(f"{rows}.map(row => row.dataset.name)")[:2] == ["parity", "uniform"]
    box = box_of(browser, "svg.dots [data-says]")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] * 0.3, y=box[1] + box[3] * 0.7)
    said = browser.ask(TIP)
    assert said.startswith("parityhighest")
    assert "median" in said
    browser.ask(f"{rows}[0].focus()")
    type_keys(browser, "Tab")
    assert browser.ask(TIP).startswith("uniformhighest")
    assert browser.ask(f"{rows}[1].getAttribute('aria-label')").startswith("uniform: highest ")


def test_without_script_the_page_reads(browser, page):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page, 1200)
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert len(browser.ask(CLIENTS)) == 25
    assert browser.ask("document.querySelectorAll('button.sort').length") == 0
    assert browser.ask("getComputedStyle(document.querySelector('#clients-tools')).display") == "none"
    assert "where scripts run" in browser.ask("document.querySelector('#clients').textContent")


def test_the_first_screen_says_what_for_whom_and_how_sure(browser, page):
    browser.open(page, 1200)
    said = browser.ask("document.querySelector('header').textContent")
    assert "5 methods on logistic, 2 seeds: 30 clients" in said
    for text in ("How sure.", "against uniform, paired over 2 seeds", "95"):
        assert text in said
    assert browser.ask("document.querySelector('#reach').getBoundingClientRect().top") < 900


def test_text_stays_readable_on_a_phone(browser, page):
    browser.open(page, 390)
    smallest = browser.ask(
        "Math.min(...[...document.querySelectorAll('svg.chart text')]"
        ".filter(t => getComputedStyle(t).display !== 'none')"
        ".map(t => parseFloat(getComputedStyle(t).fontSize) * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b)))"
    )
    assert smallest >= 10
