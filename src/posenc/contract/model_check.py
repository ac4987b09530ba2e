"""Checks of a whole model that has a scheme inside: batch, later tokens, padding, shift of positions, cache.

    report = check_model(model, tokens)
    assert report.ok, report

Models of the next token of transformers and of ``posenc.models.language`` are called by their own arguments. Any other
model is checked through functions that call it.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from posenc.attention import attention
from posenc.contract import Report, Result
from posenc.models.cache import Cache
from posenc.models.generation import extend
from posenc.models.language import LanguageModel
from posenc.positions import Positions, sequence
from posenc.scheme import Scheme

Forward = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
"""Function from tokens ``(B, N)``, positions ``(B, N)`` or None, and True for real tokens or None, to logits."""
Cached = Callable[[Sequence[Tensor]], Sequence[Tensor]]
"""Function from the parts of a text, ``(B, n)`` each, to the logits of each part, through one cache."""
SHIFT, FAR, PADDING = 17, (10_000, 1_000_000), 3
"""Numbers of steps by which positions move, and number of padding tokens."""
STRETCH, DISTINCT = 8, 1e-3
"""Factor on distances, and the difference of attention outputs from which a scheme reads distances."""
FAINT = 0.1
"""Share of the tolerance that shows a scheme in use: rounding stays below it, a fresh FIRE does not."""


class _Calls(NamedTuple):
    """Calls of a model: with positions, with padding, with a cache; None where it has no such argument."""

    plain: Forward
    placed: Forward | None
    padded: Forward | None
    cached: Cached | None


def check_model(
    model: nn.Module,
    tokens: Int[Tensor, "B N"],
    *,
    forward: Forward | None = None,
    cached: Cached | None = None,
    relative: bool | None = None,
    tolerance: float = 1e-4,
) -> Report:
    """Check that a model of the next token treats batch, padding, positions and cache as its scheme promises.

    The checks compare logits of one model with each other. They find neither a wrong sign of a bias nor another base:
    the contract, ``posenc.check``, compares a scheme with its definition.

    model.batch: a text has the same logits in any batch and at any place of it, and not those of every other text.
    model.causal: other tokens in the second half of a text change no logits of the first half. model.padding: padding
    on the left or right changes no logits. model.shift: with all positions moved by 17 the logits of a relative scheme
    stay, and they change if distances are 8 times as large, if attention with it does; of another scheme they change by
    a tenth of the tolerance, at 17, 10,000 or 1,000,000. model.cache: a text in parts and token by token has the logits
    of one forward pass. The report names each check that was left out, because the model does not have the argument
    that it needs.

    Args:
        model: A causal model of transformers or ``posenc.models.language``, or any module with ``forward``; also within
            ``torch.compile``, ``DataParallel`` or ``DistributedDataParallel``.
        tokens: Token numbers ``(B, N)`` of at least two texts of at least eight tokens, on the model's device.
        forward: Function that calls another model: from tokens ``(B, N)``, whole positions ``(B, N)`` or None, and a
            boolean tensor ``(B, N)``, True for real tokens, or None, to logits ``(B, N, vocabulary)``. Default: the
            arguments of transformers or posenc, or ``model(tokens)``.
        cached: Function from consecutive parts of the texts, ``(B, n)`` each, to the logits of each part, through one
            cache. Default: the cache of transformers or posenc; none for another model.
        relative: Whether equal distances have equal logits. Default: the claims of the schemes inside; without any,
            the shift is not checked.
        tolerance: Largest difference of logits, relative to 1 + their largest magnitude. Default 1e-4, for float32.

    Returns:
        The report, with one result per check. ``left_out`` of a result is the reason of a check that was not made.

    Raises:
        ValueError: If ``tokens`` are not at least two different texts of at least eight whole numbers, or
            ``tolerance`` is not a positive number.

    Example:
        >>> import torch
        >>> from posenc import RoPE, check_model
        >>> from posenc.models.language import LanguageConfig, LanguageModel
        >>> config = LanguageConfig(vocabulary=50, dim=32, depth=2, heads=4, key_heads=4, hidden=64)
        >>> model = LanguageModel(config, lambda layer: RoPE(8))
        >>> check_model(model, torch.randint(50, (2, 12))).ok
        True
    """
    _refuse_unfit(model, tokens, tolerance)
    calls = _calls_of(model) if forward is None else _Calls(forward, forward, forward, None)
    calls = calls._replace(cached=cached or calls.cached)
    relative = _relative(model) if relative is None else relative
    checks: dict[str, str | Callable[[], str]] = {"batch": lambda: _batch(calls.plain, tokens, tolerance)}
    checks["causal"] = lambda: _causal(calls.plain, tokens, tolerance)
    padded, placed, parts, asked = calls.padded, calls.placed, calls.cached, "pass `forward`"
    checks["padding"] = f"the model takes no positions and mask; {asked}"
    if padded is not None:
        checks["padding"] = lambda: _padding(padded, tokens, tolerance)
    checks["shift"] = f"the model takes no positions; {asked}"
    if placed is not None and relative is None:
        checks["shift"] = "the model has no scheme that states whether shifts change it; pass `relative`"
    elif placed is not None and (beyond := relative and _out_of_range(model, tokens.shape[1] - 1 + SHIFT)):
        checks["shift"] = f"positions moved by {SHIFT} are beyond the range of {beyond}; pass shorter texts"
    elif placed is not None:
        far = [part for part in model.modules() if isinstance(part, Scheme) and _reads_distances(part)]
        checks["shift"] = lambda: _shift(placed, tokens, tolerance, relative=bool(relative), distances=bool(far))
    checks["cache"] = "the model takes no cache; pass `cached`"
    if parts is not None:
        checks["cache"] = lambda: _cache(calls.plain, parts, tokens, tolerance)
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            return Report(tuple(_run(model, name, one) for name, one in checks.items()))
    finally:
        for module, training in modes:
            module.training = training


def _refuse_unfit(model: object, tokens: Tensor, tolerance: float) -> None:
    if not isinstance(model, nn.Module):
        raise ValueError(f"check_model takes a model, a torch.nn.Module; got {model!r}.")
    if not isinstance(tokens, Tensor) or tokens.is_floating_point() or tokens.dim() != 2 or min(tokens.shape) < 2:
        whole = isinstance(tokens, Tensor) and not tokens.is_floating_point()
        got = tuple(tokens.shape) if whole else getattr(tokens, "dtype", type(tokens).__name__)
        raise ValueError(f"`tokens` are whole numbers (B, N), of at least 2 texts of 8 tokens; got {got}.")
    if tokens.shape[1] < 8:
        raise ValueError(f"`tokens` have texts of {tokens.shape[1]} tokens; pass texts of at least 8.")
    half = tokens.shape[1] // 2
    if tokens.device.type == "meta" or any(
        bool((tokens == tokens[:1])[:, part].all()) for part in (slice(half), slice(half, None))
    ):
        raise ValueError(
            "`tokens` are equal texts, which show no mixed samples. Pass different ones: torch.randint(..)."
        )
    if isinstance(tolerance, bool) or not isinstance(tolerance, float | int) or not 0 < tolerance < math.inf:
        raise ValueError(f"`tolerance` is a positive number; got {tolerance!r}. The default, 1e-4, is for float32.")


def _run(model: nn.Module, name: str, one: str | Callable[[], str]) -> Result:
    if isinstance(one, str):
        return Result(f"model.{name}", type(_inside(model)).__name__, left_out=one)
    try:
        trouble = one()
    except Exception as error:
        trouble = f"the model raises {type(error).__name__}: {str(error).partition(chr(10))[0] or 'no message'}"
    return Result(f"model.{name}", type(_inside(model)).__name__, trouble)


def _batch(forward: Forward, tokens: Tensor, tolerance: float) -> str:
    logits = forward(tokens, None, None)
    if bool((logits == logits[:1]).all()):
        return "all texts have the same logits, so the model does not read its tokens."
    turned = forward(tokens.flip(0), None, None).flip(0)
    alone = torch.cat([forward(text[None], None, None) for text in tokens])
    for name, other in (("in the reverse order of the batch", turned), ("alone", alone)):
        if away := _away(other, logits, tolerance):
            return f"a text {name} has other logits than in the batch, by {away}."
    return ""


def _causal(forward: Forward, tokens: Tensor, tolerance: float) -> str:
    half = tokens.shape[1] // 2
    changed = torch.cat([tokens[:, :half], tokens.roll(1, 0)[:, half:]], 1)
    away = _away(forward(changed, None, None)[:, :half], forward(tokens, None, None)[:, :half], tolerance)
    return away and f"other tokens in the second half of a text change the logits of the first half by {away}."


def _out_of_range(model: nn.Module, position: int) -> str:
    """Name of a scheme inside that refuses a position; "" if there is none."""
    for module in model.modules():
        ends = module.claims.limits(1)[0] if isinstance(module, Scheme) else None
        if ends is not None and position > ends[1]:
            return type(module).__name__
    return ""


def _padding(forward: Forward, tokens: Tensor, tolerance: float) -> str:
    count, width = tokens.shape
    ids = torch.arange(width, device=tokens.device).expand(count, -1)
    logits = forward(tokens, ids, torch.ones_like(tokens, dtype=torch.bool))
    filler, nothing = tokens[:, :1].expand(-1, PADDING), ids.new_zeros(count, PADDING)
    real = torch.cat([nothing, torch.ones_like(ids)], 1).bool()
    left = forward(torch.cat([filler, tokens], 1), torch.cat([nothing, ids], 1), real)[:, PADDING:]
    right = forward(torch.cat([tokens, filler], 1), torch.cat([ids, nothing], 1), real.flip(1))[:, :width]
    for side, other in (("left", left), ("right", right)):
        if away := _away(other, logits, tolerance):
            return f"{PADDING} padding tokens on the {side} change the logits by {away}."
    return ""


def _reads_distances(scheme: Scheme) -> bool:
    """True for a scheme with which attention depends on the distances of tokens, and not on their order alone."""
    draw, heads, width = torch.Generator().manual_seed(0), scheme.head_count or 1, scheme.head_width or 8
    like = next((t for t in (*scheme.parameters(), *scheme.buffers())), torch.empty(0))
    q, k, v = torch.randn(3, 1, heads, 8, width, generator=draw).to(like.device).unbind()
    try:
        with torch.no_grad():
            near, far = (
                attention(q, k, v, scheme=scheme, q_pos=sequence(torch.arange(8, device=like.device) * step))
                for step in (1, STRETCH)
            )
    except Exception:  # a scheme of another site, of several axes, or that reads the block's input
        return False
    return bool(_away(far, near, DISTINCT))


def _shift(forward: Forward, tokens: Tensor, tolerance: float, *, relative: bool, distances: bool) -> str:
    ids = torch.arange(tokens.shape[1], device=tokens.device).expand(len(tokens), -1)
    logits = forward(tokens, ids, None)
    if relative:
        away = _away(forward(tokens, ids + SHIFT, None), logits, tolerance)
        if away or not distances:
            return away and f"positions moved by {SHIFT} change the logits by {away}, and the scheme is relative."
        try:
            stretched = forward(tokens, ids * STRETCH, None)
        except (ValueError, IndexError, RuntimeError):
            return ""  # beyond the range of positions
        if _away(stretched, logits, tolerance * FAINT):
            return ""
        return f"distances {STRETCH} times as large change no logits: is the scheme in use, with these positions?"
    for shift in (SHIFT, *FAR):  # far shifts too, for schemes that are relative up to a threshold, as FIRE
        try:
            moved = forward(tokens, ids + shift, None)
        except (ValueError, IndexError, RuntimeError):
            return ""  # beyond the range of absolute positions
        if _away(moved, logits, tolerance * FAINT):
            return ""
    return f"positions moved by {SHIFT} to {FAR[-1]} change no logits, and the scheme is not relative: is it in use?"


def _cache(forward: Forward, cached: Cached, tokens: Tensor, tolerance: float) -> str:
    logits, width = forward(tokens, None, None), tokens.shape[1]
    half = width // 2
    ways = {"in chunks of 3": tokens.split(3, 1), "token by token": [tokens[:, :half], *tokens[:, half:].split(1, 1)]}
    for way, parts in ways.items():
        if away := _away(torch.cat(list(cached(parts)), 1), logits, tolerance):
            return f"a text {way} through the cache has other logits than in one forward pass, by {away}."
    return ""


def _away(found: Tensor, wanted: Tensor, tolerance: float) -> str:
    """The largest difference as text, "" if it is allowed."""
    if found.shape != wanted.shape:
        return f"their shape {tuple(found.shape)} in place of {tuple(wanted.shape)}"
    difference = float((found - wanted).abs().max())
    allowed = tolerance * (1 + float(wanted.abs().max()))
    return "" if difference <= allowed else f"{difference:.1e} (allowed {allowed:.1e})"


def _relative(model: nn.Module) -> bool | None:
    """True if a shift changes nothing, by the claims of all schemes of a model; None if it does not in the mean."""
    effects = {module.claims.shift_effect for module in model.modules() if isinstance(module, Scheme)}
    return None if not effects or "nothing in the mean" in effects else effects == {"nothing"}


def _inside(model: nn.Module) -> nn.Module:
    """The model within ``torch.compile`` and modules that spread a batch over devices."""
    while True:
        within = getattr(model, "_orig_mod", None)
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            within = model.module
        if not isinstance(within, nn.Module):
            return model
        model = within


def _calls_of(model: nn.Module) -> _Calls:
    inside = _inside(model)
    takes = inspect.signature(inside.forward).parameters
    if isinstance(inside, LanguageModel):
        return _Calls(*_posenc_calls(model, inside))
    if "input_ids" not in takes:
        return _Calls(lambda tokens, ids, real: _logits(model(tokens)), None, None, None)

    def forward(tokens: Tensor, ids: Tensor | None, real: Tensor | None) -> Tensor:
        given = {"position_ids": ids, "attention_mask": None if real is None else real.long(), "use_cache": False}
        return _logits(model(input_ids=tokens, **{k: v for k, v in given.items() if k in takes and v is not None}))

    def cached(parts: Sequence[Tensor]) -> list[Tensor]:
        cache, found = importlib.import_module("transformers").DynamicCache(config=getattr(inside, "config", None)), []
        for part in parts:
            found.append(_logits(model(input_ids=part, past_key_values=cache, use_cache=True)))
        return found

    placed, padded = ("position_ids" in takes), {"position_ids", "attention_mask"} <= set(takes)
    return _Calls(
        forward,
        forward if placed else None,
        forward if padded else None,
        cached if "past_key_values" in takes else None,
    )


def _posenc_calls(model: nn.Module, inside: LanguageModel) -> tuple[Forward, Forward, Forward, Cached]:
    def forward(tokens: Tensor, ids: Tensor | None, real: Tensor | None) -> Tensor:
        if ids is None:
            return model(tokens)
        return model(tokens, Positions(ids[..., None].double(), real))

    def cached(parts: Sequence[Tensor]) -> list[Tensor]:
        cache, found, start = Cache(), [], 0
        for part in parts:
            at = sequence(part.shape[1], start=start, device=part.device)
            found.append(extend(inside, part, cache, pos=at))
            start += part.shape[1]
        return found

    return forward, forward, forward, cached


def _logits(output: Any) -> Tensor:
    logits = getattr(output, "logits", output)
    if not isinstance(logits, Tensor) or logits.dim() != 3:
        raise ValueError(f"a model of the next token returns logits (B, N, vocabulary); got {type(output).__name__}")
    return logits
