"""Autoregressive text generation with a language model, through a key-value cache.

    cache = Cache()
    logits = extend(model, prompt, cache)            # prefill: (B, N, vocabulary), the same as model(prompt)
    logits = extend(model, token[:, None], cache)    # decode: one token or several
    new = generate(model, prompt, 200, generator=g)  # (B, 200)

Texts of different lengths are padded on the left (``posenc.models.language.left_padded``), so that all of them end at
the same token and can be continued together.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from posenc.kernels.attention_mask import AttentionMask
from posenc.models.cache import Cache
from posenc.models.cache_fingerprint import weights_of
from posenc.models.language import LanguageModel, refuse_documents, refuse_unfit, restarting_positions
from posenc.models.sites import PreparedScheme
from posenc.positions import Positions, sequence
from posenc.scheme import Scheme, Where

LEAST_TEMPERATURE = 1e-30
"""Temperatures below it draw the same tokens; as a divisor in float32 they would be 0."""


@torch.no_grad()
def extend(
    model: LanguageModel,
    tokens: Int[Tensor, "B N"],
    cache: Cache,
    *,
    pos: Positions | None = None,
    documents: Int[Tensor, "*b N"] | None = None,
) -> Float[Tensor, "B N vocabulary"]:
    """Compute the logits of new tokens and append their keys and values to the cache.

    The logits equal those of a full forward pass over all tokens so far. They have no gradients.

    Args:
        model: the language model.
        tokens: new tokens ``(B, N)``. A cache of one sample may be continued by several samples.
        cache: keys and values of the tokens before; it then holds the new tokens too.
        pos: positions of the new tokens. By default they continue after the last position, or begin at 0 in a new
            document; those of a rule of segments also depend on the last token.
        documents: document number of each new token, as for the model. By default the document of the last token.

    Returns:
        Logits ``(B, N, vocabulary)``.

    Raises:
        ValueError: a scheme that is not cacheable, keys of another scheme or model, another batch size than the
            cache's, or positions beyond a scheme's range. The cache is then unchanged.
    """
    refuse_unfit(model.config, tokens, pos, documents)
    segmented = bool(model.config.segments)
    if cache.samples != 1:
        cache.refuse_samples("tokens", len(tokens))
    if pos is None:
        pos = next_segments(model, cache, tokens, documents) if segmented else next_positions(cache, tokens, documents)
    schemes, again = _schemes_for(model, cache, pos)
    queries = [scheme.prepare(pos) for scheme in schemes]  # refuses positions before the cache changes
    everywhere, document = cache.remember(pos, documents)
    if (segmented or any(scheme.exact for scheme in schemes)) and cache.holds_tokens:
        text = cache.remember_tokens(tokens)
        tokens = text if again else tokens
    if again:
        at, held = [PreparedScheme.at(each, everywhere, None) for each in schemes], cache.empty_layers()
    else:
        at = [_placed(*each, pos.placed, everywhere) for each in zip(schemes, queries, strict=True)]
        held = cache.layers
    mask = AttentionMask(tokens.shape[1], everywhere.count, document, everywhere.placed, model.config.window)
    logits = model.through(tokens, at, mask, held)
    if again:
        cache.read_again(held, [schemes[which] for which in model.scheme_of])
    cache.counted(pos.count)
    return logits[:, tokens.shape[1] - pos.count :]


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
    """Generate ``count`` tokens per sample, each drawn from ``softmax(logits / temperature)``.

    Args:
        model: the language model.
        prompt: tokens to continue, ``(B, N)``.
        count: number of tokens to generate per sample.
        pos: positions of the prompt; by default those of the model.
        temperature: softmax temperature; 0 takes the most likely token.
        most: number of most likely tokens to draw from (top-k sampling); None for all.
        window: largest number of tokens in the cache; the oldest are dropped. Where the next position would exceed a
            scheme's range, the tokens of that sample are moved back to the start of the range.
        generator: random generator of the draws; needed unless ``temperature=0``.

    Returns:
        Tokens ``(B, count)``.

    Raises:
        ValueError: before any token is generated, for a text that would leave a scheme's range and has no window, for a
            window that is wider than the range or whose keys cannot move, and for an unknown next position.
    """
    if prompt.numel() == 0 or count < 0:
        raise ValueError(
            f"generation needs a prompt of at least one token, and count >= 0; got shape {tuple(prompt.shape)} and "
            f"count={count}."
        )
    if not 0 <= temperature < math.inf or (temperature and generator is None) or (most is not None and most < 1):
        raise ValueError(
            "tokens are drawn at a temperature above 0, among most >= 1 of them, by generator=torch.Generator(); "
            f"temperature=0 takes the most likely token. Got temperature={temperature:g}, most={most}."
        )
    if window is not None and window < 2:
        raise ValueError(f"a window holds the last tokens, at least 2; got window={window}.")
    refuse_unfit(model.config, prompt, pos, None)
    pos = model.config.positions(prompt) if pos is None else pos
    if count > 1:
        _refuse_unknown(pos[-1:], axes=2 if model.config.segments else 1)
    if window is not None:
        _refuse_wide(model, pos[-window:], window, count)
        _refuse_rereading(model, window, prompt.shape[1] + count - 1)
    else:
        further = max(count - 1, 0)  # tokens, which may all begin a segment
        for scheme in model.unique_schemes:
            scheme.prepare(
                pos[-1:] + ([further, 0] if model.config.segments else further)
            )  # refuses a text that would leave the range later
    cache, new_tokens = Cache(room=prompt.shape[1] + count if window is None else 2 * window), []
    logits = _read(model, prompt, pos, cache, window, count)
    for step in range(count):
        new_tokens.append(sample_tokens(logits[:, -1], temperature, most, generator))
        if step + 1 < count:
            if window is not None:
                cache.drop(0, max(cache.count - window + 1, 0))
                _stay_in_range(model, cache)
            logits = extend(model, new_tokens[-1], cache)
    return torch.cat(new_tokens, 1) if new_tokens else prompt.new_empty(len(prompt), 0)


def _schemes_for(model: LanguageModel, cache: Cache, pos: Positions) -> tuple[list[Scheme], bool]:
    """The schemes for a text with new tokens at ``pos``, and True if the text must be read again for them.

    Cached keys are moved to new frequencies where a scheme asks for that.
    """
    schemes, weights, changed = list[Scheme](model.unique_schemes), weights_of(model), list[Scheme]()
    if any(scheme.exact for scheme in schemes):
        texts = (cache.pos, pos) if cache.count else (pos,)
        schemes = [scheme.for_texts(*texts) for scheme in schemes]
        changed = cache.changed([schemes[which] for which in model.scheme_of])
    layers = [schemes[which] for which in model.scheme_of]
    if any(scheme.exact == "model" for scheme in changed):
        cache.refuse_other_weights(weights)
        cache.refuse_rereading(type(changed[0]).__name__)
        return schemes, True
    if changed and all(scheme.exact == "keys" for scheme in changed):
        cache.move(model, later=pos)
    cache.serve(layers, weights)
    return schemes, False


def next_positions(cache: Cache, tokens: Tensor, documents: Tensor | None) -> Positions:
    """Return the positions of the next tokens: consecutive after the last one, or from 0 in a new document.

    Args:
        cache: the tokens so far.
        tokens: the next tokens ``(B, N)``.
        documents: their document numbers ``(N,)`` or ``(B, N)``; None for the document of the last token.

    Returns:
        Positions of N tokens on one axis.

    Raises:
        ValueError: the last token has no position, or a position of more than one axis.
    """
    count = tokens.shape[1]
    if not cache.count:
        return sequence(count, device=tokens.device) if documents is None else restarting_positions(documents)
    last = cache.pos[cache.count - 1 :]
    _refuse_unknown(last)
    if documents is None:
        return Positions(last.coords + 1 + torch.arange(count, device=tokens.device)[:, None])
    continues = (documents == cache.last_document(tokens.device)[..., 0, :]).long().cumprod(-1)
    return Positions(restarting_positions(documents).coords + continues[..., None] * (last.coords + 1))


def next_segments(model: LanguageModel, cache: Cache, tokens: Tensor, documents: Tensor | None) -> Positions:
    """Return the positions of the next tokens of a model with a rule of segments.

    Args:
        model: the language model.
        cache: the tokens so far.
        tokens: the next tokens ``(B, N)``.
        documents: must be None.

    Returns:
        Positions ``(B, N, 2)`` on the axes (segment, place).

    Raises:
        ValueError: documents, a last token without a position, or a cache that does not hold the last token.
    """
    rule = model.config.segments
    refuse_documents(documents)
    assert rule
    if not cache.count:
        return rule.positions(tokens)
    last, last_tokens = cache.pos[cache.count - 1 :], cache.tokens.first(cache.count)
    _refuse_unknown(last, axes=2)
    if last_tokens is None:
        raise ValueError(
            "the segment of the next token depends on the last one, and joined caches do not hold it. Pass pos=.."
        )
    return rule.following(tokens, last, last_tokens[:, -1:])


def sample_tokens(
    logits: Float[Tensor, "B vocabulary"], temperature: float, most: int | None, generator: torch.Generator | None
) -> Int[Tensor, "B 1"]:
    """Draw one token per sample from ``softmax(logits / temperature)``.

    Args:
        logits: ``(B, vocabulary)``.
        temperature: softmax temperature; 0 takes the most likely token.
        most: number of most likely tokens to draw from; None for all.
        generator: random generator of the draws.

    Returns:
        Tokens ``(B, 1)``.
    """
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    if most is not None and most < logits.shape[-1]:
        least = logits.topk(most).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    below = (logits - logits.amax(-1, keepdim=True)) / max(temperature, LEAST_TEMPERATURE)
    return torch.multinomial(below.softmax(-1), 1, generator=generator)


def _read(model: LanguageModel, prompt: Tensor, pos: Positions, cache: Cache, window: int | None, count: int) -> Tensor:
    """Read the prompt into the cache and return its logits.

    With a window only the last tokens are read. They move to the start of a scheme's range if they or the tokens to
    generate lie beyond it.
    """
    if window is None:
        return extend(model, prompt, cache, pos=pos)
    prompt, pos = prompt[:, -window:], _within_range(model, pos[-window:], 0)
    logits = extend(model, prompt, cache, pos=pos)
    if _within_range(model, pos, count - 1) is not pos:
        cache.move(model, cache.pos - 0)  # raises now for a scheme that cannot move its keys later
    return logits


def _stay_in_range(model: LanguageModel, cache: Cache) -> None:
    here = cache.pos
    there = _within_range(model, here, 1)
    if there is not here:
        cache.move(model, there)


def _within_range(model: LanguageModel, pos: Positions, more: int) -> Positions:
    """Return ``pos``, with samples moved to the start of the range if ``more`` next tokens would exceed it.

    The same object is returned if no sample has to move.
    """
    low, high = _range(model)
    if high == math.inf:
        return pos
    first, last = _ends(pos)
    full = last + more > high
    return pos - (first - low).where(full, 0).to(pos.coords.dtype) if bool(full.any()) else pos


def _range(model: LanguageModel) -> tuple[float, float]:
    """Return the lowest and the highest position that every scheme of the model accepts."""
    axes = slice(1) if model.config.segments else slice(None)  # places in a segment stay in their range
    limits = [each for scheme in model.unique_schemes for each in scheme.claims.limits(1)[axes] if each is not None]
    return max((low for low, _ in limits), default=-math.inf), min((high for _, high in limits), default=math.inf)


def _ends(pos: Positions) -> tuple[Tensor, Tensor]:
    """Return the lowest and the highest position of each sample's placed tokens, shaped to broadcast to coordinates."""
    coords = pos.precise()
    if pos.placed is None:
        return coords.amin(-2, keepdim=True), coords.amax(-2, keepdim=True)
    unplaced = ~pos.placed[..., None]
    first, last = coords.masked_fill(unplaced, math.inf), coords.masked_fill(unplaced, -math.inf)
    return first.amin(-2, keepdim=True), last.amax(-2, keepdim=True)


def _refuse_unknown(last: Positions, *, axes: int = 1) -> None:
    if last.axes != axes or (last.placed is not None and not bool(last.placed.all())):
        raise ValueError(
            "the positions of the next tokens are unknown: the last token has no position, or one with several axes. "
            "Pass pos=.."
        )


def _refuse_wide(model: LanguageModel, pos: Positions, window: int, count: int) -> None:
    """Raise ValueError if tokens in one window will be further apart than the schemes' range is wide."""
    low, high = _range(model)
    if high - low == math.inf:
        return
    if model.config.segments:
        raise ValueError(
            f"the segments of a text are without limit, and the schemes of this model take {low:g} to {high:g}. "
            "Generate without a window."
        )
    apart = _apart(pos, window, count)
    if apart > high - low:
        raise ValueError(
            f"a window of {window} tokens would hold tokens at a distance of {apart:g}, and the schemes of this model "
            f"take positions from {low:g} to {high:g}. Use a smaller window, or a scheme without a limit: posenc list "
            "--unbounded"
        )


def _refuse_rereading(model: LanguageModel, window: int, longest: int) -> None:
    """Raise ValueError for schemes that read a text again if its oldest tokens will be dropped."""
    name = next((type(scheme).__name__ for scheme in model.unique_schemes if scheme.exact == "model"), None)
    if name is not None and longest > window:
        raise ValueError(
            f"this {name} reads the whole text again when its frequencies change, and a window of {window} tokens "
            f"drops the oldest of {longest}. Build it with exact='keys', or leave out `window`."
        )


def _apart(pos: Positions, window: int, count: int) -> float:
    """Return the largest distance between two tokens of one window while ``count`` tokens follow those at ``pos``."""
    coords, unplaced = pos.precise()[..., 0], torch.zeros((), dtype=torch.bool, device=pos.coords.device)
    coords, unplaced = torch.broadcast_tensors(coords, unplaced if pos.placed is None else ~pos.placed)
    to_come = coords[..., -1:] + torch.arange(1, max(count, 1), device=coords.device)
    ends = torch.stack([coords, -coords], -2).masked_fill(unplaced[..., None, :], -math.inf)
    ends = torch.cat([ends, torch.stack([to_come, -to_come], -2)], -1)
    held = functional.pad(ends, (window - 1, 0), value=-math.inf).unfold(-1, window, 1).amax(-1)
    return float(held.sum(-2)[..., pos.count - 1 :].max())


def _placed(scheme: Scheme, where: Where, placed: Tensor | None, everywhere: Positions) -> PreparedScheme:
    """Prepare a scheme for new tokens, and for all keys if one of its sites depends on the keys' positions."""
    if not scheme.claims.sites & {"bias", "value_bias", "mask"}:
        return PreparedScheme(scheme, where, None, None, placed, {})
    keys = scheme.prepare(everywhere)
    return PreparedScheme(scheme, where, keys, scheme.relate(where, keys), placed, {})
