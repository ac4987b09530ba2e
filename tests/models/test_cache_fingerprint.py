"""What made the keys of a cache: equal schemes are equal makers."""

import copy

import torch
from small_language import model_of, same, some_tokens
from torch.utils import _pytree as pytree

from posenc.models.cache import Cache
from posenc.models.cache_fingerprint import fingerprint
from posenc.models.generation import extend
from posenc.schemes.grid_pe import GridPE
from posenc.schemes.rope import RoPE


def test_equal_schemes_are_equal_makers_whatever_they_hold():
    """Copies of one scheme make the same keys: tensors among its attributes count by their numbers."""
    scheme = GridPE(12, axes=1)
    assert fingerprint(scheme) == fingerprint(copy.deepcopy(scheme)) == fingerprint(GridPE(12, axes=1))
    other = GridPE(12, axes=1)
    other.waves = pytree.tree_map(lambda t: t + 1 if isinstance(t, torch.Tensor) else t, other.waves)
    assert fingerprint(scheme) != fingerprint(other)
    model, tokens = model_of(scheme), some_tokens(1, 5)
    cache = Cache()
    extend(model, tokens[:, :3], cache)
    same(extend(copy.deepcopy(model), tokens[:, 3:], cache), model(tokens)[:, 3:])
    named = RoPE(12)
    named.rule = lambda x: x  # cannot be pickled
    extend(model_of(named), tokens, Cache())
