"""A day on a GPU as one command in slices: correctness, speed, Table 1, Table A2, and vision transformers.

    python benchmarks/gpu/day.py --state runs/day --data DIR            one slice of at most 8 minutes; again: the next
    python benchmarks/gpu/day.py --state runs/day --data DIR --slice 4m --steps correctness table1
    python benchmarks/gpu/day.py --state runs/day --device cpu --tiny   a rehearsal of all steps in minutes

The steps have 25 minutes in all (``STEPS``). A slice ends by itself: it interrupts the present step, whose finished
runs and checkpoints are kept, and the next slice continues it until its minutes are spent. The folder of --state then
holds ``day.json`` (seconds and outcome of each step), a JSON file for each step, and packs of the finished runs. The
last line says what comes next. A failed step does not stop the others.

Needed: the repository, torch, and for the runs of the papers a folder --data with ``lst`` (Latin squares),
``fashion_mnist`` and ``caltech100``. Missing parts are named at the start.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

GPU = Path(__file__).parent
PACKAGES = ("torch", "numpy", "msgspec", "safetensors", "triton")
GRACE = 45.0
"""Seconds that an interrupted step has to store what it finished, before it is killed."""
LEAST = 15.0
"""Seconds below which no further step of a slice is started."""
SIZES: Mapping[str, Any] = {
    "head_dim": 32, "heads": 4, "dim": 128, "max_distance": 23, "max_len": 24, "extent": 24, "axes": 2, "n": 32,
    "resolution": 16, "degree": 3, "npos_max": 24, "window": (4, 6),
}  # fmt: skip
"""Sizes of the encodings whose attention is compared; an encoding that they do not fit is left out by name."""
ALLOWED = {"float32": 2e-5, "bfloat16": 5e-2, "rows and gradients": 1e-4}
"""Largest difference from the CPU, relative to the largest value: of attention from float64, by data type, and of the
rows of an embedding and the gradients of its parameters from float32."""
ATTENTION = frozenset({"q", "k", "v", "o", "bias", "value_bias"})
"""Sites of an encoding inside attention."""


class Step(NamedTuple):
    """A step of the day: its minutes, the data that it needs below --data, and what it does."""

    minutes: float
    needs: tuple[str, ...]
    about: str


STEPS: Mapping[str, Step] = {
    "correctness": Step(
        2, (), "kernels, encodings and batched training on the device, against the CPU and single models"
    ),
    "speed": Step(
        3, (), "kernels next to their torch forms; steps per second of single models and of batched training"
    ),
    "table1": Step(10, ("lst",), "Table 1 of arXiv 2406.08272: eight encodings, 600 epochs, 15 seeds"),
    "table-a2": Step(8, ("lst",), "Table A2 of arXiv 2406.08272: 20 standard deviations, 400 epochs, 15 seeds"),
    "vision": Step(2, ("fashion_mnist", "caltech100"), "ViT and PVT on photographs, by encoding"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parse(arguments)
    chosen.state.mkdir(parents=True, exist_ok=True)
    if chosen.step:
        return RUN[chosen.step](chosen)
    for sentence in missing(chosen):
        print(sentence)
    day = read_day(chosen.state)
    ends = time.monotonic() + chosen.slice
    for name in chosen.steps:
        left = min(ends - time.monotonic(), 60 * STEPS[name].minutes - day[name]["seconds"])
        if day[name]["outcome"] in ("done", "failed") or lacks(chosen, name) or (left < LEAST and not chosen.tiny):
            continue
        took, outcome = execute(chosen, name, max(left, LEAST))
        spent = day[name]["seconds"] + took
        over = outcome == "interrupted" and spent >= 60 * STEPS[name].minutes - LEAST
        day[name] = {"seconds": spent, "outcome": "out of its minutes" if over else outcome}
        (chosen.state / "day.json").write_text(json.dumps(day, indent=1) + "\n")
        print(f"{name}: {day[name]['outcome']} after {spent / 60:.1f} of {STEPS[name].minutes:g} min")
    write_packs(chosen.state)
    print(last_line(chosen, day))
    return 1 if any(each["outcome"] == "failed" for each in day.values()) else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, required=True, help="folder of results, which a later slice continues")
    parser.add_argument("--data", type=Path, help="folder with lst/, fashion_mnist/ and caltech100/")
    parser.add_argument("--slice", type=seconds_of, default=480.0, help="longest time, such as 8m (default) or 90s")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", nargs="+", choices=tuple(STEPS), default=list(STEPS), help="only these, in order")
    parser.add_argument("--tiny", action="store_true", help="small models and a few epochs, for a rehearsal on a CPU")
    parser.add_argument("--step", choices=tuple(STEPS), help=argparse.SUPPRESS)  # the process of one step
    return parser.parse_args(arguments)


def seconds_of(text: str) -> float:
    """Seconds of a text such as 8m or 90s. Raises ArgumentTypeError for another text or more than 8 minutes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(m|s)", text)
    seconds = float(found[1]) * (60 if found[2] == "m" else 1) if found else 0.0
    if not 0 < seconds <= 480:
        raise argparse.ArgumentTypeError(f"a slice has up to 8 minutes; got {text}. Write 8m or 90s.")
    return seconds


def missing(chosen: argparse.Namespace) -> list[str]:
    """Sentences on packages and data that are not there."""
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    sentences = [f"not installed: {', '.join(absent)}"] if absent else []
    for name in chosen.steps:
        if lacking := lacks(chosen, name):
            sentences.append(f"{name} is left out: it needs {' and '.join(lacking)} in the folder of --data")
    return sentences


def lacks(chosen: argparse.Namespace, name: str) -> list[str]:
    """Folders of data that a step needs and that are not there. The tiny steps generate or skip what they lack."""
    needed = ("fashion_mnist",) if name == "vision" and chosen.tiny else () if chosen.tiny else STEPS[name].needs
    return [each for each in needed if chosen.data is None or not (chosen.data / each).is_dir()]


def read_day(state: Path) -> dict[str, dict[str, Any]]:
    """Seconds and outcome of each step so far."""
    path = state / "day.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    return {name: stored.get(name, {"seconds": 0.0, "outcome": "not started"}) for name in STEPS}


def execute(chosen: argparse.Namespace, name: str, seconds: float) -> tuple[float, str]:
    """Run a step in its own process for at most these seconds. Returns its time, and done, failed or interrupted."""
    command = [sys.executable, str(Path(__file__)), "--state", str(chosen.state), "--device", chosen.device]
    command += ["--step", name, *(["--data", str(chosen.data)] if chosen.data else []), *(["--tiny"] * chosen.tiny)]
    began = time.monotonic()
    process = subprocess.Popen(command)
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return time.monotonic() - began, "interrupted"
    return time.monotonic() - began, "done" if code == 0 else "failed"


def write_packs(state: Path) -> None:
    """Pack the finished runs of each store, without weights."""
    from posenc.workbench import Store, pack
    from posenc.workbench.storage.stored import StoreError

    for folder in sorted(each for each in (state / "runs").glob("*") if each.is_dir()):
        try:
            paths = pack(Store(folder), state / "packs" / folder.name, force=True)
        except StoreError:  # no run has finished
            continue
        print(f"packs of {folder.name}: {', '.join(path.name for path in paths)}")


def last_line(chosen: argparse.Namespace, day: Mapping[str, Mapping[str, Any]]) -> str:
    """Sentence on the steps that remain and the command that continues."""
    open_steps = [
        name for name in chosen.steps
        if day[name]["outcome"] in ("not started", "interrupted") and not lacks(chosen, name)
    ]  # fmt: skip
    failed = [name for name in chosen.steps if day[name]["outcome"] == "failed"]
    words = (
        f"; failed: {', '.join(failed)} (delete them from {chosen.state / 'day.json'} to try again)" if failed else ""
    )
    if not open_steps:
        return f"nothing is left{words}"
    return f"next: the same command continues with {', '.join(open_steps)}{words}"


# steps, each in its own process --------------------------------------------------------------------------------------


def write(chosen: argparse.Namespace, name: str, document: dict[str, Any]) -> None:
    from posenc.workbench import provenance

    document |= {"provenance": provenance.gather(chosen.device)}
    (chosen.state / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def population(chosen: argparse.Namespace, *words: str) -> int:
    """Run population.py with these words."""
    sys.path.insert(0, str(GPU))
    import population

    return population.main([*words, "--device", chosen.device, *(["--tiny"] * chosen.tiny)])


def correctness(chosen: argparse.Namespace) -> int:
    """Compare kernels and encodings on the device with the CPU, then batched training with single models."""
    sys.path.insert(0, str(GPU))
    import population as batched

    import kernels
    from posenc.schemes import catalogue

    of_kernels = kernels.differences(chosen.device)
    differences: dict[str, float] = {}
    left_out: dict[str, str] = {}
    for name, kind in catalogue().items():
        try:
            differences |= {f"{name}, {what}": each for what, each in scheme_differences(name, kind, chosen.device)}
        except (ValueError, TypeError, KeyError) as error:  # it needs other positions or sizes than these
            left_out[name] = str(error)[:200]
    scale = batched.scale_of(batched.parse(["--tiny"] if chosen.tiny else []))
    labels = ("learned-0.2", "rope") if chosen.tiny else batched.TABLE_1
    losses = {label: batched.check(label, scale, chosen.device) for label in labels}
    wrong = [name for name, each in differences.items() if not each <= ALLOWED[name.rpartition(", ")[2]]]
    wrong += [name for name, each in of_kernels.items() if not each["difference"] <= each["allowed"]]
    found = {"differences": differences, "left_out": left_out, "allowed": ALLOWED, "losses": losses, "wrong": wrong}
    write(chosen, "correctness", found | {"kernels": of_kernels})
    compared = len(differences) + len(of_kernels)
    print(f"{compared - len(wrong)} of {compared} outputs agree; wrong: {', '.join(wrong) or 'none'}")
    return 1 if wrong or not differences else 0


def scheme_differences(name: str, kind: Any, device: str) -> list[tuple[str, float]]:
    """Differences of an encoding: of its attention in two data types, or of its rows and gradients."""
    import inspect

    taken = inspect.signature(kind).parameters
    scheme = kind(**{size: value for size, value in SIZES.items() if size in taken})
    if scheme.draws:
        raise ValueError("it draws random numbers at each call")
    if scheme.claims.sites & ATTENTION:
        return [(dtype, attention_difference(scheme, dtype, device)) for dtype in ("float32", "bfloat16")]
    if not scheme.claims.learned:
        raise ValueError("it has no attention and no parameters")
    return [("rows and gradients", rows_difference(scheme, device))]


def attention_difference(scheme: Any, dtype: str, device: str) -> float:
    """Largest relative difference of attention on the device from that in float64 on the CPU."""
    import copy

    import torch

    from posenc import attention, grid, sequence

    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, 24, SIZES["head_dim"], dtype=torch.float64, generator=generator) for _ in range(3))
    pos = grid(4, 6) if (scheme.claims.axes or 1) == 2 else sequence(24)
    with torch.no_grad():
        kind = getattr(torch, dtype)
        moved = copy.deepcopy(scheme).to(device, kind)
        expected = attention(q, k, v, scheme=copy.deepcopy(scheme).double(), q_pos=pos)
        found = attention(*(each.to(device, kind) for each in (q, k, v)), scheme=moved, q_pos=pos.to(device))
    return float((found.double().cpu() - expected).abs().max() / expected.abs().max())


def rows_difference(scheme: Any, device: str) -> float:
    """Largest relative difference of the rows of an embedding, and of the gradients of its parameters."""
    import copy

    import torch

    from posenc import Positions

    axes, results = scheme.claims.axes or 1, []
    ends = [each or (0.0, 1.0) for each in scheme.claims.limits(axes)]
    low, high = (torch.tensor([float(end[side]) for end in ends]) for side in (0, 1))
    chance = torch.rand(4096, axes, generator=torch.Generator().manual_seed(0))
    coords = low + (high - low) * chance
    pos = Positions(coords)
    for place in ("cpu", device):
        moved = copy.deepcopy(scheme).to(place)
        rows = moved.embed(moved.prepare(pos.to(place)))
        rows.square().sum().backward()
        gradients = [each.grad for each in moved.parameters() if each.grad is not None]
        results.append([each.detach().cpu() for each in (rows, *gradients)])
    pairs = zip(*results, strict=True)
    return max(float((a - b).abs().max()) / max(float(a.abs().max()), 1e-12) for a, b in pairs)


def speed(chosen: argparse.Namespace) -> int:
    """Time the kernels, each case kept as soon as it is measured, then batched training."""
    sys.path.insert(0, str(GPU))
    import kernels

    path = chosen.state / "speed.json"
    of_kernels = kernels.speeds(
        chosen.device, tiny=chosen.tiny, done=lambda found: write(chosen, "speed", {"kernels": found})
    )
    code = population(chosen, "--schemes", "learned-0.2", "--out", str(path))
    of_training = json.loads(path.read_text()) if code == 0 else {}
    path.write_text(json.dumps(of_training | {"kernels": of_kernels}, indent=1) + "\n")
    return 1 if any("error" in each for each in of_kernels["cases"].values()) else code


def table1(chosen: argparse.Namespace) -> int:
    return train_table(chosen, "--table1", "table1")


def table_a2(chosen: argparse.Namespace) -> int:
    return train_table(chosen, "--table-a2", "table-a2")


def train_table(chosen: argparse.Namespace, flag: str, name: str) -> int:
    words = [flag, "--store", str(chosen.state / "runs"), "--out", str(chosen.state / f"{name}.json")]
    words += ["--data", str(chosen.data)] if chosen.data and not chosen.tiny else []
    words += ["--seeds", "0", "--epochs", "1", "--precision", "float32"] if chosen.tiny else []
    return population(chosen, *words)


def vision(chosen: argparse.Namespace) -> int:
    """Train ViT and PVT by encoding on photographs; the tiny step has one ViT on Fashion-MNIST."""
    from posenc.workbench import Store, runner, studies

    store, study = Store(chosen.state / "runs" / "vision"), studies.find("gridpe")
    request = studies.Request(
        preset="quick" if chosen.tiny else "standard", data=chosen.data, device=chosen.device,
        panels=["accuracy"] if chosen.tiny else ["accuracy", "pvt"], schemes=["nope"] if chosen.tiny else None,
        seeds=[0] if chosen.tiny else [0, 1, 2], changes={"recipes.main.training.epochs": "1"} if chosen.tiny else {},
    )  # fmt: skip
    specs = [spec for spec in study.plan(request, store) if chosen.tiny or "photographs" in spec.condition]
    report = runner.run(specs, store, runner.pick(chosen.device))
    done = [spec for spec in specs if store.finished(spec.identity)]
    found = {f"{spec.condition}, {spec.variant}, seed {spec.seed}": store.read(spec.identity).metrics for spec in done}
    write(chosen, "vision", {"planned": len(specs), "finished": len(done), "found": found})
    return report.exit_code


RUN: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "correctness": correctness, "speed": speed, "table1": table1, "table-a2": table_a2, "vision": vision
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
