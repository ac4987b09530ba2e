"""Training throughput of the encoder next to its baseline, and of two processes next to one.

    python benchmarks/encoder.py --out results/encoder.json

Baseline: `nn.TransformerEncoder` with the same tokens, learned positions, read-out and weights, in a plain loop with
torch's fused AdamW; the encoder runs in posenc's loop, as in the studies, with the same. Nothing is timed before logits
and gradients of the two agree. They are timed in turn; what counts is the median of the rounds' ratios. One thread per
process. Peak memory is what a round adds to the process at rest.
"""

from __future__ import annotations

import copy
import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from command import begin, keep, met, options
from plain import PlainEncoder, differences
from posenc.lookup.scheme_text import Specification, per_layer
from posenc.models.encoder import Encoder, EncoderConfig
from posenc.positions import sequence
from posenc.workbench.studies.latin_squares.presets import PRESETS
from posenc.workbench.training.loop import Fit, TrainingConfig, train
from processes import started, together

Puzzles = tuple[Tensor, Tensor, Tensor]
"""Tokens, read-out tokens and answers."""

TOKENS, EPOCH = 16, 1024
TOLERANCE = 2e-4  # of the largest entry, in float32
CASES = {"paper": 1.3, "quick": 1.7}
"""Preset whose model and batch are timed, and how many times faster than the baseline it should be."""
AIM_TWO_PROCESSES = 1.8


def main() -> int:
    parser = options("Training throughput of the encoder, next to its baseline.", 9)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one timing (default 2)")
    chosen = begin(parser)
    torch.set_num_threads(1)
    found: dict[str, Any] = {name: against_baseline(name, chosen.rounds, chosen.seconds) for name in CASES}
    found["two processes"] = two_against_one(chosen.rounds, chosen.seconds)
    for name, figures in found.items():
        verdict = met(figures["ratio"] >= figures["aim"])
        print(f"{name}: {figures['ratio']:.2f} x (aim {figures['aim']} x, {verdict}; rounds {figures['rounds']})")
    keep(chosen, found=found)
    return 0


def against_baseline(name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Samples a second of the two, in turn, each round from the same weights. Raises ValueError where they differ."""
    setting = PRESETS[name].main
    encoder, plain = make_pair(setting.model)
    data = some_puzzles(setting.model, EPOCH)
    gate(encoder, plain, *(part[: setting.training.batch] for part in data))
    sides: dict[str, tuple[nn.Module, Callable[[int], None]]] = {
        "encoder": (encoder, lambda epochs: train_encoder(encoder, data, setting.training, epochs)),
        "baseline": (plain, lambda epochs: train_baseline(plain, data, setting.training, epochs)),
    }
    starts = {side: copy.deepcopy(model.state_dict()) for side, (model, _) in sides.items()}
    epochs = max(1, round(seconds / min(seconds_of(run, 1) for _, run in sides.values())))
    speeds: dict[str, list[float]] = {side: [] for side in sides}
    memory = dict.fromkeys(sides, 0.0)
    for turn in range(rounds):
        for side in list(sides)[:: 1 if turn % 2 else -1]:
            model, run = sides[side]
            model.load_state_dict(starts[side])
            rest = start_memory()
            speeds[side].append(EPOCH * epochs / seconds_of(run, epochs))
            memory[side] = max(memory[side], peak_memory() - rest)
    ratios = [a / b for a, b in zip(speeds["encoder"], speeds["baseline"], strict=True)]
    for side, values in speeds.items():
        print(f"{name}, {side}: {statistics.median(values):.0f} samples/s, peak {memory[side]:.0f} MiB above rest")
    return {
        "ratio": statistics.median(ratios),
        "aim": CASES[name],
        "rounds": [round(ratio, 3) for ratio in ratios],
        "samples_per_second": {side: statistics.median(values) for side, values in speeds.items()},
        "peak_mib": memory,
        "batch": setting.training.batch,
    }


def make_pair(config: EncoderConfig) -> tuple[Encoder, PlainEncoder]:
    """The encoder with a learned table a layer, and the baseline with the same weights."""
    torch.manual_seed(0)
    learned = Specification("Learned", {"dim": config.dim, "max_len": TOKENS})
    encoder = Encoder(config, per_layer(learned, {}))
    plain = PlainEncoder(config, tables=config.depth, max_len=TOKENS)
    plain.take(encoder)
    return encoder, plain


def some_puzzles(config: EncoderConfig, count: int) -> Puzzles:
    """Random one-hot tokens, read-out tokens and answers."""
    generator = torch.Generator().manual_seed(1)
    cells = torch.randint(config.channels, (count, TOKENS), generator=generator)
    probe = torch.randint(TOKENS, (count,), generator=generator)
    answer = torch.randint(config.classes, (count,), generator=generator)
    return functional.one_hot(cells, config.channels).float(), probe, answer


def gate(encoder: Encoder, plain: PlainEncoder, x: Tensor, probe: Tensor, answer: Tensor) -> None:
    """Raises ValueError, naming what differs, unless logits and all gradients of the two agree."""
    ours, theirs = encoder(x, sequence(TOKENS), probe), plain(x, torch.arange(TOKENS), probe)
    for logits in (ours, theirs):
        functional.cross_entropy(logits, answer).backward()
    found = differences(encoder, plain, ours, theirs)
    worst = max(found, key=lambda name: found[name])
    if not found[worst] <= TOLERANCE:
        raise ValueError(
            f"encoder and baseline differ in {worst} by {found[worst]:.1e} of its largest entry (allowed "
            f"{TOLERANCE:.0e}); a speed of wrong results is none. Run tests/models first."
        )


def train_encoder(model: Encoder, data: Puzzles, training: TrainingConfig, epochs: int) -> None:
    """As the studies train it: posenc's loop, with AdamW."""
    pos, (x, probe, answer) = sequence(TOKENS), data

    def loss(batch: Tensor) -> Tensor:
        return functional.cross_entropy(model(x[batch], pos, probe[batch]), answer[batch])

    config = TrainingConfig(epochs=epochs, batch=training.batch, lr=training.lr, evaluate_every=epochs)
    train(Fit(model, len(x), loss, dict), config, seed=0)


def train_baseline(model: PlainEncoder, data: Puzzles, training: TrainingConfig, epochs: int) -> None:
    """As one would write it: torch's fused AdamW on the model's parameters, and the loss read off every step."""
    index, (x, probe, answer) = torch.arange(TOKENS), data
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.lr, weight_decay=0.0, fused=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=generator).split(training.batch):
            optimizer.zero_grad(set_to_none=True)
            loss = functional.cross_entropy(model(x[batch], index, probe[batch]), answer[batch])
            loss.backward()
            optimizer.step()
            loss.item()


def seconds_of(run: Callable[[int], None], epochs: int) -> float:
    began = time.perf_counter()
    run(epochs)
    return time.perf_counter() - began


def two_against_one(rounds: int, seconds: float) -> dict[str, Any]:
    """Samples a second of two processes together over those of one, each in the training loop of the quick preset."""
    with started(serve, (), ()) as pipes:
        per_epoch = together(pipes[:1], 3) / 3
        together(pipes[1:], 3)
        epochs = max(1, round(seconds / per_epoch))
        alone, both = [], []
        for turn in range(rounds):
            alone.append(together(pipes[turn % 2 :][:1], epochs))
            both.append(together(pipes, epochs))
    ratios = [2 * one / two for one, two in zip(alone, both, strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "aim": AIM_TWO_PROCESSES,
        "rounds": [round(ratio, 3) for ratio in ratios],
    }


def serve(pipe: Connection) -> None:
    """A process of its own, one thread: numbers of epochs in, a word when they are done."""
    torch.set_num_threads(1)
    setting = PRESETS["quick"].main
    encoder, _ = make_pair(setting.model)
    data = some_puzzles(setting.model, EPOCH)
    while True:
        train_encoder(encoder, data, setting.training, pipe.recv())
        pipe.send("done")


def start_memory() -> float:
    """Gives freed memory back, forgets the peak so far, and returns what is in use, in MiB (0 where not Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def peak_memory() -> float:
    return status("VmHWM")


def status(field: str) -> float:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
