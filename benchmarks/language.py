"""A language model beside the same one without positions: one decode step, memory of biases, a training step.

    python benchmarks/language.py --out results/language-speed.json

One thread, float32, rounds in turn; what counts is the median of the rounds' ratios, and seconds are the process's own.

* One decode step at a context of 2,048, of six layers of GPT-2's size with grouped queries, next to the same step of
  the same weights with NoPE; timed once the logits of the step are those of the full pass.
* Causal attention at 4,096 tokens with a bias, next to SDPA with that bias as one dense (H, N, N) additive mask for all
  samples, the causal mask in it: what inference adds to a fresh process at its peak, once the two agree.
* A training step of a small model whose queries, keys, values and outputs turn, next to one whose queries and keys do,
  once both are what their definition says.
"""

from __future__ import annotations

import copy
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from biases import with_a_bias
from command import begin, keep, met, options
from encoder import peak_memory, start_memory
from posenc.attention import attend
from posenc.contract import check
from posenc.kernels.attention_mask import AttentionMask
from posenc.lookup.scheme_text import Specification, build
from posenc.models.cache import Cache
from posenc.models.generation import extend
from posenc.models.language import LanguageConfig, LanguageModel
from posenc.positions import sequence
from posenc.scheme import Scheme
from posenc.schemes import catalogue
from posenc.schemes.nope import NoPE
from posenc.schemes.vo_rope import VORoPE

DECODING = LanguageConfig(vocabulary=256, dim=768, depth=6, heads=12, key_heads=4, hidden=3072)
TRAINING = LanguageConfig(vocabulary=256, dim=256, depth=4, heads=4, key_heads=2, hidden=1024)
CONTEXT, TOKENS, WINDOW, BATCH = 2048, 4096, 256, 8
SAMPLES, HEADS, WIDTH = 2, 8, 64
AIM_STEP, AIM_MEMORY, AIM_TRAINING = 1.1, 1.3, 1.1
TOLERANCE = 1e-4  # of the largest entry, in float32: the two sum in another order


def main() -> int:
    parser = options("Speed and memory of a language model with positions, next to one without.", 15)
    parser.add_argument("--only", choices=("decode", "memory", "training"), help="one of the three comparisons")
    chosen = begin(parser)
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name, (run, aim, line) in COMPARISONS.items():
        if chosen.only in (None, name):
            found[name] = {"aim": aim, "ratios": run(chosen.rounds)}
            for scheme, ratio in found[name]["ratios"].items():
                print(f"{scheme}: {ratio:.2f} x {line} (aim {aim:g} x, {met(ratio <= aim)})", flush=True)
    keep(chosen, context=CONTEXT, tokens=TOKENS, found=found)
    return 0


def decode(rounds: int, config: LanguageConfig = DECODING, context: int = CONTEXT) -> dict[str, float]:
    """Seconds of one step with each scheme over those with NoPE, the weights the same. Raises ValueError where a step
    does not say what the full pass says."""
    schemes = {name: as_claimed(scheme) for name, scheme in {"NoPE": NoPE(), **sequential(config, context)}.items()}
    model = LanguageModel(config, schemes["NoPE"]).eval()
    text = torch.randint(config.vocabulary, (1, context + 1), generator=torch.Generator().manual_seed(0))
    caches = {name: filled(name, model, scheme, text) for name, scheme in schemes.items()}
    seconds: dict[str, list[float]] = {name: [] for name in schemes}
    for turn in range(-2, rounds):
        for name in list(schemes)[:: 1 if turn % 2 else -1]:
            model.place(schemes[name])
            cache = caches[name]
            cache.drop(cache.count - 1, cache.count)
            took = seconds_of(lambda cache=cache: extend(model, text[:, -1:], cache, pos=sequence(1, start=context)))
            if turn >= 0:
                seconds[name].append(took)
    return {name: ratio(seconds[name], seconds["NoPE"]) for name in schemes if name != "NoPE"}


def as_claimed(scheme: Scheme) -> Callable[[int], Scheme]:
    """The same for all layers, or one a layer, as it claims to be."""
    made: dict[int, Scheme] = {}
    return lambda layer: made.setdefault(layer, copy.deepcopy(scheme)) if scheme.claims.per_layer else scheme


def filled(name: str, model: LanguageModel, schemes: Callable[[int], Scheme], text: Tensor) -> Cache:
    """A cache of all of a text, whose last step gave the logits of the full pass."""
    model.place(schemes)
    cache = Cache(room=text.shape[1])
    extend(model, text[:, :-1], cache)
    step = extend(model, text[:, -1:], cache)[:, -1]
    with torch.no_grad():
        agree(f"a step with {name}", step, model(text)[:, -1])
    return cache


def sequential(config: LanguageConfig, context: int) -> dict[str, Scheme]:
    """Every scheme of the catalogue that a text can have, built for a model: in attention, on one axis, cacheable."""
    known = {
        "head_dim": config.head_dim,
        "heads": config.heads,
        "dim": config.dim,
        "extent": float(context),
        "scale_base": float(context),
        "npos_max": 64,
        "max_distance": 128,
        "chunk": WINDOW,
        "size": WINDOW,
    }
    found = {}
    for name in catalogue():
        try:
            scheme = build(Specification(name), known)
        except ValueError:
            continue  # for pictures, graphs, globes, or made of other schemes
        if scheme.claims.per_head and scheme.claims.sites & {"q", "k"}:  # those are of the heads of keys
            scheme = build(Specification(name), known | {"heads": config.key_heads})
        claims, inside = scheme.claims, {"q", "k", "v", "o", "bias", "value_bias", "mask"}
        if claims.sites and claims.sites <= inside and claims.axes == 1 and claims.cacheable:
            found[name] = scheme
    return found


def memory(rounds: int, tokens: int = TOKENS) -> dict[str, float]:
    """Peak memory of inference with each bias over SDPA with it as one dense mask; rounds mean nothing here."""
    cases = with_a_bias()
    for name, scheme in cases.items():
        given = inputs(min(tokens, 300))
        with torch.no_grad():
            agree(f"attention with {name}", ours(scheme, *given), dense(masks(scheme, given[0], given[1]), *given))
    context = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        beside = pool.submit(added, None, tokens).result()
        return {name: pool.submit(added, scheme, tokens).result() / beside for name, scheme in cases.items()}


def added(scheme: Scheme | None, tokens: int) -> float:
    """MiB that inference adds to this process at its peak; with a dense mask of no scheme's where there is none."""
    torch.set_num_threads(1)
    with torch.inference_mode():
        small, given = inputs(64), inputs(tokens)
        for warm in (True, False):
            q, k, v, x = small if warm else given
            rest = start_memory()
            if scheme is None:
                dense(torch.zeros(1, HEADS, q.shape[2], q.shape[2]), q, k, v, x)
            else:
                ours(scheme, q, k, v, x)
    return max(peak_memory() - rest, 1.0)


def ours(scheme: Scheme, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    where = scheme.prepare(sequence(q.shape[2]))
    seen = AttentionMask(q.shape[2], q.shape[2])
    return attend(q, k, v, scheme, where, where, scheme.relate(where, where), kept=scheme.keep(x, where), mask=seen)


def dense(mask: Tensor, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, mask)


def masks(scheme: Scheme, q: Tensor, k: Tensor) -> Tensor:
    """A bias and the causal mask as numbers to add, for the samples that ``inputs`` makes."""
    x = inputs(q.shape[2])[3]
    where = scheme.prepare(sequence(q.shape[2]))
    pair, seen = scheme.relate(where, where), torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
    bias = scheme.bias(q / math.sqrt(WIDTH), k, scheme.keep(x, where), pair, seen)
    assert bias is not None
    bias = bias if bias.dim() == 4 else bias[None]
    return bias.masked_fill(~seen, -torch.inf)


def inputs(tokens: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(SAMPLES, HEADS, tokens, WIDTH, generator=generator) for _ in range(3))
    return q, k, v, torch.randn(SAMPLES, tokens, 12, generator=generator)


def training(
    rounds: int, config: LanguageConfig = TRAINING, window: int = WINDOW, batch: int = BATCH
) -> dict[str, float]:
    """Seconds of a step of AdamW with all four sites turned over those with queries and keys turned."""
    sides: dict[str, Callable[[], None]] = {}
    for at in ("qk", "qkvo"):
        report = check(VORoPE(config.head_dim, at), family="definition")
        if not report.ok:
            raise ValueError(f"{report}\nA speed of wrong results is none. Run tests/schemes first.")
        sides[at] = stepping(config, VORoPE(config.head_dim, at), window, batch)
    seconds: dict[str, list[float]] = {at: [] for at in sides}
    for turn in range(-2, rounds):
        for at in list(sides)[:: 1 if turn % 2 else -1]:
            took = seconds_of(sides[at])
            if turn >= 0:
                seconds[at].append(took)
    return {"VORoPE": ratio(seconds["qkvo"], seconds["qk"])}


def stepping(config: LanguageConfig, scheme: Scheme, window: int, batch: int) -> Callable[[], None]:
    torch.manual_seed(0)
    model = LanguageModel(config, lambda layer: scheme)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    text = torch.randint(config.vocabulary, (batch, window + 1), generator=torch.Generator().manual_seed(0))

    def step() -> None:
        logits = model(text[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def agree(what: str, found: Tensor, wanted: Tensor) -> None:
    worst = float((found - wanted).abs().max() / wanted.abs().max())
    if not worst <= TOLERANCE:
        raise ValueError(
            f"{what} differs from its reference by {worst:.1e} of the largest entry (allowed {TOLERANCE:.0e}); a speed "
            "of wrong results is none. Run tests/models first."
        )


def seconds_of(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


COMPARISONS: Mapping[str, tuple[Callable[[int], dict[str, float]], float, str]] = {
    "decode": (decode, AIM_STEP, f"the time of a step with NoPE at a context of {CONTEXT}"),
    "memory": (memory, AIM_MEMORY, f"the memory of one dense mask at {TOKENS} tokens"),
    "training": (training, AIM_TRAINING, "the time of a training step with queries and keys turned alone"),
}


if __name__ == "__main__":
    sys.exit(main())
