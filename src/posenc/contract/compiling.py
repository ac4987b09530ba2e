"""Checks of ``torch.compile`` with ``fullgraph=True`` at changing lengths, and of FlexAttention.

They are slow, and run only with ``check(scheme, compiling=True)``.
"""

from __future__ import annotations

import dataclasses
import warnings

import torch
from torch import Tensor, nn

from posenc.attention import attend_at
from posenc.contract.case import Case, largest_difference, require
from posenc.positions import Positions
from posenc.scheme import Scheme

SAME = 1e-5
EXACT = 1e-9


class SchemeEffects(nn.Module):
    """Module that computes all effects of a scheme, for compile and export."""

    def __init__(self, scheme: Scheme) -> None:
        super().__init__()
        self.scheme = scheme

    def forward(self, q: Tensor, k: Tensor, v: Tensor, x: Tensor, pos: Positions) -> Tensor:
        out = attend_at(q, k, v, scheme=self.scheme, q_pos=pos, x=x)
        if "embed" in self.scheme.claims.sites:
            out = out + self.scheme.embed(self.scheme.prepare(pos)).sum(-1)[..., :, None]
        if "mix" in self.scheme.claims.sites:
            out = out + self.scheme.mix(x, self.scheme.prepare(pos)).sum(-1)[:, None, :, None]
        return out


def it_compiles_whole_at_changing_lengths(case: Case) -> None:
    scheme = case.make().float()
    module = SchemeEffects(scheme)
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    for count in (6, 7, 9):
        pos = case.positions(count)
        pos = dataclasses.replace(pos, coords=pos.coords.float())
        q, k, v = (t.float() for t in case.qkv(scheme, count))
        given = q, k, v, case.x(count).float(), pos
        worst = largest_difference(compiled(*given), module(*given))
        require(worst <= SAME, f"compiled at length {count} it differs from eager by {worst:.1e}.")
    torch._dynamo.reset()


def its_score_mod_agrees_with_eager(case: Case) -> None:
    scheme, pos = case.make(), case.positions()
    where = scheme.prepare(pos)
    q, _, _ = case.qkv(scheme)
    if scheme.score_mod(q, scheme.keep(case.x(), where), scheme.relate(where, where)) is None:
        return
    for given in (pos, dataclasses.replace(pos, coords=pos.coords.expand(2, -1, -1))):
        with torch.no_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
            flex = case.attend(scheme, given, backend="flex")
        worst = largest_difference(flex, case.attend(scheme, given, backend="eager"))
        require(worst <= EXACT, f"its score_mod on FlexAttention differs from 'eager' by {worst:.1e}.")
