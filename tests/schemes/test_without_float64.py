"""On a device without float64 every scheme works, or says in a sentence of ours that it cannot count its angles there.

Such a device is made of the CPU: no operation may give a float64 tensor, as on Apple's.
"""

import dataclasses

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import posenc.positions
from posenc.attention import attend, attend_at, attention
from posenc.contract.case import Case
from posenc.positions import sequence
from posenc.schemes import catalogue
from posenc.schemes.rope import RoPE


class WithoutFloat64(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if any(isinstance(leaf, Tensor) and leaf.dtype == torch.float64 for leaf in tree_leaves(out)):
            raise TypeError(f"{func} made a float64 tensor")
        return out


def use(case: Case, monkeypatch) -> None:
    scheme, pos = case.make(dtype=torch.float32), case.whole()
    pos = dataclasses.replace(pos, coords=pos.coords.float())
    q, k, v = (t.float() for t in case.qkv(scheme))
    x = case.x().float()
    monkeypatch.setattr(posenc.positions, "WITHOUT_FLOAT64", ("cpu",))
    with WithoutFloat64():
        attend_at(q, k, v, scheme=scheme, q_pos=pos, x=x)
        where = scheme.prepare(pos)
        if "embed" in scheme.claims.sites:
            scheme.embed(where)
        if "mix" in scheme.claims.sites:
            scheme.mix(x, where)


# waves of grid cells are made and kept on the CPU, which here is the device
CASES = [
    Case(kind, options)
    for name, kind in catalogue().items()
    if name not in ("GridComplex", "GridDeep", "GridMerge", "GridRotate")
    for options in kind.examples
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_scheme_works_there_or_says_so(case, monkeypatch):
    told = ""
    try:
        use(case, monkeypatch)
    except ValueError as error:
        told = str(error)
    assert told == "" or "angles are counted in float64, which the device cpu does not have" in told


@pytest.mark.parametrize(
    "name", ["ALiBi", "T5Bias", "Shaw", "CoPE", "FoX", "FIRE", "SwinBias", "LogCPB", "KERPLELog", "Learned", "PEG"]
)
def test_what_counts_no_angles_works_there(name, monkeypatch):
    kind = catalogue()[name]
    use(Case(kind, kind.examples[0]), monkeypatch)


def test_angles_are_refused_and_not_rounded(monkeypatch):
    kind = catalogue()["RoPE"]
    with pytest.raises(ValueError, match=r"angles are counted in float64, .* move what scheme\.prepare\(pos\) returns"):
        use(Case(kind, kind.examples[0]), monkeypatch)


def test_what_it_says_is_a_way():
    """Angles made on the CPU and moved are the ones that attention takes."""
    scheme, pos, (q, k, v) = RoPE(12), sequence(5), torch.randn(3, 1, 2, 5, 12)
    where = tree_map(lambda t: t.to("cpu").clone(), scheme.prepare(pos))
    out = attend(q, k, v, scheme, where, where, scheme.relate(where, where))
    torch.testing.assert_close(out, attention(q, k, v, scheme=scheme, q_pos=pos))
