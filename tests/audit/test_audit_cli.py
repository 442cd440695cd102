"""`fedparity audit`: JSON, files, conditions, signatures, exit codes; nothing that a log says is taken for more."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from logs import csv_of, rows_of, uniform_log, write

from fedparity.audit import open_audit, seal
from fedparity.audit.card import card_text
from fedparity.audit.fail_if import holds, parse
from fedparity.audit.summary import summary
from fedparity.core.errors import ConfigError, FedparityError, InputError
from fedparity.report.audit_page import render_audit
from fedparity.report.svg import printable
from injections import PIECES, STRINGS, Tags, check_page, inert

pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")
PROMISED = {
    "clients", "rounds", "fill", "fill_limit", "selection_gap", "selection_gap_limit", "gini", "gini_limit",
    "jain_counts", "cv_counts", "never_served", "never_available", "assumptions", "log_sha256",
}  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """100 clients, of which the first five are hardly asked from round 40 on, in three groups."""
    rng = np.random.default_rng(6)
    online, asked = uniform_log(rng, 60, 120, 6, 0.5)
    late, shut = uniform_log(rng, 60, 120, 6, 0.5, range(8), 0.0)
    online[40:], asked[40:] = late[40:], shut[40:]
    rows = rows_of(online, asked)
    for row in rows:
        k = int(row["client"][1:])
        row["group"] = "old" if k < 12 else "new" if k < 55 else "rare"
    return write(tmp_path_factory.mktemp("log") / "log.csv", csv_of(rows))


def test_json_has_what_is_promised(fedparity, log):
    code, out, err = fedparity("audit", log, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out, parse_constant=pytest.fail)
    assert set(found) >= PROMISED
    assert len(found["verdict"]) == 3
    assert found["clients"] == 60
    assert [group["name"] for group in found["groups"]] == ["old", "new"]
    assert found["groups"][0]["flagged"]
    assert found["groups"][0]["p"] < 0.05
    assert found["groups_hidden"] == {"groups": 1, "clients": 5}
    assert {one["name"] for one in found["left_out_clients"]} <= {f"c{k}" for k in range(8)}
    assert found["p_value"] < 0.01
    points = [point for point in found["changes"] if point["what"] == "group old"]
    assert len(points) == 1
    assert abs(points[0]["round"] - 40) <= 8
    assert points[0]["after"] < 0.8 < points[0]["before"]


def test_for_eyes_the_verdict_comes_first(fedparity, log):
    code, out, err = fedparity("audit", log)
    assert (code, err) == (0, "")
    assert out.startswith("In 120 rounds 720 requests went out to")
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())
    assert "old" in out
    assert "Assumed:" in out


def test_conditions_decide_the_exit_code(fedparity, log):
    assert fedparity("audit", log, "--fail-if", "gini_avoidable > .9", "--json")[0] == 0
    code, out, err = fedparity("audit", log, "--fail-if", "gini_avoidable > .9 or p_value < .01", "--json")
    assert code == 1
    assert json.loads(out)["p_value"] < 0.01
    assert err == "Failed: gini_avoidable > .9 or p_value < .01\n"
    for text, message in (
        ("gini_avoidable", "must be NAME OP NUMBER"),
        ("__import__('os').system('x') > 1", "must be NAME OP NUMBER"),
        ("gino > .1", "did you mean 'gini'?"),
        ("utility_cv > .1", "utility_cv is not known from this log"),
        ("verdict > 1", "names, which --json shows"),
    ):
        code, out, err = fedparity("audit", log, "--fail-if", text)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


def test_fewer_slots_than_were_asked_are_pointed_out(fedparity, log):
    told = json.loads(fedparity("audit", log, "--cohort", "3", "--json")[1])
    assert told["fill"] > 1
    (note,) = [one for one in told["assumptions"] if "--cohort" in one]
    assert note.startswith("3 slots per round as given (--cohort), though up to 6 clients were asked")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a > 1", True), ("a>2", False), ("a >= 2 and b < 0", True), ("a < 2 or b == -1", True), ("a != 2", False),
        ("a < 2 and a > 0 or b <= -.5", True), ("b > -1.5e0", True),
    ],
)  # fmt: skip
def test_conditions_mean_what_they_say(text, value):
    assert holds(text, {"a": 2, "b": -1.0, "c": None, "d": True}) is value


@pytest.mark.parametrize(
    "text", ["", "a", "a >", "> 1", "a > b", "a > 1 and", "a > 1; b", "a > 1e", "a" * 2000, "(a > 1)"]
)
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError):
        parse(text)


def test_an_unknown_number_is_no_pass():
    with pytest.raises(InputError, match="c is not known"):
        holds("a > 1 or c > 1", {"a": 2, "c": None})


def test_a_signed_result_can_be_checked_and_a_changed_one_is_found(fedparity, log, tmp_path):
    key = write(tmp_path / "key", b"k" * 32)
    code, out, _ = fedparity("audit", log, "--cohort", "7", "--sign", key, "--json")
    assert code == 0
    result = write(tmp_path / "result.json", out)
    assert fedparity("audit", log, "--verify", result, "--sign", key)[0] == 0
    told = json.loads(out)
    assert told["signature"]["algorithm"] == "HMAC-SHA256"
    assert "--cohort 7" in told["command"]
    assert "/" not in told["command"].replace("fedparity audit", "")

    def check(changed, *more, log=log):
        code, out, _ = fedparity("audit", log, "--verify", write(tmp_path / "x.json", changed), *more, "--json")
        return code, " ".join(json.loads(out)["problems"])

    code, said = check(json.dumps({**told, "gini": 0.1}), "--sign", key)
    assert code == 1
    assert "signature does not fit" in said
    assert "gini is 0.1" in said
    code, said = check(json.dumps({**told, "gini": 0.1}))  # without the key, by doing it again
    assert (code, "gini is 0.1" in said) == (1, True)
    code, said = check(out, "--sign", write(tmp_path / "other", b"o" * 32))
    assert (code, "another key" in said) == (1, True)
    lines = Path(log).read_text(encoding="utf-8").splitlines(keepends=True)
    text = write(tmp_path / "log.csv", "".join(lines[:5] + lines[6:]))
    code, said = check(out, "--sign", key, log=text)
    assert code == 1
    assert "another log" in said
    del told["signature"]
    code, said = check(json.dumps(told), "--sign", key)
    assert (code, said) == (1, "it is not signed")


def test_what_is_signed_does_not_depend_on_spaces_or_order():
    assert seal.canonical({"b": 1.5, "a": [None, "é"], "signature": 1}) == b'{"a":[null,"\\u00e9"],"b":1.5}'


def fedparity_card(fedparity, log, tmp_path, name):
    assert fedparity("audit", log, "--card", name)[0] == 0
    return (tmp_path / name).read_text(encoding="utf-8")


def test_a_card_says_when_and_what_it_rests_on(fedparity, tmp_path):
    times = ("2026-03-01T00:00:00", "2026-03-02T12:30:00")
    rows = [{"round": t, "client": f"c{k}", "time": times[t > 0]} for t in range(40) for k in (t % 3, 3 + t % 17)]
    log = write(tmp_path / "log.csv", csv_of(rows))
    for name in ("card.md", "card.html"):
        card = fedparity_card(fedparity, log, tmp_path, name)
        assert "from 2026-03-01 00:00:00 to 2026-03-02 12:30:00" in card
        assert "Limits hold if all were always there" in card
        assert "there in 40 rounds" not in card


def test_files_are_written(fedparity, log, tmp_path):
    names = ["page.html", "clients.csv", "card.md", "card.json"]
    words = ["--html", "page.html", "--csv", "clients.csv", "--card", "card.md"]
    assert fedparity("audit", log, *words)[0] == 0
    assert fedparity("audit", log, "--card", "card.json")[0] == 0
    page, table, card, plain = ((tmp_path / name).read_text(encoding="utf-8") for name in names)
    assert "How far to trust this" in page
    rows = list(csv.DictReader(io.StringIO(table)))
    assert len(rows) == 60
    assert sum(int(row["asked"]) for row in rows) == 720
    assert "not legal advice" in card
    assert "article 12" in card
    assert json.loads(plain)["population"]["clients"] == 60
    assert json.loads(plain)["period"]["times"] is None
    assert [point["what"] for point in json.loads(plain)["changes"]].count("group old") == 1
    assert "group old got" in card
    assert "not legal advice" in fedparity_card(fedparity, log, tmp_path, "card.html")
    assert fedparity("audit", log, "--card", "card.txt")[0] == 2
    assert fedparity("audit", log, "--sign", "nothing", "--json")[0] == 2


# --- what a log says stays text


def test_2000_strings_in_names_of_clients_and_groups_come_out_inert(fedparity, tmp_path):
    pairs = [(t, i) for t in range(2) for i in range(len(STRINGS))]
    rows = [{"round": t, "client": STRINGS[i], "selected": (i + t) % 2, "group": STRINGS[i]} for t, i in pairs]
    log = write(tmp_path / "log.csv", csv_of(rows))
    words = ["--min-group", "1", "--html", "p.html", "--csv", "c.csv", "--card", "c.md"]
    code, out, err = fedparity("audit", log, *words)
    assert (code, err) == (0, "")
    assert inert(out)
    assert fedparity("audit", log, "--min-group", "1", "--card", "c.html")[0] == 0
    sheet = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert inert(sheet, lines="\n\t")
    assert Tags(sheet).scripts == []
    assert not Tags(sheet).seen & {"img", "b", "svg", "iframe"}
    page, table, card = ((tmp_path / name).read_text(encoding="utf-8") for name in ("p.html", "c.csv", "c.md"))
    assert sorted(check_page(page)) == sorted(printable(name.strip()) for name in STRINGS)
    assert page.count("<bdi>") >= len(STRINGS)
    assert "49" not in re.findall(r"<bdi>(\d+)", page)
    with (tmp_path / "c.csv").open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row[:2]]
    assert len(cells) == 2 * 2001
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert table.count("alert(1)")
    assert inert(card)
    for line in card.splitlines():
        assert not re.search(r"(?<!\\)[<`\]]", line), line
        assert "://" not in line
        assert "www." not in line


def test_2000_names_of_columns_come_out_inert(tmp_path):
    said, refused = [], []
    for name in (name.replace("\n", " ").replace("\r", " ").strip() for name in STRINGS):
        rows = [{"round": 0, name: "a", "selected": 1}, {"round": 0, name: "b", "selected": 0}]
        try:
            audit = open_audit([write(tmp_path / "log.csv", csv_of(rows))], columns=[f"client={name}"])
        except FedparityError as error:
            refused.append(str(error))
        else:
            said += audit.log.assumptions
    assert all(inert(line, lines="") for line in refused)
    assert len(said) + len(refused) > len(STRINGS)
    told = summary(audit) | {"assumptions": said}
    check_page(render_audit(audit, told))
    card = card_text(told, ".md")
    assert inert(card)
    assert not re.search(r"(?<!\\)[<`\]]", card)


def test_strings_in_names_of_columns_come_out_inert(fedparity, tmp_path):
    for i, piece in enumerate(PIECES[::4]):
        name = piece.replace("\n", " ").replace("\r", " ")
        rows = [{"round": t, name: c, "selected": int(c == "a"), "seed": 1} for t in range(3) for c in "ab"]
        log = write(tmp_path / f"{i}.csv", csv_of(rows))
        code, out, err = fedparity(
            "audit", log, "--map", f"client={name.strip()}", "--html", "p.html", "--card", "c.md"
        )
        assert inert(out)
        assert inert(err)
        if code:
            assert err.count("\n") == 1
            continue
        tags = Tags((tmp_path / "p.html").read_text(encoding="utf-8"))
        assert tags.scripts == ["application/json", None]
        assert not tags.seen & {"img", "b"}
        assert not re.search(r"(?<!\\)<", (tmp_path / "c.md").read_text(encoding="utf-8"))
