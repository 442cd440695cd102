"""What to cite for what a run used, as BibTeX.

Entries hold only what we are sure of: pages and numbers are left out where they were not at hand. `CITES` ties
components to keys by table and name. A component that is not listed is tied
by its `reference`: an arXiv number, the title's beginning, a name before a colon, or surname and year if that is one
entry's alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

from fedparity.core.errors import unknown


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of references.bib; `fields` in their order, `text` as it stands there."""

    fields: dict[str, str]
    text: str


def _read() -> dict[str, Entry]:
    text = (resources.files("fedparity.report") / "references.bib").read_text(encoding="utf-8")
    found = re.finditer(r"@\w+\{(\w+),\n.*?^\}\n", text, flags=re.MULTILINE | re.DOTALL)
    field = re.compile(r"^  (\w+) += \{(.*)\},$", flags=re.MULTILINE)
    return {entry[1]: Entry(dict(field.findall(entry[0])), entry[0]) for entry in found}


ENTRIES: dict[str, Entry] = _read()

CITES: dict[str, dict[str, tuple[str, ...]]] = {
    "schedulers": {
        "uniform": ("fedavg",),
        "population": ("fedavg",),
        "inverse": ("cup",),
        "reactive": ("cup",),
        "cup_authors": ("cup",),
        "cup_later": ("cup",),
        "least_served": ("fedgs",),
        "oort": ("oort",),
        "power_of_choice": ("poc",),
        "f3ast": ("f3ast",),
        "fairfedcs": ("fairfedcs",),
        "fedgs": ("fedgs",),
        "refl": ("refl",),
        "oldest_first": ("fedlaavg",),
    },
    "availability": {
        "phones": ("flash",),
        "paper_like": ("cup",),
        "lognormal": ("f3ast",),
        "diurnal": ("f3ast",),
        "label_skewed": ("mifa",),
        "markov": ("cafed",),
        "staircase": ("fedawe",),
        "cyclic": ("fedau",),
    },
    "weightings": {
        "mean": ("fedavg",),
        "by_size": ("fedavg",),
        "all": ("fedavg",),
        "qfair": ("qffl",),
        "agnostic": ("afl",),
        "aaggff": ("aaggff",),
        "fair_vector": ("fedfv",),
        "core": ("corefed",),
        "tilted": ("term",),
        "ipw": ("horvitz",),
        "fedau": ("fedau",),
        "geometric_median": ("geomedian",),
        "rfa": ("geomedian",),
        "krum": ("krum",),
    },
    "surrogates": {
        "utility": ("cup",),
    },
    "memories": {"last_updates": ("mifa",), "decayed": ("cup",), "prototype": ("cup",)},
    "locals": {
        "prox": ("fedprox",),
        "ditto": ("ditto",),
        "received": ("fedawe",),
        "difference": ("fedlaavg",),
        "php_fl": ("phpfl",),
    },
    "servers": {"sgd": ("fedavgm",), "adam": ("fedopt",), "yogi": ("fedopt",)},
    "partitions": {"shards": ("fedavg",), "dirichlet": ("dirichlet", "niid")},
    "datasets": {"cifar10": ("cifar10",), "mnist": ("mnist",), "digits": ("digits", "sklearn")},
    "models": {
        "resnet18": ("resnet", "groupnorm"),
        "resnet34": ("resnet", "groupnorm"),
        "efficientnet_lite0": ("efficientnet", "efficientnetlite"),
    },
    "extractors": {"efficientnet_lite0": ("efficientnet", "efficientnetlite")},
    "traces": {"flash": ("flash",), "fedscale": ("fedscale",)},
    "methods": {
        "uniform": ("fedavg",),
        "inverse": ("cup",),
        "cup_paper": ("cup",),
        "cup_authors": ("cup",),
        "least_served": ("fedgs",),
    },
}
"""Table, name, keys."""


def keys_of(table: str, name: str, reference: str | None = None) -> tuple[str, ...]:
    """The keys of a component; without an entry in `CITES`, those that its reference speaks of."""
    listed = CITES.get(table, {}).get(name)
    return listed if listed is not None else by_reference(reference or "")


def by_reference(text: str) -> tuple[str, ...]:
    """The keys of the entries that a reference in words speaks of, none if it cannot be told."""
    return tuple(dict.fromkeys(key for part in text.split(";") for key in _one_reference(part)))


def _one_reference(text: str) -> list[str]:
    said = _plain(text)
    numbers = [key for key, e in ENTRIES.items() if "eprint" in e.fields and e.fields["eprint"] in text]
    titles = [key for key, e in ENTRIES.items() if _plain(e.fields["title"])[:30] in said]
    named = [key for key in ENTRIES if said.startswith(f"{key} ") and ":" in text]
    surnames = [key for key, e in ENTRIES.items() if _plain(_surname(e)) in said and e.fields["year"] in said]
    return numbers or titles or named or (surnames if len(surnames) == 1 else [])


def _surname(entry: Entry) -> str:
    return entry.fields["author"].partition(",")[0].partition(" and ")[0]


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^a-z0-9]+", " ", text.lower().replace("{", "").replace("}", "")).split())


def bibtex(keys: Iterable[str]) -> str:
    """The entries of these keys, each once, in the order given."""
    parts = []
    for key in dict.fromkeys(keys):
        if key not in ENTRIES:
            raise unknown("citation", key, ENTRIES)
        parts.append(ENTRIES[key].text)
    return "\n".join(parts)
