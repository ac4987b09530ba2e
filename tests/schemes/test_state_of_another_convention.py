"""A state_dict says what saved it: under another convention, or from a newer posenc, it is refused and not misread."""

import copy
import inspect
import io
import itertools
import typing

import numpy as np
import pytest
import safetensors.torch as safetensors
import torch
from torch import nn

from posenc.contract.case import Case, largest_difference
from posenc.positions import Positions, grid
from posenc.scheme import STATE, STATE_VERSION, Scheme
from posenc.schemes import catalogue
from posenc.schemes.alibi import ALiBi, plain_slopes, released_slopes
from posenc.schemes.dense_grid import DenseGrid
from posenc.schemes.grid_merge import GridMerge
from posenc.schemes.grid_pe import GridPE
from posenc.schemes.hash_grid import HashGrid
from posenc.schemes.k_planes import KPlanes
from posenc.schemes.learned import Learned
from posenc.schemes.log_cpb import LogCPB
from posenc.schemes.mixed_rope import MixedRoPE
from posenc.schemes.multires_grid import MultiResolutionGrid
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid
from posenc.schemes.siren import SIREN
from posenc.schemes.swin_bias import SwinBias
from posenc.schemes.t5_bias import T5Bias
from posenc.schemes.tensorf import TensoRF


def switches(kind: type[Scheme]) -> set[str]:
    """Constructor options that are one of a few words, or yes and no; but not the unit in which positions come."""
    told = typing.get_type_hints(kind.__init__)
    words = {name for name, hint in told.items() if hint is bool or typing.get_origin(hint) is typing.Literal}
    return words & set(inspect.signature(kind).parameters) - {"unit"}


def siblings() -> list:
    """Two examples of one scheme that differ in one such option and in nothing else."""
    found = []
    for kind in catalogue().values():
        filled = []
        for options in kind.examples:
            bound = inspect.signature(kind).bind(**options)
            bound.apply_defaults()
            filled.append((Case(kind, options), bound.arguments))
        for (a, first), (b, second) in itertools.combinations(filled, 2):
            differ = [name for name in first if str(first[name]) != str(second[name])]
            if len(differ) == 1 and differ[0] in switches(kind):
                found.append(pytest.param(a, b, differ[0], id=f"{kind.__name__}-{differ[0]}-{second[differ[0]]}"))
    return found


@pytest.mark.parametrize(("a", "b", "option"), siblings())
def test_a_state_is_refused_or_means_the_same(a, b, option):
    """What decides how weights are read is declared: otherwise the loaded scheme does what the saved one did."""
    one, other = a.make(0), b.make(1)
    state = one.state_dict()
    if {name: t.shape for name, t in state.items()} != {name: t.shape for name, t in other.state_dict().items()}:
        return  # torch says what is missing
    if option in type(one).conventions:
        with pytest.raises(
            ValueError, match=rf"saved by {a.kind.__name__} with {option}=.*, and this one has .*Build it"
        ):
            other.load_state_dict(state)
        return
    other.load_state_dict(state)
    first, second = (c.effects(s, a.positions()) for c, s in ((a, one), (b, other)))
    assert all(largest_difference(second[name], first[name]) <= 1e-12 for name in first), (
        f"{option} reads the same state otherwise"
    )


@pytest.mark.parametrize(
    ("one", "other", "option"),
    [
        (lambda: DenseGrid(2, (3, 7)), lambda: DenseGrid(2, (7, 3)), "resolution"),
        (lambda: TensoRF((3, 4, 5)), lambda: TensoRF((5, 4, 3)), "resolution"),
        (lambda: KPlanes(2, [(3, 7)]), lambda: KPlanes(2, [(7, 3)]), "resolutions"),
        (lambda: MultiResolutionGrid(2, [(3, 7)]), lambda: MultiResolutionGrid(2, [(7, 3)]), "resolutions"),
        (lambda: SwinBias(2, (2, 5)), lambda: SwinBias(2, (5, 2)), "window"),
        (lambda: SIREN(8, 2, omega_0=30), lambda: SIREN(8, 2, omega_0=10), "omega_0"),
    ],
)
def test_a_table_of_another_layout_is_refused(one, other, option):
    """Tables of as many rows were read in another order."""
    stream = io.BytesIO()
    torch.save(one().state_dict(), stream)
    stream.seek(0)
    state = torch.load(stream, weights_only=True)
    one().load_state_dict(state)
    with pytest.raises(ValueError, match=rf"with {option}=.*, and this one has {option}=.* Build it with {option}="):
        other().load_state_dict(state)


@pytest.mark.parametrize(
    ("make", "plain"),
    [
        (lambda: T5Bias(8, max_distance=np.int64(128)), lambda: T5Bias(8, max_distance=128)),
        (lambda: T5Bias(8, buckets=torch.tensor(32)), lambda: T5Bias(8, buckets=32)),
        (lambda: ALiBi(np.uint8(8)), lambda: ALiBi(8)),
        (lambda: GridPE(np.uint8(12), axes=1), lambda: GridPE(12, axes=1)),
        (lambda: HashGrid(2, np.array([4, 5]), table_size=np.int32(64)), lambda: HashGrid(2, (4, 5), table_size=64)),
        (lambda: GridMerge(12, rotation_seed=np.int64(1)), lambda: GridMerge(12, rotation_seed=1)),
        (lambda: LogCPB(2, window=torch.tensor([4, 5])), lambda: LogCPB(2, window=(4, 5))),
        (lambda: KPlanes(2, resolutions=[np.int64(4), 8]), lambda: KPlanes(2, resolutions=[4, 8])),
        (lambda: RoPE(np.int64(8), base=np.float64(500)), lambda: RoPE(8, base=500.0)),
    ],
)
def test_numbers_of_numpy_and_torch_are_those_of_python(make, plain):
    """Powers of 64-bit integers overflowed in silence, and a state with numbers of numpy could not be loaded."""
    scheme, wanted = make(), plain()
    assert str(scheme) == str(wanted)
    stream = io.BytesIO()
    torch.save(scheme.state_dict(), stream)
    stream.seek(0)
    wanted.load_state_dict(torch.load(stream, weights_only=True))
    pos = Positions(torch.arange(40.0)[:, None] if scheme.claims.axes != 2 else grid(4, 5).coords / 8)
    for site in scheme.claims.sites & {"embed", "bias"}:
        if site == "embed":
            assert torch.equal(scheme.embed(scheme.prepare(pos)), wanted.embed(wanted.prepare(pos)))
        elif scheme.claims.axes == 1:
            q = torch.zeros(1, 8, 40, 4)
            pairs = (each.relate(each.prepare(pos), each.prepare(pos)) for each in (scheme, wanted))
            first, second = (
                each.bias(q, q, None, pair, None) for each, pair in zip((scheme, wanted), pairs, strict=True)
            )
            assert torch.equal(first, second)


def test_a_copy_of_another_size_states_its_own_arguments():
    assert str(Learned(12, 24, sigma=0.3).resized((24,), (30,))) == "Learned(dim=12, max_len=30, sigma=0.3)"
    assert str(SwinBias(2, (3, 3)).resized((3, 3), (5, 4))) == "SwinBias(heads=2, window=(5, 4))"
    moved = LogCPB(2, (8, 8), literal=True).moved((12, 12))
    assert str(moved) == "LogCPB(heads=2, window=(12, 12), literal=True, made_for=(8, 8))"


def test_a_model_whose_rotation_pairs_other_channels_is_refused():
    """RoPE has no weights of its own: what would be misread are the projections beside it."""

    def model(**options) -> nn.Module:
        return nn.ModuleDict({"attend": nn.Linear(8, 8), "rope": RoPE(8, **options)})

    stream = io.BytesIO()
    torch.save(model(pairing="half").state_dict(), stream)
    stream.seek(0)
    state = torch.load(stream, weights_only=True)
    assert set(state) == {"attend.weight", "attend.bias"}
    model(pairing="half").load_state_dict(state)
    model(pairing="half", base=500.0).load_state_dict(state)  # another schedule is a use, and no misreading
    with pytest.raises(
        ValueError, match=r"saved by RoPE with pairing='half', and this one has pairing='interleaved', "
    ):
        model().load_state_dict(state)


def test_what_a_state_says_is_beside_its_tensors():
    state = MixedRoPE(12, 4, pairing="half").state_dict()
    assert list(state) == ["directions"]
    assert state._metadata[""][STATE] == {"version": STATE_VERSION, "scheme": "MixedRoPE", "pairing": "half"}
    MixedRoPE(12, 4).load_state_dict(safetensors.load(safetensors.save(dict(state))))  # tensors alone say nothing
    MixedRoPE(12, 4).load_state_dict(dict(state))


def test_slopes_of_another_rule_are_another_convention():
    state = ALiBi(12, slopes=released_slopes(12)).state_dict()
    ALiBi(12, slopes=torch.tensor(released_slopes(12), dtype=torch.float64)).load_state_dict(state)
    with pytest.raises(ValueError, match=r"saved by ALiBi with slopes=\(0\.5, .* Build it with slopes=\(0\.5"):
        ALiBi(12, slopes=plain_slopes(12)).load_state_dict(state)


def test_a_newer_version_is_refused_with_its_number():
    state = Sinusoid(12).state_dict()
    newer = copy.deepcopy(state)
    newer._metadata[""][STATE]["version"] = STATE_VERSION + 1
    with pytest.raises(
        ValueError, match=rf"has version {STATE_VERSION + 1}, and this posenc reads up to {STATE_VERSION}\. "
    ):
        Sinusoid(12).load_state_dict(newer)
    Sinusoid(12).load_state_dict(state)


def test_another_scheme_of_the_same_weights_may_take_them():
    """From a fixed table to a trained one is what one may want; torch refuses what does not fit."""
    state = catalogue()["Random"](6, 9).state_dict()
    table = Learned(6, 9)
    table.load_state_dict(state)
    assert torch.equal(table.table, state["table"])


@pytest.mark.parametrize(
    ("one", "other", "option"),
    [
        (T5Bias(2), T5Bias(2, max_distance=64), "max_distance=128"),
        (HashGrid(2, 8, table_size=16), HashGrid(2, (8, 9), table_size=16), r"resolution=\(8, 8\)"),
        (LogCPB(2, (3, 3), literal=True).moved((5, 5)), LogCPB(2, (5, 5), literal=True), r"made_for=\(3, 3\)"),
    ],
)
def test_a_state_that_another_size_would_misread_is_refused(one, other, option):
    with pytest.raises(ValueError, match=rf"saved by .* with {option}, and this one has"):
        other.load_state_dict(one.state_dict())


def test_a_moved_window_is_built_and_loaded_again():
    moved = LogCPB(2, (3, 3), literal=True).moved((5, 5))
    again = LogCPB(2, [5, 5], literal=True, made_for=[3, 3])
    again.load_state_dict(moved.state_dict())
    torch.testing.assert_close(again._table(), moved._table())
    plain = LogCPB(2, (3, 3)).moved((5, 5))
    LogCPB(2, (5, 5)).load_state_dict(plain.state_dict())
    with pytest.raises(ValueError, match=r"made_for is a window of literal=True, as \(5, 5\); got \(3, 3\)"):
        LogCPB(2, (5, 5), made_for=(3, 3))
