"""Vision transformers: what an encoding costs beside a learned table, and PVT beside transformers' PvtV2.

    python benchmarks/vision.py --out results/vision.json
    python benchmarks/vision.py --threads 2 --schemes gridpe swinbias

ViT-S at 224 pixels, batch 8, float32, forward and backward pass, in one process of so many threads. A scheme is timed
only if its code agrees with its definition, and the pyramid only if it says what transformers' PVT says with the same
weights. Two models are timed in turn; what counts is the median of the rounds' ratios. Timed are, unless named, the
schemes of two axes that turn queries and keys (aim 1.10 x the time of a learned table) or bias the logits by trained
numbers (1.30 x, for such a mask wants a gradient); which back end attention takes is printed. Peak memory is what a
round adds to the process at rest.
"""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from command import begin, keep, met, options
from encoder import peak_memory, start_memory
from posenc.attention import choose
from posenc.contract import check
from posenc.lookup.scheme_text import build, parse
from posenc.models.pretrained import load_weights
from posenc.models.pvt import pvt
from posenc.models.sites import at_sites
from posenc.models.vision import VisionConfig, VisionTransformer
from posenc.models.vision_stage import Options
from posenc.models.vit import vit
from posenc.schemes import catalogue

IMAGE, BATCH, CLASSES = 224, 8, 1000
BASELINE = "Learned(sigma=0.02)"
AIMS = {"bias": 1.3, "q": 1.1}
TOLERANCE = 1e-4
PYRAMID = Options(patches="normed", tables=True)


def main() -> int:
    parser = options("Time and memory of vision transformers, next to their baselines.", 7)
    parser.add_argument("--schemes", nargs="*", help="names of posenc list; all of two axes otherwise")
    parser.add_argument("--size", default="small", help="of the ViT and of the PVT (default small)")
    parser.add_argument("--image", type=int, default=IMAGE, help=f"side of a picture (default {IMAGE})")
    parser.add_argument("--batch", type=int, default=BATCH, help=f"pictures a pass (default {BATCH})")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default 1)")
    chosen = begin(parser)
    torch.set_num_threads(chosen.threads)
    x = torch.randn(chosen.batch, 3, chosen.image, chosen.image, generator=torch.Generator().manual_seed(0))
    print(f"batch {chosen.batch} at {chosen.image} pixels, {chosen.threads} threads, float32, forward and backward")
    config = vit(chosen.size, classes=CLASSES, image=chosen.image)
    found: dict[str, Any] = {}
    for name in chosen.schemes or with_two_axes(config):
        found[name] = beside_a_table(name, config, x, chosen.rounds)
    found["pvt"] = beside_pvt_v2(chosen.size, x, chosen.rounds)
    settings = {key: getattr(chosen, key) for key in ("size", "image", "batch", "threads", "rounds")}
    keep(chosen, **settings, found=found)
    return 0


def with_two_axes(config: VisionConfig) -> list[str]:
    """The schemes of the catalogue that turn queries and keys, or bias the logits by trained numbers, on two axes."""
    found = []
    for name, kind in catalogue().items():
        try:
            claims = build(parse(name), config.sites[0].scheme_arguments(kind)).claims
        except ValueError:  # it needs what no picture says
            continue
        turns = claims.sites == {"q", "k"} and claims.isometric
        if claims.axes == 2 and (turns or (claims.sites == {"bias"} and claims.learned)):
            found.append(name)
    return found


def beside_a_table(text: str, config: VisionConfig, x: Tensor, rounds: int) -> dict[str, Any]:
    """Time of a ViT with a scheme next to the same with a learned table."""
    scheme = build(parse(text), config.sites[0].scheme_arguments(catalogue()[parse(text).scheme]))
    gate = check(type(scheme), family="definition")
    if not gate.ok:
        raise ValueError(f"{text} is not timed: its code and its definition disagree. {gate.failures[0].trouble}")
    models = {"ours": made(config, text), "baseline": made(config, BASELINE)}
    figures = in_turn(models, x, rounds)
    aim = AIMS["bias" if "bias" in scheme.claims.sites else "q"]
    backend, reason = choose(scheme)
    verdict = met(figures["ratio"] <= aim)
    print(
        f"{text}: {figures['ratio']:.3f} x a learned table (aim {aim:.2f}, {verdict}); {said(figures, 'ours')} against "
        f"{said(figures, 'baseline')}; attention by {backend}: {reason}",
        flush=True,
    )
    return figures | {"aim": aim, "backend": backend, "reason": reason}


def beside_pvt_v2(size: str, x: Tensor, rounds: int) -> dict[str, Any]:
    """Time and memory of PVT with its learned tables next to transformers' PvtV2-B2."""
    if importlib.util.find_spec("transformers") is None:
        print("pvt: not timed, transformers is not installed: pip install transformers")
        return {}
    transformers = importlib.import_module("transformers")
    config = pvt(size, classes=CLASSES, image=x.shape[3], options=PYRAMID)
    same_as_transformers(config, transformers, x[:1])
    depths = [stage.depth for stage in config.stages]
    theirs = transformers.PvtV2ForImageClassification(
        transformers.PvtV2Config(
            image_size=x.shape[3], num_labels=CLASSES, depths=depths,
            hidden_sizes=[stage.dim for stage in config.stages], mlp_ratios=[8, 8, 4, 4],
        )
    )  # fmt: skip
    models = {"ours": made(config, "NoPE"), "baseline": theirs}
    sizes = {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()}
    figures = in_turn(models, x, rounds)
    peaks = figures["peak_mib"]
    memory = peaks["ours"] / max(peaks["baseline"], 1e-9)
    print(
        f"pvt-{size}, {sizes['ours'] / 1e6:.1f} M parameters: {figures['ratio']:.3f} x the time and {memory:.3f} x the "
        f"peak memory of transformers' PvtV2 of {sizes['baseline'] / 1e6:.1f} M; {said(figures, 'ours')} against "
        f"{said(figures, 'baseline')}",
        flush=True,
    )
    return figures | {"memory_ratio": memory, "parameters": sizes}


def same_as_transformers(config: VisionConfig, transformers: Any, x: Tensor) -> None:
    """Raises ValueError unless PVT says what transformers' says with the same weights."""
    theirs = transformers.PvtForImageClassification(
        transformers.PvtConfig(
            image_size=x.shape[3], num_labels=CLASSES, depths=[stage.depth for stage in config.stages],
            hidden_sizes=[stage.dim for stage in config.stages],
            num_attention_heads=[stage.heads for stage in config.stages],
        )
    ).eval()  # fmt: skip
    ours = made(config, "NoPE").eval()
    load_weights(ours, theirs.state_dict())
    with torch.no_grad():
        wanted = theirs(x).logits
        apart = float((ours(x) - wanted).abs().max() / wanted.abs().max())
    if not apart <= TOLERANCE:
        raise ValueError(
            f"PVT differs from transformers' by {apart:.1e} of its largest logit (allowed {TOLERANCE:.0e}); a speed of "
            "wrong results is none. Run tests/models/test_pretrained.py first."
        )


def made(config: VisionConfig, text: str) -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(config, at_sites(parse(text), config.sites))


def in_turn(models: Mapping[str, nn.Module], x: Tensor, rounds: int) -> dict[str, Any]:
    """Seconds and peak memory of forward and backward of both, in turn, after one round that warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in models}
    memory = dict.fromkeys(models, 0.0)
    for turn in range(rounds + 1):
        for name in list(models)[:: 1 if turn % 2 else -1]:
            for parameter in models[name].parameters():
                parameter.grad = None
            rest = start_memory()
            began = time.perf_counter()
            functional.cross_entropy(logits(models[name](x)), torch.zeros(len(x), dtype=torch.long)).backward()
            if turn:
                seconds[name].append(time.perf_counter() - began)
                memory[name] = max(memory[name], peak_memory() - rest)
    ratios = [a / b for a, b in zip(seconds["ours"], seconds["baseline"], strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "rounds": [round(ratio, 3) for ratio in ratios],
        "seconds": {name: statistics.median(values) for name, values in seconds.items()},
        "peak_mib": memory,
    }


def logits(out: Any) -> Tensor:
    return out if isinstance(out, Tensor) else out.logits


def said(figures: dict[str, Any], side: str) -> str:
    return f"{figures['seconds'][side]:.2f} s and {figures['peak_mib'][side]:.0f} MiB"


if __name__ == "__main__":
    sys.exit(main())
