"""The doctor on folders that are well and on folders that are not."""

import contextlib
import email.utils
import http.server
import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from datetime import UTC, datetime
from unittest import mock

import pytest

pytest.importorskip("flwr", reason="Flower is not installed (pip install 'fedparity[flower]')")

from fedparity import ConfigError
from fedparity.cli.main import main
from fedparity.deploy import examine, keys, write_app
from fedparity.deploy.doctor import clock, exposure
from fedparity.deploy.flower import free_ports

pytestmark = pytest.mark.skipif(
    not (shutil.which("openssl") and shutil.which("ssh-keygen")), reason="no openssl or ssh-keygen"
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor") / "app"
    write_app(folder)
    keys.make(folder, 2)
    return folder


@pytest.fixture
def app(good, tmp_path):
    return shutil.copytree(good, tmp_path / "app")


@pytest.fixture
def free():
    return f"127.0.0.1:{free_ports(1)[0]}"


def states(folder, superlink):
    return {one.name: one.state for one in examine(folder, superlink)}


def only_failing(folder, superlink):
    failed = [one for one in examine(folder, superlink) if one.state == "failed"]
    assert all(one.fix for one in failed)
    return {one.name: one.found for one in failed}


def test_a_good_folder(good, free):
    found = states(good, free)
    assert "failed" not in found.values()
    assert {name for name, state in found.items() if state == "unknown"} == {"clock"}


def test_keys_are_made_once_and_added_to(app):
    before = {path.name: path.read_bytes() for path in (app / "keys").iterdir()}
    keys.make(app, 3)
    after = {path.name: path.read_bytes() for path in (app / "keys").iterdir()}
    assert after.keys() - before.keys() == {"client-2", "client-2.pub"}
    assert all(after[name] == said for name, said in before.items())


def test_names_are_given_to_the_script(app):
    (app / "keys" / "server.pem").unlink()
    subprocess.run(["sh", app / "keys.sh", "1", "superlink", "10.8.0.1", "fd00::1"], check=True, capture_output=True)
    for host in ("127.0.0.1", "localhost", "superlink", "10.8.0.1", "fd00::1"):
        assert "failed" not in {one.state for one in keys.examine(app / "keys", host)}


@pytest.mark.parametrize("host", ["10.0.0.7", "elsewhere.example"])
def test_a_certificate_for_another_name(good, host):
    found = {one.name: one for one in keys.examine(good / "keys", host)}
    assert found["certificate"].state == "failed"
    assert "mismatch" in found["certificate"].found


def test_a_certificate_of_another_authority(app, free, tmp_path):
    other = tmp_path / "other"
    write_app(other)
    keys.make(other, 1)
    shutil.copy(other / "keys" / "ca.pem", app / "keys")
    assert set(only_failing(app, free)) == {"certificate"}
    fix = next(one.fix for one in examine(app, free) if one.name == "certificate")
    assert fix.startswith("put back the ca.pem that it was signed with, or remove keys/")
    shutil.copy(other / "keys" / "server.key", app / "keys")
    assert set(only_failing(app, free)) == {"certificate", "key pair"}


def test_a_certificate_that_is_over(app, free):
    signed(app / "keys", "-days", "1")
    assert set(only_failing(app, free)) == {"expiry"}
    (app / "keys" / "server.pem").write_text("nothing")
    assert {"certificate", "expiry", "key pair"} <= set(only_failing(app, free))


def signed(folder, *more):
    csr = ["openssl", "req", "-new", "-key", "server.key", "-subj", "/CN=superlink", "-out", "server.csr"]
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    sign = ["openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-extfile", "ext"]
    for command in (csr, [*sign, "-out", "server.pem", *more]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_keys_that_others_may_read(app, free):
    (app / "keys" / "client-1").chmod(0o644)
    (app / "keys" / "ca.key").chmod(0o640)
    assert only_failing(app, free)["key files"] == "others may read ca.key, client-1"


def test_no_app_and_no_keys(tmp_path, free):
    assert set(only_failing(tmp_path, free)) == {"app"}
    assert states(tmp_path, free)["certificates"] == "unknown"


@pytest.mark.parametrize("said", ["[", "[tool]", '[tool.flwr.app.components]\nserverapp = 1\nclientapp = "c:app"'])
def test_an_app_that_names_nothing(app, free, said):
    (app / "pyproject.toml").write_text(said)
    assert "names no serverapp and clientapp" in only_failing(app, free)["app"]


def test_an_app_whose_files_are_gone(app, free):
    (app / "client.py").unlink()
    assert only_failing(app, free)["app"] == "client.py not there"


@pytest.mark.parametrize(("version", "said"), [("1.40.0", "1.41 or 1.42 is needed"), ("2.0", "1.41 or 1.42 is needed")])
def test_another_version_of_flower(good, free, version, said):
    with mock.patch("importlib.metadata.version", return_value=version):
        assert said in only_failing(good, free)["flower"]


def test_no_flower(good, free):
    from importlib import metadata

    with mock.patch("importlib.metadata.version", side_effect=metadata.PackageNotFoundError):
        failed = [one for one in examine(good, free) if one.state == "failed"]
    assert [(one.name, one.fix) for one in failed] == [("flower", "pip install 'fedparity[flower]'")]


@contextlib.contextmanager
def a_server(folder=None, date=None):
    """HTTP on loopback, with a folder's certificate if one is given; its date is set if one is given."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404)
            self.end_headers()

        def date_time_string(self, timestamp=None):
            return date or super().date_time_string(timestamp)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_):
            pass

    with Server(("127.0.0.1", 0), Page) as server:
        if folder is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / "keys" / "server.pem", folder / "keys" / "server.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_superlink_that_answers(good):
    with a_server(good) as address:
        assert set(states(good, address).values()) == {"ok"}


def test_something_else_on_the_port(good, tmp_path):
    with a_server() as address:
        assert only_failing(good, address)["port"].endswith("answers, but not as our SuperLink: it speaks no TLS")
    other = tmp_path / "other"
    write_app(other)
    keys.make(other, 1)
    with a_server(other) as address:
        assert "not as our SuperLink" in only_failing(good, address)["port"]


def test_a_clock_that_is_off(good):
    with a_server(good, "Mon, 16 Nov 2020 10:00:00 GMT") as address:
        assert "ahead of the SuperLink's" in only_failing(good, address)["clock"]


@pytest.mark.parametrize(
    ("off", "state"), [(0, "ok"), (0.9, "ok"), (5, "ok"), (-5, "ok"), (6.5, "failed"), (-6.5, "failed")]
)
def test_clocks_may_differ_by_what_flower_takes(off, state):
    theirs = 1_790_000_000
    said = email.utils.format_datetime(datetime.fromtimestamp(theirs, UTC), usegmt=True)
    assert clock(said, theirs + off, theirs + off).state == state
    assert clock("no date", 0, 0).state == "unknown"


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


@pytest.mark.skipif(sys.byteorder != "little", reason="the tables are written in the machine's byte order")
@pytest.mark.parametrize(
    ("table", "local", "listens"),
    [
        ("tcp", "00000000", "0.0.0.0"),
        ("tcp", "0100080A", "10.8.0.1"),
        ("tcp6", "0" * 32, "::"),
        ("tcp6", "0000000000000000FFFF00000100080A", "10.8.0.1"),
        ("tcp", "0100007F", None),
        ("tcp6", "00000000000000000000000001000000", None),
        ("tcp6", "0000000000000000FFFF00000100007F", None),
    ],
)
def test_a_control_api_beyond_loopback(tmp_path, table, local, listens):
    (tmp_path / "tcp").write_text(HEAD)
    (tmp_path / table).write_text(f"{HEAD}   0: {local}:1F40 00000000:0000 0A 0:0 00:0 0 0 0 1\n")
    assert exposure(8000, tmp_path).state == ("ok" if listens is None else "failed")
    said = "on loopback alone" if listens is None else f"listens on {listens}, without a login"
    assert said in exposure(8000, tmp_path).found
    assert exposure(8001, tmp_path).found == "nobody listens on port 8001 here"


def test_this_machine_s_sockets_are_seen():
    with socket.create_server(("127.0.0.1", 0)) as narrow:
        assert exposure(narrow.getsockname()[1]).found == "on loopback alone"


def test_where_sockets_cannot_be_listed(tmp_path):
    assert exposure(8000, tmp_path).state == "unknown"


@pytest.mark.parametrize("text", ["", "here", "here:", ":80", "here:0", "here:70000", "here:x"])
def test_an_address_that_is_none(good, text):
    with pytest.raises(ConfigError, match="must be HOST:PORT"):
        examine(good, text)


def told(capsys, *words):
    with mock.patch.object(sys, "argv", ["fedparity", "deploy", *map(str, words)]), pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr()


def test_the_command(app, free, capsys):
    code, said = told(capsys, "doctor", app, "--superlink", free)
    assert (code, said.err) == (0, "")
    (app / "client.py").unlink()
    code, said = told(capsys, "doctor", app, "--superlink", free, "--json")
    assert code == 1
    checks = {one["name"]: one for one in json.loads(said.out)["checks"]}
    assert checks["app"]["state"] == "failed"
    assert checks["flower"]["state"] == "ok"
