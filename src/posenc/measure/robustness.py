"""Noise robustness: metrics of a model with normal noise on the output of one of its modules.

    h' = h + scale eps,   eps ~ N(0, 1)

Source: arXiv 2406.08272, fig. A10. Its caption is missing, so the site of the noise is our choice: in the studies h are
the token embeddings, before the first block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from posenc.measure.evaluation_mode import evaluation_mode


def noise_robustness(
    model: nn.Module,
    site: nn.Module,
    evaluate: Callable[[], Mapping[str, float]],
    scales: Sequence[float] = (0, 0.1, 0.2, 0.5, 1, 1.5, 2),
    draws: int = 20,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Evaluate a model under noise of several scales.

    One draw of the noise is the same at every scale, up to the factor, so that scales are compared on equal noise.

    Args:
        model: the model. It is put into eval mode without gradients, and restored afterwards, also after an exception.
        site: the module of the model whose output gets the noise, as ``model.tokens``.
        evaluate: function that runs the model and returns metrics by name.
        scales: standard deviations of the noise, in the unit of the output. Scale 0 is the model without noise and is
            evaluated once.
        draws: number of draws of the noise at each scale.
        seed: seed of the noise.

    Returns:
        Rows ``{scale, draw, metric, value}``.

    Raises:
        ValueError: a site that is not part of the model, that ``evaluate`` never runs, or whose output is not a float
            tensor; a negative scale; or no draw.
    """
    if not any(part is site for part in model.modules()):
        raise ValueError(f"The site of the noise is a part of the model; this {type(site).__name__} is not in it.")
    if draws < 1 or not all(0 <= scale < float("inf") for scale in scales):
        raise ValueError(f"Noise has scales of at least 0 and one draw or more; got {list(scales)}, draws={draws}.")
    rows = []
    with evaluation_mode(model):
        for scale in scales:
            for draw in range(draws if scale else 1):
                metrics = _evaluated(site, evaluate, float(scale), [seed, draw])
                rows += [
                    {"scale": scale, "draw": draw, "metric": metric, "value": float(value)}
                    for metric, value in metrics.items()
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
        metrics = evaluate()
    finally:
        hook.remove()
    if not runs:
        raise ValueError(
            f"evaluate() never ran the site, {type(site).__name__}, so no noise was added. A model may use a layer's "
            "weights without calling it; choose a module that it calls."
        )
    return metrics
