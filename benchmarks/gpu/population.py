"""Population training of the Latin-square encoder: right first, then how much faster than one model at a time.

    python benchmarks/gpu/population.py                    checks, times, prints a table, writes results/gpu/
    python benchmarks/gpu/population.py --device cpu --tiny --schemes learned-0.2 --out FILE
    python benchmarks/gpu/population.py --table1 --data DIR      trains Table 1 of arXiv 2406.08272 at its scale
    python benchmarks/gpu/population.py --table-a2 --data DIR    20 standard deviations x 15 seeds x 400 epochs

The check: 50 steps in float32, three seeds of each scheme with rates of their own, as a population (with and without
CUDA graphs) and alone; nothing is timed before their losses agree to 1e-5. Timed in turn, in one process: the training
loop on one model after the other, and populations of several sizes, precisions, with and without graphs; what counts is
the median of the rounds, in steps of one model a second.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
import torch
from torch import Tensor
from torch.nn import functional

from posenc.positions import grid, sequence
from posenc.workbench import provenance, runner, studies
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.latin_squares import execute, variants
from posenc.workbench.studies.latin_squares.presets import PRESETS
from posenc.workbench.training.batched import Member, train_batched
from posenc.workbench.training.batched_step import Stepper
from posenc.workbench.training.loop import Fit, TrainingConfig, train
from posenc.workbench.training.model_stack import Stack
from posenc.workbench.training.precision import Arithmetic, Precision

TOKENS, CHECKED, TOLERANCE, WARM = 16, 50, 1e-5, 8
SIGMAS = (0.1, 0.5, 2.0)
TABLE_1, TABLE_A2 = (*variants.TABLE_1, variants.learned(0.2)), tuple(map(variants.learned, variants.SIGMAS))
AIM_MINUTES = {"table1": 10.0, "table-a2": 20.0}


class Scale(msgspec.Struct, frozen=True):
    """The model that is checked and timed, and how long."""

    model: Any
    batch: int
    steps: int
    members: tuple[int, ...]
    rounds: int


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parse(arguments)
    if chosen.table1 or chosen.table_a2:
        return train_tables(chosen)
    torch.set_num_threads(1)
    scale = scale_of(chosen)
    worst = {label: check(label, scale, chosen.device) for label in chosen.schemes}
    for label, found in worst.items():
        print(f"{label}: losses of {CHECKED} steps differ by {found:.1e} at most (allowed {TOLERANCE:.0e})")
    found = timed(chosen.schemes[0], scale, chosen.device)
    show(found, paper=not chosen.tiny)
    document = {
        "device": provenance.device_name(chosen.device),
        "torch": torch.__version__,
        "checked": worst,
        "timed": found,
        "scale": msgspec.to_builtins(scale),
        "load": os.getloadavg()[0],
        "provenance": provenance.gather(chosen.device),
    }
    write(chosen.out, "population", document)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--schemes", nargs="+", default=list(TABLE_1), help="rows to check; the first one is timed")
    parser.add_argument("--tiny", action="store_true", help="a model of width 32 and a few steps, for a CPU")
    parser.add_argument("--members", type=int, nargs="+", help="sizes of the populations (default 15 60; tiny 4)")
    parser.add_argument("--rounds", type=int, help="rounds of each timing (default 5; tiny 1)")
    parser.add_argument("--out", type=Path, help="JSON file (default results/gpu/population-DATE.json)")
    parser.add_argument("--table1", action="store_true", help="train Table 1 at paper scale")
    parser.add_argument("--table-a2", action="store_true", help="train Table A2 at paper scale")
    parser.add_argument("--precision", choices=get_args(Precision), default="tf32", help="of --table1 and --table-a2")
    parser.add_argument("--data", type=Path, help="folder with lst/, the authors' puzzles")
    parser.add_argument("--store", type=Path, default=Path("runs/gpu"), help="where paper-scale results go")
    parser.add_argument("--seeds", type=int, nargs="+", help="of the paper-scale runs (default: the paper's fifteen)")
    parser.add_argument("--epochs", type=int, help="of the paper-scale runs (default 600, and 400 for Table A2)")
    return parser.parse_args(arguments)


def scale_of(chosen: argparse.Namespace) -> Scale:
    setting = PRESETS["quick" if chosen.tiny else "replicate"].main
    steps, members, rounds = (10, (4,), 1) if chosen.tiny else (200, (15, 60), 5)
    # without ReLU, whose kinks turn a rounding into another path now and then
    model = msgspec.structs.replace(setting.model, activation="gelu")
    batch = setting.training.batch
    return Scale(model, batch, steps, tuple(chosen.members or members), chosen.rounds or rounds)


# right -------------------------------------------------------------------------------------------------------------


def make_fit(label: str, seed: int, scale: Scale, device: str, batches: float = 3) -> Fit:
    """A row's model of a seed, on as many batches of random puzzles, which all seeds share."""
    variant = variants.variant(label)
    torch.manual_seed(seed)
    model = execute.make_model(variant, msgspec.structs.replace(scale.model, **variant.model)).to(device)
    pos = (grid(4, 4) if variant.view == "grid" else sequence(TOKENS)).to(device)

    def score(model: Callable[..., Tensor], x: Tensor, probe: Tensor, answer: Tensor) -> Tensor:
        return functional.cross_entropy(model(x, pos, probe), answer)

    return Fit.of(model, puzzles(scale, device, batches), score, dict)


def puzzles(scale: Scale, device: str, batches: float) -> tuple[Tensor, ...]:
    """Random one-hot tokens, read-out tokens and answers."""
    generator = torch.Generator().manual_seed(1)
    count, channels = int(scale.batch * batches), scale.model.channels
    cells = torch.randint(channels, (count, TOKENS), generator=generator)
    probe, answer = (torch.randint(top, (count,), generator=generator) for top in (TOKENS, scale.model.classes))
    return functional.one_hot(cells, channels).float().to(device), probe.to(device), answer.to(device)


def check(label: str, scale: Scale, device: str) -> float:
    """The largest difference of a member's losses from its own alone. Raises ValueError where it is too large."""
    epochs = -(-CHECKED // 3)
    configs = [
        TrainingConfig(epochs=epochs, batch=scale.batch, lr=lr, weight_decay=decay, evaluate_every=1)
        for lr, decay in ((1e-4, 0.0), (3e-4, 0.1), (1e-3, 0.0))
    ]
    learned = label.startswith("learned-")
    labels = [variants.learned(sigma) for sigma in SIGMAS] if learned else [label] * len(configs)

    def members() -> list[Member]:
        fits = [make_fit(own, seed, scale, device, 2.5) for seed, own in enumerate(labels)]
        return [Member(fit, config, seed) for seed, (fit, config) in enumerate(zip(fits, configs, strict=True))]

    alone = [train(member.fit, member.config, seed=member.seed) for member in members()]
    worst = 0.0
    for graph in (False, True) if device.startswith("cuda") else (False,):
        for one, other in zip(alone, train_batched(members(), graph=graph), strict=True):
            if isinstance(other, Exception):
                raise other
            worst = max(worst, *(abs(a["value"] - b["value"]) for a, b in zip(one, other, strict=True)))
    if not worst <= TOLERANCE:
        raise ValueError(
            f"{label}: a member's loss differs from its own alone by {worst:.1e} within {CHECKED} steps (allowed "
            f"{TOLERANCE:.0e}); a speed of wrong results is none. Run tests/workbench/training first."
        )
    return worst


# fast --------------------------------------------------------------------------------------------------------------


def timed(label: str, scale: Scale, device: str) -> dict[str, Any]:
    """Steps of one model a second: alone, and in populations, in turn."""
    on_gpu = device.startswith("cuda")
    precisions: tuple[Precision, ...] = ("float32", "tf32", "bfloat16") if on_gpu else ("float32",)
    sides: dict[str, Callable[[], float]] = {
        f"alone, {precision}": alone(label, scale, device, precision) for precision in precisions
    }
    for members in scale.members:
        for precision in precisions:
            for graph in (False, True) if on_gpu else (False,):
                name = f"{members} together, {precision}{', graph' if graph else ''}"
                sides[name] = together(label, members, scale, device, precision, graph)
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(scale.rounds):
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            speeds[name].append(sides[name]())
    baseline = statistics.median(speeds["alone, float32"])
    return {
        name: {
            "model_steps_per_second": statistics.median(values),
            "ratio": statistics.median(values) / baseline,
            "spread": [min(values), max(values)],
        }
        for name, values in speeds.items()
    }


def alone(label: str, scale: Scale, device: str, precision: Precision) -> Callable[[], float]:
    """The loop on one model after the other, as without populations."""

    def run() -> float:
        fit, epochs = make_fit(label, 0, scale, device), -(-scale.steps // 3)
        plan = TrainingConfig(epochs=epochs, batch=scale.batch, lr=1e-4, evaluate_every=epochs)
        train(fit, msgspec.structs.replace(plan, epochs=-(-WARM // 3)), seed=0, precision=precision)
        began = now(device)
        train(fit, plan, seed=0, precision=precision)
        return 3 * epochs / (now(device) - began)

    return run


def together(
    label: str, members: int, scale: Scale, device: str, precision: Precision, graph: bool
) -> Callable[[], float]:
    """The same steps of a population, once it is warm (and recorded)."""

    def run() -> float:
        fits = [make_fit(label, seed, scale, device) for seed in range(members)]
        plan = TrainingConfig(epochs=1, batch=scale.batch, lr=1e-4)
        stepper = Stepper(
            Stack([fit.model for fit in fits]), fits, [plan] * members, Arithmetic(precision, device), graph
        )
        batches = [torch.randint(3 * scale.batch, (members, scale.batch)).to(device) for _ in range(3)]
        for step in range(WARM):
            stepper(step, batches[step % 3])
        began = now(device)
        for step in range(scale.steps):
            stepper(WARM + step, batches[step % 3])
        return members * scale.steps / (now(device) - began)

    return run


def now(device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()


def show(found: dict[str, Any], paper: bool) -> None:
    """A short table; minutes, where the paper's model was timed, are those of the steps alone."""
    steps_of = {"table1": len(TABLE_1) * 15 * 600 * 64, "table-a2": len(TABLE_A2) * 15 * 400 * 64} if paper else {}
    print(f"\n{'':36}{'model steps/s':>14}{'ratio':>8}" + "".join(f"{name:>12}" for name in steps_of))
    for name, figures in found.items():
        speed = figures["model_steps_per_second"]
        minutes = "".join(f"{steps / speed / 60:>8.1f} min" for steps in steps_of.values())
        print(f"{name:36}{speed:>14.1f}{figures['ratio']:>8.2f}{minutes}")
    if paper:
        print(f"{'aims':58}" + "".join(f"{AIM_MINUTES[name]:>8.0f} min" for name in steps_of))


# at paper scale ----------------------------------------------------------------------------------------------------


def train_tables(chosen: argparse.Namespace) -> int:
    """Trains what was asked for through the runner, and says how long it took beside the aim."""
    tables = [("table1", TABLE_1, 600)] if chosen.table1 else []
    tables += [("table-a2", TABLE_A2, 400)] if chosen.table_a2 else []
    for name, labels, epochs in tables:
        store = Store(chosen.store / name)
        specs = plan_table(chosen, store, labels, chosen.epochs or epochs)
        executor = runner.pick(chosen.device, members=chosen.members[0] if chosen.members else None)
        began = time.perf_counter()
        report = runner.run(specs, store, executor)
        minutes = (time.perf_counter() - began) / 60
        found = {label: accuracies(store, specs, label) for label in labels}
        for label, figures in found.items():
            print(f"{label}: " + ", ".join(f"{metric} {mean:.3f} ± {sd:.3f}" for metric, (mean, sd) in figures.items()))
        print(f"{name}: {len(specs)} models in {minutes:.1f} min (aim {AIM_MINUTES[name]:.0f} min), {executor}")
        document = {
            "minutes": minutes,
            "trained_now": len(report.done),
            "failed": len(report.failed),
            "aim": AIM_MINUTES[name],
            "precision": chosen.precision,
            "found": found,
            "provenance": provenance.gather(chosen.device),
        }
        write(chosen.out, name, document)
        if report.exit_code:
            return report.exit_code
    return 0


def plan_table(chosen: argparse.Namespace, store: Store, labels: Sequence[str], epochs: int) -> list[RunSpec]:
    """Runs of ``posenc run latin-squares --preset replicate --device cuda --yes --schemes ..`` with another precision,
    which is part of a run's identity, and another number of epochs."""
    preset = "quick" if chosen.tiny else "replicate"
    request = studies.Request(
        preset=preset, schemes=list(labels), seeds=chosen.seeds, device=chosen.device, data=chosen.data
    )
    planned = [spec for spec in studies.find("latin-squares").plan(request, store) if spec.condition == "main"]
    return [
        msgspec.structs.replace(
            spec,
            settings=spec.settings
            | {"precision": chosen.precision, "training": spec.settings["training"] | {"epochs": epochs}},
        )
        for spec in planned
    ]


def accuracies(store: Store, specs: Sequence[RunSpec], label: str) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation over seeds of a row's final accuracies."""
    stored = [
        store.read(spec.identity).metrics for spec in specs if spec.variant == label and store.finished(spec.identity)
    ]
    values = {m: [metrics[m] for metrics in stored] for m in ("accuracy_ood", "accuracy_iid", "accuracy_train")}
    return {
        metric: (statistics.fmean(own), statistics.stdev(own) if len(own) > 1 else 0.0)
        for metric, own in values.items()
        if own
    }


def write(out: Path | None, name: str, document: dict[str, Any]) -> None:
    path = out or Path(__file__).parents[2] / "results" / "gpu" / f"{name}-{provenance.now()[:10]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"figures in {path}")


if __name__ == "__main__":
    sys.exit(main())
