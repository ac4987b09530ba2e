"""The local server of the explorer: what it answers, what it refuses, and that it reads no other file."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from own_scheme_files import write_bias
from posenc import cli
from posenc.cli import explore
from posenc.lookup import own_files
from posenc.workbench.explorer import manifest, server
from posenc.workbench.explorer.server import Explorer, first_call

pytestmark = pytest.mark.bare


@pytest.fixture(scope="module")
def explorer() -> Iterator[Explorer]:
    with Explorer("posencExplorer.start({});\n", 0) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def get(explorer: Explorer, path: str, **headers: str) -> tuple[int, str]:
    """Status and body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", explorer.server_port, timeout=20)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def ask(explorer: Explorer, path: str, **values: object) -> tuple[int, dict]:
    status, text = get(explorer, f"{path}?{urlencode(values)}")
    return status, json.loads(text)


def test_the_page_and_its_files(explorer: Explorer) -> None:
    status, page = get(explorer, "/")
    assert status == 200
    for name in ("page.css", "explorer.css", "plots.js", "explorer.js", "schemes.js"):
        assert f'"{name}"' in page
        assert get(explorer, f"/{name}")[0] == 200
    assert explorer.address == f"http://127.0.0.1:{explorer.server_port}/"
    assert explorer.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "example.com"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://example.com"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_requests_of_others_are_refused(explorer: Explorer, headers: dict[str, str]) -> None:
    status, text = get(explorer, "/picture?call=NoPE()&name=kernel", **headers)
    assert status == 403
    assert "alone" in json.loads(text)["error"]


def test_its_own_page_is_answered(explorer: Explorer) -> None:
    own = f"http://localhost:{explorer.server_port}"
    assert get(explorer, "/plots.js", Origin=own, Sec_Fetch_Site="same-origin")[0] == 200
    assert get(explorer, "/", Sec_Fetch_Site="cross-site")[0] == 200  # a link that somebody follows


@pytest.mark.parametrize(
    "path", ["/../server.py", "/%2e%2e/server.py", "/etc/passwd", "//etc/passwd", "/assets/plots.js"]
)
def test_no_other_file_is_read(explorer: Explorer, path: str) -> None:
    assert get(explorer, path)[0] == 404


def test_a_call_executes_no_file(explorer: Explorer, tmp_path: Path) -> None:
    path = write_bias(tmp_path / "other.py", before="raise SystemExit('executed')\n")
    status, found = ask(explorer, "/picture", call=f"{path}:MyBias(heads=2)", name="kernel")
    assert status == 400
    assert "executed" not in found["error"]


def test_other_methods_are_refused(explorer: Explorer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", explorer.server_port, timeout=20)
    connection.request("POST", "/picture", body=b"x")
    assert connection.getresponse().status == 501
    connection.close()


def test_pictures_and_code(explorer: Explorer) -> None:
    status, found = ask(explorer, "/picture", call="ALiBi(heads=2)", name="kernel")
    assert status == 200
    assert len(found["drawings"][0]["series"]) == 2
    assert ask(explorer, "/picture", call="ALiBi(2)", name="frequencies")[1].keys() == {"absent"}
    assert ask(explorer, "/code", call="ALiBi()") == (
        200,
        {"code": "from posenc import ALiBi\n\nscheme = ALiBi(heads=4)\n"},
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"call": "RoPE(head_dim=63)"}, "must be even; got 63"),
        ({"call": "RoPE(head_dim='a')"}, "takes `head_dim` as a whole number; got 'a'"),
        ({"call": "Ropee(8)"}, "RoPE"),
        ({"call": ""}, "encoding"),
        ({"call": "Learned(4, max_len=" + "9" * 900 + ")"}, "up to|memory|cannot be"),
        ({"call": "NoPE()", "name": "other"}, "there is no picture 'other'"),
        ({"call": "NoPE()", "trained": "1"}, "trained is a number from 2"),
        ({"call": "NoPE()", "factor": "nan"}, "factor is a number from 1"),
    ],
)
def test_bad_options_give_a_sentence(explorer: Explorer, values: dict[str, str], words: str) -> None:
    status, found = ask(explorer, "/picture", **{"name": "kernel", **values})
    assert status == 400
    assert any(word in found["error"] for word in words.split("|")), found["error"]


def test_an_error_of_a_scheme_of_ones_own_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such\nthing")

    monkeypatch.setattr(server, "make", fail)
    with Explorer("", 0) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        status, found = ask(running, "/picture", call="NoPE()", name="kernel")
        running.shutdown()
        thread.join()
    assert (status, found["error"]) == (400, "NoPE() cannot be drawn: RuntimeError: no such")


def test_a_port_in_use_is_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"port {port} of 127\.0\.0\.1 is in use\. Use another one: --port"):
            Explorer("", port)


def test_the_command_executes_a_file_once_and_ends_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, counter = tmp_path / "my_bias.py", tmp_path / "counter"
    write_bias(path, after=f"\nwith open({str(counter)!r}, 'a') as file:\n    file.write('x')\n")
    scripts: list[str] = []

    def stop(self: Explorer) -> None:
        scripts.append(self.script)
        raise KeyboardInterrupt

    monkeypatch.setattr(Explorer, "serve_forever", stop)
    monkeypatch.setattr(manifest, "catalogue", dict)  # the user's encodings alone
    assert explore.explore(str(path), port=0) == 0
    out, err = capsys.readouterr()
    assert f"{path} was executed once." in out
    assert "http://127.0.0.1:" in out
    assert err == "The explorer has ended.\n"
    assert counter.read_text() == "x"
    entry = json.loads(scripts[0].partition("(")[2].removesuffix(");\n"))
    (name,) = entry["schemes"]
    assert name.startswith("MyBias_")
    assert entry["schemes"][name]["label"] == "MyBias"
    assert entry["first"] == [name]
    assert first_call(own_files.texts_with_names(f"{path}:MyBias")[0]).startswith(name)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["absent.py"], "there is no file absent.py"),
        (["--port", "70000"], "--port is a number from 0 to 65535; got 70000"),
        (["RoPE(head_dim=63)"], "must be even; got 63"),
        (["Ropee"], "Did you mean RoPE"),
    ],
)
def test_wrong_words_are_a_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["explore", *words])
    assert leaving.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_browser_that_leaves_is_not_reported_and_another_error_is(explorer: Explorer, capsys) -> None:
    for error, printed in ((ConnectionResetError("gone"), False), (RuntimeError("a fault"), True)):
        try:
            raise error
        except (ConnectionError, RuntimeError):
            explorer.handle_error(None, ("127.0.0.1", 1))
        assert ("fault" in capsys.readouterr().err) == printed
