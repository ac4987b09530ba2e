"""Connection to a Ray cluster, or a private one on this machine: loopback addresses, and a token for each connection.

Whoever reaches the ports of a Ray cluster can execute code on it. A cluster that posenc starts listens on 127.0.0.1
alone, accepts only connections with a token of its own, and ends with the command.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from posenc.workbench.executors import node_check
from posenc.workbench.memory import GIB

PACKAGE = Path(__file__).parents[2]
"""Folder of posenc, which Ray gives to its workers."""
LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 5.0
"""Time within which an address must accept a connection."""
HTTP2_PREFACE, HTTP2_SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\x04\0\0\0\0\0"
"""First bytes of a client of HTTP/2, and its empty frame of settings; byte 3 is the type of a frame."""
PROBE_SECONDS = 120.0
"""Time within which every node must answer with its versions, which includes the start of a worker."""
LONGEST_FOLDER = 24
"""Longest path of a temporary folder in which Ray's sockets fit; their paths have at most 107 characters."""
NODE_DIGITS = 8
"""Digits of the identifier of a node in its name."""
STORE_BYTES = 256 << 20
"""Size of the object store of a private cluster."""


def refuse_ray_missing() -> None:
    """Check that Ray is installed.

    Raises:
        ValueError: It is not.
    """
    if importlib.util.find_spec("ray") is None:
        raise ValueError("--on ray needs Ray, which is not installed: pip install 'posenc[ray]'")


def address_of_environment() -> str:
    """Return the address of ``RAY_ADDRESS``, which names the user's cluster to every program that uses Ray; or ""."""
    return os.environ.get("RAY_ADDRESS", "")


@contextmanager
def connection(address: str, cpus: int) -> Iterator[Any]:
    """Connect to a cluster, or start a private one; the present connection is used if this process has one.

    Args:
        address: "HOST:PORT", "auto" or "ray://..."; "" for ``RAY_ADDRESS`` of the environment, or else a private
            cluster.
        cpus: Number of CPUs of a private cluster.

    Yields:
        The module ``ray``.

    Raises:
        ValueError: There is no cluster at the address, it refuses the token, or its versions are other ones.
    """
    refuse_ray_missing()
    with _environment() as folder:
        address = address or address_of_environment()
        if address:
            refuse_unreachable(address)
        else:
            _make_token(folder)
        import ray

        if ray.is_initialized():
            yield ray
            return
        try:
            with nullcontext() if address else _loopback():
                _initialize(ray, address, cpus, folder)
            with patch("ray._private.worker.print_to_stdstream"):  # Ray's own lines on workers that die
                yield ray
        finally:
            ray.shutdown()


def _initialize(ray: Any, address: str, cpus: int, folder: Path) -> None:
    options: dict[str, Any] = {
        "runtime_env": {"py_modules": [str(PACKAGE)], "excludes": ["**/__pycache__"]},
        "log_to_driver": False,
        "logging_level": "error",
        "configure_logging": False,
        "include_dashboard": False,
    }
    if address:
        del options["include_dashboard"]
        options["address"] = address
        if re.match(r"127\.\d+\.\d+\.\d+:", address):
            options["_node_ip_address"] = address.partition(":")[0]
    else:
        options |= {"address": "local", "num_cpus": cpus, "_node_ip_address": LOOPBACK}
        options |= {"object_store_memory": STORE_BYTES, "_temp_dir": str(folder)}
    where = f"at {address}" if address else "on this machine"
    try:
        ray.init(**options)
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        if "ersion mismatch" in text:
            raise ValueError(f"The Ray cluster {where} has other versions: {text}") from None
        if "AuthenticationError" in type(error).__name__ or "token" in text.lower():
            raise ValueError(
                f"The Ray cluster {where} refuses the token of this command. Set RAY_AUTH_MODE=token and "
                f"RAY_AUTH_TOKEN_PATH to the file with the cluster's token. ({text[:120]})"
            ) from None
        raise ValueError(f"No connection to a Ray cluster {where}: {type(error).__name__}: {text}") from None


def refuse_unreachable(address: str) -> None:
    """Check that a Ray cluster answers at an address. "auto" has none.

    Args:
        address: "HOST:PORT", "ray://HOST:PORT" or "auto".

    Raises:
        ValueError: It is no address, nothing accepts a connection there, or another program does.
    """
    found = re.fullmatch(r"(?:ray://)?\[?([^\[\]]+?)\]?:(\d{1,5})", address)
    if address == "auto":
        return
    if found is None or int(found[2]) > 65535:
        raise ValueError(f"{address!r} is not the address of a Ray cluster. Write --on ray=HOST:PORT, or --on ray.")
    try:
        with socket.create_connection((found[1], int(found[2])), CONNECT_SECONDS) as opened:
            answers = _answers_http2(opened)
    except OSError as error:
        raise ValueError(
            f"There is no Ray cluster at {address} ({error.strerror or error}). Start one there: ray start --head "
            f"--port {found[2]}; or leave the address out for a private one: --on ray"
        ) from None
    if not answers and os.environ.get("RAY_USE_TLS", "0") in ("", "0"):
        raise ValueError(
            f"The program at {address} is not a Ray cluster. Write the address that ray start --head has printed: "
            "--on ray=HOST:PORT"
        )


def _answers_http2(opened: socket.socket) -> bool:
    """True if a program answers the first bytes of HTTP/2 with settings, as Ray's servers do."""
    opened.settimeout(CONNECT_SECONDS)
    answer = b""
    try:
        opened.sendall(HTTP2_PREFACE + HTTP2_SETTINGS)
        while len(answer) < len(HTTP2_SETTINGS) and (part := opened.recv(len(HTTP2_SETTINGS))):
            answer += part
    except OSError:
        return False
    return len(answer) >= len(HTTP2_SETTINGS) and answer[3] == HTTP2_SETTINGS[3]


@contextmanager
def _environment() -> Iterator[Path]:
    """Context that restores the environment variables that Ray reads, with a folder for a private cluster."""
    before, base = dict(os.environ), tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="posenc-ray-", dir=base if len(base) <= LONGEST_FOLDER else "/tmp"))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        yield folder
    finally:
        for name in set(os.environ) - set(before):
            if name.startswith("RAY_"):
                del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if name.startswith("RAY_")})
        shutil.rmtree(folder, ignore_errors=True)


def _make_token(folder: Path) -> None:
    """Write a new token that its user alone can read, and name it to the processes of the private cluster."""
    path = folder / "token"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32))
    os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN_PATH"] = "token", str(path)
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")  # Ray reads both once in a process, and this may be its second cluster.
    raylet.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _loopback() -> Iterator[None]:
    """Context in which Ray keeps 127.0.0.1, on which its servers then listen alone, instead of a public address."""
    from ray._private import services

    with (
        patch.object(services, "resolve_ip_for_localhost", lambda host: host),
        patch.object(services, "get_node_ip_address", lambda address=None: LOOPBACK),
    ):
        yield


def refuse_unable_nodes(ray: Any, outside: list[str]) -> list[str]:
    """Ask every node for its versions and for paths that runs read.

    Args:
        ray: The module, connected.
        outside: Paths outside the store that runs read.

    Returns:
        Names of the nodes. One that dies before it answers is left out.

    Raises:
        ValueError: A node has other versions, lacks a path, or does not answer.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = _live_nodes(ray)
    remote = ray.remote(probe)
    answers = {}
    for node in nodes:
        place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        answers[remote.options(num_cpus=0, scheduling_strategy=place, max_retries=0).remote(outside)] = node
    ready, silent = ray.wait(list(answers), num_returns=len(answers), timeout=PROBE_SECONDS)
    failed = {answers[each]["NodeID"]: "does not answer. Look at its state: ray status" for each in silent}
    for answer in ready:
        name = _name(answers[answer])
        try:
            there, missing = ray.get(answer)
        except Exception as error:
            text = " ".join(str(getattr(error, "cause", None) or error).split())[-300:]
            failed[answers[answer]["NodeID"]] = f"cannot execute posenc: {text}"
            continue
        if sentence := node_check.other_versions(there, name):
            raise ValueError(sentence)
        if missing:
            raise ValueError(node_check.unreadable_sentence(missing[0], f"The Ray node {name}"))
    left = _live_nodes(ray) if failed else nodes
    for node in left:
        if why := failed.get(node["NodeID"]):
            raise ValueError(f"The Ray node {_name(node)} {why}")
    return sorted(_name(node) for node in nodes if node["NodeID"] not in failed)


def _live_nodes(ray: Any) -> list[dict[str, Any]]:
    """Nodes that can execute runs; ValueError if there are none."""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    if not nodes:
        raise ValueError("The Ray cluster has no node with a CPU. Add one: ray start --address HOST:PORT --num-cpus 1")
    return nodes


def refuse_too_small(ray: Any, gpu: bool, memory: float) -> None:
    """Check that a node can execute the largest run; Ray would wait for such a node for ever.

    Args:
        ray: The module, connected.
        gpu: True if a run needs a GPU.
        memory: Bytes of the largest run on the CPU.

    Raises:
        ValueError: No node can.
    """
    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if gpu and not any(each.get("GPU", 0) >= 1 for each in resources):
        raise ValueError("No node of the Ray cluster has a GPU. Write --device cpu, or add a node with one.")
    most = max((each.get("memory", 0.0) for each in resources), default=0.0)
    if memory > most:
        raise ValueError(
            f"A run needs {memory / GIB:.1f} GiB of memory, and no node of the Ray cluster has more than "
            f"{most / GIB:.1f}. Add a larger node, or change the study to need less."
        )


def other_node(ray: Any, avoided: Collection[str], number: int) -> Any:
    """Strategy that prefers a node on which runs have not failed.

    A node with a full disk fails at once, so it is always free, and would be given every run again.

    Args:
        ray: The module, connected.
        avoided: Names of the nodes on which the runs have failed.
        number: Number that chooses one of several other nodes.

    Returns:
        The strategy; None without such failures, or without another node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    left = {name.rpartition("-")[2] for name in avoided}
    alive = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")] if left else []
    others = [node for node in alive if node[:NODE_DIGITS] not in left]
    return NodeAffinitySchedulingStrategy(others[number % len(others)], soft=True) if others else None


def worker_node(ray: Any) -> str:
    """Return the name of the node of a worker: its address, and the start of its identifier.

    Args:
        ray: The module, in a worker.

    Returns:
        The name.
    """
    return f"{ray.util.get_node_ip_address()}-{ray.get_runtime_context().get_node_id()[:NODE_DIGITS]}"


def probe(outside: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the versions of a worker, and the paths that it cannot read.

    Args:
        outside: Paths.

    Returns:
        Versions by package, and the paths that it cannot read.
    """
    return node_check.versions(), node_check.unreadable(outside)


def _name(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})"
