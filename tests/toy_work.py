"""A toy study for the tests: a tiny model, a few hundred steps, a checkpoint every so often; and a command to run it.

python tests/toy_work.py run FOLDER [--runs 6] [--steps 240] [--pause 0.002] [--processes 2] [--on ray]
python tests/toy_work.py results FOLDER
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from posenc.workbench.executors.engines import engine_executor, engine_request
from posenc.workbench.runner import Executor, Local, run
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.tables.export import as_csv
from posenc.workbench.training import checkpoint

Report = Callable[[int, int, float, dict[str, float]], None]


def spec(seed: int, name: str = "train", **settings: object) -> RunSpec:
    settings = {"steps": 240, "every": 40, "pause": 0.0} | settings
    names = {"procedure": f"toy.{name}", "entry": f"toy_work:{name}"}
    return RunSpec(study="toy", variant="line", seed=seed, preset="quick", settings=settings, **names)


def toys(count: int, name: str = "train", **settings: object) -> list[RunSpec]:
    return [spec(seed, name, **settings) for seed in range(count)]


def begun(root: Path) -> list[list[str]]:
    """The lines of the toy's log: begin or again, identity, first step, process."""
    log = root / "toy.log"
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def log(workdir: Path, line: str) -> None:
    """One line at the end of the store's `toy.log`; short appends do not interleave."""
    with (workdir.parent.parent / "toy.log").open("a") as file:
        file.write(line + "\n")


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Least squares by SGD with dropout, so that the random state matters to a resumed run."""
    steps, every = spec.settings["steps"], spec.settings["every"]
    finished = (workdir.parent.parent / "units" / spec.identity / "unit.json").exists()
    torch.manual_seed(spec.seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    curve: list[dict] = []
    state = checkpoint.load(workdir / "state.pt")
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        curve = state["curve"]
    first = state["step"] if state else 0
    log(workdir, f"{'again' if finished else 'begin'} {spec.identity} {first} {os.getpid()}")
    for step in range(first, steps):
        x = torch.randn(32, 8)
        loss = (model(x) - x.sum(-1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(spec.settings["pause"])
        if (step + 1) % every == 0:
            curve.append({"epoch": step + 1, "metric": "loss", "value": loss.item()})
            rng = torch.get_rng_state()
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": rng, "curve": curve}
            checkpoint.save(workdir / "state.pt", state | {"step": step + 1})
        report(step + 1, steps, 32.0, {"loss": loss.item()})
    weights = model.state_dict()
    errors = torch.stack([w.sum() for w in weights.values()])
    return RunResult(
        metrics={"loss": curve[-1]["value"]}, curves=curve, arrays={"sums": errors.numpy()}, weights=weights
    )


def nothing(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """A run that does nothing, to time what is beside the training."""
    return RunResult(metrics={"value": 0.0})


def timed(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """A run that notes when its process started, and when it began and ended itself, on the clock of the machine."""
    ticks = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    begin = machine_clock()
    time.sleep(spec.settings["pause"])
    times = {"process": ticks / os.sysconf("SC_CLK_TCK"), "begin": begin, "end": machine_clock()}
    return RunResult(metrics=times | {"pid": float(os.getpid())})


def machine_clock() -> float:
    """Seconds since the machine started, the same in all processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def fail(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    raise ValueError("The toy fails on purpose; ask for `train` instead.")


def die(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    os._exit(7)


def hang(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Says that it is there and then works for ever."""
    log(workdir, f"begin {spec.identity} 0 {os.getpid()}")
    while True:
        time.sleep(0.1)


def assert_same(store: Store, reference: Store) -> None:
    """Byte for byte the same table, curves, arrays and weights."""
    assert as_csv(store.results()) == as_csv(reference.results())
    assert store.curves() == reference.curves()
    for spec in reference.specs():
        for name in ("metrics.jsonl", "curves.jsonl", "arrays.safetensors", "weights.safetensors"):
            part = Path("units") / spec.identity / name
            assert (store.root / part).read_bytes() == (reference.root / part).read_bytes()


def executor(on: str, processes: int) -> Executor:
    """The executor of a text such as "local" or "ray=HOST:PORT"."""
    runs_per_job = 2 if on.startswith("slurm") else None
    engine = engine_request(on, runs_per_job=runs_per_job, options=(), device="cpu")
    return engine_executor(engine) if engine else Local(processes)


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has its children ignore it
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["run", "results"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--procedure", default="train")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--pause", type=float, default=0.002)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--on", default="local", help="as --on of posenc run; two runs a job on SLURM")
    chosen = parser.parse_args()
    if chosen.command == "results":
        print(as_csv(Store(chosen.folder).results()), end="")
        return 0
    specs = [spec(seed, chosen.procedure, steps=chosen.steps, pause=chosen.pause) for seed in range(chosen.runs)]
    try:
        return run(specs, Store(chosen.folder), executor(chosen.on, chosen.processes)).exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
