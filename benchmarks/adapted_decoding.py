"""Decoding in an adapted model of transformers, beside the original model.

    python benchmarks/adapted_decoding.py --out results/adapted-decoding-cpu.json

A Llama of about 100 million random parameters reads one token with a cache of 1,024. One thread, float32. Both take
turns (A B B A) and what counts is the median of the rounds' ratios of processor time. The baseline has transformers'
SDPA and a mask that adds numbers to the logits, which is what a bias needs at the least. Nothing is timed before the
logits of the adapted model with a cache are those of a full forward.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor

from command import keep, met, options
from language import ratio
from posenc.adapt import llama
from posenc.lookup.scheme_text import build, parse

CONTEXT, AIM = 1024, 1.03
BY_LAYER = " by layer"
"""Ending of a scheme that is passed as a function of the layer, so that it acts in the attention of each layer."""
SIZES: dict[str, Any] = {
    "hidden_size": 768, "num_attention_heads": 12, "num_key_value_heads": 4, "num_hidden_layers": 12,
    "intermediate_size": 2048, "vocab_size": 16000, "max_position_embeddings": 2048, "bos_token_id": None,
    "eos_token_id": None,
}  # fmt: skip
"""Sizes of the model: 98 million parameters."""
SCHEMES = ("ALiBi(12)", "T5Bias(12)", "RoPE(64, pairing='half')", "RoPE(64, pairing='half')" + BY_LAYER)
TOLERANCE = 1e-4


def main() -> int:
    parser = options("Decoding in an adapted model of transformers.", 9)
    chosen = parser.parse_args()  # load of the machine cancels in ratios of processor time, so it need not be idle
    torch.set_num_threads(1)
    found, parameters = measure(chosen.rounds, SCHEMES, CONTEXT)
    for name, each in found.items():
        print(f"{name}: {each:.3f} x the original model (aim {AIM:g} x, {met(each <= AIM)})", flush=True)
    keep(chosen, context=CONTEXT, aim=AIM, rounds=chosen.rounds, parameters=parameters / 1e6, found=found)
    return 0


@torch.no_grad()
def measure(
    rounds: int, schemes: tuple[str, ...], context: int, sizes: dict[str, Any] = SIZES
) -> tuple[dict[str, float], int]:
    """Ratio of the time of a token for each scheme, and the number of parameters."""
    plain = made(sizes)
    parameters = sum(parameter.numel() for parameter in plain.parameters())
    originals, found = [stepping(plain, context, masked=masked) for masked in (False, True)], {}
    for text in schemes:
        adapted, scheme = made(sizes), build(parse(text.removesuffix(BY_LAYER)), {})
        llama(adapted, (lambda layer, scheme=scheme: scheme) if text.endswith(BY_LAYER) else scheme)
        gate(text, adapted, min(context, 24))
        biased = "bias" in scheme.claims.sites
        if not biased:
            refuse_other_logits(text, adapted, plain, min(context, 24))
        step, beside = stepping(adapted, context, masked=False), originals[biased]
        seconds: tuple[list[float], list[float]] = ([], [])
        for turn in range(-2, rounds):
            for side, run in list(enumerate((step, beside)))[:: 1 if turn % 2 else -1]:
                began = time.process_time()
                run()
                if turn >= 0:
                    seconds[side].append(time.process_time() - began)
        found[text] = ratio(*seconds)
    return found, parameters


def made(sizes: dict[str, Any]) -> Any:
    """A Llama with random weights."""
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).eval().requires_grad_(False)


def stepping(model: Any, context: int, *, masked: bool) -> Callable[[], Tensor]:
    """A forward of one token with a cache of a text of that length."""
    cache = transformers.DynamicCache(config=model.config)
    for start in range(0, context, 256):
        model(torch.arange(start, min(start + 256, context))[None] % 100, past_key_values=cache)
    heads = model.config.num_attention_heads
    added = torch.linspace(-1, 0, context + 1).expand(1, heads, 1, -1).contiguous() if masked else None
    token, at = torch.zeros(1, 1, dtype=torch.long), torch.tensor([[context]])

    def step() -> Tensor:
        out = model(token, attention_mask=added, position_ids=at, past_key_values=cache).logits
        cache.crop(-1)
        return out

    return step


def gate(name: str, model: Any, count: int) -> None:
    """Raises ValueError unless a step with a cache has the logits of a full forward."""
    ids = torch.arange(count)[None]
    cache = transformers.DynamicCache(config=model.config)
    model(ids[:, :-1], past_key_values=cache)
    step, full = model(ids[:, -1:], past_key_values=cache).logits[:, -1], model(ids, use_cache=False).logits[:, -1]
    worst = float((step - full).abs().max() / full.abs().max())
    if not worst <= TOLERANCE:
        raise ValueError(
            f"a step with {name} differs from a full forward by {worst:.1e}; a speed of wrong results is none."
        )


def refuse_other_logits(name: str, model: Any, plain: Any, count: int) -> None:
    """Raises ValueError unless two models have the same logits."""
    ids = torch.arange(count)[None]
    ours, theirs = (each(ids, use_cache=False).logits for each in (model, plain))
    worst = float((ours - theirs).abs().max() / theirs.abs().max())
    if not worst <= TOLERANCE:
        raise ValueError(
            f"the logits of {name} differ from the original model's by {worst:.1e}; both were to be equal."
        )


if __name__ == "__main__":
    sys.exit(main())
