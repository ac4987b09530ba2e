"""SLURM with two nodes and Ray with two nodes on loopback addresses of this machine, started and stopped by process id.

Nothing outside this process's own daemons is touched, and no system service is used. Every file lies in one folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

COUNT_NODES = """
import sys, time
import ray
ray.init(sys.argv[1], _node_ip_address=sys.argv[1].partition(":")[0], log_to_driver=False, logging_level="error")
deadline = time.monotonic() + 180
while sum(node["Alive"] for node in ray.nodes()) != int(sys.argv[2]):
    if time.monotonic() > deadline:
        sys.exit(f"after 180 s it has {[node['NodeManagerAddress'] for node in ray.nodes() if node['Alive']]}")
    time.sleep(0.5)
"""
"""Program that waits until a cluster of Ray has some live nodes."""
STARTED = "slurmd started"
"""Line of the log of slurmd."""
HEAD, WORKER = "127.0.0.2", "127.0.0.3"
SLURM_CONF = """
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdTimeout=20
KillWait=5
MinJobAge=300
SchedulerParameters=sched_interval=1,batch_sched_delay=1
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=8000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=8000
PartitionName=two Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """Two nodes of SLURM.

    Args:
        folder: Folder of configuration, state and logs.

    Attributes:
        environment: Variables for commands that use it.
        daemons: Name to process.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.daemons = folder, dict[str, subprocess.Popen[bytes]]()
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        names = {"host": socket.gethostname(), "user": user, "folder": folder, "ports": free_ports(3)}
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        for part in ("state", "spool-n1", "spool-n2"):
            (folder / part).mkdir(exist_ok=True)
        (folder / "slurm.conf").write_text(SLURM_CONF.format(**names))
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)

    def start(self) -> None:
        """Start munged, slurmctld and two slurmd."""
        parts = {
            name: f"--{name}={self.folder}/munge.{end}" for name, end in (("socket", "socket"), ("pid-file", "pid"))
        }
        words = [*parts.values(), f"--key-file={self.folder}/munge.key", f"--log-file={self.folder}/munge.log"]
        self._start("munged", ["munged", "--foreground", "--force", f"--seed-file={self.folder}/munge.seed", *words])
        wait_until(lambda: (self.folder / "munge.socket").exists(), "munged")
        self._start("slurmctld", ["slurmctld", "-D", "-i"])
        for node in ("n1", "n2"):
            self.start_node(node)
        wait_until(lambda: self.ask("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "2", "the nodes of SLURM")

    def start_node(self, node: str, *before: str) -> None:
        """Start the slurmd of a node, with words before its command such as those of unshare."""
        slurmd = shutil.which("slurmd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or "slurmd"
        self._start(node, [*before, slurmd, "-D", "-N", node])

    def restart_node(self, node: str, *before: str) -> None:
        """End the slurmd of a node and start it again, until it is idle."""
        log = self.folder / f"slurmd-{node}.log"
        starts = log.read_text().count(STARTED)
        end(self.daemons[node])
        self.start_node(node, *before)
        wait_until(lambda: log.read_text().count(STARTED) > starts, f"the node {node}")
        wait_until(lambda: self.ask("sinfo", "-h", "-n", node, "-o", "%t").strip() == "idle", f"the node {node}")

    def _start(self, name: str, words: list[str]) -> None:
        path = shutil.which(words[0], path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        with (self.folder / f"{name}.out").open("ab") as log:
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}
            self.daemons[name] = subprocess.Popen([path or words[0], *words[1:]], env=self.environment, **options)

    def ask(self, *words: str) -> str:
        """Output of a command of SLURM; "" if it fails."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False, timeout=60)
        return done.stdout if done.returncode == 0 else ""

    def stop(self) -> None:
        """Cancel all jobs, then stop the daemons that were started here."""
        with suppress(subprocess.TimeoutExpired):
            self.ask("scancel", "--me")
            wait_until(lambda: not self.ask("squeue", "-h").strip(), "the jobs", seconds=15, strict=False)
        for name in ("n1", "n2", "slurmctld", "munged"):
            if process := self.daemons.get(name):
                end(process)


class Ray:
    """Two nodes of Ray with a token of their own.

    Args:
        folder: Folder of the token and the logs.

    Attributes:
        address: Address of the cluster.
        environment: Variables for commands that use it.
        nodes: Address of a node to its process, which ends the node when it ends.
        groups: Process groups of all nodes that were started.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.nodes = folder, dict[str, subprocess.Popen[bytes]]()
        self.groups: list[int] = []
        folder.mkdir(parents=True, exist_ok=True)
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        self.port = free_ports(1)[0]
        self.address = f"{HEAD}:{self.port}"
        self.environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        self.environment |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder)}
        self.environment.pop("RAY_ADDRESS", None)

    def start(self) -> None:
        """Start the head and a second node, with one CPU each."""
        self.start_node(HEAD)
        wait_until(lambda: is_open(HEAD, self.port), "the head of Ray", seconds=180)
        self.start_node(WORKER)
        self.wait_for_nodes(2)

    def wait_for_nodes(self, count: int) -> None:
        """Wait until the head knows some live nodes."""
        command = [sys.executable, "-c", COUNT_NODES, self.address, str(count)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=240)
        if done.returncode:
            raise RuntimeError(f"Ray has no {count} nodes: {done.stderr[-500:]}")

    def start_node(self, address: str, cpus: int = 1) -> None:
        """Start a node."""
        words = [f"--node-ip-address={address}", f"--num-cpus={cpus}", "--block", "--object-store-memory=104857600"]
        words += ["--disable-usage-stats"]
        head = ["--head", f"--port={self.port}", "--include-dashboard=false"]
        words += head if address == HEAD else [f"--address={self.address}"]
        with (self.folder / f"{address}.out").open("ab") as log:
            command = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", *words]
            options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "start_new_session": True}
            self.nodes[address] = subprocess.Popen(command, env=self.environment, **options)
            self.groups.append(self.nodes[address].pid)

    def kill_node(self, address: str) -> None:
        """End a node at once: every process of its session."""
        process = self.nodes.pop(address)
        send(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Stop the nodes that were started here."""
        for address in (WORKER, HEAD):
            if process := self.nodes.pop(address, None):
                end(process)


@contextmanager
def running(cluster: Slurm | Ray) -> Iterator[Slurm | Ray]:
    """Context with a started cluster; it is stopped at the end."""
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def end(process: subprocess.Popen[bytes]) -> None:
    """End the processes of a session: by SIGTERM, and those that are left after ten seconds by SIGKILL."""
    for number, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        send(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        wait_until(lambda: not members(process.pid), "the end", seconds=3.0, strict=False)
        if not members(process.pid):
            return


def send(session: int, number: int) -> None:
    """Send a signal to every process of a session."""
    for pid in members(session):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def members(session: int) -> list[int]:
    """Live processes of a session. The workers of Ray have process groups of their own in the session of their node."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            state, _, _, sid = stat.read_text().rpartition(")")[2].split()[:4]
            found += [int(stat.parent.name)] if int(sid) == session and state not in "ZX" else []
    return found


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60.0, strict: bool = True) -> None:
    """Wait until a condition holds; RuntimeError after a while."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            if strict:
                raise RuntimeError(f"{what} did not come up in {seconds:.0f} s")
            return
        time.sleep(0.2)


def is_open(host: str, port: int) -> bool:
    """True if a port accepts a connection."""
    with suppress(OSError):
        socket.create_connection((host, port), 1.0).close()
        return True
    return False


def free_ports(count: int) -> list[int]:
    """Ports that nothing uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
