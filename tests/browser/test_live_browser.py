"""The live view in a real browser: rounds arrive by themselves; clients are found, sorted and opened; nothing leaks."""

import threading
import time

import pytest
from test_report_browser import CHROMIUM, Browser, type_keys

from stored_runs import run_into, spec_of

pytest.importorskip("jinja2")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

PATIENCE = 120.0
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed (apt-get install chromium)")
SPEC = spec_of("rounds=9", "population.clients=120", "cohort=6", methods=("parity", "uniform"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run"
    run_into(path, SPEC, rounds=5)
    return path


@pytest.fixture(scope="module")
def address(folder):
    from fedparity.report.live.follow import Follower
    from fedparity.report.live.server import HOST, Watcher, application, server_of

    run = Follower(folder)
    with Watcher(run) as watcher:
        app = application(run, "key", stopped=watcher.stopped)
        server = server_of(app)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        until(lambda: server.started or not thread.is_alive())
        (socket,) = server.servers[0].sockets
        yield f"http://{HOST}:{socket.getsockname()[1]}/"
        watcher.stopped.set()
        server.should_exit = True
        thread.join()


def until(holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def clean(browser, address):
    """No error on the console, and no request to anybody else."""
    asked = [one["request"]["url"] for one in browser.seen("Network.requestWillBeSent")]
    assert all(url.startswith((address, "data:,")) for url in asked), asked
    assert browser.seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []


def shown(browser):
    return browser.ask("[...document.querySelectorAll('#t-clients tbody a')].map(a => a.textContent)")


def column(browser, number):
    return browser.ask(
        f"[...document.querySelectorAll('#t-clients tbody tr')].map(r => Number(r.cells[{number}].textContent))"
    )


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["", "client/3"])
def test_it_fits_every_screen(browser, address, width, scheme, page):
    browser.open(f"{address}{page}?token=key", width, scheme=scheme)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    colour = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(v) for v in colour.strip("rgb()").split(",")) > 600) == (scheme == "light")
    clean(browser, address)


def test_clients_are_found_sorted_and_opened_and_a_round_arrives(browser, address, folder):
    browser.open(f"{address}?token=key", 1200)
    assert len(shown(browser)) == 50
    browser.ask("document.getElementById('next').click()")
    until(lambda: browser.ask("document.getElementById('pages').textContent").startswith("120 clients, page 2 of 3"))
    browser.ask("document.getElementById('q').value = '11'")
    browser.ask("document.getElementById('q').dispatchEvent(new Event('input', {bubbles: true}))")
    until(lambda: sorted(shown(browser)) == sorted(["11", *(str(k) for k in range(110, 120))]))
    browser.ask("document.getElementById('sort-online').focus(); document.getElementById('sort-online').click()")
    until(lambda: browser.ask("document.getElementById('sort-online').textContent").endswith("↓"))
    assert column(browser, 1) == sorted(column(browser, 1), reverse=True)
    assert browser.ask("document.activeElement.id") == "sort-online"
    assert "Round 5 of 9." in browser.ask("document.querySelector('.verdict').textContent")
    run_into(folder, SPEC, resume=True)
    until(lambda: "Round 9 of 9." in browser.ask("document.querySelector('.verdict').textContent"))
    assert browser.ask("document.getElementById('q').value") == "11"
    assert len(shown(browser)) == 11
    clean(browser, address)
    client = browser.ask("const link = document.querySelector('#t-clients tbody a'); link.click(); link.textContent")
    until(lambda: browser.ask("document.querySelector('h1')?.textContent") == f"Client {client}")
    assert browser.ask("document.querySelectorAll('section').length") == 3
    clean(browser, address)


def test_the_keyboard_alone_is_enough(browser, address):
    browser.open(f"{address}?token=key", 1200)
    browser.ask("document.getElementById('q').focus()")
    type_keys(browser, "7")
    until(lambda: shown(browser) and all("7" in name for name in shown(browser)))
    reached = []
    for _ in range(12):  # on from the field: what it shows, the headings, the first client
        type_keys(browser, "Tab")
        reached.append(browser.ask("document.activeElement.id || document.activeElement.tagName"))
        if reached[-1] == "sort-asked":
            break
    assert reached[-1] == "sort-asked", reached
    type_keys(browser, "Enter")
    until(lambda: browser.ask("document.getElementById('sort-asked').textContent").endswith("↓"))
    browser.ask("document.querySelector('#t-clients tbody a').focus()")
    client = shown(browser)[0]
    type_keys(browser, "Enter")
    until(lambda: browser.ask("document.querySelector('h1')?.textContent") == f"Client {client}")
    clean(browser, address)


def test_without_script_it_reads_and_the_search_works(browser, address):
    def found():
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            browser.open(f"{address}?token=key&q=119&sort=asked", 1200)
        finally:
            browser.call("Emulation.setScriptExecutionDisabled", value=False)
        return shown(browser)

    until(found)  # a run is read in slices: the first page may come before its clients
    assert shown(browser) == ["119"]
    assert browser.ask("document.querySelector('noscript') !== null")
