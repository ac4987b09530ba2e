"""Saying on what a language model read: through a cache, by samples of a generator.

    cache = Cache()
    logits = extend(model, prompt, cache)            # prefill: (B, N, vocabulary), those of model(prompt)
    logits = extend(model, token[:, None], cache)    # decode: one token, or some
    new = generate(model, prompt, 200, generator=g)  # (B, 200)

Texts of different lengths are padded on the left (``left_padded``), so that all go on at once.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from posenc.kernels.seen import Seen
from posenc.models.cache import Cache
from posenc.models.language import LanguageModel, refuse_unfit, restarting
from posenc.models.makers import layers_of, weights_of
from posenc.models.sites import Placed
from posenc.positions import Positions, sequence
from posenc.scheme import Scheme, Where


@torch.no_grad()
def extend(
    model: LanguageModel,
    tokens: Int[Tensor, "B N"],
    cache: Cache,
    *,
    pos: Positions | None = None,
    documents: Int[Tensor, "*b N"] | None = None,
) -> Float[Tensor, "B N vocabulary"]:
    """The logits of the tokens that come next, which the cache then holds; those of the full pass over all of them.

    pos: by default they go on where the last one stood, or begin at 0 in a new document. documents: as the model's;
    tokens that do not say are of the last one. Raises ValueError, with the cache as it was, for a scheme that is not
    cacheable, keys that another scheme, schedule or model made, other samples than the cache's (of one, which was read
    for all, several may go on), and positions beyond a scheme's range.
    """
    refuse_unfit(model.config, tokens, pos, documents)
    cache.serve(layers_of(model), weights_of(model))
    if cache.samples != 1:
        cache.refuse_samples("tokens", len(tokens))
    pos = following(cache, tokens, documents) if pos is None else pos
    queries = [scheme.prepare(pos) for scheme in model.unique_schemes]  # what is refused, before anything is kept
    everywhere, document = cache.remember(pos, documents)
    at = [
        _placed(scheme, where, pos.placed, everywhere)
        for scheme, where in zip(model.unique_schemes, queries, strict=True)
    ]
    seen = Seen(pos.count, everywhere.count, document, everywhere.placed, model.config.window)
    logits = model.through(tokens, at, seen, cache.layers)
    cache.counted(pos.count)
    return logits


def generate(
    model: LanguageModel,
    prompt: Int[Tensor, "B N"],
    count: int,
    *,
    pos: Positions | None = None,
    temperature: float = 1.0,
    most: int | None = None,
    window: int | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B count"]:
    """``count`` tokens a sample, each drawn from ``softmax(logits / temperature)``.

    temperature: 0 takes the likeliest. most: draw among that many of the likeliest. window: hold that many tokens at
    most, the last ones; where the next would leave a scheme's range, those of that sample move back to its beginning.
    Raises ValueError, before anything is said, where a text would leave the range without a window, where what a window
    holds is wider than the range or cannot move, and where it is not known where the next token stands.
    """
    if prompt.numel() == 0 or count < 0:
        raise ValueError(
            f"a model goes on from at least one token, for count >= 0; got a prompt of shape {tuple(prompt.shape)} and "
            f"count={count}."
        )
    if not 0 <= temperature < math.inf or (temperature and generator is None) or (most is not None and most < 1):
        raise ValueError(
            "tokens are drawn at a temperature above 0, among most >= 1 of them, by generator=torch.Generator(); or "
            f"temperature=0 takes the likeliest. Got temperature={temperature:g}, most={most}."
        )
    if window is not None and window < 2:
        raise ValueError(f"a window holds the last tokens, at least 2; got window={window}.")
    pos = sequence(prompt.shape[1], device=prompt.device) if pos is None else pos
    refuse_unfit(model.config, prompt, pos, None)
    if count > 1:
        _refuse_unknown(pos[-1:])
    if window is not None:
        _refuse_wide(model, pos[-window:], window, count)
    else:
        for scheme in model.unique_schemes:
            scheme.prepare(pos[-1:] + max(count - 1, 0))  # what is out of its range is said now
    cache, said = Cache(room=prompt.shape[1] + count if window is None else 2 * window), []
    logits = _read(model, prompt, pos, cache, window, count)
    for step in range(count):
        said.append(drawn(logits[:, -1], temperature, most, generator))
        if step + 1 < count:
            if window is not None:
                cache.drop(0, max(cache.count - window + 1, 0))
                _stay_in_range(model, cache)
            logits = extend(model, said[-1], cache)
    return torch.cat(said, 1) if said else prompt.new_empty(len(prompt), 0)


def following(cache: Cache, tokens: Tensor, documents: Tensor | None) -> Positions:
    """Where the next tokens stand: one after the other, after the last one or from 0 in a new document."""
    count = tokens.shape[1]
    if not cache.count:
        return sequence(count, device=tokens.device) if documents is None else restarting(documents)
    last = cache.pos[cache.count - 1 :]
    _refuse_unknown(last)
    if documents is None:
        return Positions(last.coords + 1 + torch.arange(count, device=tokens.device)[:, None])
    goes_on = (documents == cache.last_document(tokens.device)[..., 0, :]).long().cumprod(-1)
    return Positions(restarting(documents).coords + goes_on[..., None] * (last.coords + 1))


def drawn(
    logits: Float[Tensor, "B vocabulary"], temperature: float, most: int | None, generator: torch.Generator | None
) -> Int[Tensor, "B 1"]:
    """A token a sample from ``softmax(logits / temperature)`` over the ``most`` likeliest; of 0, the likeliest."""
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    if most is not None and most < logits.shape[-1]:
        least = logits.topk(most).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)


def _read(model: LanguageModel, prompt: Tensor, pos: Positions, cache: Cache, window: int | None, count: int) -> Tensor:
    """The prompt, or its last tokens, moved to where a scheme's range begins if they or what follows lie beyond it."""
    if window is None:
        return extend(model, prompt, cache, pos=pos)
    prompt, pos = prompt[:, -window:], _within_range(model, pos[-window:], 0)
    logits = extend(model, prompt, cache, pos=pos)
    if _within_range(model, pos, count - 1) is not pos:
        cache.move(model, cache.pos - 0)  # a scheme that cannot move its keys says so before anything is said
    return logits


def _stay_in_range(model: LanguageModel, cache: Cache) -> None:
    here = cache.pos
    there = _within_range(model, here, 1)
    if there is not here:
        cache.move(model, there)


def _within_range(model: LanguageModel, pos: Positions, more: int) -> Positions:
    """``pos`` where all samples have room for ``more`` tokens after the last; those that have none begin anew."""
    low, high = _range(model)
    if high == math.inf:
        return pos
    first, last = _ends(pos)
    full = last + more > high
    return pos - (first - low).where(full, 0).to(pos.coords.dtype) if bool(full.any()) else pos


def _range(model: LanguageModel) -> tuple[float, float]:
    """From where to where every scheme takes positions."""
    limits = [each for scheme in model.unique_schemes for each in scheme.claims.limits(1) if each is not None]
    return max((low for low, _ in limits), default=-math.inf), min((high for _, high in limits), default=math.inf)


def _ends(pos: Positions) -> tuple[Tensor, Tensor]:
    """The first and the last place that is taken in each sample, shaped to meet coordinates."""
    coords = pos.precise()
    if pos.placed is None:
        return coords.amin(-2, keepdim=True), coords.amax(-2, keepdim=True)
    nowhere = ~pos.placed[..., None]
    first, last = coords.masked_fill(nowhere, math.inf), coords.masked_fill(nowhere, -math.inf)
    return first.amin(-2, keepdim=True), last.amax(-2, keepdim=True)


def _refuse_unknown(last: Positions) -> None:
    if last.axes != 1 or (last.placed is not None and not bool(last.placed.all())):
        raise ValueError(
            "where the next tokens stand is not known: the last one has no place, or more than one axis. Pass pos=.."
        )


def _refuse_wide(model: LanguageModel, pos: Positions, window: int, count: int) -> None:
    """Raises ValueError where tokens that a window holds at a time will stand further apart than the range is wide."""
    low, high = _range(model)
    if high - low == math.inf:
        return
    apart = _apart(pos, window, count)
    if apart > high - low:
        raise ValueError(
            f"a window of {window} tokens would hold some that stand {apart:g} apart, and the schemes of this model "
            f"take positions from {low:g} to {high:g}. Use a smaller window, or a scheme without a limit: posenc list "
            "--unbounded"
        )


def _apart(pos: Positions, window: int, count: int) -> float:
    """How far the outermost tokens stand apart that a window holds, at most, while ``count`` are said after ``pos``."""
    coords, nowhere = pos.precise()[..., 0], torch.zeros((), dtype=torch.bool, device=pos.coords.device)
    coords, nowhere = torch.broadcast_tensors(coords, nowhere if pos.placed is None else ~pos.placed)
    to_come = coords[..., -1:] + torch.arange(1, max(count, 1), device=coords.device)
    ends = torch.stack([coords, -coords], -2).masked_fill(nowhere[..., None, :], -math.inf)
    ends = torch.cat([ends, torch.stack([to_come, -to_come], -2)], -1)
    held = functional.pad(ends, (window - 1, 0), value=-math.inf).unfold(-1, window, 1).amax(-1)
    return float(held.sum(-2)[..., pos.count - 1 :].max())


def _placed(scheme: Scheme, where: Where, placed: Tensor | None, everywhere: Positions) -> Placed:
    """A scheme's view of new tokens, and of all keys if something in it asks where they stand."""
    if not scheme.claims.sites & {"bias", "value_bias", "mask"}:
        return Placed(scheme, where, None, None, placed, {})
    keys = scheme.prepare(everywhere)
    return Placed(scheme, where, keys, scheme.relate(where, keys), placed, {})
