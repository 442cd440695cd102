"""Names with settings in, checked objects out."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import sys
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest

from fedparity.cli import catalogue
from fedparity.core import imports
from fedparity.core.checks import between
from fedparity.core.errors import ConfigError
from fedparity.core.registry import Registry


@dataclass(frozen=True, slots=True)
class Bird:
    """A bird.

    More about it.
    """

    wings: int = 2
    weight: float = 0.5
    sings: bool = True
    mood: Literal["calm", "wild"] = "calm"
    eggs: tuple[int, ...] = ()
    speeds: tuple[float, ...] | None = None
    limit: float | None = None
    hidden: int = field(default=7, metadata={"settable": False})
    reference: ClassVar[str] = "Aristotle"

    def __post_init__(self):
        between("weight", self.weight, 0, 9)


BIRDS: Registry[Bird] = Registry("bird", {"bird": Bird, "moa": functools.partial(Bird, wings=0)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bird", Bird()),
        ("bird:", Bird()),
        (" bird : wings = 4 , weight=.25", Bird(wings=4, weight=0.25)),
        ("moa", Bird(wings=0)),
        ("moa:wings=1", Bird(wings=1)),
        ("bird:sings=false,mood=wild", Bird(sings=False, mood="wild")),
        ("bird:eggs=1/2/3", Bird(eggs=(1, 2, 3))),
        ("bird:eggs=5", Bird(eggs=(5,))),
        ("bird:speeds=.5/2", Bird(speeds=(0.5, 2.0))),
        ("bird:speeds=none,limit=None", Bird()),
        ("bird:limit=3", Bird(limit=3.0)),
    ],
)
def test_build(text, expected):
    assert BIRDS.build(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("brid", r"unknown bird 'brid'; did you mean 'bird'\? known: bird, moa"),
        ("zzzzzz", "unknown bird 'zzzzzz'; known: bird, moa"),
        ("bird:wing=3", r"bird 'bird': unknown key 'wing'; did you mean 'wings'\?"),
        ("bird:hidden=3", "unknown key 'hidden'"),
        ("bird:reference=x", "unknown key 'reference'"),
        ("bird:wings", "'wings' must be written key=value"),
        ("bird:wings=1,wings=2", "key 'wings' is given twice"),
        ("bird:wings=two", "bird:wings='two' must be a whole number"),
        ("bird:wings=2.5", "must be a whole number"),
        ("bird:wings=none", "must be a whole number"),
        ("bird:weight=heavy", "must be a number"),
        ("bird:weight=nan", "must be a finite number"),
        ("bird:limit=inf", "must be a finite number"),
        ("bird:limit=x", "must be a number or none"),
        ("bird:speeds=1/nan", "must be a finite number"),
        ("bird:sings=loudly", "must be true or false"),
        ("bird:mood=sad", "must be calm or wild"),
        ("bird:eggs=1/x", "must be numbers written a/b/c"),
        ("bird:weight=10", "weight=10.0 must be between 0 and 9"),
    ],
)
def test_what_cannot_be_built_says_why(text, says):
    with pytest.raises(ConfigError, match=says) as caught:
        BIRDS.build(text)
    assert "\n" not in str(caught.value)


def test_describe_shows_the_preset():
    shown = BIRDS.describe("moa")
    assert shown["name"] == "moa"
    assert shown["summary"].startswith("A bird; preset: wings=0")
    assert BIRDS.describe("moa")["reference"] == "Aristotle"
    assert shown["parameters"]["wings"] == 0
    assert shown["parameters"]["weight"] == 0.5
    assert "hidden" not in shown["parameters"]


def test_it_is_a_mapping():
    assert list(BIRDS) == ["bird", "moa"]
    assert len(BIRDS) == 2
    assert "moa" in BIRDS
    assert BIRDS["bird"] is Bird


@pytest.fixture
def birds():
    return Registry("bird", {"bird": Bird, "moa": functools.partial(Bird, wings=0)}, needs=("__post_init__",))


@dataclass(frozen=True)
class Wren:
    """A small bird."""

    weight: float = 0.01

    def __post_init__(self):
        between("weight", self.weight, 0, 1)


class Plain:
    def __init__(self, wings: int, song="la", *, limit=2.5):
        self.given = (wings, song, limit)

    def __post_init__(self):
        pass


class TestRegister:
    def test_a_registered_one_is_built_and_described(self, birds):
        assert birds.register("wren", Wren) is Wren
        assert birds.build("wren:weight=.5") == Wren(0.5)
        assert birds.describe("wren")["origin"] == f"{__name__}:Wren"
        assert birds.describe("bird")["origin"] == "fedparity"
        assert list(birds) == ["bird", "moa", "wren"]

    def test_as_a_decorator(self, birds):
        @birds.register("robin")
        @dataclass
        class Robin:
            red: bool = True

            def __post_init__(self):
                pass

        assert birds.build("robin:red=false") == Robin(red=False)

    def test_the_same_class_may_come_again_but_no_other(self, birds):
        birds.register("wren", Wren)
        birds.register("wren", Wren)
        with pytest.raises(ConfigError, match=r"bird 'wren' is there already \(.*:Wren\); choose another name"):
            birds.register("wren", Bird)
        with pytest.raises(ConfigError, match="bird 'moa' is there already"):
            birds.register("moa", Wren)

    @pytest.mark.parametrize("name", ["a:b", "a.b", "", "a,b", "1st", "a=b", 5])
    def test_a_name_can_be_written_in_a_text(self, birds, name):
        with pytest.raises(ConfigError, match="a name is made of letters"):
            birds.register(name, Wren)

    def test_a_class_is_registered_not_an_object(self, birds):
        with pytest.raises(ConfigError, match="must be a class, not Wren"):
            birds.register("wren", Wren())


@pytest.fixture
def nest(tmp_path, monkeypatch):
    """A folder with modules, in which a command is started."""
    (tmp_path / "nestlings.py").write_text(
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Chick:\n    weight: float = 1.0\n\n"
        "    def __post_init__(self):\n        pass\n\n\nclass Egg:\n    pass\n\n\nNOT = 5\n"
    )
    (tmp_path / "addled.py").write_text("raise RuntimeError('two\\nlines')")
    (tmp_path / "taken.py").write_text("import pathlib\n\npathlib.Path('ran').touch()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    for name in ("nestlings", "addled", "taken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


class TestCodeOfOthers:
    def test_a_class_beside_the_caller_is_built(self, birds, nest):
        assert birds.build("nestlings:Chick").weight == 1
        assert birds.build(" nestlings : Chick : weight = 2").weight == 2
        assert birds.name_in("nestlings:Chick:weight=2") == "nestlings:Chick"
        assert sys.path[-1] == str(nest), "a file there does not pass itself off as an installed module"

    def test_a_class_without_fields_takes_its_arguments(self, birds):
        assert birds.build(f"{__name__}:Plain:wings=4,limit=1").given == (4, "la", 1.0)

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("nowhere.to.be:Found", r"bird 'nowhere.to.be:Found' cannot be imported \(ModuleNotFoundError"),
            ("nestlings:Cuckoo", "cannot be imported .*no attribute 'Cuckoo'"),
            ("nestlings:NOT", "must be a class, not 5"),
            ("nestlings:Egg", "is no bird: it has no '__post_init__'"),
            ("nestlings:Chick:wings=2", "bird 'nestlings:Chick': unknown key 'wings'"),
            ("nestlings:Chick:weight=much", "must be a number"),
            ("addled:Egg", "RuntimeError: two lines"),
            (f"{__name__}:Plain", "cannot be made .*missing 1 required positional argument"),
        ],
    )
    def test_what_cannot_be_built_says_why(self, birds, nest, text, says):
        with pytest.raises(ConfigError, match=says) as caught:
            birds.build(text)
        assert "\n" not in str(caught.value)

    def test_nothing_is_imported_where_it_must_not(self, birds, nest):
        with imports.without_imports():
            made = birds.build("taken:Over:key=value")
            assert birds.build("unheard_of").text == "unheard_of"
            assert birds.build("bird:wings=3") == Bird(wings=3)
            with pytest.raises(ConfigError, match="'taken:Over' is not imported"):
                birds["taken:Over"]
        assert made == imports.NotImported("taken:Over:key=value")
        with pytest.raises(ConfigError, match="read without code of others; resume it by its spec"):
            made.select(5)
        assert not (nest / "ran").exists()
        with pytest.raises(ConfigError):
            birds.build("taken:Over")
        assert (nest / "ran").exists()


@pytest.fixture
def plugins(nest):
    """An installed package with entry points, one of them broken and one with a name of ours."""
    folder = nest / "aviary-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: aviary\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[fedparity.birds]\nchick = nestlings:Chick\nrotten = addled:Egg\nmoa = nestlings:Chick\n"
    )
    sys.path.insert(0, str(nest))
    return nest


class TestEntryPoints:
    def test_one_is_found_by_its_name(self, birds, plugins):
        assert birds.build("chick:weight=3").weight == 3
        assert birds.describe("chick")["origin"] == "aviary"
        assert list(birds) == ["bird", "moa", "chick", "rotten"]
        assert len(birds) == 4
        assert "chick" in birds

    def test_a_broken_one_is_one_line(self, birds, plugins):
        says = r"bird 'rotten' of aviary cannot be imported \(RuntimeError: two lines\); mend or remove aviary"
        with pytest.raises(ConfigError, match=says):
            birds.build("rotten")
        assert re.search(says, birds.describe("rotten")["summary"])

    def test_ours_win_and_that_is_said_once(self, birds, plugins, caplog):
        assert birds.build("moa") == Bird(wings=0)
        assert not caplog.messages
        list(birds)
        list(birds)
        assert caplog.messages == ["bird 'moa' of aviary is not used: there is one of that name already"]

    def test_ours_are_found_without_a_look_at_what_is_installed(self, birds, monkeypatch):
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: pytest.fail("looked"))
        assert birds.build("bird:wings=3") == Bird(wings=3)
        assert "moa" in birds
        assert birds.describe("moa")["name"] == "moa"
        assert repr(birds) == "Registry(2 birds: bird, moa)"


def test_objects_and_texts(birds):
    assert birds.of("moa") == birds.of(Bird(wings=0)) == Bird(wings=0)
    with pytest.raises(ConfigError, match=r"bird Bird is a class; give one of its objects: Bird\(\)"):
        birds.of(Bird)
    with pytest.raises(ConfigError, match="5 is no bird: it has no"):
        birds.of(5)


def test_a_component_is_written_short():
    assert repr(Bird()) == "bird()"
    assert repr(Bird(wings=4, eggs=(1, 2), limit=2.0)) == "bird(wings=4, eggs=(1, 2), limit=2.0)"


def test_groups_of_all_tables():
    groups = {name: table.group for name, table in catalogue.COMPONENTS.items()}
    others = {"locals": "local", "schedules": "rate_schedules"}
    assert groups == {name: others.get(name, name) for name in groups}
