"""A toy study for the tests: a tiny model, a few hundred steps, a checkpoint every so often; and a command to run it.

python tests/toy_work.py run FOLDER [--units 6] [--steps 240] [--pause 0.002] [--processes 2]
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

from posenc.export import as_csv
from posenc.runner import Local, run
from posenc.store import Outcome, Store, Unit
from posenc.training import checkpoint

Report = Callable[[int, int, float, dict[str, float]], None]


def unit(seed: int, work: str = "train", **settings: object) -> Unit:
    settings = {"steps": 240, "every": 40, "pause": 0.0} | settings
    return Unit(study="toy", scheme="line", seed=seed, preset="quick", work=f"toy_work:{work}", settings=settings)


def toys(count: int, work: str = "train", **settings: object) -> list[Unit]:
    return [unit(seed, work, **settings) for seed in range(count)]


def begun(root: Path) -> list[list[str]]:
    """The lines of the toy's log: begin or again, key, first step, process."""
    log = root / "toy.log"
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def log(workdir: Path, line: str) -> None:
    """One line at the end of the store's `toy.log`; short appends do not interleave."""
    with (workdir.parent.parent / "toy.log").open("a") as file:
        file.write(line + "\n")


def train(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """Least squares by SGD with dropout, so that the random state matters to a resumed run."""
    steps, every = unit.settings["steps"], unit.settings["every"]
    finished = (workdir.parent.parent / "units" / unit.key / "unit.json").exists()
    torch.manual_seed(unit.seed)
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
    log(workdir, f"{'again' if finished else 'begin'} {unit.key} {first} {os.getpid()}")
    for step in range(first, steps):
        x = torch.randn(32, 8)
        loss = (model(x) - x.sum(-1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(unit.settings["pause"])
        if (step + 1) % every == 0:
            curve.append({"epoch": step + 1, "metric": "loss", "value": loss.item()})
            rng = torch.get_rng_state()
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": rng, "curve": curve}
            checkpoint.save(workdir / "state.pt", state | {"step": step + 1})
        report(step + 1, steps, 32.0, {"loss": loss.item()})
    weights = model.state_dict()
    errors = torch.stack([w.sum() for w in weights.values()])
    return Outcome(metrics={"loss": curve[-1]["value"]}, curves=curve, arrays={"sums": errors.numpy()}, weights=weights)


def fail(unit: Unit, workdir: Path, report: Report) -> Outcome:
    raise ValueError("The toy fails on purpose; ask for `train` instead.")


def die(unit: Unit, workdir: Path, report: Report) -> Outcome:
    os._exit(7)


def hang(unit: Unit, workdir: Path, report: Report) -> Outcome:
    """Says that it is there and then works for ever."""
    log(workdir, f"begin {unit.key} 0 {os.getpid()}")
    while True:
        time.sleep(0.1)


def assert_same(store: Store, reference: Store) -> None:
    """Byte for byte the same table, curves, arrays and weights."""
    assert as_csv(store.results()) == as_csv(reference.results())
    assert store.curves() == reference.curves()
    for unit in reference.units():
        for name in ("metrics.jsonl", "curves.jsonl", "arrays.safetensors", "weights.safetensors"):
            part = Path("units") / unit.key / name
            assert (store.root / part).read_bytes() == (reference.root / part).read_bytes()


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has its children ignore it
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["run", "results"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", default="train")
    parser.add_argument("--units", type=int, default=6)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--pause", type=float, default=0.002)
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.command == "results":
        print(as_csv(Store(chosen.folder).results()), end="")
        return 0
    units = [unit(seed, chosen.work, steps=chosen.steps, pause=chosen.pause) for seed in range(chosen.units)]
    try:
        return run(units, Store(chosen.folder), Local(chosen.processes)).exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
