"""An instance is checked as somebody built it: with its own heads, widths, axes and range, unlike those of examples."""

import itertools

import pytest
import torch

import posenc
from posenc.contract import check, checks, run
from posenc.contract.case import Case
from posenc.positions import Positions
from posenc.scheme import Claims, Head, Scheme, per_head
from posenc.schemes import catalogue

RING = [(n, (n + 1) % 30) for n in range(30)]
OTHERS = {
    "ALiBi": [{"heads": 8}, {"heads": 3}],
    "AxialRoPE": [{"head_dim": 64}, {"head_dim": 16, "axes": 4}],
    "BiPE": [{"within": posenc.Learned(64, 196), "between": posenc.T5Bias(8)}],
    "CausalNoPE": [{"temperature": 2.0}],
    "ChunkedAttention": [{"chunk": 7}],
    "CoPE": [{"head_dim": 64, "npos_max": 16}, {"head_dim": 5, "npos_max": 3}],
    "Concat": [{"parts": [posenc.Sinusoid(8, 2), posenc.DenseGrid(2, 5, 3, domain=((0, -2), (28, 14)))]}],
    "ConcatAxes": [{"parts": [posenc.Sinusoid(8, 2), posenc.Learned(3, 196), posenc.FourierFeatures(6, axes=3)]}],
    "ConvPE": [{"dim": 64, "kernel": 5}],
    "Coordinates": [{"axes": 5}],
    "DAPE": [{"scheme": posenc.T5Bias(8), "heads": 8}],
    "DenseGrid": [{"axes": 2, "resolution": 3, "features": 1, "domain": ((-180, -90), (180, 90))}],
    "FIRE": [{"heads": 8}, {"heads": 3, "hidden": 5}],
    "FoPE": [{"head_dim": 64, "heads": 8, "extent": 1024}, {"head_dim": 20, "heads": 3, "extent": 8, "literal": True}],
    "FoX": [{"dim": 64, "heads": 8}, {"dim": 5, "heads": 3}],
    "FourierFeatures": [{"dim": 64, "axes": 3, "sigma": 10.0}],
    "GeoCLIP": [{"dim": 64, "features": 64, "hidden": 32, "sigma": (0.3,)}],
    "GraphDistance": [{"heads": 8, "edges": RING}, {"heads": 3, "edges": RING, "nodes": 40}, {"heads": 2}],
    "GridComplex": [{"head_dim": 16, "axes": 4}],
    "GridDeep": [{"head_dim": 20}],
    "GridMerge": [{"head_dim": 16, "axes": 4}],
    "GridPE": [{"head_dim": 64, "heads": 8, "extent": 14.0}, {"head_dim": 17, "axes": 1}],
    "GridRotate": [{"head_dim": 64}],
    "HashGrid": [{"axes": 2, "resolution": 5, "features": 1, "table_size": 8, "domain": ((0, 0), (28, 14))}],
    "KPlanes": [{"axes": 2, "resolutions": (5,), "features": 1}],
    "KERPLELog": [{"heads": 8}, {"heads": 3}],
    "KERPLEPower": [{"heads": 8}, {"heads": 3}],
    "Laplacian": [{"dim": 64, "axes": 8}],
    "LearnableFourier": [{"dim": 64, "axes": 3, "features": 8, "hidden": 4}],
    "Learned": [{"dim": 64, "max_len": 196}, {"dim": 5, "max_len": 4}],
    "LieRE": [
        {"head_dim": 8, "heads": 8, "block": 2},
        {"head_dim": 6, "heads": 3, "block": 3},
        {"head_dim": 32, "heads": 2, "axes": 3, "block": 8, "commuting": "linearly dependent"},
    ],
    "LogCPB": [
        {"heads": 2, "window": (24, 1), "hidden": 4},
        {"heads": 8, "window": (14, 14), "hidden": 5},
        {"heads": 3, "window": (7, 4), "hidden": 5},
    ],
    "MixedRoPE": [{"head_dim": 64, "heads": 8}, {"head_dim": 16, "heads": 3, "axes": 4}],
    "MultiResolutionGrid": [{"axes": 2, "resolutions": (2, 3), "table_size": 16, "features": 1}],
    "NoPE": [{}],
    "OneBlob": [{"axes": 2}, {"axes": 3, "bins": 16, "kernel": "quartic"}],
    "PEG": [{"dim": 64}, {"dim": 5, "axes": 3}],
    "PermutohedralGrid": [{"axes": 4, "scales": (2.0, 0.9), "table_size": 64, "features": 1, "seed": 3}],
    "PoPE": [{"head_dim": 16, "heads": 8}, {"head_dim": 5, "heads": 3}],
    "PaTH": [{"dim": 64, "head_dim": 8, "heads": 8}],
    "RWSE": [{"dim": 64, "axes": 8}],
    "Random": [{"dim": 64, "max_len": 196}],
    "RoPE": [{"head_dim": 64}, {"head_dim": 32, "of": 81}],
    "SCPE": [{"n": 14}, {"n": 32, "hidden": (16, 8)}],
    "SCShear": [{"n": 14}, {"n": 32, "hidden": (16, 8)}],
    "SCTorus": [{"n": 14}, {"n": 32, "hidden": (16, 8)}],
    "SIREN": [{"dim": 64, "axes": 2}],
    "SPE": [{"dim": 64, "axes": 8, "features": 4, "hidden": 5}],
    "RelativeLogits": [{"dim": 64, "heads": 8}],
    "STRING": [{"head_dim": 8, "heads": 8}, {"head_dim": 8, "heads": 3, "axes": 3}],
    "Scaled": [{"scheme": posenc.ALiBi(8), "factor": 0.5}, {"scheme": posenc.Learned(64, 196), "factor": 0.02}],
    "SelectiveRoPE": [{"dim": 64, "head_dim": 8, "heads": 8}],
    "SectionedRoPE": [{"head_dim": 64, "sections": (8, 8, 8, 8)}],
    "Shaw": [{"head_dim": 64, "max_distance": 16}, {"head_dim": 5, "max_distance": 2}],
    "SignNet": [{"dim": 64, "axes": 8, "hidden": 4}],
    "Sinusoid": [{"dim": 32}, {"dim": 64, "axes": 2}],
    "SlidingWindow": [{"size": 9}],
    "Space2VecGrid": [{"scales": 16}],
    "Space2VecTheory": [{"scales": 16}],
    "SphereC": [{"scales": 16}],
    "SphereCPlus": [{"scales": 8}],
    "SphereDFS": [{"scales": 4}],
    "SphereM": [{"scales": 16}],
    "SphereMPlus": [{"scales": 16}],
    "SphericalHarmonics": [{"degree": 10}],
    "StickBreaking": [{}],
    "Sum": [
        {"parts": [posenc.RoPE(64), posenc.SwinBias(8, (14,))], "translation": "exact"},
        {"parts": [posenc.ALiBi(8), posenc.SwinBias(4, (14,))]},
        {"parts": [posenc.PEG(64), posenc.GridPE(32, heads=8)]},
    ],
    "SwinBias": [{"heads": 8, "window": (14, 14)}, {"heads": 3, "window": (7, 4)}],
    "T5Bias": [{"heads": 8}, {"heads": 12, "buckets": 16}],
    "Temperature": [{"length": 5.0, "alpha": 0.3}, {"length": 3.0, "alpha": 0.2, "smooth": True}],
    "TensoRF": [{"resolution": (2, 5, 3)}],
    "Time2Vec": [{"dim": 64}],
    "VORoPE": [{"head_dim": 64}],
    "XPos": [{"head_dim": 64, "extent": 512}, {"head_dim": 16, "extent": 14}],
}
INSTANCES = [pytest.param(name, options, id=f"{name}-{n}") for name in OTHERS for n, options in enumerate(OTHERS[name])]


@pytest.mark.bare
@pytest.mark.full
@pytest.mark.parametrize(("name", "options"), INSTANCES)
def test_an_instance_of_other_heads_widths_and_axes_passes(name, options):
    report = check(catalogue()[name](**options))
    assert report.ok, report


@pytest.mark.bare
@pytest.mark.full
@pytest.mark.parametrize(
    "parts",
    [
        lambda: [posenc.Random(12, 24), posenc.RoPE(12)],  # an entry that no draw changes was a deterministic change
        lambda: [posenc.SIREN(12), posenc.ALiBi(2)],
        lambda: [posenc.PEG(12, axes=1), posenc.Sinusoid(12)],  # one row alone has no neighbors to mix
    ],
)
def test_a_sum_of_valid_schemes_passes_its_claims(parts):
    report = check(posenc.Sum(parts()), family="claims")
    assert report.ok, report


def test_every_scheme_has_an_instance_here():
    assert set(OTHERS) == set(catalogue())


@pytest.mark.parametrize(
    ("scheme", "heads", "width"),
    [
        (posenc.ALiBi(8), 8, 12),
        (posenc.ALiBi(2), 4, 12),
        (posenc.ALiBi(3), 3, 12),
        (posenc.RoPE(64), 4, 12),
        (posenc.FoX(20, 5), 5, 20),
        (posenc.PEG(7), 4, 7),
        (posenc.Sum([posenc.ALiBi(6), posenc.FoX(20, 2)]), 6, 20),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_case_meets_a_scheme_with_its_own_heads_and_width(scheme, heads, width):
    case = Case(type(scheme), {}, scheme)
    assert (case.heads, case.input_dim) == (heads, width)
    assert case.qkv(scheme)[0].shape[1] == heads
    assert case.x().shape[-1] == width


def test_what_fails_on_any_number_of_heads_fails_with_its_own_error():
    scheme = posenc.ALiBi(8)
    scheme.slopes = ()  # no number of heads is a multiple of none
    failed = {result.trouble for result in check(scheme).failures}
    assert any("ZeroDivisionError" in trouble or "built for 0 heads" in trouble for trouble in failed)


# heads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("own", "heads"), [(1, 5), (4, 4), (2, 6), (3, 6)])
def test_the_scalar_rule_of_heads_is_that_of_the_code(own, heads):
    dealt = per_head(torch.arange(own)[:, None, None], torch.zeros(1, heads, 1, 1), "It")
    for head in range(heads):
        assert Head(head, heads).among(own) == int(dealt.expand(heads, 1, 1)[head])
    assert Head(3, 8) + 1 == 4


# ranges by axis ----------------------------------------------------------------------------------------------------


def claims(**changed) -> Claims:
    return Claims(**{**vars(posenc.NoPE().claims), **changed})


def test_a_range_is_one_interval_or_one_for_each_axis():
    assert claims(range=None).limits() == (None,)
    assert claims(range=None, axes=2).limits() == (None, None)
    assert claims(range=(0, 5)).limits(3) == ((0, 5),) * 3
    unlike = claims(range=((0, 5), None), axes=2)
    assert unlike.limits() == unlike.range == ((0, 5), None)
    assert claims(range=((0, 5), (0, 5)), axes=2).range == (0, 5)
    assert claims(range=(None, None), axes=2).range is None
    with pytest.raises(ValueError, match=r"`range` has 2 intervals and `axes` is 3\. Give one interval for all axes"):
        claims(range=((0, 5), (0, 6)), axes=3)


class Rectangle(Scheme):
    """Real or whole positions in a rectangle; ``lax`` forgets the end of one axis."""

    def __init__(self, *limits: tuple[float, float] | None, lax: int | None = None, whole: bool = False) -> None:
        super().__init__()
        self.lax, self.whole_only = lax, whole
        self.claims = claims(range=limits, axes=len(limits))

    def prepare(self, pos: Positions) -> None:
        if self.lax is not None:
            pos = Positions(pos.coords.index_fill(-1, torch.tensor(self.lax), 0.0))
        (self._whole if self.whole_only else self._take)(pos)


def only(name: str, scheme: Scheme) -> str:
    one = next(one for one in checks() if one.__name__ == name)
    return run(one, Case(type(scheme), {}, scheme)).trouble


@pytest.mark.parametrize("limits", [((0, 60), (-1, 1)), (None, (0, 14)), ((0, 1), None), ((0, 3), (0, 3))])
def test_the_range_is_measured_on_every_axis(limits):
    assert only("range_is_as_claimed", Rectangle(*limits)) == ""
    for axis in range(2):
        trouble = only("range_is_as_claimed", Rectangle(*limits, lax=axis))
        assert (f"on axis {axis} without an error" in trouble) == (limits[axis] is not None)


def test_positions_keep_to_the_range_of_each_axis():
    for limits, whole in itertools.product([((0, 60), (-1, 1)), (None, (0, 13)), ((3, 9), (0, 30))], (False, True)):
        case = Case(Rectangle, {}, Rectangle(*limits, whole=whole))
        for pos in (case.positions(), case.positions(9), case.positions(batch=3), case.positions(seed=1)):
            for axis, ends in enumerate(limits):
                low, high = ends or (-8, 40)
                assert float(pos.coords[..., axis].min()) >= low
                assert float(pos.coords[..., axis].max() + case.shift.expand(2)[axis]) <= high
            assert case.counts == torch.equal(pos.coords, pos.coords.round())
    assert Case(Rectangle, {}, Rectangle((0, 60), (-1, 1))).unit.tolist() == [1, 2 / 24]
    assert Case(Rectangle, {}, Rectangle((0, 9), (0, 2), whole=True)).shift.tolist() == [4, 1]


def test_a_position_outside_names_its_axis():
    with pytest.raises(ValueError, match=r"starts at 0 and stops at 6 on axis 1; position 7 was asked for\. Build it"):
        posenc.SwinBias(2, (14, 7)).prepare(Positions(torch.tensor([[9, 7]])))
    with pytest.raises(ValueError, match=r"starts at 0 and stops at 6; position 7 was asked for"):
        posenc.SwinBias(2, (7, 7)).prepare(Positions(torch.tensor([[5, 7]])))


def test_an_instance_that_acts_at_far_positions_alone_is_refused_with_a_call_that_works() -> None:
    """Its claims cannot be seen at the positions of the contract; three checks failed and blamed the claims."""
    with pytest.raises(ValueError, match="changes nothing at the positions of the contract") as error:
        check("Temperature()")
    assert 'such as posenc check "Temperature(length=4.0)"; posenc check Temperature checks' in str(error.value)
    assert check("Temperature(length=4.0)", family="claims").ok
    assert check(posenc.NoPE(), family="claims").ok, "a scheme that acts nowhere is checked"
