"""The page for whoever has the key, and for nobody else; whatever a run is called comes out inert."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from injections import STRINGS, check_page
from stored_runs import run_into, spec_of

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("jinja2")

from starlette.routing import Match

from fedparity.report.live.follow import Follower
from fedparity.report.live.server import Pages, Watcher, application

EVIL = """</title><script>alert(1)</script><img src=x onerror=alert(2)>"'`{{7*7}}"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run"
    run_into(path, spec_of("rounds=6", methods=("parity", "uniform")))
    found = Follower(path)
    while not found.refresh():
        pass
    found.compute_limit()
    return found


class Request:
    """As much of a request as the pages look at."""

    def __init__(self, client=None, **given):
        self.query_params = {"token": "key", **given}
        self.path_params = {} if client is None else {"client": client}


def pages(run, method=None):
    import threading

    return Pages(run, "key", method, threading.Event())


def body(answer):
    assert answer.status_code == 200
    return answer.body.decode()


@pytest.mark.parametrize("token", ["", "wrong", "key ", "keykey", "\udce9"])
def test_without_the_key_there_is_nothing(run, token):
    given = Request(token=token)
    given.query_params["token"] = token.encode("utf-8", "replace").decode()
    answer = pages(run).page(given)
    assert answer.status_code == 403
    assert answer.body.decode().count("\n") == 1


def test_only_reading_is_routed(run):
    for route in application(run, "key").routes:
        assert route.methods <= {"GET", "HEAD"}
        path = route.path.replace("{client:int}", "3")
        assert route.matches({"type": "http", "method": "POST", "path": path})[0] is Match.PARTIAL


def test_a_client_that_is_not_there_is_one_line(run):
    answer = pages(run).page(Request(client=14))
    assert answer.status_code == 404
    assert answer.body == b"there is no client 14 in this run\n"


class Seen(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs), attrs
        self.links += [value for name, value in attrs if name in {"href", "src", "action"}]


def test_every_link_stays_here_and_carries_the_key(run):
    for answer in (pages(run).page(Request()), pages(run).page(Request(client=3))):
        seen = Seen(body(answer))
        assert all(link == "data:," or link.startswith("/") for link in seen.links)
        assert all("token=key" in link for link in seen.links if "?" in link)
        assert seen.tags.count("script") == 2


def test_the_policy_lets_our_script_run_and_no_other(run):
    import base64
    import hashlib

    answer = pages(run).page(Request())
    scripts = re.findall(r"<script>(.*?)</script>", body(answer), flags=re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    rules = answer.headers["content-security-policy"]
    assert f"script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}';" in rules
    assert rules.startswith("default-src 'none'")


def test_names_from_outside_are_inert(run):
    names = tuple(f"{EVIL}{k}" for k in range(14))
    evil = Follower(run.folder)
    while not evil.refresh():
        pass
    evil.compute_limit()
    evil.trace = replace(evil.trace, names=names)
    evil.spec = evil.spec.model_copy(update={"name": EVIL})
    evil.trouble = EVIL
    evil.say(EVIL)
    plain = Seen(body(pages(run).page(Request())))
    for given in (Request(q=EVIL), Request(client=2)):
        text = body(pages(evil).page(given))
        seen = Seen(text)
        assert set(seen.tags) <= {*plain.tags, "b"}
        assert seen.tags.count("script") == 2
        assert "<img" not in text
        assert "{{7*7}}" in text  # and not 49


def test_2000_names_come_out_inert_on_every_page_of_the_table(run):
    many = replace(run.trace, names=tuple(STRINGS[:14]))
    evil = Follower(run.folder)
    while not evil.refresh():
        pass
    for start in range(0, len(STRINGS) - 13, 14):
        evil.trace = replace(many, names=tuple(STRINGS[start : start + 14]))
        text = body(pages(evil).page(Request(q=STRINGS[start])))
        check_page(text + "alert(1)", scripts=2)


def test_the_watcher_says_when_a_folder_cannot_be_read_and_goes_on(run, monkeypatch):
    watcher = Watcher(run)
    version = run.version
    monkeypatch.setattr(run, "changed", lambda: (_ for _ in ()).throw(OSError("gone")))
    assert watcher.look() is False
    assert (run.trouble, run.version) == ("gone", version + 1)
    monkeypatch.undo()
    watcher.look()
    assert run.trouble == ""
