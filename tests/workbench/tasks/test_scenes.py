"""The scene that the project renders, rays through pixels, scores, and scenes on disk."""

import dataclasses
import doctest
import math
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.workbench import memory
from posenc.workbench.tasks import scenes
from posenc.workbench.tasks.scenes import rendering, solids, views
from posenc.workbench.tasks.scenes.views import Scene, Views

COUNTS = {"train": 5, "held": 2, "side": 24, "fine": 2}


@pytest.fixture(scope="module")
def scene() -> Scene:
    return scenes.render_scene(scenes.bumpy_torus(40, 20), **COUNTS)


def one_view(pose: torch.Tensor, lens: list[float], height: int, width: int) -> Views:
    blank = torch.zeros(1, height, width, 3, dtype=torch.uint8)
    return Views(blank, pose[None].double(), torch.tensor([lens], dtype=torch.float64), ("only",))


def all_rays(shot: Views) -> tuple[torch.Tensor, torch.Tensor]:
    return shot.rays(torch.arange(shot.pixels))


def test_examples_of_the_docstring():
    found = doctest.testmod(scenes)
    assert found.attempted >= 5
    assert found.failed == 0


def test_a_ray_goes_through_the_middle_of_its_pixel_along_minus_z():
    shot = one_view(torch.eye(4), [2.0, 4.0, 1.5, 1.0, 0, 0, 0, 0], height=2, width=3)
    origin, direction = all_rays(shot)
    assert bool((origin == 0).all())
    assert torch.allclose(direction.norm(dim=-1), torch.ones(6))
    on_plane = direction / -direction[:, 2:]
    expected = [[(j + 0.5 - 1.5) / 2, -(i + 0.5 - 1.0) / 4, -1.0] for i in range(2) for j in range(3)]
    assert torch.allclose(on_plane, torch.tensor(expected), atol=1e-6)


def test_a_pose_turns_and_moves_rays():
    pose = views.look_at(
        torch.tensor([[0.0, 0.0, 5.0]]).double(), torch.zeros(3).double(), torch.tensor([0, 1.0, 0]).double()
    )
    assert torch.allclose(pose[0, :3, :3], torch.eye(3).double())
    side = views.look_at(
        torch.tensor([[5.0, 0, 0]]).double(), torch.zeros(3).double(), torch.tensor([0, 1.0, 0]).double()
    )
    shot = one_view(side[0], [10.0, 10.0, 0.5, 0.5, 0, 0, 0, 0], 1, 1)
    origin, direction = all_rays(shot)
    assert torch.allclose(origin, torch.tensor([[5.0, 0, 0]]))
    assert torch.allclose(direction, torch.tensor([[-1.0, 0, 0]]), atol=1e-7)
    assert torch.allclose(torch.linalg.det(side[0, :3, :3]), torch.tensor(1.0).double())


def test_a_ray_undoes_the_distortion_of_its_lens():
    k1, k2, p1, p2 = 0.08, -0.02, 0.003, -0.002
    u, v = 0.31, -0.22  # a point of the plane in front of the camera, y down as on pictures
    square = u * u + v * v
    radial = 1 + k1 * square + k2 * square**2
    x = 50 * (u * radial + 2 * p1 * u * v + p2 * (square + 2 * u * u)) + 32
    y = 60 * (v * radial + 2 * p2 * u * v + p1 * (square + 2 * v * v)) + 24
    lens = torch.tensor([[50.0, 60.0, 32.0, 24.0, k1, k2, p1, p2]], dtype=torch.float64)
    found = views.pixel_directions(torch.tensor([x]).double(), torch.tensor([y]).double(), lens)
    assert torch.allclose(found, torch.tensor([[u, -v, -1.0]]).double(), atol=1e-7)
    plain = views.pixel_directions(
        torch.tensor([x]).double(), torch.tensor([y]).double(), lens * torch.tensor([1.0] * 4 + [0.0] * 4)
    )
    assert not torch.allclose(plain, found, atol=1e-3)


def test_ray_numbers_are_pixels_in_order(scene):
    height, width = scene.train.shape
    number = torch.tensor([2 * height * width + 5 * width + 7])
    origin, _ = scene.train.rays(number)
    assert torch.allclose(origin[0], scene.train.poses[2, :3, 3].float())
    colour = scene.train.colors(number, torch.zeros(3))[0]
    assert torch.equal(colour, scene.train.images[2, 5, 7].float() / 255)


def test_what_is_see_through_lies_over_what_is_behind():
    pictures = torch.tensor([[[[255, 0, 0, 255], [255, 0, 0, 0], [0, 0, 0, 51]]]], dtype=torch.uint8)
    shot = Views(pictures, torch.eye(4).double()[None], torch.ones(1, 8).double(), ("a",))
    found = shot.colors(torch.arange(3), torch.tensor([0.0, 1.0, 1.0]))
    assert torch.allclose(found, torch.tensor([[1.0, 0, 0], [0, 1, 1], [0, 0.8, 0.8]]))


def test_held_out_cameras_keep_their_distance():
    found = scenes.render_scene(scenes.bumpy_torus(12, 6), train=40, held=8, side=4, fine=1)
    assert (len(found.train), len(found.held)) == (40, 8)
    held, train = (part.poses[:, :3, 3].numpy() for part in (found.held, found.train))
    apart = scenes.smallest_angle(held, train)
    assert apart >= scenes.MIN_ANGLE == 15
    assert found.about["degrees"] == pytest.approx(apart, abs=0.01)
    assert math.degrees(math.acos(0.5)) == pytest.approx(
        scenes.smallest_angle(np.array([[2.0, 0, 0]]), np.array([[0.5, math.sqrt(0.75), 0], [-1, 0, 0]]))
    )
    with pytest.raises(ValueError, match=r"with 400 cameras a held-out one is \d+\.\d degrees .* Ask for fewer views"):
        scenes.render_scene(scenes.bumpy_torus(12, 6), train=360, held=40, side=4, fine=1)


def test_a_ray_meets_the_nearest_triangle_where_it_is():
    """Against the intersection of one ray with every triangle, solved as three equations."""
    solid = scenes.bumpy_torus(24, 12)
    pose = views.look_at(
        torch.tensor([[1.0, 2.2, 2.5]]).double(), torch.zeros(3).double(), torch.tensor([0, 1.0, 0]).double()
    )[0].numpy()
    side = 16
    renderer = rendering.SolidRenderer(
        solid, solids.vertex_normals(solid), np.array([20.0, 20, 8, 8, 0, 0, 0, 0]), side, 1
    )
    face, weight = renderer.first_hits(pose)
    a, b, c = (solid.vertices[solid.faces[:, k]] for k in range(3))
    hits = 0
    for number in range(side * side):
        ray = pose[:3, :3] @ renderer.ray[number]
        system = np.stack([a - b, a - c, np.broadcast_to(ray, a.shape)], -1)
        beta, gamma, t = np.linalg.solve(system, (a - pose[:3, 3])[..., None])[..., 0].T
        inside = (beta >= 0) & (gamma >= 0) & (beta + gamma <= 1) & (t > 0)
        if not inside.any():
            assert face[number] == -1
            continue
        first = np.where(inside, t, np.inf).argmin()
        assert face[number] == first
        expected = [1 - beta[first] - gamma[first], beta[first], gamma[first]]
        np.testing.assert_allclose(weight[number], expected, atol=1e-9)
        hits += 1
    assert 60 < hits < side * side


def test_the_scene_is_the_same_wherever_the_memory_ends(monkeypatch, scene):
    monkeypatch.setattr(rendering, "CHUNK_PAIRS", 64)
    again = scenes.render_scene(scenes.bumpy_torus(40, 20), **COUNTS)
    assert torch.equal(again.train.images, scene.train.images)
    assert torch.equal(again.held.mask, scene.held.mask)


def test_the_mask_is_where_the_solid_is(scene):
    assert scene.train.mask is not None
    share = scene.train.mask.float().mean()
    assert 0.1 < share < 0.6
    number = (~scene.train.mask).reshape(-1).nonzero()[:, 0]
    _, direction = scene.train.rays(number)
    seen = scene.train.colors(number, torch.zeros(3))
    wrong = (seen - torch.from_numpy(solids.sky_color(direction.double().numpy())).float()).abs().amax(-1)
    assert float(wrong.median()) < 1 / 255  # far from the solid a pixel shows the sky, and nothing else
    inside = scene.train.mask.reshape(-1).nonzero()[:, 0]
    _, direction = scene.train.rays(inside)
    off = (
        scene.train.colors(inside, torch.zeros(3))
        - torch.from_numpy(solids.sky_color(direction.double().numpy())).float()
    )
    assert float(off.abs().amax(-1).median()) > 0.1


def test_the_sky_differs_by_direction_and_the_paint_by_place():
    around = torch.nn.functional.normalize(torch.randn(500, 3), dim=-1).double().numpy()
    assert (solids.sky_color(around).std(0) > 0.03).all()
    assert (solids.paint_color(around).std(0) > 0.1).all()
    assert solids.sky_color(around).min() >= 0
    assert solids.paint_color(around).max() <= 1
    eye = np.array([0.0, 0.0, 1.0])
    for shine, moved in ((scenes.bumpy_torus().shine, True), (0.0, False)):  # the highlight moves with the eye
        same = [solids.blinn_phong(np.zeros(3), solids_half(), towards, shine) for towards in (eye, -eye)]
        assert bool(np.abs(same[0] - same[1]).max() > 0.05) is moved


def solids_half() -> np.ndarray:
    """The normal that sends the first lamp's light towards +z."""
    lamp = np.array(solids.LIGHTS[0][0])
    half = lamp / np.linalg.norm(lamp) + np.array([0.0, 0.0, 1.0])
    return half / np.linalg.norm(half)


def test_the_torus_is_closed_and_faces_outwards():
    solid = scenes.bumpy_torus()
    edges = np.sort(np.concatenate([solid.faces[:, [k, (k + 1) % 3]] for k in range(3)]), -1)
    assert (np.unique(edges, axis=0, return_counts=True)[1] == 2).all()
    a, b, c = (solid.vertices[solid.faces[:, k]] for k in range(3))
    assert (a * np.cross(b, c)).sum() / 6 > 1  # the volume that the faces enclose, positive if they face outwards
    assert np.abs(solid.vertices).max() == pytest.approx(1)


@pytest.mark.data
def test_spot_is_a_solid_too():
    folder = os.environ.get("POSENC_DATA")
    if not folder or not (Path(folder) / "mesh" / "spot.npz").is_file():
        pytest.skip("POSENC_DATA names no folder with mesh/spot.npz")
    solid = scenes.load_spot(Path(folder) / "mesh" / "spot.npz")
    a, b, c = (solid.vertices[solid.faces[:, k]] for k in range(3))
    assert len(solid.faces) == 5856
    assert (a * np.cross(b, c)).sum() / 6 > 0.3


def test_a_file_that_is_no_mesh_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    for name in ("other.npz", "absent.npz"):
        with pytest.raises(ValueError, match=rf"{name} should hold a mesh as arrays v and f"):
            scenes.load_spot(tmp_path / name)


def test_psnr_is_the_mean_over_views_of_each_views_own():
    truth = np.zeros((2, 4, 4, 3), np.float32)
    made = truth.copy()
    made[0] += 0.1
    made[1, 0] += 0.01
    expected = (20 + -10 * math.log10(1e-4 / 4)) / 2
    assert scenes.psnr(made, truth) == pytest.approx(expected, abs=1e-4)
    mask = np.zeros((2, 4, 4), bool)
    mask[1, 0] = True
    assert scenes.psnr(made, truth, mask) == pytest.approx(40, abs=1e-4)
    assert scenes.psnr(truth, truth) == 100
    assert math.isnan(scenes.psnr(made, truth, np.zeros((2, 4, 4), bool)))


def test_ssim_is_one_for_equal_pictures_and_falls_with_noise():
    pytest.importorskip("skimage")
    truth = torch.rand(2, 16, 16, 3).numpy()
    assert scenes.ssim(truth, truth) == pytest.approx(1)
    noisy = scenes.ssim(truth + 0.2 * torch.randn(2, 16, 16, 3).numpy(), truth)
    assert noisy is not None
    assert noisy < 0.95
    assert scenes.ssim(truth[:, :8], truth[:, :8]) is None


def test_a_saved_scene_comes_back(tmp_path, scene):
    scenes.save_scene(scene, tmp_path / "a" / "scene.npz")
    scenes.save_scene(scene, tmp_path / "b.npz")
    assert (tmp_path / "a" / "scene.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["scene.npz"]
    again = scenes.load_scene(tmp_path / "b.npz")
    for split in ("train", "held"):
        one, other = getattr(scene, split), getattr(again, split)
        for part in ("images", "poses", "lenses", "mask"):
            assert torch.equal(getattr(one, part), getattr(other, part))
        assert one.names == other.names
    for name in ("low", "side", "up", "background", "about"):
        assert getattr(scene, name) == getattr(again, name)


def test_a_damaged_scene_is_refused(tmp_path, scene):
    path = tmp_path / "scene.npz"
    scenes.save_scene(scene, path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"scene\.npz is damaged or no scene of this posenc .* Delete it"):
        scenes.load_scene(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("about.json", '{"task": "latin-squares", "format": 1}')
    with pytest.raises(ValueError, match="it is of the task 'latin-squares', format 1"):
        scenes.load_scene(path)
    with pytest.raises(ValueError, match="there is no file"):
        scenes.load_scene(tmp_path / "absent.npz")


def test_the_cube_has_its_own_coordinates(scene):
    corner = torch.tensor([scene.low, [c + scene.side for c in scene.low]])
    assert torch.allclose(scene.to_unit_cube(corner), torch.tensor([[0.0] * 3, [1.0] * 3]), atol=1e-6)
    number = torch.arange(10)
    origin, direction = scene.rays(scene.train, number)
    world, same = scene.train.rays(number)
    assert torch.equal(direction, same)
    assert torch.allclose(origin * scene.side + torch.tensor(scene.low), world, atol=1e-5)


def test_a_turntable_goes_round_what_the_cameras_look_at(scene):
    around = scenes.turntable(scene, 6, 20)
    eye, ahead = around.poses[:, :3, 3], -around.poses[:, :3, 2]
    target = views.nearest_point_to_lines(scene.train.poses[:, :3, 3], -scene.train.poses[:, :3, 2])
    assert torch.allclose(target, torch.zeros(3).double(), atol=1e-9)
    assert torch.allclose(eye.norm(dim=-1), eye.norm(dim=-1)[:1].expand(6))
    assert torch.allclose(torch.linalg.cross(ahead, -eye), torch.zeros(6, 3).double(), atol=1e-9)
    steps = torch.atan2(eye[:, 2], eye[:, 0]).diff().abs()
    assert torch.allclose(torch.minimum(steps, 2 * math.pi - steps), torch.full((5,), math.pi / 3).double())
    assert around.shape == (20, 20)
    wide = scene.train.lenses[0, 0] / scene.train.shape[0]
    assert torch.allclose(around.lenses[:, 0] / 20, wide.expand(6))


def test_a_turntable_stays_on_the_arc_of_the_cameras(scene):
    """Cameras of a phone cover a quarter circle; behind it nothing was seen."""
    eye = scene.train.poses[:, :3, 3]
    angle = torch.atan2(eye[:, 2], eye[:, 0])
    near = [number for number in range(len(eye)) if 0 <= angle[number] <= math.pi / 2]
    part = dataclasses.replace(scene, train=scene.train.take(near))
    seen = angle[near]
    around = scenes.turntable(part, 24, 20).poses[:, :3, 3]
    turn = torch.atan2(around[:, 2], around[:, 0])
    assert float(turn.min()) >= float(seen.min()) - 0.2
    assert float(turn.max()) <= float(seen.max()) + 0.2
    assert float(turn.max() - turn.min()) > 0.5 * float(seen.max() - seen.min())
    step = turn.roll(-1) - turn
    assert float(step.abs().max()) < 0.4  # to and fro, without a jump at the end


def test_memory_is_counted_before_it_is_taken():
    memory.require_memory(10, "a scene", "Take less.", limit=10)
    with pytest.raises(ValueError, match=r"a scene needs 3\.00 GiB of memory, and 1\.00 are free\. Take less\."):
        memory.require_memory(3 * 2**30, "a scene", "Take less.", limit=2**30)
    found = memory.free_memory()
    assert found is None or found > 2**20
