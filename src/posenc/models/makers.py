"""What made the keys of a cache: schemes and weights, and whether they are still what they were.

What is written to a tensor through ``.data`` passes unseen: torch does not count it, and to read all weights at every
token would cost more than the token.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from posenc.scheme import Scheme

MOVED = 1e-4
"""How far, in a vector of length sqrt(D), a moved key may be from one made there: less than a float32 angle is off."""


class Written:
    """Tensors, and what tells cheaply whether they were written to since."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors, self.marks = tensors, marks(tensors)

    def equal(self, tensors: Sequence[Tensor]) -> bool:
        """Whether others hold the numbers that these held: they are the same, untouched, or others with the same."""
        if marks(tensors) == self.marks:
            return True
        known = marks(self.tensors) == self.marks and len(tensors) == len(self.tensors)
        return known and all(
            (a.dtype, a.device) == (b.dtype, b.device) and torch.equal(a, b)
            for a, b in zip(tensors, self.tensors, strict=True)
        )


class Maker:
    """The scheme that made a layer's keys, and what it was when it did."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme, self.values, self.written = scheme, plain(scheme), Written(_state(scheme))
        self.fingerprint = fingerprint(scheme)

    def is_like(self, scheme: Scheme) -> bool:
        """Whether it makes the same keys: the same untouched object, else one of the same numbers."""
        if scheme is self.scheme and self._untouched():
            return True
        return fingerprint(scheme) == self.fingerprint

    def _untouched(self) -> bool:
        now = plain(self.scheme)
        alike = now.keys() == self.values.keys() and all(value is self.values[name] for name, value in now.items())
        return alike and marks(_state(self.scheme)) == self.written.marks

    def told(self, scheme: Scheme) -> str:
        """What it is, beside one that is not like it."""
        if type(scheme) is not type(self.scheme):
            return _short(self.scheme)
        now = plain(scheme)
        other = [name for name, value in self.values.items() if _bytes(now.get(name)) != _bytes(value)]
        return f"another {_short(scheme)}, of another {other[0].strip('.') if other else 'state'}"

    def refuse_unfit(self, scheme: Scheme, *, keeps: bool) -> None:
        """Raises ValueError unless its keys can become those of a scheme by ``rerotate`` alone, and what it ``keeps``
        of tokens besides can stay."""
        name = _short(self.scheme)
        if scheme is self.scheme and fingerprint(scheme) != self.fingerprint:
            raise ValueError(
                f"this {name} was changed after it made the keys of the cache, and what it was is lost. Begin a new "
                "Cache(); to change a schedule, place new schemes: model.place(lambda layer: ..)."
            )
        if type(scheme) is not type(self.scheme):
            raise ValueError(f"keys of {name} cannot become keys of {_short(scheme)}. Begin a new Cache().")
        if "embed" in scheme.claims.sites:
            raise ValueError(
                f"{name} adds rows to the tokens, so positions are in all that was made of them and cached keys cannot "
                "be moved. Begin a new Cache(), or choose a scheme that acts in attention."
            )
        if keeps and _tensors(scheme) != _tensors(self.scheme):
            raise ValueError(f"what this {name} kept of each token was made by other weights. Begin a new Cache().")


def refuse_unfaithful(old: Scheme, new: Scheme, before: Any, after: Any, x: Tensor) -> None:
    """Raises ValueError unless vectors ``x (B, G, K, D)`` that are moved are those that would be made."""
    for site in ("k", "v"):
        if site not in new.claims.sites:
            continue
        same = new is old or _meet(before, after)
        if same:
            moved = new.rerotate(old.transform(x, before, site), before, after, site)
            wanted = new.transform(x, after, site)
            same = moved.shape == wanted.shape and torch.allclose(moved, wanted, atol=MOVED, rtol=MOVED)
        if not same:
            others = "keys of the other by a turn: they differ in more than frequencies."
            its_own = "those that it would make there by a turn: does a token get or lose its place?"
            raise ValueError(
                f"keys of this {_short(old)} cannot become {its_own if new is old else others} Begin a new Cache()."
            )


def _meet(before: Any, after: Any) -> bool:
    """Whether what two schemes prepared is of one kind, and of shapes that broadcast."""
    (own, kind), (other, of_other) = pytree.tree_flatten(before), pytree.tree_flatten(after)
    tensors = [pair for pair in zip(own, other, strict=False) if all(isinstance(t, Tensor) for t in pair)]
    sizes = [size for a, b in tensors for size in zip(a.shape[::-1], b.shape[::-1], strict=False)]
    return kind == of_other and all(a == b or 1 in (a, b) for a, b in sizes)


def layers_of(model: Any) -> list[Scheme]:
    """The scheme of each layer of a language model."""
    schemes = model.unique_schemes
    return [schemes[which] for which in model.scheme_of]


def weights_of(model: Any) -> list[Tensor]:
    """What a language model makes keys of beside its schemes."""
    parts = itertools.chain(model.tokens.modules(), model.blocks.modules())
    return [t for part in parts for t in part._parameters.values() if t is not None]  # half the time of parameters()


def fingerprint(scheme: Scheme) -> str:
    """A hash of what the keys that it makes depend on: its kind, its numbers and its tensors."""
    digest = hashlib.sha256(type(scheme).__qualname__.encode())
    for name, value in sorted(plain(scheme).items()):
        digest.update(name.encode() + b"=" + _bytes(value))
    digest.update(_tensors(scheme))
    return digest.hexdigest()


def plain(scheme: Scheme) -> dict[str, Any]:
    """Everything that it and its parts were built with, but tensors: ``name.attribute`` to value."""
    return {
        f"{name}.{attribute}": value
        for name, part in scheme.named_modules()
        for attribute, value in vars(part).items()
        if not attribute.startswith("_") and attribute not in ("training", "claims", "prepare")
    }


def marks(tensors: Sequence[Tensor]) -> list[tuple[int, int, int]]:
    """Each tensor, where its numbers lie, and how often they were written to."""
    return [(id(t), t.data_ptr(), -1 if t.is_inference() else t._version) for t in tensors]


def _state(scheme: Scheme) -> list[Tensor]:
    return [*scheme.parameters(), *scheme.buffers()]


def _tensors(scheme: Scheme) -> bytes:
    digest = hashlib.sha256()
    for name, t in itertools.chain(scheme.named_parameters(), scheme.named_buffers()):
        digest.update(name.encode() + _numbers(t))
    return digest.digest()


def _bytes(value: Any) -> bytes:
    """What equal values have alike: tensors in them by their numbers, functions and the like by which they are."""
    leaves, kind = pytree.tree_flatten(value)
    told = [_numbers(leaf) if isinstance(leaf, Tensor) else _pickled(leaf) for leaf in leaves]
    return repr(kind).encode() + b"".join(told)


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return repr(value).encode()


def _numbers(t: Tensor) -> bytes:
    values = t.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return f"{t.dtype}{tuple(t.shape)}".encode() + values


def _short(scheme: Scheme) -> str:
    return type(scheme).__name__
