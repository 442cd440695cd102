"""The spec: what is read, what is refused and how, and that the documentation is the models."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedparity.core.errors import ConfigError, FedparityError, InputError
from fedparity.experiment.methods import METHODS
from fedparity.experiment.spec import MethodSpec, Spec
from fedparity.experiment.spec_file import load, parse, starter, to_toml
from fedparity.experiment.spec_parts import DataSpec, ExecutionSpec, ModelSpec, Population, TrainingSpec
from fedparity.experiment.starters import read_starter

FORMATS = Path(__file__).parents[2] / "docs" / "formats.md"
METHOD = '[[methods]]\nname = "parity"\n'
SMALL = f"version = 2\n{METHOD}"


SECTIONS = {
    "population": Population,
    "data": DataSpec,
    "model": ModelSpec,
    "training": TrainingSpec,
    "execution": ExecutionSpec,
    "methods": MethodSpec,
}


def keys():
    """Every key of a spec as a user writes it, with its field."""
    for name, field in Spec.model_fields.items():
        inner = SECTIONS.get(name)
        if inner is None:
            yield name, field
        else:
            yield from ((f"{name}.{key}", value) for key, value in inner.model_fields.items())


KEYS = dict(keys())


# --- what is read


def test_the_least_spec_is_all_defaults():
    spec = parse(SMALL, "f.toml")
    assert (spec.rounds, spec.cohort, spec.seeds, spec.execution.workers) == (100, 5, 1, None)
    for name in [*SECTIONS][:-1]:
        assert getattr(spec, name) == SECTIONS[name]()
    assert [m.name for m in spec.methods] == ["parity"]


def test_the_starter_parses_and_holds_only_defaults():
    spec = parse(starter(), "starter")
    assert spec == Spec(name="first", methods=(MethodSpec(name="uniform"), MethodSpec(name="parity")))


def test_the_starter_shows_every_key_with_its_meaning():
    text, section, shown = starter(), "", {}
    for line in text.splitlines():
        plain = line.removeprefix("# ")
        if header := re.fullmatch(r"\[+(\w+)\]+", plain):
            section = header[1] + "."
        elif entry := re.match(r"(\w+) = (\"[^\"]*\"|\S+)(?:\s+# (.+))?$", plain):
            shown.setdefault(section + entry[1], []).append((entry[2], entry[3]))
    assert set(shown) == set(KEYS)
    for key, field in KEYS.items():
        if not key.startswith("methods."):
            assert shown[key][0][1] == field.description, key
        elif key != "methods.name":
            assert shown[key][-1][1], key


def test_the_starter_s_own_combination_works_when_the_comments_are_taken_off():
    head, _, own = starter().partition("# A custom combination")
    own = "\n".join(line.removeprefix("# ") for line in own.splitlines()[1:])
    spec = parse(head + own, "starter")
    assert spec.methods[-1] == MethodSpec(
        name="halfway",
        scheduler="parity:target=0.5",
        weighting="mean",
        memory="none",
        surrogate="none",
        estimator="forecast",
        local="prox:mu=0.01",
        server="sgd",
        rate=0.1,
        schedule="constant",
    )


def test_the_demo_has_the_whole_system_its_parts_and_what_it_is_compared_with():
    spec = parse(read_starter("demo"), "demo")
    ours = {"parity", "parity_opportunity", "parity_utility", "cup", "cup_light"}
    assert {m.name for m in spec.methods} == ours | {"uniform", "cup_paper", "least_served", "mifa"}
    assert (spec.name, spec.population.availability, spec.data.set) == ("demo", "label_skewed:p_min=.02", "digits")


def test_load_reads_a_file(tmp_path):
    path = tmp_path / "ünï.toml"
    path.write_text(f"# für alle\n{SMALL}", encoding="utf-8")
    assert load(path) == parse(SMALL, "f.toml")
    path.write_bytes(SMALL.replace("\n", "\r\n").encode())
    assert load(path, ["rounds=7"]).rounds == 7


# --- round trips

names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}\Z")
paths = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(lambda text: f"./{text}")
NESTED = {
    "name": "with_quota",
    "inner": {"name": "with_floor", "inner": {"name": "parity", "target": 0.5}},
    "quota": 1.3,
}
components = {
    "scheduler": [
        "parity",
        "uniform",
        "inverse",
        "parity:target=.5",
        "reactive:missed=offline,draw=top,lam=.7",
        NESTED,
    ],
    "weighting": ["mean", "by_size", "all"],
    "surrogate": ["none", "utility", "utility:g=level"],
    "estimator": ["mean", "forecast", "beta:quantile=.25"],
    "local": ["plain", "prox:mu=.5", "mixed:a=.25"],
}
contenders = st.builds(
    MethodSpec,
    name=st.sampled_from(list(METHODS)),
    **{key: st.none() | st.sampled_from(values) for key, values in components.items()},
) | st.builds(
    MethodSpec,
    name=names,
    **{key: st.sampled_from(values) for key, values in components.items()},
)


training = {
    "epochs": st.integers(1, 1000),
    "batch": st.integers(1, 4096),
    "rate": st.floats(0, 10, exclude_min=True),
    "schedule": st.sampled_from(["constant", "cosine:every=10,floor=.1", {"name": "cosine", "every": 10}]),
}
of_torch = {
    "steps": st.none() | st.integers(1, 9),
    "optimiser": st.sampled_from(["sgd", "adam"]),
    "momentum": st.floats(0, 0.9),
    "clip": st.none() | st.floats(0.1, 9),
}
workers = st.none() | st.integers(1, 256)
tasks = st.fixed_dictionaries(
    {
        "data": st.builds(DataSpec, set=st.sampled_from(["quadratic", "logistic"])),
        "training": st.builds(TrainingSpec, **training),
        "execution": st.builds(ExecutionSpec, workers=workers),
    }
) | st.fixed_dictionaries(
    {
        "data": st.builds(
            DataSpec,
            set=st.sampled_from(["digits", "cifar10", "mnist", "own/images.npz", "own/table.csv", "own"]),
            partition=st.none() | st.sampled_from(["dirichlet:alpha=.3", "iid", {"name": "dirichlet", "alpha": 0.3}]),
            validation=st.none() | st.floats(0, 0.5),
            scored_on=st.sampled_from([None, "validation"]),
        ),
        "model": st.builds(
            ModelSpec,
            name=st.none() | st.sampled_from(["cnn", "mlp:hidden=8/4", {"name": "mlp", "hidden": [8, 4]}, "logistic"]),
            weights=st.just("own.safetensors"),
            trains=st.sampled_from(["", "fc"]),
        ),
        "training": st.builds(TrainingSpec, **training, **of_torch),
        "execution": st.builds(
            ExecutionSpec,
            path=st.sampled_from(["auto", "sequential"]),
            threads=st.none() | st.integers(1, 4),
            channels_last=st.none() | st.booleans(),
            device=st.sampled_from(["cpu", "cuda", "cuda:1"]),
            workers=workers,
        ),
    }
)


@st.composite
def specs(draw):
    cohort = draw(st.integers(1, 50))
    return Spec(
        name=draw(names),
        seed=draw(st.integers(0, 2**62)),
        seeds=draw(st.integers(1, 1000)),
        rounds=draw(st.integers(1, 1_000_000)),
        cohort=cohort,
        over_select=draw(st.floats(0, 10)),
        min_reports=draw(st.integers(0, cohort)),
        utility=draw(st.sampled_from(["loss_drop", "global_loss_drop", "accuracy_gain"])),
        population=Population(
            clients=draw(st.integers(cohort, 10_000_000)),
            availability=draw(st.sampled_from(["phones", "bernoulli:low=.2,high=1", "always"]) | paths),
            dropout=draw(st.floats(0, 1)),
            trace_seed=draw(st.none() | st.integers(0, 2**62)),
        ),
        **draw(tasks),
        methods=tuple(draw(st.lists(contenders, min_size=1, max_size=4, unique_by=lambda m: m.name))),
    )


@given(specs())
@settings(max_examples=100, deadline=None)
def test_what_is_written_reads_back_the_same(spec):
    assert parse(to_toml(spec), "round trip") == spec
    full = spec.resolved()
    assert parse(to_toml(full), "round trip") == full


@given(specs())
@settings(max_examples=60, deadline=None)
def test_resolving_twice_is_resolving_once_and_leaves_nothing_open(spec):
    full = spec.resolved()
    assert full.resolved() == full
    written = tomllib.loads(to_toml(full))
    of_files = {
        "rule",
        "open_end",
        "round_seconds",
        "start",
        "work_seconds",
        "watch",
    }  # a model of availability has none of them
    assert set(written["population"]) == set(Population.model_fields) - of_files - {"speed"}
    for entry, asked in zip(written["methods"], spec.methods, strict=True):
        assert set(entry) >= set(MethodSpec.model_fields) - {"rate", "schedule"}
        assert entry.items() >= asked.model_dump(exclude_none=True).items()
    assert full.population.trace_seed == (
        spec.seed if spec.population.trace_seed is None else spec.population.trace_seed
    )


def test_a_delete_character_in_a_path_is_written_as_toml_wants_it():
    spec = parse(SMALL + '[population]\navailability = "./a\\u007fb.csv"\n', "f.toml")
    assert parse(to_toml(spec), "again") == spec


@pytest.mark.parametrize(
    ("scheduler", "estimator"), [("parity", "forecast"), ("uniform", "mean"), ("parity_deployment", "forecast")]
)
def test_the_estimator_is_filled_in_by_what_the_scheduler_needs(scheduler, estimator):
    assert MethodSpec(name="own", scheduler=scheduler).resolved().estimator == estimator
    assert MethodSpec(name="own", scheduler=scheduler, estimator="beta").resolved().estimator == "beta"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("parity", ("parity", "mean", "none", "forecast", "plain")),
        ("parity_surrogate", ("parity", "mean", "utility", "forecast", "plain")),
        ("uniform", ("uniform", "mean", "none", "mean", "plain")),
        ("cup_paper", ("reactive:missed=offline,draw=top,lam=.7", "mean", "utility", "mean", "plain")),
        ("cup_authors", ("cup_authors", "mean", "none", "mean", "mixed:a=.5")),
    ],
)
def test_named_methods_resolve_to_their_components(name, expected):
    m = MethodSpec(name=name).resolved()
    assert (m.scheduler, m.weighting, m.surrogate, m.estimator, m.local) == expected


def test_one_key_changes_one_component_of_a_named_method():
    m = MethodSpec(name="cup_authors", local="mixed:a=.25").resolved()
    assert (m.scheduler, m.local) == (METHODS["cup_authors"].scheduler, "mixed:a=.25")


# --- overrides


@pytest.mark.parametrize(
    ("override", "key", "value"),
    [
        ("rounds=7", "rounds", 7),
        (" rounds = 7", "rounds", 7),
        ("rounds=1_000", "rounds", 1000),
        ("over_select=.5", "over_select", 0.5),
        ("population.dropout= .3", "population.dropout", 0.3),
        ("training.rate=1.", "training.rate", 1.0),
        ("training.rate=.5e-1", "training.rate", 0.05),
        ("over_select=0.5", "over_select", 0.5),
        ("name=second", "name", "second"),
        ('name="third"', "name", "third"),
        ("population.clients=50", "population.clients", 50),
        ("population.availability=bernoulli:low=.2,high=1", "population.availability", "bernoulli:low=.2,high=1"),
        ("population.trace_seed=3", "population.trace_seed", 3),
        ("data.set=logistic", "data.set", "logistic"),
        ("training.rate=1", "training.rate", 1.0),
        ("population={clients=9, dropout=0.5}", "population.dropout", 0.5),
    ],
)
def test_an_override_is_laid_over_the_file(override, key, value):
    spec = parse(SMALL, "f.toml", [override])
    for part in key.split("."):
        spec = getattr(spec, part)
    assert spec == value
    assert type(spec) is type(value)


def test_overrides_add_up_and_the_last_one_counts():
    spec = parse(SMALL, "f.toml", ["rounds=3", "population.clients=9", "rounds=4", "population.dropout=0.5"])
    assert (spec.rounds, spec.population.clients, spec.population.dropout) == (4, 9, 0.5)


def test_methods_can_be_replaced_as_a_whole():
    spec = parse(SMALL, "f.toml", ['methods=[{name="uniform"}, {name="own", scheduler="inverse"}]'])
    assert [m.name for m in spec.methods] == ["uniform", "own"]


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("rounds", "--set 'rounds' must be written key=value"),
        ("", "--set '' must be written key=value"),
        ("=3", "--set '=3' must be written key=value"),
        ("rounds.x=3", "f.toml: key 'rounds' is dict"),
        ("version.x=3", "--set 'version.x=3': 'version' is not a table"),
        ("methods.0.name=x", "--set 'methods.0.name=x': 'methods' is not a table"),
        ("rouns=3", "--set: unknown key 'rouns'; did you mean 'rounds'?"),
        ("population.client=3", "--set: unknown key 'population.client'; did you mean 'population.clients'?"),
        ("rounds=", "--set: key 'rounds' is '': input should be a valid integer"),
        ("rounds=nan", "--set: key 'rounds' is nan: input should be a"),
        ("rounds=" + "[" * 5000, "--set: key 'rounds' is '[[["),
        ("name=a/b", "--set: key 'name' is 'a/b': it must be 1 to 64 letters, digits"),
    ],
)
def test_a_bad_override_is_one_line(override, says):
    with pytest.raises(FedparityError) as caught:
        parse(SMALL, "f.toml", [override])
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)


# --- what is refused


WRONG = {
    "unknown key": ("version = 2\nrouns = 3\n" + METHOD, "unknown key 'rouns'; did you mean 'rounds'? known: cohort,"),
    "unknown key of a table": (
        SMALL + "[population]\nclint = 3\n",
        "unknown key 'population.clint'; did you mean 'population.clients'?",
    ),
    "unknown key of training": (
        SMALL + "[training]\nepoch = 3\n",
        "unknown key 'training.epoch'; did you mean 'training.epochs'?",
    ),
    "unknown key of a method": (
        SMALL + 'schedulr = "uniform"\n',
        "unknown key 'methods.0.schedulr'; did you mean 'methods.0.scheduler'?",
    ),
    "unknown table": (SMALL + "[populaton]\nclients = 3\n", "unknown key 'populaton'; did you mean 'population'?"),
    "text for a number": ('version = 2\nrounds = "many"\n' + METHOD, "key 'rounds' is 'many': input should be a valid"),
    "number as text": ('version = 2\nrounds = "5"\n' + METHOD, "key 'rounds' is '5': input should be a valid integer"),
    "fraction": ("version = 2\nrounds = 1.5\n" + METHOD, "key 'rounds' is 1.5: input should be a valid integer"),
    "truth value": ("version = 2\nrounds = true\n" + METHOD, "key 'rounds' is True: input should be a valid integer"),
    "number for text": ("version = 2\nutility = 3\n" + METHOD, "utility: 3 must be text, NAME[:key=value,...], or"),
    "date": ("version = 2\nrounds = 2026-01-01\n" + METHOD, "key 'rounds' is date: input should be a valid integer"),
    "number for a table": ("version = 2\ndata = 3\n" + METHOD, "key 'data' is 3: it must be a table of keys"),
    "NaN": (
        SMALL + "[population]\ndropout = nan\n",
        "key 'population.dropout' is nan: input should be a finite number",
    ),
    "infinite": (SMALL + "[training]\nrate = inf\n", "key 'training.rate' is inf: input should be a finite number"),
    "no rounds": ("version = 2\nrounds = 0\n" + METHOD, "key 'rounds' is 0: input should be greater than or equal to"),
    "no cohort": ("version = 2\ncohort = 0\n" + METHOD, "key 'cohort' is 0: input should be greater than or equal to"),
    "negative seed": ("version = 2\nseed = -1\n" + METHOD, "key 'seed' is -1: input should be greater than or equal"),
    "dropout": (SMALL + "[population]\ndropout = 1.1\n", "key 'population.dropout' is 1.1: input should be less than"),
    "memory of old": (
        SMALL + 'surrogate = "memory:own=replace"\n',
        "methods.0: surrogate 'last_updates' is a memory; write memory = \"last_updates:own=replace\"",
    ),
    "mixing": (SMALL + "mixing = 0.5\n", 'methods.0: mixing is a local rule; write local = "mixed:a=0.5"'),
    "cohort > clients": (
        SMALL + "[population]\nclients = 4\n",
        "cohort=5 but population.clients=4; lower cohort to 4",
    ),
    "min_reports": (
        "version = 2\ncohort = 2\nover_select = 0.5\nmin_reports = 4\n" + METHOD,
        "min_reports=4 but only 3 are asked; lower it or raise cohort",
    ),
    "unknown method": (
        'version = 2\n[[methods]]\nname = "paritee"\n',
        "methods.0: unknown method 'paritee'; did you mean 'parity'? known: aaggff, afl,",
    ),
    "unknown scheduler": (
        SMALL + 'scheduler = "unifrm"\n',
        "methods.0: scheduler: unknown scheduler 'unifrm'; did you mean 'uniform'?",
    ),
    "unknown weighting": (SMALL + 'weighting = "median"\n', "methods.0: weighting: unknown weighting 'median'; "),
    "unknown surrogate": (SMALL + 'surrogate = "nobody"\n', "methods.0: surrogate: unknown surrogate 'nobody'; "),
    "unknown estimator": (SMALL + 'estimator = "median"\n', "methods.0: estimator: unknown estimator 'median'; did"),
    "unknown availability": (
        SMALL + '[population]\navailability = "phons"\n',
        "population: availability: unknown availability 'phons'; did you mean 'phones'?",
    ),
    "unknown utility": (
        'version = 2\nutility = "los_drop"\n' + METHOD,
        "utility: unknown utility 'los_drop'; did you mean 'loss_drop'?",
    ),
    "unknown dataset": (
        SMALL + '[data]\nset = "mnits"\n',
        "data: unknown data set 'mnits'; did you mean 'mnist'? known: cifar10, digits, logistic, mnist, quadratic",
    ),
    "component out of range": (
        SMALL + 'scheduler = "parity:ratio=0"\n',
        "methods.0: scheduler: ratio=0.0 must be between 1 and",
    ),
    "component's choice": (
        SMALL + 'scheduler = "parity:target=bogus"\n',
        "methods.0: scheduler: parity:target='bogus' must be share or opportunity or utility or a number",
    ),
    "component's key": (
        SMALL + 'surrogate = "utility:lamda=1"\n',
        "methods.0: surrogate: surrogate 'utility': unknown key 'lamda'; did you mean",
    ),
    "availability out of range": (
        SMALL + '[population]\navailability = "bernoulli:low=2"\n',
        "population: availability: low=2.0 must be between 0 and 1",
    ),
    "method twice": (SMALL + METHOD, "methods: 'parity' is listed twice; give each its own name"),
    "empty methods": ("version = 2\nmethods = []\n", "methods is empty; list at least one, for example [[methods]]"),
    "no methods": ("version = 2\n", "key 'methods' is missing; add it"),
    "one table for methods": ('version = 2\n[methods]\nname = "parity"\n', "key 'methods' is dict: it must be a list"),
    "numbers for methods": ("version = 2\nmethods = [3]\n", "key 'methods.0' is 3: it must be a table"),
    "name of no method": ('version = 2\nmethods = ["paritee"]\n', "methods.0: unknown method 'paritee'; did you mean"),
    "method with settings": (
        'version = 2\nmethods = ["parity:target=.5"]\n',
        "methods.0: method 'parity:target=.5': a method has no settings, its parts have: in a spec, {name = \"mine\", ",
    ),
    "method without a name": ('version = 2\n[[methods]]\nscheduler = "uniform"\n', "key 'methods.0.name' is missing"),
    "slash in a method's name": (
        'version = 2\n[[methods]]\nname = "a/b"\nscheduler = "uniform"\n',
        "key 'methods.0.name' is 'a/b': it must be 1 to 64 letters, digits and _ . + -, with a letter or digit first",
    ),
    "run's name": ('version = 2\nname = "../up"\n' + METHOD, "key 'name' is '../up': it must be 1 to 64 letters"),
    "no version": (METHOD, "key 'version' is missing; add it (version = 2)"),
    "version 3": ("version = 3\n" + METHOD, "key 'version' is 3: input should be 2"),
    "empty file": ("", "key 'version' is missing; add it (version = 2)"),
    "broken TOML": ("version = 2\nrounds = = 3\n", "not valid TOML: Invalid value (at line 2, column 10)"),
    "key twice": ("version = 2\nversion = 2\n", "not valid TOML: Cannot overwrite a value (at line 2, column 12)"),
    "deep nonsense": ("x = " + "[" * 5000, "not valid TOML: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_spec_is_one_line_that_names_the_file_the_key_and_the_rule(tmp_path, name):
    text, says = WRONG[name]
    path = tmp_path / "spec.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {says}")
    assert "\n" not in message
    assert "pydantic" not in message.lower()


def test_a_missing_file_says_how_to_get_one(tmp_path):
    path = tmp_path / "gone.toml"
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: no such file; `fedparity init {path}` writes a starter"


def test_a_folder_is_not_a_spec(tmp_path):
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert str(caught.value) == f"{tmp_path}: cannot be read as text (Is a directory); give a spec file in UTF-8"


def test_what_is_not_utf_8_is_refused(tmp_path):
    path = tmp_path / "latin.toml"
    path.write_bytes(b'version = 2\nname = "caf\xe9"\n')
    with pytest.raises(InputError, match=r"cannot be read as text .*0xe9.*; give a spec file in UTF-8") as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_overrides_are_the_caller_s_not_the_file_s():
    with pytest.raises(ConfigError):
        parse(SMALL, "f.toml", ["nothing"])


def test_a_spec_cannot_be_changed():
    with pytest.raises(ValidationError):
        parse(SMALL, "f.toml").rounds = 3


# --- documentation

SAID = {
    "execution.workers": "one per processor",
    "normaliser": "none: availability",
    "population.rule": "`charging & wifi`",
    "population.open_end": "true",
    "population.round_seconds": "the file's, else 1800",
    "population.start": "the file's, else 0",
    "population.work_seconds": "the file's, else 0",
    "population.watch": "all that the file has before start",
    "population.speed": "none: nobody is timed",
    "population.trace_seed": "the run's seed",
    "data.partition": "tables with a client column: groups; else labels:k=2",
    "data.validation": "0.02 if a method needs it, else 0",
    "data.scored_on": "none: test samples",
    "model.name": "digits: mlp:hidden=32; tables, features: logistic; else cnn",
    "data.features": "none",
    "model.weights": "none: drawn",
    "training.steps": "none: epochs",
    "training.clip": "none",
    "execution.threads": "by the model's family",
    "execution.channels_last": "by the model's family",
    "methods.estimator": "forecast for parity, else mean",
    "methods.rate": "the task's",
    "methods.schedule": "the method's, or `training.schedule`",
}


def documented():
    section = FORMATS.read_text(encoding="utf-8").partition("## Spec")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \| (.+) \|$", section, flags=re.MULTILINE)
    assert len(rows) == len({key for key, *_ in rows})
    return {key: (default, meaning) for key, default, meaning in rows}


def test_the_documented_keys_are_the_keys():
    assert list(documented()) == list(KEYS)


@pytest.mark.parametrize("key", KEYS)
def test_each_key_is_documented_with_its_default(key):
    default, meaning = documented()[key]
    field = KEYS[key]
    if field.is_required():
        assert default.startswith("required")
    elif field.default is None:
        assert default == SAID.get(key, "the method's")
    else:
        value = tomllib.loads(f"v = {default.strip('`')}")["v"]
        assert value == field.default
        assert type(value) is type(field.default)
    assert meaning
    assert field.description
