"""A map of queries, keys, values or outputs says in a sentence that it is built for heads of another width."""

import pytest
import torch

from posenc.contract.case import Case
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


def test_there_are_schemes_to_try():
    assert len({case.kind for case in BUILT}) >= 14
