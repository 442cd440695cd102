"""The page of an audit in a real browser: no error, no request to the outside, no sideways scrolling."""

import numpy as np
import pytest
from test_report_browser import CHROMIUM, Browser

from fedparity.audit import open_audit
from fedparity.audit.summary import summary
from fedparity.report.audit_page import render_audit

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
