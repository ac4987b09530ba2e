"""Small training problems for the tests of this folder."""

import torch
from torch import nn
from torch.nn import functional

from posenc.lookup.scheme_text import Specification, per_layer
from posenc.models.encoder import Encoder, EncoderConfig
from posenc.positions import grid, sequence
from posenc.workbench.training.loop import Fit, TrainingConfig

SAMPLES = 40
CONFIG = EncoderConfig(channels=5, classes=4, dim=16, depth=2, hidden=32, heads=2, read_out="probe")
CASES = {
    "learned": ("Learned", [{"sigma": 0.1}, {"sigma": 0.5}, {"sigma": 2.0}]),
    "1d-fixed": ("Sinusoid", [{}, {}, {}]),
    "2d-fixed": ("Sinusoid", [{"axes": 2}, {"axes": 2}, {"axes": 2}]),
    "rope": ("RoPE", [{}, {}, {}]),
    "relative": ("Shaw", [{}, {}, {}]),
    "relative-literal": ("Shaw", [{"literal": True}] * 3),
    "causal-nope": ("CausalNoPE", [{}, {}, {}]),
    "nope": ("NoPE", [{}, {}, {}]),
    "random": ("Random", [{}, {}, {}]),
}


def puzzle_fit(scheme, options, seed, *, dtype=torch.float32, config=CONFIG):
    """A small encoder on random puzzles that all fits share; its evaluation is the loss of all of them."""
    axes = options.get("axes", 1)
    generator = torch.Generator().manual_seed(1)
    cells = torch.randint(5, (SAMPLES, 16), generator=generator)
    x = functional.one_hot(cells, 5).to(dtype)
    probe, answer = (torch.randint(top, (SAMPLES,), generator=generator) for top in (16, 4))
    torch.manual_seed(seed)
    known = {"dim": 16, "head_dim": 8, "max_len": 16, "max_distance": 15}
    model = Encoder(config, per_layer(Specification(scheme, options), known)).to(dtype)
    pos = grid(4, 4) if axes == 2 else sequence(16)

    def score(model, x, probe, answer):
        return functional.cross_entropy(model(x, pos, probe), answer)

    return Fit.of(model, (x, probe, answer), score, lambda: {"loss": score(model, x, probe, answer).item()})


def plan(**changes):
    return TrainingConfig(**{"epochs": 25, "batch": 24, "lr": 1e-3, "evaluate_every": 1, **changes})


OTHER_RATES = [
    plan(weight_decay=0.1, warmup_steps=7),
    plan(lr=3e-3, decay_steps=60, clip=0.3),
    plan(lr=3e-4),
]


def differences(alone, together):
    """The largest difference of two curves that have the same rows."""
    assert [(r["epoch"], r["metric"]) for r in alone] == [(r["epoch"], r["metric"]) for r in together]
    return max(abs(a["value"] - b["value"]) for a, b in zip(alone, together, strict=True))


def weights(fit):
    return torch.cat([p.detach().flatten() for p in fit.model.parameters()])


def fields(config):
    return {name: getattr(config, name) for name in config.__struct_fields__}


def line_fit(*, explode=False, fails=False, power=2):
    """A line through one point; its loss, or its evaluation, may fail after some steps."""
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    data = torch.full((8, 1), 1e30 if explode else 1.0)
    calls = []

    def evaluate():
        calls.append(None)
        if fails and len(calls) == 3:
            raise RuntimeError("no puzzles left")
        return {"weight": model.weight.item()}

    return Fit.of(model, (data,), lambda model, x: model(x).abs().pow(power).mean(), evaluate)
