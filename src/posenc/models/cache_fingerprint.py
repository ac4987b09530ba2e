"""Fingerprints of the schemes and weights that made the keys of a key-value cache.

A cache compares them before every decoding step, and refuses schemes or weights that have changed. Changes that are
written to a tensor through ``.data`` are not detected: torch does not count them, and comparing all weights at every
token would cost more than the token itself.
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

from posenc.positions import Positions
from posenc.scheme import Scheme

MOVED = 1e-4
"""Largest allowed difference between a moved key and a key made at the new position, for vectors of length sqrt(D).

It is smaller than the rounding error of a float32 angle."""


class TensorVersions:
    """Tensors with their version counters, to detect cheaply whether they were written to."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors, self.marks = tensors, tensor_versions(tensors)

    def equal(self, tensors: Sequence[Tensor]) -> bool:
        """Return True if ``tensors`` hold the values that the stored tensors held.

        Either they are the same tensors and unchanged, or the stored tensors are unchanged and the values are equal.
        """
        if tensor_versions(tensors) == self.marks:
            return True
        comparable = tensor_versions(self.tensors) == self.marks and len(tensors) == len(self.tensors)
        return comparable and all(
            (a.dtype, a.device) == (b.dtype, b.device) and torch.equal(a, b)
            for a, b in zip(tensors, self.tensors, strict=True)
        )


class SchemeFingerprint:
    """Scheme that made a layer's keys, with a fingerprint of its state at that time."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme, self.values, self.written = scheme, scheme_attributes(scheme), TensorVersions(_state(scheme))
        self.fingerprint = fingerprint(scheme)

    def is_like(self, scheme: Scheme) -> bool:
        """Return True if ``scheme`` makes the same keys: the same unchanged object, or one with equal values."""
        if scheme is self.scheme and self._untouched():
            return True
        return fingerprint(scheme) == self.fingerprint

    def _untouched(self) -> bool:
        now = scheme_attributes(self.scheme)
        alike = now.keys() == self.values.keys() and all(value is self.values[name] for name, value in now.items())
        return alike and tensor_versions(_state(self.scheme)) == self.written.marks

    def described(self, scheme: Scheme) -> str:
        """Describe the stored scheme for an error message, in contrast to another ``scheme``."""
        if type(scheme) is not type(self.scheme):
            return _short(self.scheme)
        now = scheme_attributes(scheme)
        other = [name for name, value in self.values.items() if _bytes(now.get(name)) != _bytes(value)]
        return f"another {_short(scheme)}, of another {other[0].strip('.') if other else 'state'}"

    def refuse_unfit(self, scheme: Scheme, *, keeps: bool) -> None:
        """Raise ValueError unless ``rerotate`` alone can turn the stored scheme's keys into those of ``scheme``.

        Args:
            scheme: the new scheme.
            keeps: whether the cache also holds the results of ``Scheme.keep``, which must then stay valid.
        """
        name = _short(self.scheme)
        if scheme is self.scheme and fingerprint(scheme) != self.fingerprint:
            raise ValueError(
                f"this {name} was changed after it made the keys of the cache, and its old state is lost. Begin a new "
                "Cache(); to change a schedule, place new schemes: model.place(lambda layer: ..)."
            )
        if type(scheme) is not type(self.scheme):
            raise ValueError(f"keys of {name} cannot become keys of {_short(scheme)}. Begin a new Cache().")
        if "embed" in scheme.claims.sites:
            raise ValueError(
                f"{name} adds rows to the tokens, so all cached keys and values depend on them and cannot be moved. "
                "Begin a new Cache(), or choose a scheme that acts in attention."
            )
        if keeps and _tensors(scheme) != _tensors(self.scheme):
            raise ValueError(
                f"the cache holds values of {name}.keep that were made by other weights. Begin a new Cache()."
            )


def refuse_unfaithful(old: Scheme, new: Scheme, before: Any, after: Any, x: Tensor) -> None:
    """Raise ValueError unless ``rerotate`` gives the vectors that the new scheme would make at the new positions.

    Args:
        old: the scheme that made the cached vectors.
        new: the scheme that they are moved to.
        before: old positions, prepared by ``old``.
        after: new positions, prepared by ``new``.
        x: test vectors ``(B, G, K, D)``.
    """
    for site in ("k", "v"):
        if site not in new.claims.sites:
            continue
        same = new is old or _broadcastable(before, after)
        if same:
            moved = new.rerotate(old.transform(x, before, site), before, after, site)
            wanted = new.transform(x, after, site)
            same = moved.shape == wanted.shape and torch.allclose(moved, wanted, atol=MOVED, rtol=MOVED)
        if not same:
            others = "keys of the other by a rotation: the two differ in more than frequencies."
            its_own = "those that it would make there by a rotation: does a token get or lose its place?"
            raise ValueError(
                f"keys of this {_short(old)} cannot become {its_own if new is old else others} Begin a new Cache()."
            )


def _broadcastable(before: Any, after: Any) -> bool:
    """Return True if two prepared values have the same structure and tensors of shapes that broadcast."""
    (leaves, kind), (other_leaves, other_kind) = pytree.tree_flatten(before), pytree.tree_flatten(after)
    tensors = [pair for pair in zip(leaves, other_leaves, strict=False) if all(isinstance(t, Tensor) for t in pair)]
    sizes = [size for a, b in tensors for size in zip(a.shape[::-1], b.shape[::-1], strict=False)]
    return kind == other_kind and all(a == b or 1 in (a, b) for a, b in sizes)


def layers_of(model: Any, *positions: Positions) -> list[Scheme]:
    """Return the scheme of each layer of a language model, for texts at ``positions`` if some are given."""
    schemes = [scheme.for_texts(*positions) for scheme in model.unique_schemes] if positions else model.unique_schemes
    return [schemes[which] for which in model.scheme_of]


def weights_of(model: Any) -> list[Tensor]:
    """Return the parameters of a language model, without its schemes and head, that its keys depend on."""
    parts = itertools.chain(model.tokens.modules(), model.blocks.modules())
    return [t for part in parts for t in part._parameters.values() if t is not None]  # twice as fast as parameters()


def fingerprint(scheme: Scheme) -> str:
    """Return a SHA-256 hash of a scheme's class, attributes and tensors."""
    digest = hashlib.sha256(type(scheme).__qualname__.encode())
    for name, value in sorted(scheme_attributes(scheme).items()):
        digest.update(name.encode() + b"=" + _bytes(value))
    digest.update(_tensors(scheme))
    return digest.hexdigest()


def scheme_attributes(scheme: Scheme) -> dict[str, Any]:
    """Return the attributes of a scheme and its submodules, without tensors: ``name.attribute`` to value."""
    return {
        f"{name}.{attribute}": value
        for name, part in scheme.named_modules()
        for attribute, value in vars(part).items()
        if not attribute.startswith("_") and attribute not in ("training", "claims", "prepare")
    }


def tensor_versions(tensors: Sequence[Tensor]) -> list[tuple[int, int, int]]:
    """Return identity, memory address and version counter of each tensor."""
    return [(id(t), t.data_ptr(), -1 if t.is_inference() else t._version) for t in tensors]


def _state(scheme: Scheme) -> list[Tensor]:
    return [*scheme.parameters(), *scheme.buffers()]


def _tensors(scheme: Scheme) -> bytes:
    digest = hashlib.sha256()
    for name, t in itertools.chain(scheme.named_parameters(), scheme.named_buffers()):
        digest.update(name.encode() + _numbers(t))
    return digest.digest()


def _bytes(value: Any) -> bytes:
    """Serialize a value so that equal values give equal bytes; functions are identified by name."""
    leaves, kind = pytree.tree_flatten(value)
    parts = [_numbers(leaf) if isinstance(leaf, Tensor) else _pickled(leaf) for leaf in leaves]
    return repr(kind).encode() + b"".join(parts)


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
