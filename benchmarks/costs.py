"""Cost of each scheme of the catalogue next to no positions: decoding of a token, a training step, memory.

    python benchmarks/costs.py --out results/costs-cpu.json
    python benchmarks/costs.py --out results/costs-cpu.json --schemes FoX FIRE     measures these again
    python benchmarks/costs.py --out results/costs-cpu.json --rounds 0             counts bytes and operations alone
    python tools/costs.py                 writes docs/costs.md from that file

One thread, float32. A scheme and NoPE take turns (A B B A), and what counts is the median of the rounds' ratios.
Seconds are the process's own, so another process costs little.

* Decoding: one token with a cache of 4,096 by six layers of GPT-2's size with grouped queries, once the logits of such
  a step are those of the full pass. For schemes that a text can have and a cache.
* Training: a step of AdamW of one encoder layer at 1,024 tokens, with 4 heads of 64 channels. Positions are consecutive
  on the axes of the scheme, or a graph of 1,024 nodes. Rows of another width are projected to that of the layer.
* Memory: what that step adds to the process at its peak.

Beside the ratio stand the bytes that torch's operations of the same step read and write, and their arithmetic, as
ratios to the step without positions. A ratio of time above both has overhead besides.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch import nn

from command import keep, met, options
from encoder import peak_memory, start_memory
from language import DECODING, as_claimed, filled, ratio, seconds_of, sequential
from operations import share, work
from posenc.graph_data.builders import graph
from posenc.lookup.scheme_text import Specification, build, parse
from posenc.measure.run_time import consecutive_positions
from posenc.models.cache import Cache
from posenc.models.cache_fingerprint import layers_of, weights_of
from posenc.models.encoder import Block, EncoderConfig
from posenc.models.generation import extend
from posenc.models.language import LanguageConfig, LanguageModel
from posenc.positions import Positions, grid, sequence
from posenc.scheme import Scheme
from posenc.schemes import catalogue
from posenc.schemes.nope import NoPE

CONTEXT, TOKENS, BATCH = 4096, 1024, 1
LAYER = EncoderConfig(channels=1, classes=1, dim=256, depth=1, hidden=1024, heads=4, norm="pre")
KNOWN: dict[str, Any] = {
    "head_dim": LAYER.head_dim, "heads": LAYER.heads, "dim": LAYER.dim, "max_distance": 127, "npos_max": 64,
    "scale_base": 512.0, "axes": 2, "resolution": 32, "table_size": 2**14, "sections": (16, 8, 8), "degree": 8,
    "chunk": 256, "size": 256,
}  # fmt: skip
"""Arguments of constructors by name: sizes of the layer, and sizes that fit 1,024 tokens."""
AIMS = {"decode": 1.10, "training": 1.25}


def main() -> int:
    parser = options("Costs of every scheme, next to no positions.", 7)
    parser.add_argument("--only", choices=("decode", "training"), help="one of the two, added to those of --out")
    parser.add_argument("--schemes", nargs="+", default=[], help="these schemes, added to those of --out")
    chosen = parser.parse_args()  # load of the machine cancels in ratios of processor time, so it need not be idle
    torch.set_num_threads(1)
    found: dict[str, dict[str, Any]] = {}
    more: dict[str, Any] = {"rounds": chosen.rounds}
    if (chosen.only or chosen.schemes or not chosen.rounds) and chosen.out and chosen.out.exists():  # the rest stays
        stored = json.loads(chosen.out.read_text(encoding="utf-8"))
        found = stored["found"]
        more["note"] = stored.get("note", "")
        more["rounds"] = chosen.rounds or stored["rounds"]
    for name, (run, words) in {"decode": (decoding, "a step of decoding"), "training": (training, "training")}.items():
        for scheme, row in run(chosen.rounds, tuple(chosen.schemes)).items() if chosen.only in (None, name) else ():
            row = found.setdefault(scheme, {}).setdefault(name, {}) | row
            found[scheme][name] = row
            ratio_of, aim = row.get("ratio", math.nan), AIMS[name]
            print(
                f"{scheme}: {words} {ratio_of:.2f} x no positions (aim {aim:g} x, {met(ratio_of <= aim)})", flush=True
            )
    keep(chosen, context=CONTEXT, tokens=TOKENS, aims=AIMS, found=found, **more)
    return 0


def decoding(
    rounds: int, names: tuple[str, ...] = (), config: LanguageConfig = DECODING, context: int = CONTEXT
) -> dict[str, dict[str, float]]:
    """Ratio of time and bytes of one step of decoding with each scheme of a text; no time with 0 rounds."""
    found, plain = {}, decoding_step(NoPE(), config, context)
    for name, scheme in (sequential(config, context) | embedded(config, context)).items():
        if names and name not in names:
            continue
        gate(name, scheme, config, min(context, 100))
        step = decoding_step(scheme, config, context)
        counted = share(work(step), work(plain))
        found[name] = counted if rounds == 0 else {"ratio": compared(step, plain, 5 * rounds)} | counted
    return found


def compared(ours: Callable[[], None], plain: Callable[[], None], rounds: int) -> float:
    """Median ratio of the processor time of two calls that take turns."""
    sides = (ours, plain)
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(-1, rounds):
        for side in (0, 1)[:: 1 if turn % 2 else -1]:
            took = seconds_of(sides[side])
            if turn >= 0:
                seconds[side].append(took)
    return ratio(*seconds)


def gate(name: str, scheme: Scheme, config: LanguageConfig, tokens: int) -> None:
    """Raises ValueError unless a step of decoding gives the logits of the full pass, after a text of some tokens."""
    text = torch.randint(config.vocabulary, (1, tokens + 1), generator=torch.Generator().manual_seed(0))
    filled(name, LanguageModel(config, as_claimed(NoPE())).eval(), as_claimed(scheme), text)


def embedded(config: LanguageConfig, context: int) -> dict[str, Scheme]:
    """The schemes that add rows to the tokens of a text, and can be cached."""
    found = {}
    for name in catalogue():
        try:
            scheme = build(Specification(name), {"dim": config.dim, "max_len": context + 1, "extent": float(context)})
            fits = scheme.claims.sites == {"embed"} and scheme.claims.axes == 1 and scheme.claims.cacheable
            LanguageModel(msgspec.structs.replace(config, depth=1), lambda layer, s=scheme: s)
            scheme.prepare(sequence(context + 1))
        except ValueError:
            continue
        if fits and not scheme.draws and scheme.graph_view is None:
            found[name] = scheme
    return found


def training(rounds: int, names: tuple[str, ...] = (), tokens: int = TOKENS) -> dict[str, dict[str, float]]:
    """Ratio of time, memory and bytes of a training step with each scheme."""
    found = {}
    for name in names or catalogue():
        scheme, pos = scheme_at(name, tokens)
        sides = [step_of(scheme, pos), step_of(NoPE(), pos)]
        found[name] = share(work(sides[0]), work(sides[1]))
        if rounds > 0:
            time_ratio = compared(sides[0], sides[1], rounds)
            memory = [_memory(side) for side in sides]
            found[name] |= {"ratio": time_ratio, "memory": memory[0] / memory[1]}
    return found


def scheme_at(name: str, tokens: int) -> tuple[Scheme, Positions]:
    """A scheme built for the layer, and positions of about that number of tokens that it reads."""
    kind, side = catalogue()[name], round(math.sqrt(tokens))
    known = KNOWN | {"max_len": tokens, "window": (side, side), "n": side, "extent": float(side)}
    if kind.graph_reads or kind.graph_view:
        pos = _graph(kind, side)
        return build(Specification(name), known | {"edges": pos.graph and pos.graph.edge_index.T}), pos
    scheme = build(parse(kind.shown) if kind.shown else Specification(name), known)
    pos = grid(side, side) if scheme.claims.axes == 2 else consecutive_positions(scheme, tokens)
    try:
        scheme.prepare(pos)
    except ValueError:
        pos = consecutive_positions(scheme, tokens)
    return scheme, pos


def _graph(kind: type[Scheme], side: int) -> Positions:
    """The nodes of a grid of side / 2 x 2 side nodes, which has no equal eigenvalues, in the view of a scheme."""
    wide = 2 * side
    edges = [(i, i + step) for i in range(side * side) for step in (1, wide)
             if (step == wide or (i + 1) % wide) and i + step < side * side]  # fmt: skip
    view = kind.graph_view or "eigenvectors"
    return graph(edges, view=view, **({} if view == "hops" else {"axes": KNOWN["axes"]}))


def step_of(scheme: Scheme, pos: Positions) -> Callable[[], None]:
    """A training step of one layer with a scheme."""
    torch.manual_seed(0)
    block, parts = Block(LAYER), nn.ModuleList([scheme])
    rows = "embed" in scheme.claims.sites
    if rows and scheme.out_dim != LAYER.dim:
        parts.append(nn.Linear(scheme.out_dim, LAYER.dim))
    optimizer = torch.optim.AdamW([*block.parameters(), *parts.parameters()], fused=True)
    z = torch.randn(BATCH, pos.count, LAYER.dim, generator=torch.Generator().manual_seed(0))

    def step() -> None:
        where = scheme.prepare(pos)
        x = z
        if rows:
            added = scheme.embed(where)
            x = z + (parts[1](added) if len(parts) > 1 else added)
        loss = block(x, scheme, where, scheme.relate(where, where)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def decoding_step(scheme: Scheme, config: LanguageConfig, context: int) -> Callable[[], None]:
    """A step of decoding with a cache of random keys and values, as many as a text of that length has."""
    torch.manual_seed(0)
    model = LanguageModel(config, as_claimed(scheme)).eval().requires_grad_(False)
    cache, pos, token = Cache(room=context + 2), sequence(context), torch.zeros(1, 1, dtype=torch.long)
    cache.serve(layers_of(model), weights_of(model))
    for held, own in zip(cache.layers, layers_of(model), strict=True):
        where = own.prepare(pos)
        k, v = torch.randn(2, 1, config.key_heads, context, config.head_dim)
        kept = own.keep(torch.randn(1, context, config.dim), where)
        held.extended(own.transform(k, where, "k").detach(), own.transform(v, where, "v").detach(), kept)
    cache.remember(pos, None)
    cache.counted(context)

    def step() -> None:
        extend(model, token, cache)
        cache.drop(context, context + 1)

    return step


def _memory(step: Callable[[], None]) -> float:
    rest = start_memory()
    step()
    return max(peak_memory() - rest, 1.0)


if __name__ == "__main__":
    sys.exit(main())
