"""What to cite for what a run used, as BibTeX.

Entries hold only what we are sure of: pages and numbers are left out where they were not at hand. `CITES` ties
components to keys by table and name; names that do not exist (yet) are skipped. A component that is not listed is tied
by its `reference`: an arXiv number, the title's beginning, a name before a colon, or surname and year if that is one
entry's alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fedparity.core.errors import unknown


@dataclass(frozen=True, slots=True)
class Entry:
    """One BibTeX entry; `fields` are written as they stand, in this order."""

    kind: str
    fields: dict[str, str]

    def bibtex(self, key: str) -> str:
        """The entry as text."""
        lines = [f"  {name:<13} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.kind}{{{key},", *lines, "}"]) + "\n"


def _meeting(author: str, title: str, where: str, year: int, arxiv: str | None = None, **more: str) -> Entry:
    fields = {"author": author, "title": title, "booktitle": where, "year": str(year), **more}
    return Entry("inproceedings", fields | _arxiv(arxiv))


def _journal(author: str, title: str, where: str, year: int, arxiv: str | None = None, **more: str) -> Entry:
    fields = {"author": author, "title": title, "journal": where, "year": str(year), **more}
    return Entry("article", fields | _arxiv(arxiv))


def _other(author: str, title: str, year: int, arxiv: str | None = None, kind: str = "misc", **more: str) -> Entry:
    return Entry(kind, {"author": author, "title": title, "year": str(year), **more} | _arxiv(arxiv))


def _arxiv(number: str | None) -> dict[str, str]:
    return {} if number is None else {"eprint": number, "archiveprefix": "arXiv"}


AISTATS = "International Conference on Artificial Intelligence and Statistics (AISTATS)"
ICLR = "International Conference on Learning Representations (ICLR)"
ICML = "International Conference on Machine Learning (ICML)"
NEURIPS = "Advances in Neural Information Processing Systems (NeurIPS)"

ENTRIES: dict[str, Entry] = {
    "fedavg": _meeting(
        'McMahan, H. Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and Ag{\\"u}era y Arcas, Blaise',
        "Communication-Efficient Learning of Deep Networks from Decentralized Data",
        AISTATS,
        2017,
        "1602.05629",
    ),
    "qffl": _meeting(
        "Li, Tian and Sanjabi, Maziar and Beirami, Ahmad and Smith, Virginia",
        "Fair Resource Allocation in Federated Learning",
        ICLR,
        2020,
        "1905.10497",
    ),
    "afl": _meeting(
        "Mohri, Mehryar and Sivek, Gary and Suresh, Ananda Theertha",
        "Agnostic Federated Learning",
        ICML,
        2019,
        "1902.00146",
    ),
    "fedfv": _meeting(
        "Wang, Zheng and Fan, Xiaoliang and Qi, Jianzhong and Wen, Chenglu and Wang, Cheng and Yu, Rongshan",
        "Federated Learning with Fair Averaging",
        "International Joint Conference on Artificial Intelligence (IJCAI)",
        2021,
        "2104.14937",
        pages="1615--1623",
    ),
    "corefed": _meeting(
        "Ray Chaudhury, Bhaskar and Li, Linyi and Kang, Mintong and Li, Bo and Mehta, Ruta",
        "Fairness in Federated Learning via Core-Stability",
        NEURIPS,
        2022,
        "2211.02091",
    ),
    "fairfedcs": _meeting(
        "Shi, Yuxin and Liu, Zelei and Shi, Zhuan and Yu, Han",
        "Fairness-Aware Client Selection for Federated Learning",
        "IEEE International Conference on Multimedia and Expo (ICME)",
        2023,
        "2307.10738",
    ),
    "fedprox": _meeting(
        "Li, Tian and Sahu, Anit Kumar and Zaheer, Manzil and Sanjabi, Maziar and Talwalkar, Ameet and Smith, Virginia",
        "Federated Optimization in Heterogeneous Networks",
        "Proceedings of Machine Learning and Systems (MLSys)",
        2020,
        "1812.06127",
    ),
    "ditto": _meeting(
        "Li, Tian and Hu, Shengyuan and Beirami, Ahmad and Smith, Virginia",
        "Ditto: Fair and Robust Federated Learning Through Personalization",
        ICML,
        2021,
        "2012.04221",
    ),
    "term": _meeting(
        "Li, Tian and Beirami, Ahmad and Sanjabi, Maziar and Smith, Virginia",
        "Tilted Empirical Risk Minimization",
        ICLR,
        2021,
        "2007.01162",
    ),
    "mifa": _meeting(
        "Gu, Xinran and Huang, Kaixuan and Zhang, Jingzhao and Huang, Longbo",
        "Fast Federated Learning in the Presence of Arbitrary Device Unavailability",
        NEURIPS,
        2021,
        "2106.04159",
    ),
    "fedlaavg": _journal(
        "Yan, Yikai and others",
        "Federated Optimization under Intermittent Client Availability",
        "INFORMS Journal on Computing",
        2023,
        "2002.07399",
    ),
    "fedvarp": _meeting(
        "Jhunjhunwala, Divyansh and Sharma, Pranay and Nagarkatti, Aushim and Joshi, Gauri",
        "{FedVARP}: Tackling the Variance Due to Partial Client Participation in Federated Learning",
        "Conference on Uncertainty in Artificial Intelligence (UAI)",
        2022,
        "2207.14130",
    ),
    "fedstale": _other(
        "Rodio, Angelo and Neglia, Giovanni",
        "{FedStale}: Leveraging Stale Client Updates in Federated Learning",
        2024,
        "2405.04171",
    ),
    "fedau": _meeting(
        "Wang, Shiqiang and Ji, Mingyue",
        "A Lightweight Method for Tackling Unknown Participation Statistics in Federated Averaging",
        ICLR,
        2024,
        "2306.03401",
    ),
    "f3ast": _journal(
        "Ribero, M{\\'o}nica and Vikalo, Haris and de Veciana, Gustavo",
        "Federated Learning Under Intermittent Client Availability and Time-Varying Communication Constraints",
        "IEEE Journal of Selected Topics in Signal Processing",
        2023,
        "2205.06730",
    ),
    "fedawe": _meeting(
        "Xiang, Ming and Ioannidis, Stratis and Yeh, Edmund and Joe-Wong, Carlee and Su, Lili",
        "Efficient Federated Learning against Heterogeneous and Non-stationary Client Unavailability",
        NEURIPS,
        2024,
        "2409.17446",
    ),
    "cafed": _meeting(
        "Rodio, Angelo and Faticanti, Francescomaria and Marfoq, Othmane and Neglia, Giovanni and Leonardi, Emilio",
        "Federated Learning under Heterogeneous and Correlated Client Availability",
        "IEEE International Conference on Computer Communications (INFOCOM)",
        2023,
        "2301.04632",
    ),
    "oort": _meeting(
        "Lai, Fan and Zhu, Xiangfeng and Madhyastha, Harsha V. and Chowdhury, Mosharaf",
        "Oort: Efficient Federated Learning via Guided Participant Selection",
        "USENIX Symposium on Operating Systems Design and Implementation (OSDI)",
        2021,
        "2010.06081",
    ),
    "poc": _meeting(
        "Cho, Yae Jee and Wang, Jianyu and Joshi, Gauri",
        "Towards Understanding Biased Client Selection in Federated Learning",
        AISTATS,
        2022,
        "2010.01243",
    ),
    "refl": _meeting(
        "Abdelmoniem, Ahmed M. and Sahu, Atal Narayan and Canini, Marco and Fahmy, Suhaib A.",
        "{REFL}: Resource-Efficient Federated Learning",
        "European Conference on Computer Systems (EuroSys)",
        2023,
    ),
    "fedgs": _meeting(
        "Wang, Zheng and Fan, Xiaoliang and others",
        "{FedGS}: Federated Graph-Based Sampling with Arbitrary Client Availability",
        "AAAI Conference on Artificial Intelligence",
        2023,
        "2211.13975",
    ),
    "phpfl": _meeting(
        "Wu and others",
        "A Fair Federated Learning Method for Handling Client Participation Probability Inconsistencies in"
        " Heterogeneous Environments",
        NEURIPS,
        2025,
        url="https://openreview.net/forum?id=pJWozQn9p4",
    ),
    "cup": _other(
        "Behfar, Stefan and Mortier, Richard",
        "Cumulative Utility Parity for Fair Federated Learning under Intermittent Client Participation",
        2026,
        "2602.13651",
    ),
    "fedopt": _meeting(
        "Reddi, Sashank J. and Charles, Zachary and Zaheer, Manzil and Garrett, Zachary and Rush, Keith and"
        " Kone{\\v{c}}n{\\'y}, Jakub and Kumar, Sanjiv and McMahan, H. Brendan",
        "Adaptive Federated Optimization",
        ICLR,
        2021,
        "2003.00295",
    ),
    "fedavgm": _other(
        "Hsu, Tzu-Ming Harry and Qi, Hang and Brown, Matthew",
        "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification",
        2019,
        "1909.06335",
    ),
    "horvitz": _journal(
        "Horvitz, Daniel G. and Thompson, Donovan J.",
        "A Generalization of Sampling Without Replacement From a Finite Universe",
        "Journal of the American Statistical Association",
        1952,
        volume="47",
        number="260",
        pages="663--685",
    ),
    "geomedian": _journal(
        "Pillutla, Krishna and Kakade, Sham M. and Harchaoui, Zaid",
        "Robust Aggregation for Federated Learning",
        "IEEE Transactions on Signal Processing",
        2022,
        "1912.13445",
    ),
    "krum": _meeting(
        "Blanchard, Peva and El Mhamdi, El Mahdi and Guerraoui, Rachid and Stainer, Julien",
        "Machine Learning with Adversaries: {Byzantine} Tolerant Gradient Descent",
        NEURIPS,
        2017,
    ),
    "ffa": _other(
        "Dilley, Oscar and Parra-Ullauri, Juan Marcelo and Hussain, Rasheed and Simeonidou, Dimitra",
        "Federated Fairness Analytics: Quantifying Fairness in Federated Learning",
        2024,
        "2408.08214",
    ),
    "flash": _meeting(
        "Yang, Chengxu and Wang, Qipeng and Xu, Mengwei and Chen, Zhenpeng and Bian, Kaigui and Liu, Yunxin and"
        " Liu, Xuanzhe",
        "Characterizing Impacts of Heterogeneity in Federated Learning upon Large-Scale Smartphone Data",
        "The Web Conference (WWW)",
        2021,
        "2006.06983",
    ),
    "fedscale": _meeting(
        "Lai, Fan and others",
        "{FedScale}: Benchmarking Model and System Performance of Federated Learning at Scale",
        ICML,
        2022,
    ),
    "cifar10": _other(
        "Krizhevsky, Alex",
        "Learning Multiple Layers of Features from Tiny Images",
        2009,
        kind="techreport",
        institution="University of Toronto",
    ),
    "mnist": _journal(
        "LeCun, Yann and Bottou, L{\\'e}on and Bengio, Yoshua and Haffner, Patrick",
        "Gradient-Based Learning Applied to Document Recognition",
        "Proceedings of the IEEE",
        1998,
        volume="86",
        number="11",
        pages="2278--2324",
    ),
    "digits": _other(
        "Alpaydin, Ethem and Kaynak, Cenk",
        "Optical Recognition of Handwritten Digits",
        1998,
        howpublished="UCI Machine Learning Repository",
    ),
    "sklearn": _journal(
        "Pedregosa, Fabian and others",
        "Scikit-learn: Machine Learning in {Python}",
        "Journal of Machine Learning Research",
        2011,
        volume="12",
        pages="2825--2830",
    ),
    "efficientnet": _meeting(
        "Tan, Mingxing and Le, Quoc V.",
        "{EfficientNet}: Rethinking Model Scaling for Convolutional Neural Networks",
        ICML,
        2019,
        "1905.11946",
    ),
    "efficientnetlite": _other(
        "Liu, Renjie",
        "Higher Accuracy on Vision Models with {EfficientNet-Lite}",
        2020,
        howpublished="TensorFlow Blog",
    ),
    "resnet": _meeting(
        "He, Kaiming and Zhang, Xiangyu and Ren, Shaoqing and Sun, Jian",
        "Deep Residual Learning for Image Recognition",
        "IEEE Conference on Computer Vision and Pattern Recognition (CVPR)",
        2016,
        "1512.03385",
    ),
    "groupnorm": _meeting(
        "Wu, Yuxin and He, Kaiming",
        "Group Normalization",
        "European Conference on Computer Vision (ECCV)",
        2018,
        "1803.08494",
    ),
    "dirichlet": _meeting(
        "Yurochkin, Mikhail and Agarwal, Mayank and Ghosh, Soumya and Greenewald, Kristjan and Hoang, Nghia and"
        " Khazaeni, Yasaman",
        "Bayesian Nonparametric Federated Learning of Neural Networks",
        ICML,
        2019,
        "1905.12022",
    ),
    "niid": _meeting(
        "Li, Qinbin and Diao, Yiqun and Chen, Quan and He, Bingsheng",
        "Federated Learning on Non-{IID} Data Silos: An Experimental Study",
        "IEEE International Conference on Data Engineering (ICDE)",
        2022,
        "2102.02079",
    ),
}

CITES: dict[str, dict[str, tuple[str, ...]]] = {
    "schedulers": {
        "uniform": ("fedavg",),
        "population": ("fedavg",),
        "inverse": ("cup",),
        "reactive": ("cup",),
        "least_served": ("fedgs",),
        "oort": ("oort",),
        "power_of_choice": ("poc",),
        "f3ast": ("f3ast",),
        "fairfedcs": ("fairfedcs",),
        "fedgs": ("fedgs",),
        "refl": ("refl",),
        "ca_fed": ("cafed",),
        "oldest_first": ("fedlaavg",),
        "fedlaavg": ("fedlaavg",),
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
        "fair_vector": ("fedfv",),
        "core": ("corefed",),
        "tilted": ("term",),
        "ipw": ("horvitz",),
        "fedau": ("fedau",),
        "geometric_median": ("geomedian",),
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
    "metrics": dict.fromkeys(
        ("individual_fairness", "group_fairness", "incentive_fairness", "orchestrator_fairness", "general_fairness"),
        ("ffa",),
    ),
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
        parts.append(ENTRIES[key].bibtex(key))
    return "\n".join(parts)
