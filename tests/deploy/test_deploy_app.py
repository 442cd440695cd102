"""What `deploy init` writes, checked as far as it can be without the engines that will run it."""

import ast
import configparser
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

import yaml
from flwr.superlink.cli.flower_superlink import _parse_args_run_superlink
from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

from fedparity import ConfigError, OutputError
from fedparity.deploy import read_rounds, write_app
from fedparity.deploy.flower import OFF
from fedparity.engines.flower import simulate

SWITCHES = {f"{key}={value}" for key, value in OFF.items()}


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deploy") / "app"
    write_app(folder)
    return folder


def text(app, name):
    return (app / name).read_text(encoding="utf-8")


def unit(app, name):
    found = configparser.RawConfigParser(strict=False, interpolation=None)
    found.optionxform = str
    found.read_string(text(app, name))
    return found


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(ConfigError, match="not an empty folder; give another name"):
        write_app(tmp_path)
    with pytest.raises(ConfigError, match="not an empty folder"):
        write_app(tmp_path / "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(OutputError, match="choose a folder you may write to"):
        write_app(tmp_path / "mine" / "below")


def test_an_empty_folder_is_filled(tmp_path):
    assert {path.name for path in write_app(tmp_path)} == {path.name for path in tmp_path.iterdir()}


def test_nothing_listens_on_every_address_and_nothing_calls_home(app):
    for path in app.iterdir():
        said = path.read_text(encoding="utf-8")
        assert "0.0.0.0" not in said, path.name
        assert "--insecure" not in said, path.name
        assert "--allow-runtime-dependency-installation" not in said, path.name
    assert set(text(app, "flower.env").split()) == SWITCHES


@pytest.mark.parametrize("name", ["superlink.service", "supernode@.service"])
def test_units_restart_for_ever_with_everything_switched_off(app, name):
    service = unit(app, name)["Service"]
    assert service["Restart"] == "always"
    assert unit(app, name)["Unit"]["StartLimitIntervalSec"] == "0"  # else systemd gives up after five times
    assert "/opt/fair-app/flower.env" in text(app, name)
    words = shlex.split(service["ExecStart"])
    assert words[words.index("--host") + 1] == "127.0.0.1"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_itself_understands_the_units(app, tmp_path):
    for name in ("superlink.service", "supernode@.service"):
        # What is not installed here is replaced by what is; everything else is examined as it stands.
        there = re.sub(r"/opt/fair-app/\.venv/bin/\S+", "/bin/true", text(app, name)).replace("User=flower\n", "")
        (tmp_path / name).write_text(there)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "superlink.service", tmp_path / "supernode@.service"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    mine = [line for line in done.stderr.splitlines() if "superlink" in line or "supernode" in line]
    assert mine == []


def test_compose_publishes_nothing_and_restarts(app):
    told = yaml.safe_load(text(app, "compose.yaml"))
    assert told["networks"]["clients"]["internal"] is True
    assert set(told["services"]) == {"superlink", "client-0", "client-1", "client-2"}
    for name, service in told["services"].items():
        assert service["restart"] == "always"
        assert service["env_file"] == "flower.env"
        assert not {"ports", "privileged", "network_mode"} & service.keys()
        assert {one.partition(":")[0] for one in service["volumes"]} >= {name}
        words = shlex.split(service["command"])
        if name != "superlink":
            assert f'client-id="{name}"' in words[words.index("--node-config") + 1]
            keys = [one for one in service["volumes"] if "/keys/" in one and "ca.pem" not in one]
            assert keys == [f"./keys/{name}:/app/keys/key:ro"]  # a client sees its own key alone


def test_the_image_holds_no_keys(app):
    lines = text(app, "Dockerfile").splitlines()
    kinds = [line.split()[0] for line in lines if line and line[0].isupper()]
    assert kinds[0] == "FROM"
    assert set(kinds) <= {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER"}
    assert all(one in text(app, "Dockerfile") for one in SWITCHES)
    copied = next(line for line in lines if line.startswith("COPY")).split()[1:-1]
    assert all((app / name).is_file() for name in copied)
    assert text(app, ".dockerignore").split() == ["*", *(f"!{name}" for name in copied)]
    assert "/keys/" in text(app, ".gitignore")


@pytest.mark.parametrize("name", ["superlink.service", "supernode@.service", "compose.yaml"])
def test_flower_has_the_options_that_are_given_to_it(app, name):
    parsers = {"flower-superlink": _parse_args_run_superlink(), "flower-supernode": _parse_args_run_supernode()}
    commands = [unit(app, name)["Service"]["ExecStart"]] if name.endswith("service") else []
    if not commands:
        commands = [one["command"] for one in yaml.safe_load(text(app, name))["services"].values()]
    for command in commands:
        program, *words = shlex.split(command.replace("${PORT}", "9100"))
        parsers[program.rpartition("/")[2]].parse_args(words)  # ends this process if it does not understand


def test_settings_are_flat_and_all_of_them_are_used(app):
    told = tomllib.loads(text(app, "pyproject.toml"))["tool"]["flwr"]["app"]
    assert told["components"] == {"serverapp": "server:app", "clientapp": "client:app"}
    assert all(isinstance(value, str | int | float) for value in told["config"].values())
    used = set(re.findall(r'config\["([\w-]+)"\]', text(app, "server.py")))
    assert used == set(told["config"])
    tomllib.loads(text(app, "connection.toml"))


def test_both_sides_use_documented_names_alone_and_import_fedparity_first(app):
    for name in ("server.py", "client.py"):
        tree = ast.parse(text(app, name))
        imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert ast.unparse(imports[0]) == "import fedparity"
        assert not [n for n in ast.walk(tree) if isinstance(n, ast.alias) and n.name.startswith("_")]


def test_the_readme_says_what_must_be_known(app):
    said = text(app, "README.md")
    assert len(said.splitlines()) <= 20
    assert "Control API has no login" in said


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck")
def test_the_script_for_keys_is_clean(app):
    subprocess.run(["shellcheck", app / "keys.sh"], check=True)


def test_the_app_runs_in_this_process(app, tmp_path, monkeypatch):
    """The same files as on a SuperLink, on fedparity's own grid."""
    monkeypatch.syspath_prepend(str(app))
    for name in ("server", "client"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import client
    import server

    config = tomllib.loads(text(app, "pyproject.toml"))["tool"]["flwr"]["app"]["config"]
    config |= {"rounds": 3, "store": str(tmp_path / "store"), "rounds-file": str(tmp_path / "rounds.jsonl")}
    nodes = [{"client-id": f"client-{k}", "partition-id": k, "num-partitions": 3} for k in range(3)]
    simulate(server.app, client.app, nodes, run_config=config)
    rounds = read_rounds(tmp_path / "rounds.jsonl")
    assert [one["round"] for one in rounds] == [0, 1, 2]
    assert {name for one in rounds for name in one["completed"]} == {"client-0", "client-1", "client-2"}
