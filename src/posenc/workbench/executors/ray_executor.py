"""Executor on a Ray cluster: each run is a Ray task, and this process alone writes the store.

Workers need no file system in common with the store. Data travel by content digest through Ray's object store, once to
each node. Results, events and checkpoints travel back. A run whose worker or node dies is started again from the last
checkpoint that arrived, at most three times; a run that fails on data or code is reported once.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from posenc.workbench import provenance
from posenc.workbench.executors import node_check, procedures_by_value, ray_cluster, remote_work
from posenc.workbench.executors.processes import codes_of
from posenc.workbench.executors.remote_work import Assignment, Message
from posenc.workbench.executors.run_files import RunFiles
from posenc.workbench.executors.stop_requests import StopRequests
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.progress import Event
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store, StoreError
from posenc.workbench.worker import POLL_SECONDS, Emit, find_batched, waiting_for

RETRIES = 3
"""Number of times that a run is started again because a machine failed."""
BATCH = 16
"""Largest number of models in a batch on a GPU; a worker divides a batch that does not fit into memory."""
FEWEST_IN_FLIGHT = 16


class RayExecutor:
    """Executor that executes runs as tasks of a Ray cluster.

    Args:
        address: Address of the cluster, such as "head:6379". "" for that of the environment variable ``RAY_ADDRESS``,
            or a private cluster on this machine, which ends with the runs.
        cpus: Number of CPUs of a private cluster; None for one per core.
        memory: Bytes that a run needs, which its task declares; None to declare none.
        gpus: GPUs that a run on CUDA declares; less than 1 if several runs share a GPU.

    Example:
        >>> from posenc.workbench.executors.ray_executor import RayExecutor
        >>> str(RayExecutor("head:6379"))
        'the Ray cluster at head:6379'
    """

    def __init__(
        self,
        address: str = "",
        cpus: int | None = None,
        memory: Callable[[RunSpec], float] | None = None,
        gpus: float = 1.0,
    ) -> None:
        self.address, self.cpus, self.memory, self.gpus = address, cpus or provenance.cores(), memory, gpus
        self.checked = False
        self.ends_at: float | None = None

    def __str__(self) -> str:
        return f"the Ray cluster at {self.address}" if self.address else f"Ray with up to {self.cpus} runs at a time"

    def prepare(self, specs: Sequence[RunSpec], store_root: Path) -> str:
        """Check before anything is queued that the cluster can execute the runs.

        Args:
            specs: The runs.
            store_root: Folder of the store.

        Returns:
            A sentence on what was checked; "" if nothing was.

        Raises:
            ValueError: Ray is not installed, there is no cluster, or a node has other versions or lacks the data.
        """
        ray_cluster.refuse_ray_missing()
        self.address = self.address or ray_cluster.address_of_environment()
        if not self.address:
            return "A Ray cluster of this command alone starts with the runs, on this machine."
        if not specs:
            return ""
        self.checked = True
        with ray_cluster.connection(self.address, self.cpus) as ray:
            nodes = ray_cluster.refuse_unable_nodes(ray, RunFiles(store_root).outside(specs))
            ray_cluster.refuse_too_small(ray, any(spec.device != "cpu" for spec in specs), self._most_memory(specs))
        return f"Ray's nodes can execute the runs: {', '.join(nodes)}."

    def _most_memory(self, specs: Sequence[RunSpec]) -> float:
        """Bytes that the largest run on the CPU declares."""
        return max((self.memory(spec) for spec in specs if self.memory and spec.device == "cpu"), default=0.0)

    def run(self, specs: Sequence[RunSpec], store_root: Path, emit: Emit) -> None:
        """Execute the runs in the order of ``specs``.

        Args:
            specs: The runs, each once.
            store_root: Folder of the store, which this process alone writes.
            emit: Called with every progress event.

        Raises:
            ValueError: There is no cluster, or a node has other versions.
        """
        if not self.checked:
            self.prepare(specs, store_root)
        session = uuid.uuid4().hex[:12]
        try:
            with ray_cluster.connection(self.address, self.cpus) as ray:
                ray_cluster.refuse_too_small(ray, any(spec.device != "cpu" for spec in specs), self._most_memory(specs))
                RayQueue(ray, self, session, store_root, emit).run(specs)
        finally:  # a worker that died late, or was too busy to answer, has left its store
            remote_work.remove_stores_of_host(session)


class Flight:
    """Task of some runs that was given to Ray.

    Args:
        specs: The runs.
        leases: Locks of the runs.
        files: Content of the files, which Ray keeps as long as a task needs them.
    """

    def __init__(self, specs: Sequence[RunSpec], leases: ExitStack, files: Mapping[str, Any]) -> None:
        self.specs = {spec.identity: spec for spec in specs}
        self.leases, self.files = leases, files
        self.traces: dict[str, str] = {}
        self.machine: dict[str, str] = {}
        self.begun = False

    @property
    def left(self) -> list[RunSpec]:
        """Runs that have not ended."""
        return list(self.specs.values())


class RayQueue:
    """Queue of the runs of one execution: gives tasks to Ray, and stores what comes back.

    Args:
        ray: The module, connected.
        executor: The executor.
        session: Name of the temporary stores of the workers.
        store_root: Folder of the store.
        emit: Called with every progress event.
    """

    def __init__(self, ray: Any, executor: RayExecutor, session: str, store_root: Path, emit: Emit) -> None:
        self.ray, self.executor, self.store, self.emit = ray, executor, Store(store_root), emit
        self.session = session
        self.files = RunFiles(store_root)
        self.queue: deque[list[RunSpec]] = deque()
        self.locked: dict[str, tuple[RunSpec, float]] = {}
        self.announced: set[str] = set()
        self.flights: dict[Any, Flight] = {}
        self.contents: dict[str, Any] = {}
        self.attempts: dict[str, int] = {}
        self.codes: dict[str, Mapping[str, str]] = {}
        self.failures: dict[str, int] = {}
        self.avoided: dict[str, set[str]] = {}
        self.trouble: StoreError | None = None
        commit, dirty = provenance.git_state(Path(provenance.__file__).parent)
        self.origin = {"command": provenance.command(), "commit": commit, "dirty": dirty}
        self.task = ray.remote(num_returns="streaming", max_retries=0)(execute_on_worker)

    def run(self, specs: Sequence[RunSpec]) -> None:
        """Execute the runs.

        Args:
            specs: The runs, each once.

        Raises:
            StoreError: The store cannot be written; raised after the present runs have ended.
            KeyboardInterrupt: Ctrl-C was pressed.
            TimeIsOver: It is later than the executor's ``ends_at``.
        """
        self.own_codes, self.procedures = codes_of(specs), procedures_by_value.procedures_of(specs)
        self.queue.extend(groups(specs))
        with StopRequests(self.executor.ends_at) as stop:
            try:
                while self._hand_out(stop) and not stop.cancelled:
                    self._listen()
            finally:
                for flight in self.flights.values():
                    flight.leases.close()
                self._clean()
        if self.trouble:
            raise self.trouble
        stop.raise_if_stopped()

    def _hand_out(self, stop: StopRequests) -> bool:
        """Give tasks to Ray; return False if no run is left."""
        now = time.monotonic()
        if self.trouble or stop.stopping:
            self.queue.clear()
            self.locked.clear()
            self._withdraw()
        for key, (spec, again) in list(self.locked.items()):
            if now >= again:
                del self.locked[key]
                self.queue.append([spec])
        while self.queue and len(self.flights) < self._most():
            self._start(self.queue.popleft())
        return bool(self.queue or self.locked or self.flights)

    def _withdraw(self) -> None:
        """Take back the tasks that wait at Ray for a CPU."""
        for generator, flight in list(self.flights.items()):
            if not flight.begun:
                self.ray.cancel(generator)
                del self.flights[generator]
                flight.leases.close()

    def _most(self) -> int:
        """Largest number of tasks at Ray: two for each CPU, so that no CPU waits for this process."""
        return max(FEWEST_IN_FLIGHT, 2 * int(self.ray.cluster_resources().get("CPU", 1)))

    def _start(self, specs: Sequence[RunSpec]) -> None:
        mine, leases = list[RunSpec](), ExitStack()
        for spec in specs:
            if not leases.enter_context(self.store.lease(spec.identity)):
                if spec.identity not in self.announced:
                    self.announced.add(spec.identity)
                    self.emit(waiting_for(spec))
                self.locked[spec.identity] = (spec, time.monotonic() + POLL_SECONDS)
            elif self.store.finished(spec.identity):
                metrics = self.store.read(spec.identity).metrics
                self.emit(Event(key=spec.identity, kind="skipped", metrics=metrics))
            else:
                mine.append(spec)
        if not mine:
            leases.close()
            return
        try:
            self._submit(mine, leases)
        except OSError as error:
            leases.close()
            self._refuse(mine, str(self.store.trouble(error)))

    def _submit(self, specs: Sequence[RunSpec], leases: ExitStack) -> None:
        checkpoints: dict[str, dict[str, bytes]] = {}
        for spec in specs:
            workdir = self.store.workdir(spec)
            self.codes[spec.identity] = self.store.code.begin(spec, workdir)
            checkpoints[spec.identity] = remote_work.read_checkpoint(workdir)
        files = self.files.of(specs)
        contents = {digest: self._content(name, digest) for name, digest in files.items()}
        device = specs[0].device
        here = node_check.versions()
        work = Assignment(specs, self.session, "", files, checkpoints, self.own_codes, self.procedures, here, device)
        options: dict[str, Any] = {"num_cpus": 1, "num_gpus": 0.0}
        if device != "cpu":
            options["num_gpus"] = self.executor.gpus if len(specs) == 1 else 1.0
        if self.executor.memory and device == "cpu":
            options["memory"] = self.executor.memory(specs[0])
        avoided = set[str]().union(*(self.avoided.get(spec.identity, ()) for spec in specs))
        if place := ray_cluster.other_node(self.ray, avoided, len(self.flights)):
            options["scheduling_strategy"] = place
        generator = self.task.options(**options).remote(work, contents)
        self.flights[generator] = Flight(specs, leases, contents)

    def _content(self, name: str, digest: str) -> list[Any]:
        """Reference to the content of a file at Ray, in a list: a task does not wait for the content of a list."""
        if digest not in self.contents:
            self.contents[digest] = [self.ray.put((self.store.root / name).read_bytes())]
        return self.contents[digest]

    # -- what comes back ------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        if not self.flights:
            time.sleep(POLL_SECONDS if self.locked else 0.0)
            return
        generators = list(self.flights)
        ready, _ = self.ray.wait(generators, num_returns=len(generators), timeout=0.05)
        if not ready:
            ready, _ = self.ray.wait(generators, num_returns=1, timeout=POLL_SECONDS)
        for generator in ready:
            flight = self.flights[generator]
            try:
                messages = self.ray.get(next(generator))
            except StopIteration:
                self._end(generator, "its worker ended without a result")
            except Exception as error:
                self._end(generator, _reason(error))
            else:
                self._store_messages(flight, messages)

    def _store_messages(self, flight: Flight, messages: Sequence[Message]) -> None:
        flight.begun = True
        for message in messages:
            spec = flight.specs.get(message.key)
            try:
                if message.kind == "data":
                    self._write_data(message.content)
                elif spec is not None:
                    self._store_message(flight, spec, message)
            except (StoreError, OSError) as error:
                self.trouble = error if isinstance(error, StoreError) else self.store.trouble(error)
                if spec is not None and flight.specs.pop(spec.identity, None):
                    self.emit(Event(key=spec.identity, kind="failed", message=str(self.trouble)))

    def _store_message(self, flight: Flight, spec: RunSpec, message: Message) -> None:
        key, content = spec.identity, message.content
        if message.kind == "result":
            timing = {name: value for name, value in content.timing.items() if name != "finished_at"}
            timing["attempts"] = self.attempts.get(key, 1)
            origin = {**content.provenance, **self.origin}
            self.store.finish(spec, content.result, timing, origin, code=self.codes.get(key))
            with suppress(StoreError):
                self.store.note(key, "finished")
            del flight.specs[key]
            self.emit(Event(key=key, kind="finished", metrics=content.result.metrics))
        elif message.kind == "checkpoint":
            folder = self.store.workdir(spec)
            for name, data in content.items():
                if name != "code.json":  # This process notes the code.
                    write_whole(folder / name, data)
        elif message.kind == "failure":
            flight.traces[key] = content
        elif message.kind == "machine":
            node, flight.machine[key] = content
            self.avoided.setdefault(key, set()).add(node)
        elif content.kind == "failed":
            self._fail(flight, spec, content)
        else:
            if content.kind == "started" and not content.message:
                self.attempts[key] = self.store.note(key, "started")
            self.emit(content)

    def _fail(self, flight: Flight, spec: RunSpec, event: Event) -> None:
        del flight.specs[spec.identity]
        sentence = event.message.partition(" (where: ")[0]
        if flight.traces.get(spec.identity):
            path = self.store.workdir(spec) / "failure.txt"
            path.write_text(flight.traces[spec.identity])
            sentence += f" ({flight.traces[spec.identity].partition(':')[0].lower()}, where: {path})"
        self.emit(Event(key=spec.identity, kind="failed", message=sentence))

    def _write_data(self, files: Mapping[str, bytes]) -> None:
        """Write data that runs have generated, if the store lacks them."""
        for name, content in files.items():
            path = self.store.root / name
            if not path.exists() and ".." not in Path(name).parts and Path(name).parts[0] == "data":
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, content)

    def _end(self, generator: Any, reason: str) -> None:
        """End a task: release its locks, and put runs that have no result back into the queue, if a machine failed."""
        flight = self.flights.pop(generator)
        flight.leases.close()
        for spec in flight.left:
            why = flight.machine.get(spec.identity, reason).rstrip(".")
            if why.startswith("code: "):
                self._refuse([spec], why.removeprefix("code: "))
                continue
            self.failures[spec.identity] = self.failures.get(spec.identity, 0) + 1
            if self.failures[spec.identity] > RETRIES:
                again = "Run the same command again: it continues from the checkpoint."
                self._refuse(
                    [spec], f"A machine failed {RETRIES + 1} times under it, at last: {why.rstrip('.')}. {again}"
                )
            else:
                self.emit(
                    Event(key=spec.identity, kind="started", message=f"its machine failed: {why}; it starts again")
                )
                self.queue.appendleft([spec])

    def _refuse(self, specs: Sequence[RunSpec], sentence: str) -> None:
        for spec in specs:
            self.emit(Event(key=spec.identity, kind="failed", message=sentence))

    def _clean(self) -> None:
        """Remove the temporary stores of the nodes. Those of a killed command are removed two days later."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        with suppress(Exception):
            remote, answers = self.ray.remote(clean_worker), []
            for node in self.ray.nodes():
                if node["Alive"]:
                    place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                    options = remote.options(num_cpus=0, scheduling_strategy=place, max_retries=0)
                    answers.append(options.remote(self.session))
            self.ray.wait(answers, num_returns=len(answers), timeout=10.0)


def groups(specs: Sequence[RunSpec]) -> list[list[RunSpec]]:
    """Divide runs into tasks: one run each on the CPU, and batches of equal shapes on CUDA.

    Args:
        specs: The runs.

    Returns:
        The runs of each task, in the order of the first run of each.
    """
    parts: dict[tuple[str, str], list[list[RunSpec]]] = {}
    for spec in specs:
        batched = find_batched(spec.entry) if spec.device.startswith("cuda") else None
        alike = parts.setdefault((spec.entry, batched.group(spec) if batched else spec.identity), [[]])
        if len(alike[-1]) == BATCH:
            alike.append([])
        alike[-1].append(spec)
    return [part for each in parts.values() for part in each]


def _reason(error: Exception) -> str:
    """Why a task ended, in one sentence; it starts with "code: " for an error that no other machine would avoid."""
    name, text = type(error).__name__, " ".join(str(error).split())
    if name.startswith("RayTaskError"):
        return f"code: {' '.join(str(getattr(error, 'cause', error)).split())[:300]}"
    return f"{name}: {text[:160]}".rstrip(".")


def execute_on_worker(work: Assignment, contents: Mapping[str, list[Any]]) -> Iterator[list[Message]]:
    """Execute runs in a worker of Ray.

    Args:
        work: The runs.
        contents: Digest to a reference to the content of a file.

    Yields:
        Lists of messages.
    """
    import ray

    node = ray_cluster.worker_node(ray)
    yield from remote_work.execute_assignment(work._replace(node=node), lambda digest: ray.get(contents[digest][0]))


def clean_worker(session: str) -> None:
    """Remove the temporary store of a command on the node of this worker.

    Args:
        session: Name of the temporary store.
    """
    import ray

    remote_work.remove_temporary_store(session, ray_cluster.worker_node(ray))
