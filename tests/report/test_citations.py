"""What to cite: every component that has a reference, everything a run used, entries that BibTeX can read."""

import json
import re

import pytest

from fedparity.cli import catalogue
from fedparity.core.errors import ConfigError
from fedparity.experiment.spec_file import parse
from fedparity.report import citations
from fedparity.report.citations import CITES, ENTRIES, bibtex, by_reference, keys_of

pytestmark = pytest.mark.filterwarnings("ignore:.*Click 9:DeprecationWarning")

REFERENCED = [
    pytest.param(table, entry, id=f"{table}-{entry['name']}")
    for table, entries in catalogue.tables().items()
    for entry in entries
    if entry["reference"]
]
WANTED = (
    "fedavg qffl afl fedfv corefed fairfedcs fedprox ditto term mifa fedlaavg fedvarp fedstale fedau f3ast fedawe cafed"
    " oort poc refl fedgs phpfl cup fedopt fedavgm horvitz geomedian krum flash cifar10 mnist digits sklearn"
    " efficientnetlite resnet groupnorm"
)


@pytest.mark.parametrize(("table", "entry"), REFERENCED)
def test_every_component_with_a_reference_has_a_citation(table, entry):
    keys = keys_of(table, entry["name"], entry["reference"])
    assert keys, f"no citation for {entry['reference']!r}; add it to citations.py"
    assert set(keys) <= set(ENTRIES)


@pytest.mark.parametrize(("table", "entry"), REFERENCED)
def test_what_is_listed_agrees_with_the_reference_in_words(table, entry):
    told = by_reference(entry["reference"])
    listed = CITES.get(table, {}).get(entry["name"])
    if told and listed:
        assert set(told) <= set(listed)


def test_the_table_holds_what_it_should():
    assert set(WANTED.split()) <= set(ENTRIES)
    assert {key for names in CITES.values() for keys in names.values() for key in keys} <= set(ENTRIES)


def test_every_entry_is_somebody_s():
    tables = catalogue.tables().items()
    found = {key for t, entries in tables for e in entries for key in catalogue.cites_of({"table": t, **e})}
    listed = {key for names in CITES.values() for keys in names.values() for key in keys}
    assert set(ENTRIES) - found - listed == set()


@pytest.mark.parametrize("key", ENTRIES)
def test_entries_are_bibtex(key):
    text = ENTRIES[key].text
    assert re.fullmatch(r"@(inproceedings|article|misc|techreport)\{[a-z0-9]+,\n(  \w+ *= \{.+\},\n)+\}\n", text)
    assert text.count("{") == text.count("}")
    assert text.isascii()
    fields = ENTRIES[key].fields
    assert re.fullmatch(r"(19|20)\d\d", fields["year"])
    assert re.fullmatch(r"\d{4}\.\d{5}", fields.get("eprint", "0000.00000"))


def test_arxiv_numbers_and_titles_are_nobody_else_s():
    numbers = [e.fields["eprint"] for e in ENTRIES.values() if "eprint" in e.fields]
    titles = [e.fields["title"] for e in ENTRIES.values()]
    assert len(set(numbers)) == len(numbers)
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("Lai et al., Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021", ("oort",)),
        ("Horvitz and Thompson, JASA 1952", ("horvitz",)),
        ("FedVARP: Jhunjhunwala et al.", ("fedvarp",)),
        ("anything, arXiv 2405.04171", ("fedstale",)),
        ("Yurochkin et al., arXiv 1905.12022; Li et al., arXiv 2102.02079", ("dirichlet", "niid")),
        ("Li et al. 2021", ()),  # two of them
        ("Somebody 1999", ()),
        ("", ()),
    ],
)
def test_references_in_words(text, keys):
    assert by_reference(text) == keys


def test_keys_come_once_and_in_order_and_must_exist():
    text = bibtex(["mifa", "cup", "mifa"])
    assert re.findall(r"@\w+\{(\w+)", text) == ["mifa", "cup"]
    with pytest.raises(ConfigError, match="unknown citation 'mifaa'; did you mean 'mifa'"):
        bibtex(["mifaa"])


SPEC = """\
version = 2
[population]
availability = "{availability}"
[data]
set = "digits"
[[methods]]
name = "cup_paper"
[[methods]]
name = "mine"
scheduler = "parity"
weighting = "qfair:q=2"
"""


def test_everything_a_spec_uses():
    keys = catalogue.cites_of_spec(parse(SPEC.format(availability="markov"), "test"))
    assert keys == ["cup", "fedavg", "qffl", "digits", "sklearn", "cafed"]


def test_a_flash_file_is_cited(tmp_path):
    path = tmp_path / "phones.json"
    path.write_text('{"0": {"messages": ""}}', encoding="utf-8")
    assert catalogue.cites_of_spec(parse(SPEC.format(availability=path), "test"))[-1] == "flash"
    assert "flash" not in catalogue.cites_of_spec(parse(SPEC.format(availability=tmp_path / "gone.csv"), "test"))


def test_a_plain_step_is_not_cited_for_momentum():
    assert list(catalogue._component_keys({"server": "sgd", "weighting": "krum"})) == ["krum"]
    assert list(catalogue._component_keys({"server": "sgd:momentum=.9"})) == ["fedavgm"]
    assert list(catalogue._component_keys({"local": "ditto", "future": "thing", "model": "resnet18"})) == [
        *("ditto", "resnet", "groupnorm")
    ]


# --- the commands


def test_cite_names_specs_and_keys(fedparity, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC.format(availability="markov"), encoding="utf-8")
    code, out, err = fedparity("cite", "spec.toml", "geometric_median", "oort")
    assert (code, err) == (0, "")
    keys = re.findall(r"^@\w+\{(\w+),", out, flags=re.MULTILINE)
    assert keys == ["cup", "fedavg", "qffl", "digits", "sklearn", "cafed", "geomedian", "oort"]
    code, out, _ = fedparity("cite", "spec.toml", "geometric_median", "oort", "--json")
    found = json.loads(out)
    assert found == {"keys": keys, "bibtex": citations.bibtex(keys)}


def test_cite_says_when_there_is_nothing_or_no_such_thing(fedparity, tmp_path):
    assert fedparity("cite", "with_quota") == (0, "", "with_quota: nothing to cite beyond fedparity itself\n")
    assert json.loads(fedparity("cite", "with_quota", "--json")[1]) == {"keys": [], "bibtex": ""}
    code, out, err = fedparity("cite", "qfairr")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "unknown table or name 'qfairr'; did you mean 'qfair'?" in err
    (tmp_path / "krum").mkdir()  # a folder that happens to be called like a rule
    assert fedparity("cite", "krum")[1].startswith("@inproceedings{krum,")
    for gone in ("gone.toml", "runs/gone"):
        code, out, err = fedparity("cite", gone)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "no such file" in err
    (tmp_path / "empty").mkdir()
    assert "no run here" in fedparity("cite", "empty")[2]


def test_list_methods_name_shows_every_part(fedparity):
    code, out, err = fedparity("list", "methods", "cup_paper")
    assert (code, err) == (0, "")
    assert "p_k(t) = alpha / (pi_k + eps)" in out  # the scheduler's equation
    assert "eta_k(t) = eta0 exp(-lam delta_k)" in out  # the surrogate's
    assert "missed = offline" in out  # as the method sets it
    assert "Cite: cup, fedavg (fedparity cite cup_paper)" in out
    assert out == fedparity("list", "cup_paper")[1]
    entry = json.loads(fedparity("list", "methods", "cup_paper", "--json")[1])
    assert {"name", "summary", "parameters", "reference"} <= set(entry)
    assert (entry["table"], entry["cites"]) == ("methods", ["cup", "fedavg"])
    assert entry["parameters"]["scheduler"] == "reactive:missed=offline,draw=top,lam=.7"


def test_list_finds_one_of_two_by_its_table(fedparity):
    assert json.loads(fedparity("list", "estimators", "beta", "--json")[1])["table"] == "estimators"


@pytest.mark.parametrize("name", [entry["name"] for entry in catalogue.tables()["methods"]])
def test_every_method_can_be_shown(name):
    entry = catalogue.find(name, "methods")[0]
    for part in catalogue.parts_of(entry):
        assert catalogue.text_of(part), part["name"]
    assert set(catalogue.cites_of(entry)) <= set(ENTRIES)
