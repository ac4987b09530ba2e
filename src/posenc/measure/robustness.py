"""What noise inside a model costs: normal noise added to what one of its modules gives out.

    h' = h + scale eps,   eps ~ N(0, 1)

Source: arXiv 2406.08272, fig. A10, whose caption is lost; here h are the token embeddings, before the first block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posenc.measure.evaluating import evaluating


def noise_robustness(
    model: nn.Module,
    site: nn.Module,
    evaluate: Callable[[], Mapping[str, float]],
    scales: Sequence[float] = (0, 0.1, 0.2, 0.5, 1, 1.5, 2),
    draws: int = 20,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Every metric under noise, rows ``{scale, draw, metric, value}``.

    model: put into eval mode meanwhile, without gradients; left as it was, also after an exception.
    site: the part of it whose output gets the noise, as ``model.tokens``. evaluate: runs the model and scores it.
    scales: standard deviations of the noise, in the unit of the output; 0 is the clean model and needs one draw.
    draws: of the noise at each scale. seed: of a generator of its own on the output's device; a draw's noise is the
    same at every scale but for the factor, so that scales are compared on one luck.

    Raises ValueError for a site that is no part of the model, that evaluate() never runs, or whose output is no tensor
    of floats; for a negative scale, or no draw.
    """
    if not any(part is site for part in model.modules()):
        raise ValueError(f"The site of the noise is a part of the model; this {type(site).__name__} is not in it.")
    if draws < 1 or not all(0 <= scale < float("inf") for scale in scales):
        raise ValueError(f"Noise has scales of at least 0 and one draw or more; got {list(scales)}, draws={draws}.")
    rows = []
    with evaluating(model):
        for scale in scales:
            for draw in range(draws if scale else 1):
                found = _evaluated(site, evaluate, float(scale), [seed, draw])
                rows += [
                    {"scale": scale, "draw": draw, "metric": metric, "value": float(value)}
                    for metric, value in found.items()
                ]
    return rows


def _evaluated(
    site: nn.Module, evaluate: Callable[[], Mapping[str, float]], scale: float, entropy: list[int]
) -> Mapping[str, float]:
    generators: dict[torch.device, torch.Generator] = {}
    first = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
    runs = 0

    def disturb(module: nn.Module, args: Any, output: Any) -> Tensor | None:
        nonlocal runs
        runs += 1
        if not (isinstance(output, Tensor) and output.is_floating_point()):
            raise ValueError(
                f"Noise is added to a tensor of floats; {type(site).__name__} gives out {type(output).__name__}. "
                "Choose a module whose output is one."
            )
        if not scale:
            return None
        device = output.device
        if device not in generators:
            generators[device] = torch.Generator(device).manual_seed(first)
        noise = torch.randn(output.shape, generator=generators[device], device=device, dtype=output.dtype)
        return output + scale * noise

    hook = site.register_forward_hook(disturb)
    try:
        found = evaluate()
    finally:
        hook.remove()
    if not runs:
        raise ValueError(
            f"evaluate() never ran the site, {type(site).__name__}, so no noise was added. A model may use a layer's "
            "weights without calling it; choose a module that it calls."
        )
    return found
