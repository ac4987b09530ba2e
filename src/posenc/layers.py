"""Which layer gets which scheme: models take a function ``layer -> scheme``, and this makes one.

rope = RoPE(64)
Encoder(config, layers(rope, rope, rope, NoPE()))                   # a rotation on three layers of four
Encoder(config, layers(PEG(64), repeat=False, rest=NoPE()))         # after the first block only
Encoder(config, layers(lambda layer: Learned(64, 512), NoPE()))     # a table of its own in every other layer
"""

from __future__ import annotations

from collections.abc import Callable

from posenc.scheme import Scheme

Turn = Scheme | Callable[[int], Scheme]


def layers(*turns: Turn, repeat: bool = True, rest: Turn | None = None) -> Callable[[int], Scheme]:
    """A factory for which layer ``l`` takes turn ``l mod n`` of the n that are given.

    turns: schemes, each shared by the layers that take it, or functions ``layer -> scheme`` that make one a layer.
    repeat: whether the turns start over; otherwise the layers after the n-th take ``rest``.

    Raises ValueError for no turns, for layers past the last turn without a ``rest``, and where a scheme that claims to
    be one a layer would be shared by two.
    """
    if not turns or (repeat and rest is not None):
        raise ValueError(
            "layers takes at least one scheme, and `rest` only with repeat=False: layers(rope, rope, rope, NoPE()), or "
            f"layers(peg, repeat=False, rest=NoPE()); got {len(turns)} with repeat={repeat}."
        )
    strange = next((turn for turn in (*turns, rest) if turn is not None and not callable(turn)), None)
    if strange is not None:
        raise ValueError(
            f"layers takes schemes, or functions of a layer's number that make one; got {strange!r}. For one named in "
            "text write build(parse(text), known) of posenc.specification."
        )

    def scheme_of(layer: int) -> Scheme:
        turn = turns[layer % len(turns)] if repeat or layer < len(turns) else rest
        if turn is None:
            raise ValueError(f"{len(turns)} layers were given schemes, and this is layer {layer}. Pass rest=..")
        if not isinstance(turn, Scheme):
            return turn(layer)
        taken = (*turns[:layer], rest if layer > len(turns) else None)
        if turn.claims.per_layer and any(turn is other for other in taken):
            raise ValueError(
                f"{type(turn).__name__} is one a layer, and layer {layer} would share it with one before. Pass a "
                "function that makes one: layers(lambda layer: ..)."
            )
        return turn

    return scheme_of
