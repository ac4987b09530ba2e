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

from posenc.kernels.seen import Seen
from posenc.models.cache import Cache, layers_of
from posenc.models.language import LanguageModel, refuse_unfit, restarting
from posenc.models.sites import Placed
from posenc.positions import Positions, sequence
from posenc.scheme import Scheme


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
    cacheable, keys that another scheme or schedule made, and positions beyond a scheme's range.
    """
    cache.serve(layers_of(model))
    pos = following(cache, tokens, documents) if pos is None else pos
    refuse_unfit(model.config, tokens, pos, documents)
    everywhere, of_document = cache.remember(pos, documents)
    at = [_placed(scheme, pos, everywhere) for scheme in model.unique_schemes]
    seen = Seen(pos.count, everywhere.count, of_document, everywhere.placed, model.config.window)
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
    most, the last ones, also where they are more than a scheme's range: then they move back to its beginning. Without
    it a text that would leave the range is refused before anything is said.
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
    if window is None:
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
    if last.axes != 1 or (last.placed is not None and not bool(last.placed.all())):
        raise ValueError(
            "where the next tokens stand is not known: the last one has no place, or more than one axis. Pass pos=.."
        )
    if documents is None:
        return Positions(last.coords + 1 + torch.arange(count, device=tokens.device)[:, None])
    before = cache.last_document()
    goes_on = (documents == (0 if before is None else before)).long().cumprod(-1)
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
    prompt, pos = prompt[:, -window:], pos[-window:]
    if _room(model, pos) < 0:
        pos = pos - _first(pos)
    logits = extend(model, prompt, cache, pos=pos)
    if _room(model, pos) < count - 1:
        cache.move(model, cache.pos - 0)  # a scheme that cannot move its keys says so before anything is said
    return logits


def _stay_in_range(model: LanguageModel, cache: Cache) -> None:
    """Moves what is held back to 0 where the next token would be beyond the range of a scheme."""
    if _room(model, cache.pos) < 1:
        cache.move(model, cache.pos - _first(cache.pos))


def _room(model: LanguageModel, pos: Positions) -> float:
    """How many places there are after the last token before a scheme's range ends."""
    ends = [limits[1] for scheme in model.unique_schemes for limits in scheme.claims.limits(1) if limits is not None]
    return min(ends, default=math.inf) - float(pos.coords.max())


def _first(pos: Positions) -> int:
    coords = pos.coords if pos.placed is None else pos.coords[pos.placed.expand(pos.coords.shape[:-1])]
    return int(coords.min())


def _placed(scheme: Scheme, pos: Positions, everywhere: Positions) -> Placed:
    """A scheme's view of new tokens, and of all keys if something in it asks where they stand."""
    where = scheme.prepare(pos)
    if not scheme.claims.sites & {"bias", "value_bias", "mask"}:
        return Placed(scheme, where, None, None, pos.placed, {})
    keys = scheme.prepare(everywhere)
    return Placed(scheme, where, keys, scheme.relate(where, keys), pos.placed, {})
