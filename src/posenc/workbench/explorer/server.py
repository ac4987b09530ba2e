"""Local server of the explorer: it listens on the loopback address alone and computes arrays from calls as text.

It serves the files of the page and answers two questions, ``/picture`` and ``/code``. It reads no path that a request
names. A request with another Host, Origin or site is refused.
"""

from __future__ import annotations

import errno
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from posenc.lookup.scheme_text import call_text, parse
from posenc.measure.distance_decay import with_sizes
from posenc.workbench.explorer.code_text import code_of
from posenc.workbench.explorer.manifest import ASSETS, SCRIPTS
from posenc.workbench.explorer.options import FACTOR, TRAINED
from posenc.workbench.explorer.pictures import PICTURES, draw, make
from posenc.workbench.report import page

LOOPBACK = "127.0.0.1"
PORT = 8765
"""Port that is tried by default, so that a link stays valid."""
SILENCE = 60.0
"""Seconds after which a silent connection is closed."""
COLORS = Path(page.__file__).parent / "page.css"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:"
TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "json": "application/json"}
LARGEST_TRAINED, LARGEST_FACTOR = 10_000_000, 10_000.0


class Explorer(ThreadingHTTPServer):
    """Server of the page.

    Attributes:
        script: The script that starts the page.
        computing: One drawing is computed at a time: torch's random numbers are those of the process.
    """

    daemon_threads = True

    def __init__(self, script: str, port: int = PORT) -> None:
        self.script, self.computing = script, threading.Lock()
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            why = "is in use" if error.errno == errno.EADDRINUSE else "is not allowed for this user"
            raise ValueError(
                f"port {port} of {LOOPBACK} {why}. Use another one: --port {port + 1 if port < 65535 else 8766}, or "
                "--port 0 for any free one."
            ) from error

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about a browser that left before its answer came."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def files(self) -> dict[str, tuple[str, bytes]]:
        """Path to type and content of each file of the page."""
        found = {f"/{name}": (ASSETS / name).read_bytes() for name in ("explorer.css", *SCRIPTS[:-1])}
        found["/page.css"] = COLORS.read_bytes()
        found["/schemes.js"], found["/"] = self.script.encode(), local_page().encode()
        return {path: (path.rpartition(".")[2] if "." in path else "html", body) for path, body in found.items()}


def local_page() -> str:
    """Return the HTML of the local page."""
    body = (ASSETS / "explorer.html").read_text(encoding="utf-8")
    scripts = "".join(f'<script src="{name}"></script>\n' for name in SCRIPTS)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>posenc: explorer</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        '<link rel="stylesheet" href="page.css">\n<link rel="stylesheet" href="explorer.css">\n</head>\n<body>\n'
        f"<main>\n<h1>Explorer</h1>\n{body}</main>\n{scripts}</body>\n</html>\n"
    )


def answer(path: str, values: dict[str, str]) -> dict[str, Any]:
    """Answer a question of the page.

    Args:
        path: "/picture" or "/code".
        values: "call"; for a picture also "name", "trained" and "factor".

    Returns:
        The answer for JSON.

    Raises:
        ValueError: The call cannot be built, or a value is wrong.
    """
    call = with_sizes(parse(values.get("call", "")))
    if path == "/code":
        make(call)
        return {"code": code_of(call)}
    name = values.get("name", "")
    if name not in PICTURES:
        raise ValueError(f"there is no picture {name!r}. The pictures are {', '.join(PICTURES)}.")
    trained = _number(values, "trained", TRAINED, 2, LARGEST_TRAINED)
    factor = _number(values, "factor", FACTOR, 1, LARGEST_FACTOR)
    return draw(make(call, trained=round(trained), factor=factor), name)


def _number(values: dict[str, str], name: str, default: float, least: float, most: float) -> float:
    text = values.get(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise ValueError(f"{name} is a number from {least:g} to {most:g}; got {text[:40]!r}.")
    return number


class _Handler(BaseHTTPRequestHandler):
    """Answers to one connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "posenc", ""
    timeout = SILENCE
    disable_nagle_algorithm = True  # else the body waits some 40 ms for the browser to acknowledge the headers

    @property
    def explorer(self) -> Explorer:
        """The server."""
        assert isinstance(self.server, Explorer), "no other server has this handler"
        return self.server

    def do_GET(self) -> None:
        """Answer a request, or refuse it."""
        url = urlsplit(self.path)
        if (why := self._refused(url.path)) is not None:
            self._send(403, "json", json.dumps({"error": why}).encode())
            return
        if url.path in ("/picture", "/code"):
            status, content = self._computed(url.path, url.query)
            self._send(status, "json", json.dumps(content, allow_nan=False).encode())
            return
        files = self.explorer.files()
        if url.path not in files:
            self._send(404, "json", json.dumps({"error": f"there is no {url.path[:80]} here."}).encode())
            return
        kind, body = files[url.path]
        self._send(200, kind, body)

    def _refused(self, path: str) -> str | None:
        """Why a request is refused: it names another host, or comes from another site; None if it is not."""
        hosts = [f"{name}:{self.explorer.server_port}" for name in (LOOPBACK, "localhost")]
        if self.headers.get("Host") not in hosts:
            return f"this server answers requests to {hosts[0]} alone."
        origin = self.headers.get("Origin")
        if origin is not None and origin not in [f"http://{host}" for host in hosts]:
            return "this server answers its own page alone."
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and path != "/":
            return "this server answers its own page alone."
        return None

    def _computed(self, path: str, query: str) -> tuple[int, dict[str, Any]]:
        values = {name: each[-1] for name, each in parse_qs(query, keep_blank_values=True, max_num_fields=10).items()}
        with self.explorer.computing:
            try:
                return 200, answer(path, values)
            except ValueError as error:
                return 400, {"error": str(error)}
            except Exception as error:  # of a scheme of one's own: the page says so, and the server goes on
                words = f"{type(error).__name__}: {str(error).partition(chr(10))[0] or 'no message'}"
                return 400, {"error": f"{values.get('call', '')} cannot be drawn: {words}"}

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{TYPES[kind]}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the page shows what went wrong."""


def first_call(text: str) -> str:
    """Return the call of a text with every argument that the page needs.

    Args:
        text: An encoding as text, with names of ``posenc.lookup.own_scheme``.

    Returns:
        The call.

    Raises:
        ValueError: The text is no call of an encoding that can be built.
    """
    call = with_sizes(parse(text))
    make(call)
    return call_text(call)
