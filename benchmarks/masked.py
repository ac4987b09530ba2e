"""Training steps of the masked encoder next to torch's own layers, 360 channels and 50 % of them hidden.

    python benchmarks/masked.py --out results/masked.json

Baseline: the same four layers of width 64 as `nn.TransformerEncoder`, a learned table a layer, the prediction of every
token, in a plain loop with torch's fused AdamW; ours runs in posenc's loop with the masks drawn as the studies draw
them. Nothing is timed before predictions and gradients of the two agree. They are timed in turn; what counts is the
median of the rounds' ratios. One thread. Peak memory is what a round adds to the process at rest.
"""

from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from command import begin, keep, met, options
from encoder import TOLERANCE, peak_memory, seconds_of, start_memory
from plain import PlainMasked, differences
from posenc.lookup.scheme_text import Specification, per_layer
from posenc.models.encoder import EncoderConfig
from posenc.models.masked_encoder import MaskedEncoder
from posenc.positions import sequence
from posenc.workbench.training.loop import Fit, TrainingConfig, TrainingPosition, train

CHANNELS, BATCH, FRAMES = 360, 64, 512
CONFIG = EncoderConfig(channels=1, classes=1, dim=64, depth=4, hidden=256, second_activation=True)
RATES = {0.15: 0.0, 0.5: 1.15, 0.9: 0.0}
"""Part of the channels that is hidden, and how many times faster than the baseline a step should be; 0: no aim."""


def main() -> int:
    parser = options("Training steps of the masked encoder, next to torch's own layers.", 5)
    parser.add_argument("--steps", type=int, default=8, help="steps of one timing (default 8)")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5], help="hidden parts, of 0.15 0.5 0.9")
    chosen = begin(parser)
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for rate in chosen.rates:
        figures = found[f"{rate:g}"] = against_baseline(rate, chosen.rounds, chosen.steps)
        aim = figures["aim"]
        aimed = f"aim {aim} x, {met(figures['ratio'] >= aim)}; " if aim else ""
        print(f"{rate:.0%} hidden: {figures['ratio']:.2f} x ({aimed}rounds {figures['rounds']})")
    keep(chosen, found=found)
    return 0


def against_baseline(rate: float, rounds: int, steps: int) -> dict[str, Any]:
    """Steps a second of the two, in turn, each round from the same weights. Raises ValueError where they differ."""
    ours, plain = make_pair(CONFIG, CHANNELS)
    values = torch.randn(FRAMES, CHANNELS, 1, generator=torch.Generator().manual_seed(1))
    hide = round(rate * CHANNELS)
    gate(ours, plain, values[:4], hidden_of(4, hide, 0, CHANNELS))
    sides: dict[str, tuple[nn.Module, Callable[[int], None]]] = {
        "masked encoder": (ours, lambda count: train_ours(ours, values, hide, count)),
        "baseline": (plain, lambda count: train_plain(plain, values, hide, count)),
    }
    starts = {side: copy.deepcopy(model.state_dict()) for side, (model, _) in sides.items()}
    speeds: dict[str, list[float]] = {side: [] for side in sides}
    memory = dict.fromkeys(sides, 0.0)
    for turn in range(rounds + 1):  # the first one warms up
        for side in list(sides)[:: 1 if turn % 2 else -1]:
            model, run = sides[side]
            model.load_state_dict(starts[side])
            rest = start_memory()
            speeds[side].append(steps / seconds_of(run, steps))
            memory[side] = max(memory[side], peak_memory() - rest)
    ratios = [a / b for a, b in zip(*(values[1:] for values in speeds.values()), strict=True)]
    for side, rates in speeds.items():
        print(f"{side}: {statistics.median(rates[1:]):.2f} steps/s of {BATCH}, peak {memory[side]:.0f} MiB above rest")
    return {
        "ratio": statistics.median(ratios),
        "aim": RATES.get(rate, 0.0),
        "rounds": [round(ratio, 3) for ratio in ratios],
        "steps_per_second": {side: statistics.median(rates[1:]) for side, rates in speeds.items()},
        "peak_mib": memory,
        "batch": BATCH,
    }


def make_pair(config: EncoderConfig, channels: int) -> tuple[MaskedEncoder, PlainMasked]:
    """The masked encoder with a learned table a layer, and the baseline with the same weights."""
    torch.manual_seed(0)
    ours = MaskedEncoder(config, per_layer(Specification("Learned", {"dim": config.dim, "max_len": channels}), {}))
    plain = PlainMasked(config, tables=config.depth, max_len=channels)
    plain.take(ours)
    return ours, plain


def hidden_of(samples: int, hide: int, step: int, channels: int) -> Tensor:
    generator = torch.Generator().manual_seed(step)
    return torch.rand(samples, channels, generator=generator).topk(hide).indices


def error(model: nn.Module, values: Tensor, where: Any, hidden: Tensor) -> Tensor:
    return functional.mse_loss(model(values, where, hidden), values.gather(1, hidden[..., None]))


def gate(ours: MaskedEncoder, plain: PlainMasked, values: Tensor, hidden: Tensor) -> None:
    """Raises ValueError, naming what differs, unless predictions and all gradients of the two agree."""
    count = values.shape[1]
    both = ours(values, sequence(count), hidden), plain(values, torch.arange(count), hidden)
    for found in both:
        functional.mse_loss(found, values.gather(1, hidden[..., None])).backward()
    apart = differences(ours, plain, *both)
    worst = max(apart, key=lambda name: apart[name])
    if not apart[worst] <= TOLERANCE:
        raise ValueError(
            f"the masked encoder and the baseline differ in {worst} by {apart[worst]:.1e} of its largest entry "
            f"(allowed {TOLERANCE:.0e}); a speed of wrong results is none. Run tests/models first."
        )


def train_ours(model: MaskedEncoder, values: Tensor, hide: int, steps: int) -> None:
    """posenc's loop: the frames of a step and their masks are functions of its number."""
    pos = sequence(values.shape[1])

    def draw(step: int) -> Tensor:
        return torch.randint(len(values), (BATCH,), generator=torch.Generator().manual_seed(step))

    def loss(at: TrainingPosition, batch: Tensor) -> Tensor:
        return error(model, values[batch], pos, hidden_of(len(batch), hide, at.step, values.shape[1]))

    config = TrainingConfig(epochs=steps, batch=BATCH, lr=1e-4, evaluate_every=steps)
    train(
        Fit(model, len(values), lambda batch: loss(TrainingPosition(0, 0, 0), batch), dict, draw=draw, loss_at=loss),
        config,
        seed=0,
    )


def train_plain(model: PlainMasked, values: Tensor, hide: int, steps: int) -> None:
    """As one would write it: torch's fused AdamW on the model's parameters, and the loss read off every step."""
    index = torch.arange(values.shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)
    for step in range(steps):
        batch = torch.randint(len(values), (BATCH,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad(set_to_none=True)
        loss = error(model, values[batch], index, hidden_of(BATCH, hide, step, values.shape[1]))
        loss.backward()
        optimizer.step()
        loss.item()


if __name__ == "__main__":
    sys.exit(main())
