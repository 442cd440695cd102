"""The page of an audit in a real browser: no error, no request to the outside, no sideways scrolling."""

import base64
import re

import numpy as np
import pytest
from test_report_browser import CHROMIUM, Browser, type_keys

from fedparity.audit import open_audit
from fedparity.audit.summary import summary
from fedparity.report.audit_page import render_audit
from injections import STRINGS

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed (apt-get install chromium)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module", params=["who was there is logged", "it is not"])
def page(request, tmp_path_factory):
    pytest.importorskip("jinja2")
    folder = tmp_path_factory.mktemp("page")
    rng = np.random.default_rng(0)
    known = request.param == "who was there is logged"
    lines = ["round,client,selected,group" if known else "round,client,group"]
    for t in range(60):
        there = np.flatnonzero(rng.random(40) < 0.7)
        asked = set(rng.permutation(there[there > 3])[:5].tolist())
        for k in there.tolist():
            name = f"a-rather-long-name-of-a-client-{k}" + "x" * 60 * (k == 0)
            group = "<b>old</b>" if k < 12 else "new"
            if known or k in asked:
                lines.append(f"{t},{name},{int(k in asked)},{group}" if known else f"{t},{name},{group}")
    log = folder / ("log_" + "y" * 80 + ".csv")
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    audit = open_audit([log])
    (folder / "audit.html").write_text(render_audit(audit, summary(audit)), encoding="utf-8")
    return folder / "audit.html"


@pytest.mark.parametrize("width", [1200, 390, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_without_error_request_or_sideways_scrolling(browser, page, width, scheme):
    browser.open(page, width, scheme=scheme)
    assert browser.ask("document.querySelectorAll('section').length") >= 7
    assert browser.ask("document.querySelectorAll('b').length") == 0
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert [r["request"]["url"] for r in browser.seen("Network.requestWillBeSent")] == [page.as_uri()]
    assert browser.seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []


def test_every_link_leads_to_its_place(browser, page):
    browser.open(page, 1200)
    lost = "[...document.querySelectorAll('a')].filter(a => !document.getElementById(a.hash.slice(1))).length"
    assert browser.ask(lost) == 0


SAID = "[...document.querySelectorAll('#all tbody tr')].map(r => [...r.cells].map(c => c.textContent))"


@pytest.mark.parametrize("width", [1200, 390])
def test_the_keyboard_alone_reaches_and_works_everything(browser, page, width):
    browser.open(page, width)
    reached = []
    for _ in range(200):  # Tab alone, from the top of the page to its end
        type_keys(browser, "Tab")
        reached.append(
            browser.ask("(e => e.id || e.closest('section,nav')?.id + ' ' + e.tagName)(document.activeElement)")
        )
        if reached[-1] == "clients-search":
            break
    assert reached[-1] == "clients-search", reached
    type_keys(browser, "1", "3")
    assert [row[0] for row in browser.ask(SAID)] == ["a-rather-long-name-of-a-client-13"]
    browser.ask("document.getElementById('clients-search').select()")
    type_keys(browser, "1")
    while browser.ask("document.activeElement.className") != "sort":
        type_keys(browser, "Tab")
    for order in (False, True):
        type_keys(browser, "Enter")
        numbers = [int(row[0].rpartition("-")[2]) for row in browser.ask(SAID)]
        assert numbers == sorted(numbers, reverse=order)
        assert len(numbers) > 5
    assert browser.ask("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert browser.seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []


def test_2000_names_that_try_something_do_nothing_in_a_browser(browser, tmp_path):
    rng = np.random.default_rng(2)
    lines = ["round\tclient\tselected\tgroup"]
    names = [re.sub(r"[\t\r\n\"]", " ", name).strip() for name in STRINGS]
    for t in range(3):
        lines += [f"{t}\t{name}\t{int(rng.random() < 0.2)}\t{name}" for name in names]
    (tmp_path / "log.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    audit = open_audit([tmp_path / "log.tsv"], min_group=1)
    assert audit.log.num_clients == len(set(names))
    path = tmp_path / "audit.html"
    path.write_text(render_audit(audit, summary(audit)), encoding="utf-8")
    browser.open(path, 1200)
    browser.ask("document.querySelector('#clients-search').value = 'alert'")
    browser.ask("document.querySelector('#clients-search').dispatchEvent(new Event('input', {bubbles: true}))")
    assert all("alert" in row[0] for row in browser.ask(SAID))
    assert (
        browser.ask("document.querySelectorAll('img, iframe, object, embed, svg[onload], main script[src]').length")
        == 0
    )
    assert [r["request"]["url"] for r in browser.seen("Network.requestWillBeSent")] == [path.as_uri()]
    alarms = ("Page.javascriptDialogOpening", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
    assert browser.seen(*alarms) == []


def crowded(path):
    """A log that has much of everything: groups, names, columns, findings, people left out."""
    rng = np.random.default_rng(1)
    name = "a-client-whose-name-is-longer-than-any-line-of-any-page-" + "x" * 200
    lines = ["wave_of_training,the_device_that_was_asked,picked,group_of_devices,time"]
    for t in range(90):
        asked = set(rng.permutation(np.arange(20 * (t > 30), 120))[:9].tolist())
        when = 3e9 * (t == 40) + 60 * t
        lines += [f"{2 * t},{name}{k},{int(k in asked)},group-{k % 30}-{'y' * 200},{when}" for k in range(120)]
    path.write_text("\n".join([*lines, lines[-1]]) + "\n", encoding="utf-8")
    named = ("round=wave_of_training", "client=the_device_that_was_asked", "selected=picked", "group=group_of_devices")
    return summary(open_audit([path] * 9, columns=named, min_group=1))


@pytest.mark.parametrize("paper", [(8.27, 11.69), (8.5, 11.0)], ids=["A4", "Letter"])
@pytest.mark.parametrize("much", [True, False], ids=["crowded", "plain"])
def test_the_fairness_card_prints_on_one_sheet(browser, tmp_path, paper, much):
    from fedparity.report.card_page import render_card

    log = tmp_path / ("log" + "z" * 150 + ".csv")
    log.write_text("round,client\n0,a\n1,b\n", encoding="utf-8")
    told = crowded(log) if much else summary(open_audit([log]))
    (tmp_path / "card.html").write_text(render_card(told), encoding="utf-8")
    for width in (1200, 390):
        browser.open(tmp_path / "card.html", width)
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []
    answer = browser.call("Page.printToPDF", paperWidth=paper[0], paperHeight=paper[1], preferCSSPageSize=True)
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(answer["data"]))) == 1
    assert len(told["groups"] or ()) == (30 if much else 0)


@pytest.mark.parametrize("width", [1200, 390])
def test_the_claims_page_fits_too_and_sorts(browser, tmp_path, width):
    from fedparity.paper.claims import chosen, examine
    from fedparity.paper.claims.html import claims_page

    path = tmp_path / "claims.html"
    path.write_text(claims_page(list(examine(chosen(["lemma-1"])))), encoding="utf-8")
    browser.open(path, width)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("document.querySelectorAll('button.sort').length") == 3
    assert browser.seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []
