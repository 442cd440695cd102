"""Methods by name: combinations of components with their published defaults (docs/methods.md says what we changed).

Each is a comparison at equal rounds, cohort and local training. Methods that assume everybody every round (AFL), a
cohort of all that are online (MIFA, FedAWE, CA-Fed) or a server learning rate of their own are run with the cohort that
the others have, unless the spec says so: set `cohort` to the number of clients for the papers' own setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fedparity.core.errors import ConfigError, unknown
from fedparity.core.gate import Gate
from fedparity.core.protocols import CUP

FEDAVG = "McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017"


@dataclass(frozen=True, slots=True)
class Method:
    """What a named method is made of, each component written `NAME[:key=value,...]`."""

    summary: str
    scheduler: str
    weighting: str = "mean"
    memory: str = "none"
    surrogate: str = "none"
    local: str = "plain"
    server: str = "sgd"
    estimator: str | None = None
    """None: what the scheduler asks for; `oracle`: the true availability, in hindsight."""
    schedule: str | None = None
    """What the local rate is multiplied by, round by round; None: the run's own schedule."""
    reference: str | None = None
    gate: Gate = field(default_factory=Gate)
    """Bounds on what one client can do to a step; as published, none."""


def _cup(summary: str, scheduler: str) -> Method:
    """The paper's three parts together: who is asked, what is credited to the absent, what they add to the step.

    Regular turns make every remembered update about as old as the next: a plain mean of them (MIFA) is then a gradient
    with a fixed delay, which swings at rates that random turns bear. FedVARP counts what is fresh in full and corrects
    it by the memory; it is unbiased where everybody is asked alike, which is what the schedule sees to.
    """
    return Method(summary, scheduler, "fedvarp:at=now", "last_updates:own=keep", "utility", reference=CUP)


_OURS = {
    "parity": Method("Closed loop towards equal shares, looking ahead (the default).", "parity"),
    "parity_opportunity": Method("Parity, towards equal selections per round online.", "parity:target=opportunity"),
    "parity_utility": Method("Parity, towards equal utility per round online.", "parity:target=utility"),
    "deployment": Method(
        "Parity as deployed: a quota, a bound per round, updates cut to the usual length, weights of at most 1/m.",
        "parity_deployment",
        "clipped_past:quantile=.25",
        gate=Gate(max_weight=1, most_samples=3),
    ),
    "cup": _cup(
        "The whole system: parity's schedule, utility credited to the absent, their last updates in the step.", "parity"
    ),
    "cup_opportunity": _cup("The same, towards equal selections per round online.", "parity:target=opportunity"),
    "cup_utility": _cup("The same, towards equal utility per round online.", "parity:target=utility"),
    "cup_light": Method(
        "The same without stored updates: parity's schedule, utility credit, server momentum.",
        "parity:horizon=0",  # what momentum remembers is recent: turns must be even on the way, not only in the end
        surrogate="utility",
        server="sgd:rate=.05,momentum=.97",  # 33 rounds: more than a turn of everybody takes where 5 of 100 are asked
        reference=CUP,
    ),
    "parity_surrogate": Method("Parity, with utility surrogates for the absent.", "parity", surrogate="utility"),
    "parity_memory": Method(
        "Parity, with decayed last updates of the absent in the model's step (Lemma 3).",
        "parity",
        "decayed_mean",
        "decayed",
        reference=CUP,
    ),
    "parity_prototype": Method(
        "Parity, with steps of the last layer on the class means of the absent.",
        "parity",
        "decayed_mean:by=size",
        "prototype",
        reference=CUP,
    ),
    "parity_compensated": Method(
        "Parity, where updates of clients that are behind in utility count more.", "parity", "utility_compensated"
    ),
}
_PAPER = {
    "uniform": Method("FedAvg among the available (the paper's vanilla branch).", "uniform", reference=FEDAVG),
    "inverse": Method("Chance proportional to 1/availability (Lemma 2).", "inverse", reference=CUP),
    "inverse_oracle": Method(
        "The same with each client's true availability, in hindsight.", "inverse", estimator="oracle", reference=CUP
    ),
    "oracle": Method("The least unequal counts that any schedule could have given, in hindsight.", "fixed"),
    "cup_paper": Method(
        "The paper as printed: top-K of 1/availability x rounds offline, utility surrogates.",
        "reactive:missed=offline,draw=top,lam=.7",
        surrogate="utility",
        reference=CUP,
    ),
    "cup_authors": Method(
        "The authors' first public code: top-K of 1/availability x rounds since selected, models mixed by half.",
        "cup_authors",
        local="mixed:a=.5",
        reference=CUP,
    ),
    "cup_later": Method(
        "The authors' later code: inverse availability x debt, drawn by the pivotal method, 1/(N incl pi) weights.",
        "cup_later",
        "ipw:form=ht,p=plan,a=0,b=0,clip=none,most=100",
        surrogate="utility:lam=.1",
        estimator="mean:a=0,b=0",
        reference=CUP,
    ),
    "deficit": Method("The largest debt of rounds first (the authors' later list).", "deficit", reference=CUP),
    "availability_adjusted": Method(
        "Each client's loss divided by its availability, as an objective.",
        "uniform",
        "availability_adjusted",
        reference=CUP,
    ),
    "fedavg": Method(
        "Federated averaging by size, uniform among the available.", "uniform", "by_size", reference=FEDAVG
    ),
    "fedavg_all": Method(
        "Federated averaging over all N: those that are absent count as no change.", "uniform", "all", reference=FEDAVG
    ),
    "fedavg_population": Method(
        "Clients drawn from the whole population, there or not.", "population", "by_size", reference=FEDAVG
    ),
    "fedprox": Method(
        "FedAvg with a pull towards the model received.",
        "uniform",
        "by_size",
        local="prox:mu=.01",
        reference="Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020",
    ),
    "qffl": Method(
        "q-FedAvg, q = 1: clients that lose more count more.",
        "uniform",
        "qfair:q=1",
        reference="Li et al., Fair Resource Allocation in Federated Learning, ICLR 2020",
    ),
    "afl": Method(
        "Agnostic federated learning: weights that chase the worst mixture of clients.",
        "uniform",
        "agnostic",
        reference="Mohri et al., Agnostic Federated Learning, ICML 2019",
    ),
    "fedfv": Method(
        "Conflicting updates are projected before they are averaged; alpha = .1, tau = 1.",
        "uniform",
        "fair_vector:alpha=.1,tau=1",
        "last_updates:own=replace,max_age=1",
        reference="Wang et al., Federated Learning with Fair Averaging, IJCAI 2021",
    ),
    "corefed": Method(
        "Core-stable averaging: updates over the utility that is left.",
        "uniform",
        "core",
        reference="Ray Chaudhury et al., Fairness in Federated Learning via Core-Stability, NeurIPS 2022",
    ),
    "fairfedcs": Method(
        "Reputation plus a queue of unserved rounds, largest first.",
        "fairfedcs",
        "by_size",
        reference="Shi et al., Fairness-Aware Client Selection for Federated Learning, ICME 2023",
    ),
    "ipw_fedavg": Method(
        "Updates over the chance to take part (how the paper describes PHP-FL).",
        "uniform",
        "ipw",
        reference="Horvitz and Thompson, JASA 1952",
    ),
    "php_fl": Method(
        "An approximation of PHP-FL: local and auxiliary models, aligned and ensembled; not verified.",
        "uniform",
        "by_size",
        local="php_fl",
        reference="Wu et al., A Fair Federated Learning Method for ... Participation, NeurIPS 2025",
    ),
    "ditto": Method(
        "FedAvg, and a personal model beside it for every client.",
        "uniform",
        "by_size",
        local="ditto:lam=1,start=first",
        reference="Li et al., Ditto: Fair and Robust Federated Learning, ICML 2021",
    ),
}
_FIELD = {
    "round_robin": Method("The next available clients in order of their number, going round.", "round_robin"),
    "least_served": Method(
        "The fewest selections first, the rarer first among equals.",
        "least_served",
        reference="Wang et al., FedGS: Federated Graph-Based Sampling, AAAI 2023 (alpha = 0)",
    ),
    "mifa": Method(
        "The last update of every client, averaged over all N.",
        "uniform",
        "memory_mean:over=all",
        "last_updates:own=replace",
        reference="Gu et al., Fast Federated Learning in the Presence of Arbitrary Device Unavailability, NeurIPS 2021",
    ),
    "mifa_seen": Method(
        "The last update of every client, averaged over those seen.",
        "uniform",
        "memory_mean:over=seen",
        "last_updates:own=replace",
        reference="Gu et al., Fast Federated Learning in the Presence of Arbitrary Device Unavailability, NeurIPS 2021",
    ),
    "fedlaavg": Method(
        "The oldest first; latest updates averaged over all N through client-side differences.",
        "oldest_first",
        "fedlaavg",
        "running_sum",
        local="difference",
        reference="Yan et al., Federated Optimization under Intermittent Client Availability",
    ),
    "fedvarp": Method(
        "Last updates as control variates.",
        "uniform",
        "fedvarp",
        "last_updates:own=keep",
        reference="Jhunjhunwala et al., FedVARP, UAI 2022",
    ),
    "fedstale": Method(
        "Between inverse probabilities and FedVARP, beta = .5.",
        "uniform",
        "fedstale:beta=.5",
        "last_updates:own=keep",
        reference="Rodio and Neglia, FedStale, arXiv 2405.04171",
    ),
    "fedau": Method(
        "An update counts the mean interval between its client's participations.",
        "uniform",
        "fedau",
        reference="Wang and Ji, A Lightweight Method for Tackling Unknown Participation Statistics, ICLR 2024",
    ),
    "f3ast": Method(
        "Those whose learned rate lags their weight most, weighted by p/r.",
        "f3ast:beta=.01",
        "f3ast:beta=.01",
        reference="Ribero, Vikalo and de Veciana, IEEE JSTSP 2023",
    ),
    "fedawe": Method(
        "Clients go on from the model they last received; their step counts the rounds they missed.",
        "uniform",
        "fedawe:clip=.5",
        "echo",
        local="received",
        schedule="sqrt:every=10",
        reference="Xiang et al., Efficient Federated Learning against Heterogeneous Client Unavailability, 2024",
    ),
    "cafed": Method(
        "1/availability weights, without clients whose correlation or rarity costs more than it gives.",
        "uniform",
        "cafed",
        reference="Rodio et al., Federated Learning under ... Correlated Client Availability, INFOCOM 2023",
    ),
    "oort": Method(
        "The statistically most useful first, some explored (the paper's settings).",
        "oort",
        "by_size",
        reference="Lai et al., Oort, OSDI 2021",
    ),
    "poc": Method(
        "Of d candidates those that lose most (Power-of-Choice).",
        "power_of_choice",
        reference="Cho, Wang and Joshi, AISTATS 2022",
    ),
    "refl": Method(
        "The least available in the coming rounds first.",
        "refl",
        "by_size",
        reference="Abdelmoniem et al., REFL, EuroSys 2023",
    ),
    "fedgs": Method(
        "Even counts and diverse data, by a graph of label similarity.",
        "fedgs:alpha=.1",
        "by_size",
        reference="Wang et al., FedGS: Federated Graph-Based Sampling, AAAI 2023",
    ),
    "aaggff": Method(
        "Mixture weights from all losses seen so far, by online optimisation.",
        "uniform",
        "aaggff",
        reference="Hahn et al., Pursuing Overall Welfare in Federated Learning, ICML 2024",
    ),
    "term": Method(
        "Tilted losses: weights grow exponentially with the loss, t = .1.",
        "uniform",
        "tilted:t=.1",
        reference="Li et al., Tilted Empirical Risk Minimization, ICLR 2021",
    ),
}
METHODS: dict[str, Method] = _OURS | _PAPER | _FIELD


def method(name: str) -> Method:
    """The method of that name, or an error with the nearest one."""
    if name not in METHODS:
        raise unknown_method(name, METHODS)
    return METHODS[name]


def unknown_method(name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that no method has; settings behind one are a component's."""
    if ":" in name:
        fix = 'its parts have: in a spec, {name = "mine", scheduler = "parity:target=.5"}'
        return ConfigError(f"method {name!r}: a method has no settings, {fix}")
    return unknown("method", name, known)
