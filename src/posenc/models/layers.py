"""Assignment of schemes to layers: factories ``layer -> scheme``, which all models take.

rope = RoPE(64)
Encoder(config, layers(rope, rope, rope, NoPE()))                   # RoPE in three layers of every four
Encoder(config, layers(PEG(64), repeat=False, rest=NoPE()))         # PEG after the first block only
Encoder(config, layers(lambda layer: Learned(64, 512), NoPE()))     # a separate table in every second layer
LanguageModel(config, interleaved(Sum([RoPE(64), ChunkedAttention(8192)]), Temperature(8192)))  # iRoPE of Llama 4
LanguageModel(config, interleaved(Sum([RoPE(64), SlidingWindow(4096)]), NoPE()))                # RNoPE of Command A
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from posenc.scheme import Scheme
from posenc.whole_numbers import are_whole

Turn = Scheme | Callable[[int], Scheme]


def layers(*turns: Turn, repeat: bool = True, rest: Turn | None = None) -> Callable[[int], Scheme]:
    """Make a factory that gives layer ``l`` the scheme number ``l mod n`` of n given schemes.

    Args:
        turns: schemes, each shared by the layers that get it, or functions ``layer -> scheme`` that make one scheme per
            layer.
        repeat: whether the schemes are repeated after the n-th layer. If False, the later layers get ``rest``.
        rest: scheme of the layers after the n-th, with ``repeat=False``.

    Returns:
        A function from the number of a layer, counted from 0, to its scheme.

    Raises:
        ValueError: no schemes, a layer after the last scheme without ``rest``, or a scheme that claims to be per layer
            and would be shared by two layers; a class in place of a scheme, or a function that returns no scheme.
    """
    if not turns or (repeat and rest is not None):
        raise ValueError(
            "layers takes at least one scheme, and `rest` only with repeat=False: layers(rope, rope, rope, NoPE()), or "
            f"layers(peg, repeat=False, rest=NoPE()); got {len(turns)} with repeat={repeat}."
        )
    for turn in turns if rest is None else (*turns, rest):
        _refuse_no_turn(turn)

    def scheme_of(layer: int) -> Scheme:
        turn = turns[layer % len(turns)] if repeat or layer < len(turns) else rest
        if turn is None:
            raise ValueError(f"{len(turns)} layers were given schemes, and this is layer {layer}. Pass rest=..")
        if not isinstance(turn, Scheme):
            try:
                made = turn(layer)
            except (LookupError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"the function of layers raised {type(error).__name__} for layer {layer}: {error}."
                ) from error
            if not isinstance(made, Scheme):
                raise ValueError(
                    f"a function of layers returns a scheme, as layers(lambda layer: Learned(64, 512)); layer {layer} "
                    f"got {made!r}. Return NoPE() for a layer without positions."
                )
            return made
        taken = (*turns[:layer], rest if layer > len(turns) else None)
        if turn.claims.per_layer and any(turn is other for other in taken):
            raise ValueError(
                f"{type(turn).__name__} is per layer, and layer {layer} would share it with an earlier layer. Pass a "
                "function that makes one: lambda layer: .., also within a Sum, as lambda layer: Sum([..])."
            )
        return turn

    return scheme_of


def _refuse_no_turn(turn: object) -> None:
    """Raise ValueError for what is neither a scheme nor a function of a layer's number, as the class of a scheme."""
    if isinstance(turn, type):
        raise ValueError(
            f"a model takes schemes and not their classes; got the class {turn.__name__}. Write {turn.__name__}(..) "
            f"with its arguments, or lambda layer: {turn.__name__}(..) for one scheme per layer."
        )
    if not isinstance(turn, Scheme) and callable(turn) and not _takes_a_number(turn):
        raise ValueError(
            f"a function of layers takes the number of the layer alone, as lambda layer: ALiBi(8); got {turn!r}."
        )
    if not callable(turn):
        remedy = (
            "the scheme itself, as RoPE(64)" if isinstance(turn, str) else "lambda layer: schemes[layer] for several"
        )
        raise ValueError(
            f"a model takes schemes, or functions of a layer's number that make one; got {turn!r}. Write {remedy}."
        )


def _takes_a_number(function: Callable[..., object]) -> bool:
    """True for a function that can be called with one argument; also for one whose arguments cannot be read."""
    try:
        inspect.signature(function).bind(0)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def interleaved(local: Turn, full: Turn, *, every: int = 4) -> Callable[[int], Scheme]:
    """Make a per-layer recipe: layer ``l`` has the scheme ``full`` if ``(l + 1) mod every = 0``, else ``local``.

    With rotation and a window or chunk as ``local`` and no position as ``full`` this is iRoPE (Llama 4), RNoPE
    (Command A, EXAONE 4) or, without a window, the recipe of SmolLM 3. Models, ``posenc.adapt.llama`` and
    ``posenc.adapt.swap`` take the result.

    Args:
        local: scheme of most layers, such as ``Sum([RoPE(64), SlidingWindow(4096)])``; or a function ``layer ->
            scheme`` that makes one scheme per layer.
        full: scheme of every ``every``-th layer, such as ``NoPE()`` or ``Temperature(8192)``; or such a function.
        every: number of layers of one period, at least 2. 4 in the models above; Gemma 3 has 6. A model of fewer layers
            has no layer with ``full``.

    Returns:
        A function from the number of a layer, counted from 0, to its scheme.

    Raises:
        ValueError: ``every`` is not a whole number of at least 2, or a function returns no scheme.

    Example:
        >>> from posenc import NoPE, RoPE, SlidingWindow, Sum
        >>> from posenc.models.layers import interleaved
        >>> recipe = interleaved(Sum([RoPE(64), SlidingWindow(4096)]), NoPE())
        >>> [type(recipe(layer)).__name__ for layer in range(5)]
        ['Sum', 'Sum', 'Sum', 'NoPE', 'Sum']

    References:
        Yang et al. 2025, "Rope to Nope and Back Again: A New Hybrid Attention Strategy", arXiv 2501.18795.
    """
    if not are_whole(every, least=2):
        raise ValueError(
            "interleaved has one layer in `every` with the scheme `full`, so every is a whole number of at least 2; "
            f"got {every!r}. Write every=4."
        )
    return layers(*[local] * (every - 1), full)
