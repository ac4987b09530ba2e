"""Rotations by positions of several axes, against complex numbers in NumPy and matrix exponentials of SciPy."""

import math

import numpy as np
import pytest
import torch

from posenc.attention import attention
from posenc.positions import Positions, grid, sequence
from posenc.schemes.axial_rope import AxialRoPE
from posenc.schemes.liere import LieRE
from posenc.schemes.mixed_rope import MixedRoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sectioned_rope import SectionedRoPE
from posenc.schemes.string import STRING


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def points(axes: int, count: int = 5) -> Positions:
    return Positions(3 * draw(count, axes))


def key(scheme, x: torch.Tensor, pos: Positions) -> torch.Tensor:
    return scheme.transform(x, scheme.prepare(pos), "k")


def complex_turn(x: torch.Tensor, angle: np.ndarray) -> np.ndarray:
    """Interleaved pairs of ``x (B, H, N, D)`` times ``e^(i angle)``."""
    z = (x[..., 0::2].numpy() + 1j * x[..., 1::2].numpy()) * np.exp(1j * angle)
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


# axial -------------------------------------------------------------------------------------------------------------


def test_axial_rows_first_columns_first_and_base_100():
    x, pos = draw(2, 3, 5, 16), points(2)
    p = pos.coords.numpy()
    theta = 1 / 100 ** (4 * np.arange(4) / 16)  # rope-vit's way of writing it
    rows, columns = p[:, :1] * theta, p[:, 1:] * theta
    np.testing.assert_allclose(key(AxialRoPE(16), x, pos), complex_turn(x, np.concatenate([rows, columns], -1)))
    swapped = complex_turn(x, np.concatenate([columns, rows], -1))
    np.testing.assert_allclose(key(AxialRoPE(16, order=(1, 0)), x, pos), swapped)


def test_axial_on_one_axis_is_rope_and_bands_may_differ():
    x, pos = draw(1, 2, 5, 12), points(1)
    torch.testing.assert_close(key(AxialRoPE(12, axes=1, base=10000.0), x, pos), key(RoPE(12), x, pos))
    three = points(3)
    out = key(AxialRoPE(12, axes=3, bands=(1, 3, 2), base=50.0), x, three)
    for axis, (first, last) in enumerate([(0, 2), (2, 8), (8, 12)]):
        own = Positions(three.coords[:, axis : axis + 1])
        alone = key(RoPE(last - first, base=50.0), x[..., first:last], own)
        torch.testing.assert_close(out[..., first:last], alone)


# mixed -------------------------------------------------------------------------------------------------------------


def test_mixed_turns_by_the_product_with_each_heads_directions():
    scheme, x, pos = MixedRoPE(12, 3).double(), draw(2, 3, 5, 12), points(2)
    angle = np.einsum("np,hpr->hnr", pos.coords.numpy(), scheme.directions.detach().numpy())
    np.testing.assert_allclose(key(scheme, x, pos).detach(), complex_turn(x, angle), atol=1e-12)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_mixed_begins_with_perpendicular_frames_in_every_head(axes):
    scheme = MixedRoPE(24, 5, axes, generator=torch.Generator().manual_seed(1))
    frames = scheme.directions.detach().double().unflatten(-1, (axes, -1))  # (h, P, direction, size)
    size = 10.0 ** (-torch.arange(12 // axes, dtype=torch.float64) / (12 // axes))
    unit = frames / size
    torch.testing.assert_close(unit, unit[..., :1].expand_as(unit), atol=1e-6, rtol=0)
    frame = unit[..., 0]
    one = torch.eye(axes, dtype=torch.float64)
    torch.testing.assert_close(frame @ frame.mT, one.expand_as(frame), atol=1e-6, rtol=0)
    assert torch.linalg.det(frame).tolist() == pytest.approx([1] * 5, abs=1e-6)
    if axes > 1:
        assert not torch.allclose(frame[0], frame[1])


def test_mixed_frequencies_survive_every_cast_of_the_model():
    scheme = MixedRoPE(12, 2)
    before = scheme.directions.detach().clone()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), scheme).bfloat16()
    assert model[0].weight.dtype == torch.bfloat16
    assert scheme.directions.dtype == torch.float32
    assert torch.equal(scheme.directions, before)


def test_one_head_serves_all_and_four_cannot_meet_six():
    x = draw(1, 6, 5, 12)
    assert key(MixedRoPE(12, 1).double(), x, points(2)).shape == x.shape
    with pytest.raises(ValueError, match=r"this MixedRoPE is built for 4 heads and meets 6\. Build it with heads=6"):
        key(MixedRoPE(12, 4).double(), x, points(2))


# sections ----------------------------------------------------------------------------------------------------------


def test_text_in_sections_is_plain_rope():
    x, ids = draw(1, 2, 7, 128), torch.arange(7.0, dtype=torch.float64)[:, None]
    sectioned = SectionedRoPE(128, (16, 24, 24))
    out = key(sectioned, x, Positions(ids.expand(7, 3)))
    torch.testing.assert_close(out, key(RoPE(128, base=1e6, pairing="half"), x, Positions(ids)))


def test_each_section_of_pairs_turns_with_its_axis():
    x, pos = draw(1, 1, 5, 16), points(3)
    theta = 1e6 ** (-np.arange(8) / 8)
    p = pos.coords.numpy()[:, [0, 0, 1, 1, 1, 2, 2, 2]]
    z = (x[..., :8].numpy() + 1j * x[..., 8:].numpy()) * np.exp(1j * p * theta)
    want = np.concatenate([z.real, z.imag], -1)
    np.testing.assert_allclose(key(SectionedRoPE(16, (2, 3, 3)), x, pos), want, atol=1e-12)


def test_sections_dealt_out_are_qwen3s():
    """Its code fills ``freqs[t]`` and overwrites every third, from 1 and from 2, up to three times a section."""
    sections, wanted = (24, 20, 20), [0] * 64
    for axis in (1, 2):
        for i in range(axis, 3 * sections[axis], 3):
            wanted[i] = axis
    assert SectionedRoPE(128, sections, arrangement="interleaved").axis_of == tuple(wanted)
    assert [wanted.count(axis) for axis in range(3)] == list(sections)


# learned generators ------------------------------------------------------------------------------------------------


def test_lieres_rotation_is_scipys_exponential():
    linalg = pytest.importorskip("scipy.linalg")
    scheme, pos, x = LieRE(6, 2).double(), points(2), draw(1, 2, 5, 6)
    out = key(scheme, x, pos).detach().numpy()
    for h in range(2):
        for n, p in enumerate(pos.coords.numpy()):
            whole = np.zeros((2, 6, 6))
            for a in range(2):
                whole[a][np.triu_indices(6, 1)] = scheme.generators.detach().numpy()[h, a, 0]
            turn = linalg.expm(np.tensordot(p, whole - whole.transpose(0, 2, 1), 1))
            np.testing.assert_allclose(out[0, h, n], turn @ x[0, h, n].numpy(), atol=1e-10)


def test_blocks_of_two_are_mixed_rope():
    liere, mixed = LieRE(12, 3, block=2).double(), MixedRoPE(12, 3).double()
    with torch.no_grad():
        mixed.directions.copy_(-liere.generators[..., 0])  # [[0, g], [-g, 0]] turns clockwise
    x, pos = draw(1, 3, 5, 12), points(2)
    torch.testing.assert_close(key(liere, x, pos), key(mixed, x, pos))
    assert liere.claims.translation == "exact"
    assert LieRE(12, 3).claims.translation == "none"


def test_lieres_generators_start_as_in_its_paper():
    drawn = LieRE(64, 8).generators.detach()
    assert 0 <= float(drawn.min()) < 0.01
    assert 2 * math.pi - 0.01 < float(drawn.max()) < 2 * math.pi + 1e-6
    assert float(LieRE(8, 1, scale=0.25).generators.detach().max()) < 0.25


def test_string_is_the_exponential_of_commuting_generators():
    linalg = pytest.importorskip("scipy.linalg")
    scheme, pos, x = STRING(6, 2).double(), points(2), draw(1, 2, 5, 6)
    with torch.no_grad():
        scheme.skew.normal_(generator=torch.Generator().manual_seed(4))
        scheme.theta.normal_(generator=torch.Generator().manual_seed(5))
    out = key(scheme, x, pos).detach().numpy()
    for h in range(2):
        skew = np.zeros((6, 6))
        skew[np.triu_indices(6, 1)] = scheme.skew.detach().numpy()[h]
        skew = skew - skew.T
        basis = (np.eye(6) - skew) @ np.linalg.inv(np.eye(6) + skew)
        np.testing.assert_allclose(basis @ basis.T, np.eye(6), atol=1e-12)
        flat = [linalg.block_diag(*([[0, -t], [t, 0]] for t in scheme.theta.detach().numpy()[h, a])) for a in range(2)]
        generators = [basis @ one @ basis.T for one in flat]
        np.testing.assert_allclose(generators[0] @ generators[1], generators[1] @ generators[0], atol=1e-12)
        for n, p in enumerate(pos.coords.numpy()):
            turn = linalg.expm(p[0] * generators[0] + p[1] * generators[1])
            np.testing.assert_allclose(out[0, h, n], turn @ x[0, h, n].numpy(), atol=1e-10)


def test_string_begins_as_axial_rope_with_its_pairs_dealt_out():
    x, pos = draw(1, 1, 5, 12), points(2)
    dealt = torch.tensor([0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11])  # the pairs of axis 0, then those of axis 1
    out = key(STRING(12, 1).double(), x, pos)[..., dealt]
    torch.testing.assert_close(out, key(AxialRoPE(12), x[..., dealt], pos), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "make", [lambda: AxialRoPE(12), lambda: MixedRoPE(12, 4), lambda: STRING(12, 4), lambda: SectionedRoPE(12, (4, 2))]
)
def test_what_is_relative_is_so_on_a_grid_moved_anywhere(make):
    scheme, pos = make().double(), grid(2, 3)
    q, k, v = draw(3, 1, 4, 6, 12)
    moved = pos + torch.tensor([17, -5])
    here, there = (attention(q, k, v, scheme=scheme, q_pos=p) for p in (pos, moved))
    torch.testing.assert_close(here, there, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: AxialRoPE(14),
            r"7 pairs of channels do not divide among 2 axes\. .* bands=\(4, 3\), or use head_dim=16",
        ),
        (lambda: AxialRoPE(14, axes=3), r"as bands=\(3, 2, 2\), or use head_dim=18"),
        (lambda: AxialRoPE(12, bands=(6, 6)), r"`bands` share 6 pairs among 2 axes, each at least 1; got \(6, 6\)"),
        (lambda: AxialRoPE(12, order=(0, 0)), r"`order` names each of 2 axes once, as \(0, 1\); got \(0, 0\)"),
        (lambda: AxialRoPE(12).prepare(sequence(3)), r"reads 2 axes per position; these positions have 1"),
        (lambda: MixedRoPE(10, 2), r"a multiple of 2 \* axes; got axes=2, heads=2, head_dim=10\. Use head_dim=12"),
        (lambda: AxialRoPE(13), r"an even head_dim; got axes=2, head_dim=13\. Use head_dim=16"),
        (lambda: AxialRoPE(2), r"1 pairs of channels do not divide among 2 axes\. Use head_dim=4\."),
        (lambda: STRING(13, 1), r"an even head_dim .* head_dim=13\. Use head_dim=14"),
        (lambda: STRING(12, 1, base=math.nan), r"the first frequencies is positive; got nan\. Axial RoPE's is 100"),
        (lambda: SectionedRoPE(12, (2, 2)), r"head_dim=12 has 6 pairs and sections=\(2, 2\) take 4\. Use sections"),
        (
            lambda: SectionedRoPE(12, (1, 3, 2), arrangement="interleaved"),
            r"sections=\(1, 3, 2\) would become \(2, 2, 2\)",
        ),
        (lambda: SectionedRoPE(12, (6, 0)), r"each at least one; head_dim=12 has 6 pairs"),
        (lambda: LieRE(12, 2, block=5), r"blocks of at least 2 channels that divide head_dim; got .* block=5"),
        (lambda: LieRE(12, 2, scale=0.0), "of the size scale, which is above 0 and finite; got 0"),
        (lambda: STRING(2, 1), r"an even head_dim with a pair for every axis; .* head_dim=2\. Use head_dim=4"),
    ],
)
def test_bad_input(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_trained_angles_are_wide_where_the_default_is_narrow():
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.bfloat16)
        narrow = MixedRoPE(8, 1, axes=1)
    finally:
        torch.set_default_dtype(before)
    wide = MixedRoPE(8, 1, axes=1)
    narrow.load_state_dict(wide.state_dict())
    assert narrow.directions.dtype == torch.float32
    assert torch.equal(narrow.directions, wide.directions)
