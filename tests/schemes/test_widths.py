"""A map of queries, keys, values or outputs says in a sentence that it is built for heads of another width."""

import dataclasses

import pytest
import torch
from torch.utils import _pytree as pytree

from posenc.attention import attend_at
from posenc.contract.case import Case, largest_difference
from posenc.schemes import catalogue

CASES = [Case(kind, options) for kind in catalogue().values() for options in kind.examples]
BUILT = [case for case in CASES if case.make().head_width is not None and case.claims.sites & {"q", "k", "v", "o"}]


@pytest.mark.parametrize("case", BUILT, ids=str)
@pytest.mark.parametrize("other", [-2, 2, None])
def test_heads_of_another_width_are_refused(case, other):
    """Fewer channels, more, and the one that would be stretched."""
    scheme, pos = case.make(), case.positions()
    where, width = scheme.prepare(pos), scheme.head_width
    for site in sorted(scheme.claims.sites & {"q", "k", "v", "o"}):
        given = 1 if other is None else width + other
        with pytest.raises(ValueError, match=rf"\bof (that )?width,? .*\b{given}\b"):
            scheme.transform(torch.zeros(1, 4, pos.count, given, dtype=torch.float64), where, site)


@pytest.mark.parametrize("case", BUILT, ids=str)
def test_tables_of_whole_positions_are_float32(case):
    """A table in float64 gives the same vectors, and takes twice the memory in every layer."""
    pos = case.whole()
    leaves = pytree.tree_leaves(case.make().float().prepare(dataclasses.replace(pos, coords=pos.coords.long())))
    kinds = {leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()}
    assert kinds <= {torch.float32}


@pytest.mark.bare  # the shape hook would refuse inputs of two dtypes
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_inputs_of_another_dtype_than_the_parameters_come_back_in_theirs(case, dtype):
    scheme, pos = case.make().float(), case.whole()
    given = {"scheme": scheme, "q_pos": pos if pos.graph else dataclasses.replace(pos, coords=pos.coords.long())}
    q, k, v = (t.float() for t in case.qkv(scheme))
    plain = attend_at(q, k, v, **given, x=case.x().float())
    found = attend_at(q.to(dtype), k.to(dtype), v.to(dtype), **given, x=case.x().to(dtype))
    assert found.dtype == dtype
    assert largest_difference(found, plain) < 0.02


@pytest.mark.parametrize("case", [case for case in CASES if "embed" not in case.claims.sites], ids=str)
def test_what_embeds_nothing_has_no_width_of_rows(case):
    with pytest.raises(ValueError, match="embed"):
        _ = case.make().out_dim


def test_there_are_schemes_to_try():
    assert len({case.kind for case in BUILT}) >= 14
