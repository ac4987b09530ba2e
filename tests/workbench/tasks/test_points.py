"""Clouds of points: solids, pairs that differ in arrangement alone, views, neighbourhoods, files, scores."""

import itertools
import math
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from posenc.workbench.tasks import points as task
from posenc.workbench.tasks.shapes import Mesh, cuboid

pytestmark = pytest.mark.bare


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# solids --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", task.SOLIDS)
def test_solids_are_closed_and_outward_but_the_bowl(name: str) -> None:
    mesh = task.make_solid(name, rng())
    assert float(mesh.areas.min()) > 0
    if name in ("bowl", "left helix", "right helix"):  # open at the rim, or at both ends
        assert mesh.open_edges > 0
    else:
        assert mesh.watertight
        assert mesh.volume > 0


def test_a_helix_rises_to_its_left_or_right_and_is_the_others_mirror_image() -> None:
    right, left = task.make_solid("right helix", rng(3)), task.make_solid("left helix", rng(3))
    order = [np.lexsort(np.round(v, 9).T) for v in (right.vertices, left.vertices * [-1, 1, 1])]
    np.testing.assert_allclose(right.vertices[order[0]], (left.vertices * [-1, 1, 1])[order[1]], atol=1e-9)
    for mesh, sense in ((right, 1), (left, -1)):
        low = mesh.vertices[mesh.vertices[:, 2] < mesh.vertices[:, 2].min() + 0.3 * np.ptp(mesh.vertices[:, 2])]
        angle = np.unwrap(np.arctan2(low[:, 1], low[:, 0])[np.argsort(low[:, 2])], period=2 * np.pi)
        assert np.sign(np.polyfit(np.sort(low[:, 2]), angle, 1)[0]) == sense


def test_pieces_of_a_pair_are_alike_and_further_apart_than_a_neighbourhood() -> None:
    for a, b in task.ARRANGEMENT_PAIRS:
        for seed in range(5):
            one, other = task.make_solid(a, rng(seed)), task.make_solid(b, rng(seed))
            assert one.areas.sum() == pytest.approx(other.areas.sum())
            assert one.volume == pytest.approx(other.volume)
            reach = [np.linalg.norm(m.vertices, axis=1).max() for m in (one, other)]
            assert reach[0] == pytest.approx(reach[1], rel=2e-2)  # a ball's vertices are not all around
            assert len(one.faces) == len(other.faces)
    clouds = task.solid_clouds(8, 256, seed=0)
    for name in itertools.chain.from_iterable(task.ARRANGEMENT_PAIRS):
        pieces = 3 if name in task.ARRANGEMENT_PAIRS[0] else 2
        for cloud in clouds.points[clouds.labels == clouds.classes.index(name)]:
            apart = torch.cdist(cloud, cloud)
            radius = apart.topk(256 // 8, largest=False).values[:, -1]
            piece = _piece(cloud, pieces)
            inside = piece[:, None] == piece[None]
            assert bool((apart.masked_fill(inside, torch.inf).amin(1) > radius).all())


def _piece(cloud: torch.Tensor, pieces: int) -> torch.Tensor:
    """Which piece each point is of: points closer than half the gap are of one."""
    number = torch.arange(len(cloud))
    near = torch.cdist(cloud, cloud) < 0.2
    for _ in range(40):
        number = torch.where(near, number[None], len(cloud)).amin(1)
    assert len(number.unique()) == pieces
    return number


def test_points_are_even_in_area_whatever_the_faces() -> None:
    box = Mesh(*cuboid(2.0, 1.0, 0.5))
    cloud = task.sample_cloud(box, 4000, rng())
    assert np.abs(cloud.mean(0)).max() < 1e-6
    assert np.linalg.norm(cloud, axis=1).max() == pytest.approx(1)
    top = np.isclose(cloud[:, 2], cloud[:, 2].max(), atol=1e-3).mean()
    assert top == pytest.approx(2.0 / 7.0, abs=0.03)


def test_clouds_are_a_function_of_the_seed_class_by_class() -> None:
    clouds, again, other = (task.solid_clouds(2, 32, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(clouds.points, again.points)
    assert not torch.equal(clouds.points, other.points)
    assert clouds.labels.bincount().tolist() == [2] * len(task.SOLIDS)
    assert torch.equal(clouds.points[::2], task.solid_clouds(1, 32, seed=1).points)


# views ---------------------------------------------------------------------------------------------------------------


def test_a_draw_is_some_of_the_points_turned_and_a_move_changes_nothing_else() -> None:
    clouds, index = task.solid_clouds(1, 64, seed=0), torch.arange(14)

    def drawn(**changes) -> torch.Tensor:
        return task.draw_clouds(
            clouds, index, task.CloudSampling(16)._replace(**changes), torch.Generator().manual_seed(3)
        )

    plain = drawn(rotation="not", noise=0.0)
    for cloud, whole in zip(plain, clouds.points, strict=True):
        assert float(torch.cdist(cloud, whole).amin(1).max()) < 2e-3
        assert len(cloud.unique(dim=0)) == 16
    upright = drawn(noise=0.0)
    for cloud, whole in zip(upright, clouds.points, strict=True):  # about z alone
        assert float(torch.cdist(cloud[:, 2:], whole[:, 2:]).amin(1).max()) < 2e-3
    assert not torch.allclose(upright, drawn(rotation="any", noise=0.0))
    away = drawn(shift=2.0) - drawn()
    assert torch.allclose(away, away[:, :1].expand_as(away), atol=1e-5)
    assert torch.allclose(away.norm(dim=-1), torch.tensor(2.0), atol=1e-5)
    noise = drawn(noise=0.1, rotation="not") - plain
    assert float(noise.std()) == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("turned", ["z", "any"])
def test_rotations_are_rotations_and_even(turned: task.Rotation) -> None:
    found = task.random_rotations(4000, turned, torch.Generator().manual_seed(0)).double()
    assert torch.allclose(found @ found.mT, torch.eye(3, dtype=torch.float64).expand_as(found), atol=1e-5)
    assert torch.allclose(torch.linalg.det(found), torch.tensor(1.0, dtype=torch.float64), atol=1e-5)
    mean = found.mean(0)  # of evenly drawn ones, 0 but for the axis
    assert float((mean - torch.diag(torch.tensor([0.0, 0, turned == "z"]))).abs().max()) < 0.05


def test_neighbourhoods_are_what_their_formula_says_and_no_move_turn_or_mirror_changes_them() -> None:
    cloud = torch.randn(1, 40, 3, generator=torch.Generator().manual_seed(0))
    found = task.neighborhood_shapes(cloud)
    for n in range(40):
        near = cloud[0, (cloud[0] - cloud[0, n]).square().sum(-1).argsort()[:5]].double()
        c = torch.cov(near.T)
        trace = c.trace()
        wanted = torch.stack([trace.log() / 2 + 2, (c @ c).trace() / trace**2, 27 * torch.linalg.det(c) / trace**3,
                              (cloud[0, n] - near.mean(0)).norm() / trace.sqrt()])  # fmt: skip
        assert torch.allclose(found[0, n].double(), wanted, atol=1e-4)
    turn = task.random_rotations(1, "any", torch.Generator().manual_seed(1))[0]
    for other in (cloud + 3.0, cloud @ turn.mT, cloud * torch.tensor([-1.0, 1, 1])):
        assert torch.allclose(found, task.neighborhood_shapes(other), atol=1e-3)
    assert not torch.allclose(found, task.neighborhood_shapes(1.5 * cloud), atol=1e-2)


def test_neighbourhoods_are_as_large_whatever_the_number_of_points() -> None:
    clouds = task.solid_clouds(4, 512, seed=0)
    few, many = (
        task.neighborhood_shapes(
            task.draw_clouds(clouds, torch.arange(56), task.CloudSampling(n), torch.Generator().manual_seed(0))
        )
        for n in (128, 512)
    )
    assert torch.allclose(few.mean((0, 1)), many.mean((0, 1)), atol=0.1)


def test_tokens_and_positions_are_what_their_names_say() -> None:
    cloud = torch.rand(2, 20, 3)
    for features in get_args(task.Features):
        assert task.token_features(cloud, features).shape == (2, 20, task.FEATURE_CHANNELS[features])
    assert torch.equal(task.token_features(cloud, "xyz")[..., 4:], cloud)
    assert torch.equal(task.token_positions(cloud, "cells").coords, task.CELLS_PER_RADIUS * cloud)
    assert torch.equal(task.token_positions(cloud, "radii").coords, cloud)


# files ---------------------------------------------------------------------------------------------------------------


def test_clouds_are_read_again_as_they_were_saved(tmp_path: Path) -> None:
    parts = task.Splits(task.solid_clouds(1, 16, seed=0), task.solid_clouds(2, 16, seed=1))
    task.save_clouds(parts, tmp_path / "a" / "clouds.npz")
    again = task.load_clouds(tmp_path / "a" / "clouds.npz")
    for one, other in ((parts.train, again.train), (parts.test, again.test)):
        assert torch.equal(one.points, other.points)
        assert torch.equal(one.labels, other.labels)
        assert (one.name, one.classes) == (other.name, other.classes)
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match=r"holds no clouds of points .* it is made again"):
        task.load_clouds(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"test_points": None}, "has no test_points"),  # the fuzzer's: a member of another name
        ({"train_labels": None}, "has no train_labels"),
        ({"format": None}, "has no format"),
        ({"format": [1, 1]}, "length-1|0-dimensional|scalar"),
        ({"classes": [1, 2]}, "classes of a.npz is int64"),
        ({"normalization": "[1]"}, "its normalization is list, not names with numbers"),
        ({"normalization": "[" * 100_000}, "recursion"),
        ({"train_points": np.full((14, 16, 3), np.nan, np.float32)}, "not finite"),
        ({"train_points": [["text"]]}, "train_points of a.npz is"),
        ({"train_labels": np.zeros(14)}, "should be int or uint"),
        ({"train_sizes": [16]}, "each of 14 clouds has a number of points"),
        ({"train_sizes": [17] * 14}, "1 to 16 points; got 17 to 17"),
        ({"train_attributes": np.zeros((14, 16, 1), np.float32)}, r"attributes are \(14, 16, 0\)"),
    ],
)
def test_a_damaged_file_of_clouds_is_named(changed: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    task.save_clouds(task.Splits(task.solid_clouds(1, 16, seed=0), task.solid_clouds(1, 16, seed=1)), path)
    with np.load(path) as content:
        arrays = {name: content[name] for name in content}
    arrays |= {name: np.asarray(value) for name, value in changed.items() if value is not None}
    np.savez(path, **{name: value for name, value in arrays.items() if changed.get(name, value) is not None})
    with pytest.raises(ValueError, match=f"a.npz holds no clouds of points .*({says}).*it is made again"):
        task.load_clouds(path)


def test_off_files_are_read_with_the_counts_on_the_first_line_too(tmp_path: Path) -> None:
    """Some of ModelNet40's files begin ``OFF490 518 0``."""
    pytest.importorskip("trimesh")
    body = "4 4 0\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 2 1\n3 0 1 3\n3 1 2 3\n3 2 0 3\n"
    for name, head in (("one", "OFF\n"), ("other", "OFF")):
        for part in ("train", "test"):
            (tmp_path / name / part).mkdir(parents=True)
            (tmp_path / name / part / "a.off").write_text(head + body)
    parts = task.read_class_folders(tmp_path, task.CloudReading(32))
    assert parts.train.points.shape == (2, 32, 3)
    assert parts.train.classes == ("one", "other")
    assert parts.test.labels.tolist() == [0, 1]
    assert not torch.equal(parts.train.points[0], parts.test.points[0])  # the same mesh, other points
    assert parts.train.notes == ()


def test_folders_that_are_no_classes_of_meshes_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("trimesh")
    with pytest.raises(ValueError, match="has no classes of clouds or meshes; at least 2 are needed"):
        task.list_clouds(tmp_path)
    for name in ("a", "b"):
        for part in ("train", "test"):
            (tmp_path / name / part).mkdir(parents=True)
            (tmp_path / name / part / "x.off").write_text("OFF\n1 1")
    with pytest.raises(ValueError, match=r"no cloud of a/train in .* can be read. The first error: a/train/x.off"):
        task.read_class_folders(tmp_path, task.CloudReading(16))
    (tmp_path / "b" / "test" / "x.off").unlink()
    with pytest.raises(ValueError, match="has 1 class of clouds"):
        task.list_clouds(tmp_path)


def test_spots_parts_are_where_they_are_named(data_folder: Path) -> None:
    with np.load(data_folder / "mesh" / "spot.npz") as held:
        mesh = Mesh(held["v"], held["f"])
    clouds = task.spot_part_clouds(mesh, 2, 64, seed=0)
    assert clouds.classes == tuple(task.SPOT_PARTS)
    assert clouds.labels.bincount().tolist() == [2] * len(task.SPOT_PARTS)
    assert torch.allclose(clouds.points.norm(dim=-1).amax(1), torch.ones(len(clouds)))
    places = mesh.vertices.T
    left, right = (task.SPOT_PARTS[name](*places) for name in ("left ear", "right ear"))
    assert left.sum() == pytest.approx(right.sum(), rel=0.1)
    assert not (left & right).any()
    with pytest.raises(ValueError, match="this mesh has no muzzle where Spot has hers"):
        task.spot_part_clouds(Mesh(*cuboid(0.1, 0.1, 0.1)), 1, 16, seed=0)
    with pytest.raises(ValueError, match="from 8 to 2621 points"):
        task.spot_part_clouds(mesh, 1, 4000, seed=0)


# scores --------------------------------------------------------------------------------------------------------------


def test_scores() -> None:
    labels = torch.tensor([0, 0, 1, 1, 2])
    logits = torch.tensor([[1.0, 0, 9], [0, 1, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    assert task.accuracy(logits, labels) == pytest.approx(0.6)
    assert task.pairwise_accuracy(logits, labels, ("a", "b", "c"), (("a", "b"),)) == pytest.approx(0.75)
    assert task.pairwise_accuracy(logits, labels, ("a", "b", "c"), (("a", "b"), ("b", "c"))) == pytest.approx(0.875)
    assert task.relative_logit_change(logits, logits) == 0
    generator = torch.Generator().manual_seed(0)
    one, other = torch.randn(2, 500, 20, generator=generator).unbind()
    assert task.relative_logit_change(one, other) == pytest.approx(math.sqrt(2), rel=0.05)
    with pytest.raises(ValueError, match="there is no class 'd' among a, b, c"):
        task.pairwise_accuracy(logits, labels, ("a", "b", "c"), (("a", "d"),))


def test_what_is_refused() -> None:
    clouds = task.solid_clouds(1, 16, seed=0)
    with pytest.raises(ValueError, match="has 16 points per cloud; got points=17"):
        task.draw_clouds(clouds, torch.arange(2), task.CloudSampling(17), torch.Generator())
    with pytest.raises(ValueError, match="there is no solid 'cube'"):
        task.make_solid("cube", rng())
    with pytest.raises(ValueError, match="clouds need per_class >= 1 and points >= 8"):
        task.solid_clouds(1, 4, seed=0)
    with pytest.raises(ValueError, match="labels number 1 classes from 0; got 13"):
        task.Clouds("x", ("a",), clouds.points, clouds.labels)
    with pytest.raises((ValueError, TypeError), match=r"points \(M, P, 3\) with M labels|Type-check error"):
        task.Clouds("x", ("a",), clouds.points, clouds.labels[:3])


def colored_folder(folder: Path, one: np.ndarray, other: np.ndarray) -> Path:
    """Two classes of two clouds, whose columns behind the coordinates are given."""
    rng = np.random.default_rng(0)
    for name, columns in (("a", one), ("b", other)):
        (folder / name).mkdir(parents=True)
        for number in range(2):
            np.save(folder / name / f"{number}.npy", np.concatenate([rng.normal(size=(20, 3)), columns], 1))
    return folder


def test_colors_are_the_same_columns_and_have_one_scale_in_all_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    intensity, red = rng.uniform(300, 900, (20, 1)), np.tile([200.0, 0.0, 0.0], (20, 1))
    reading = task.CloudReading(16, features="colors")
    mixed = colored_folder(tmp_path / "mixed", np.concatenate([intensity, red], 1), np.concatenate([red, intensity], 1))
    with pytest.raises(ValueError, match=r"the features are the columns 5, 6, 7 of 0\.npy and 4, 5, 6 of 0\.npy"):
        task.read_class_folders(mixed, reading)
    read = task.read_class_folders(colored_folder(tmp_path / "dark", red, red * 0), reading).train
    assert read.attributes is not None
    assert read.attributes[..., 0].amax(1).tolist() == pytest.approx([200 / 255, 200 / 255, 0, 0])
    for name, value in (("a", 60000), ("b", 200)):
        (tmp_path / "deep" / name).mkdir(parents=True)
        for number in range(2):
            points = rng.normal(size=(20, 3)).tolist()
            lines = [",".join(map(str, [*point, value, 0, 0])) for point in points]
            (tmp_path / "deep" / name / f"{number}.csv").write_text("\n".join(["x,y,z,red,green,blue", *lines]))
    read = task.read_class_folders(tmp_path / "deep", reading).train
    assert read.attributes is not None
    assert read.attributes[..., 0].amax(1).tolist() == pytest.approx([60000 / 65535] * 2 + [200 / 65535] * 2)
    assert read.normalization == {"color scale": 65535.0}
    assert any(note.startswith("Colors are read as 0 to 65535 in all files, also in the 2") for note in read.notes)
    one = task.read_cloud(tmp_path / "deep" / "b" / "0.csv", 16, read.attribute_names, read.normalization)
    assert one.attributes is not None
    assert float(one.attributes[..., 0].max()) == pytest.approx(200 / 65535)
