"""What the contract rests on: parameters that stay wide, values per head, keys that refuse to move, test positions."""

import copy
import pickle

import pytest
import torch
from torch import nn

from posenc.contract import check
from posenc.contract.case import SHIFT, Case
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme, per_head
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sc_torus import SCTorus


def claims(**changed) -> Claims:
    return Claims(**{**vars(NoPE().claims), **changed})


class Trained(Scheme):
    """``speed`` stays wide, ``gain`` and the buffer ``count`` do not."""

    wide = frozenset({"speed", "absent"})

    def __init__(self) -> None:
        super().__init__()
        self.speed, self.gain = nn.Parameter(torch.rand(3)), nn.Parameter(torch.rand(3))
        self.absent = None
        self.register_buffer("count", torch.rand(3))
        self.claims = claims(learned=True)

    def prepare(self, pos: Positions) -> None:
        self._take(pos)


class Domain(Scheme):
    """Real positions in a short range, or whole ones."""

    examples = ({"high": 1.0},)

    def __init__(self, high: float, low: float = 0.0, whole: bool = False) -> None:
        super().__init__()
        self.whole_only = whole
        self.claims = claims(range=(low, high), axes=2)

    def prepare(self, pos: Positions) -> None:
        (self._whole if self.whole_only else self._take)(pos)


class Neighbours(Scheme):
    def __init__(self, axes: int | None = None) -> None:
        super().__init__()
        self.claims = claims(sites=frozenset({"mix"}), axes=axes)

    def prepare(self, pos: Positions) -> None:
        self._take(pos)


# wide --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cast",
    [
        lambda m: m.bfloat16(),
        lambda m: m.half(),
        lambda m: m.to(torch.bfloat16),
        lambda m: m.to("cpu", torch.float16),
        lambda m: m.type(torch.float16),
        lambda m: nn.Sequential(m).half()[0],
    ],
)
def test_no_cast_makes_a_wide_parameter_narrow(cast):
    scheme = Trained()
    speed, value = scheme.speed, scheme.speed.detach().clone()
    (scheme.speed.sum() + scheme.gain.sum()).backward()
    cast(scheme)
    assert scheme.speed is speed
    assert scheme.speed.dtype == torch.float32
    assert torch.equal(scheme.speed.detach(), value)
    assert scheme.speed.grad is not None
    assert scheme.speed.grad.dtype == torch.float32
    assert scheme.gain.dtype == scheme.count.dtype != torch.float32


def test_wider_casts_devices_and_copies_work_as_ever():
    scheme = Trained().double()
    assert scheme.speed.dtype == torch.float64
    assert scheme.half().speed.dtype == torch.float32
    scheme.share_memory()
    assert scheme.speed.is_shared()
    for copied in (copy.deepcopy(scheme), pickle.loads(pickle.dumps(scheme))):
        assert torch.equal(copied.speed, scheme.speed)
        assert copied.bfloat16().speed.dtype == torch.float32
    empty = Trained().to("meta", torch.bfloat16)
    assert (empty.speed.device.type, empty.speed.dtype, empty.gain.dtype) == ("meta", torch.float32, torch.bfloat16)
    assert empty.to_empty(device="cpu").speed.dtype == torch.float32


# per head ----------------------------------------------------------------------------------------------------------


def test_neighbouring_heads_share_what_a_scheme_has_for_each_of_its_own():
    values = torch.arange(2.0)[:, None, None].expand(2, 5, 3)
    x = torch.zeros(1, 2, 5, 3)
    assert per_head(values, x, "It") is values
    assert per_head(values[:1], torch.zeros(1, 7, 5, 3), "It").shape == (1, 5, 3)
    six = per_head(values, torch.zeros(1, 6, 5, 3), "It")
    assert six[:, 0, 0].tolist() == [0, 0, 0, 1, 1, 1]
    deep = per_head(values[..., None], torch.zeros(1, 4, 5, 3), "It", dim=-4)
    assert deep[:, 0, 0, 0].tolist() == [0, 0, 1, 1]
    for heads in (1, 3):
        with pytest.raises(ValueError, match=rf"this It is built for 2 heads and meets {heads}\. Build it with heads="):
            per_head(values, torch.zeros(1, heads, 5, 3), "It")


# moving keys -------------------------------------------------------------------------------------------------------


def test_keys_move_by_default_only_where_no_site_touches_them():
    x = torch.randn(1, 2, 5, 12)
    assert NoPE().rerotate(x, None, None) is x
    scheme = Trained()
    scheme.claims = claims(sites=frozenset({"k", "v"}))
    for site, word in (("k", "keys"), ("v", "values")):
        with pytest.raises(
            ValueError, match=rf"Trained cannot move {word} that are cached as transformed\. Cache them"
        ):
            scheme.rerotate(x, None, None, site)


# test positions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (3.0, 3.5)])
def test_a_short_range_is_met_with_real_positions_that_can_be_moved(low, high):
    case = Case(Domain, {"low": low, "high": high})
    assert case.unit.tolist() == pytest.approx(2 * [(high - low) / 24])
    assert not case.counts
    for pos in (case.positions(), case.positions(9), case.positions(batch=3), case.positions(seed=1)):
        assert low <= float(pos.coords.min())
        assert float(pos.coords.max()) + SHIFT * float(case.unit[0]) <= high
        assert all(len(set(axis.tolist())) == pos.count for axis in pos.coords.reshape(-1, pos.count, 2).unbind(-1)[0])
        assert bool((pos.coords != pos.coords.round()).all())
    assert torch.equal(case.whole().coords, case.positions().coords)


def test_a_long_range_and_whole_rows_are_met_with_whole_positions():
    for case in (
        Case(Domain, {"high": 60.0}),
        Case(Domain, {"high": 12.0, "whole": True}),
        Case(RoPE, {"head_dim": 4}),
    ):
        assert case.counts
        pos = case.positions()
        assert torch.equal(pos.coords, pos.coords.round())
        assert case.whole(3).coords.dtype == torch.int64
        assert torch.equal(case.whole(3).coords, pos.coords.long() + 3)


def test_a_scheme_that_looks_at_neighbours_is_met_with_full_grids():
    case = Case(Neighbours, {})
    assert case.positions().lattice == (6,)
    assert case.positions(axes=2).lattice == (2, 3)
    assert case.positions(axes=2, seed=1).lattice == (3, 2)
    assert case.positions(7, axes=3).lattice == (1, 1, 7)
    assert case.positions(9, axes=2).lattice == (3, 3)
    assert Case(Neighbours, {"axes": 2}).positions(batch=3).coords.shape == (3, 6, 2)
    assert Case(Neighbours, {"axes": 2}).positions(0).count == 0


@pytest.mark.full
@pytest.mark.bare
@pytest.mark.parametrize("options", SCTorus.examples, ids=str)
def test_an_instance_is_drawn_again_for_claims_in_expectation(options):
    report = check(SCTorus(**options))
    assert report.ok, report
