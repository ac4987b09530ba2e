"""The classifier of points: a bag without a scheme, no order of points, no place of a cloud, what is refused."""

import pytest
import torch

from posenc.models.point_cloud import PointClassifier, PointsConfig
from posenc.positions import Positions, grid
from posenc.scheme import Scheme
from posenc.schemes.axial_rope import AxialRoPE
from posenc.schemes.coordinates import Coordinates
from posenc.schemes.kerple_log import KERPLELog
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid

CONFIG = PointsConfig(channels=2, classes=3, dim=24, depth=2, heads=2, hidden=24)


def model(scheme: Scheme, **changes: int) -> PointClassifier:
    sizes = {name: getattr(CONFIG, name) for name in CONFIG.__struct_fields__} | changes
    return PointClassifier(PointsConfig(**sizes), lambda layer: scheme).eval()


def apart(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).detach().abs().max())


@pytest.mark.parametrize("make", [NoPE, lambda: AxialRoPE(12, 3), lambda: KERPLELog(2, 3), lambda: Coordinates(3)])
def test_points_have_no_order(make) -> None:
    net, x, pos = model(make()), torch.randn(2, 9, 2), torch.randn(2, 9, 3)
    order = torch.randperm(9)
    assert apart(net(x, Positions(pos)), net(x[:, order], Positions(pos[:, order]))) < 1e-5
    assert net(x, Positions(pos)).shape == (2, 3)
    assert apart(net(x, Positions(pos[0])), net(x, Positions(pos[:1].expand(2, -1, -1)))) < 1e-5


def test_without_a_scheme_a_cloud_is_a_bag_and_with_one_it_is_not() -> None:
    x, pos, other = torch.randn(2, 9, 2), 3 * torch.randn(2, 9, 3), 3 * torch.randn(2, 9, 3)
    for scheme, seen in ((NoPE(), False), (AxialRoPE(12, 3), True), (KERPLELog(2, 3), True), (Coordinates(3), True)):
        net = model(scheme)
        assert (apart(net(x, Positions(pos)), net(x, Positions(other))) > 1e-4) == seen


@pytest.mark.parametrize(("registers", "seen"), [(0, False), (1, True)])
def test_points_that_are_alike_are_told_apart_by_where_they_stand_through_a_register_alone(
    registers: int, seen: bool
) -> None:
    net = model(AxialRoPE(12, 3), registers=registers)
    alike, pos, other = torch.ones(2, 9, 2), 3 * torch.randn(2, 9, 3), 3 * torch.randn(2, 9, 3)
    torch.nn.init.normal_(net.registers)
    assert (apart(net(alike, Positions(pos)), net(alike, Positions(other))) > 1e-4) == seen


def test_a_register_moves_with_its_cloud() -> None:
    x, pos = torch.randn(2, 9, 2), 3 * torch.randn(2, 9, 3)
    moved = pos + torch.tensor([[[5.0, -2.0, 8.0]], [[1.0, 1.0, -30.0]]])
    for scheme, seen in ((AxialRoPE(12, 3), False), (KERPLELog(2, 3), False), (Coordinates(3), True)):
        net = model(scheme)
        assert (apart(net(x, Positions(pos)), net(x, Positions(moved))) > 1e-4) == seen


def test_distances_do_not_see_a_turn_and_not_a_mirror_image() -> None:
    net, x, pos = model(KERPLELog(2, 3)), torch.randn(2, 9, 2), 3 * torch.randn(2, 9, 3)
    turn, _ = torch.linalg.qr(torch.randn(3, 3))
    for matrix in (turn, -turn):
        assert apart(net(x, Positions(pos)), net(x, Positions(pos @ matrix.mT))) < 1e-4
    rotary = model(AxialRoPE(12, 3))
    assert apart(rotary(x, Positions(pos)), rotary(x, Positions(pos @ turn.mT))) > 1e-4


def test_every_weight_gets_a_gradient() -> None:
    net = model(Coordinates(3))
    net(torch.randn(2, 9, 2), Positions(torch.randn(2, 9, 3))).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in net.parameters())


def test_what_is_refused() -> None:
    x, pos = torch.randn(2, 9, 2), torch.randn(2, 9, 3)
    for changes, sentence in (({"heads": 5}, "5 heads do not divide"), ({"dim": 0}, "sizes of at least 1"),
                              ({"registers": -1}, "0 registers or more")):  # fmt: skip
        with pytest.raises(ValueError, match=sentence):
            model(NoPE(), **changes)
    with pytest.raises(ValueError, match="acts on heads of width 8"):
        model(RoPE(8))
    for given, at in ((x[..., :1], pos), (x, pos[:, :5])):
        with pytest.raises(ValueError, match="reads 2 features of each point"):
            model(NoPE())(given, Positions(at))
    with pytest.raises(ValueError, match="a cloud needs at least one point, and this one has only padding"):
        model(NoPE())(x, Positions(pos, torch.stack([torch.arange(9) > 0, torch.zeros(9) > 0])))
    with pytest.raises(ValueError, match="reads 1 axes"):
        model(Sinusoid(24, axes=1))(x, Positions(pos))


def test_whole_positions_are_places_too():
    net, x = model(AxialRoPE(12, 2), registers=1), torch.randn(2, 9, 2)
    assert apart(net(x, grid(3, 3)), net(x, Positions(grid(3, 3).coords.float()))) < 1e-6


@pytest.mark.parametrize("make", [NoPE, lambda: AxialRoPE(12, 3), lambda: KERPLELog(2, 3), lambda: Coordinates(3)])
@pytest.mark.parametrize("registers", [0, 1])
def test_padding_changes_nothing(make, registers: int) -> None:
    """Clouds of 9 and 6 points in one batch have the logits that each has alone, whatever stands in the padding."""
    net = model(make(), registers=registers).double()
    x, pos, sizes = torch.randn(2, 9, 2).double(), 3 * torch.randn(2, 9, 3).double(), (9, 6)
    placed = torch.arange(9) < torch.tensor(sizes)[:, None]
    alone = torch.cat([net(x[i : i + 1, :n], Positions(pos[i : i + 1, :n])) for i, n in enumerate(sizes)])
    for filling in (0.0, 1e6, -3.0):
        features = torch.where(placed[..., None], x, filling)
        together = net(features, Positions(torch.where(placed[..., None], pos, filling), placed))
        assert apart(together, alone) < 1e-6
    whole = net(x, Positions(pos))  # the second cloud with its three points more
    assert apart(whole[1], alone[1]) > 1e-4
    scale = net.embedding_scale(torch.where(placed[..., None], x, 1e6), Positions(pos, placed))
    if net.rows is not None:
        assert scale == pytest.approx(
            net.embedding_scale(torch.where(placed[..., None], x, -7.0), Positions(pos, placed))
        )
    net(x, Positions(pos, placed)).sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in net.parameters() if p.grad is not None)


def test_whole_positions_keep_their_digits():
    """Coordinates in meters on a map, as whole numbers; in float32 they are rounded to steps of a half."""
    net, x, coords = model(AxialRoPE(12, 3), registers=1), torch.randn(1, 9, 2), torch.randint(0, 20, (1, 9, 3))
    far = coords + 5_400_001
    assert torch.equal(net(x, Positions(far)), net(x, Positions(far.double())))
