"""Distances, sides and surfaces of meshes, against closed forms and against sums over every triangle."""

import doctest

import numpy as np
import pytest
import torch

from posenc.workbench.tasks import shapes
from posenc.workbench.tasks.shapes import (
    Mesh,
    MeshTree,
    Placement,
    PoolSizes,
    Shape,
    cuboid,
    distance,
    meshes,
    rendering,
    surfaces,
)

pytestmark = pytest.mark.bare

SMALL = PoolSizes(uniform=500, near=400, surface=300, held=600)


def ball(resolution=24, radius=0.3):
    """A sphere of radius 0.3 in the unit cube, as marching cubes has it."""
    values = (surfaces.lattice_points(resolution) - 0.5).norm(dim=1) - radius
    mesh = shapes.marching_cubes(values.reshape(3 * (resolution,)).numpy())
    assert mesh is not None
    return mesh


def sphere():
    return Shape("ball", ball(), Placement(2.0, (0.1, 0.2, 0.3)), ("a note",))


def box(side=0.5):
    return Mesh(cuboid(side, side, side)[0] + 0.5, cuboid(1, 1, 1)[1])


def rough(seed=0, count=60):
    """Triangles of all sizes and shapes, slivers among them, that are not the surface of a solid."""
    rng = np.random.default_rng(seed)
    corners = rng.random((count, 1, 3)) + rng.standard_normal((count, 3, 3)) * 10 ** rng.uniform(-3, 0, (count, 1, 1))
    return Mesh(corners.reshape(-1, 3), np.arange(3 * count).reshape(-1, 3))


def nearest_by_search(mesh, point):
    """The distance to the nearest of very many points of every triangle."""
    u, v = np.meshgrid(np.linspace(0, 1, 60), np.linspace(0, 1, 60))
    u, v = u[u + v <= 1], v[u + v <= 1]
    a, b, c = mesh.corners.swapaxes(0, 1)[:, :, None]
    return np.linalg.norm((1 - u - v)[:, None] * a + u[:, None] * b + v[:, None] * c - point, axis=-1).min()


def test_the_examples_of_the_module():
    assert doctest.testmod(shapes).failed == 0


# distance ----------------------------------------------------------------------------------------------------------


def test_distance_to_a_box_is_the_closed_form():
    rng = np.random.default_rng(0)
    points = rng.random((400, 3)) * 1.6 - 0.3
    d, face = MeshTree(box()).distance(points)
    off = np.abs(points - 0.5) - 0.25
    outside, inside = np.linalg.norm(np.maximum(off, 0), axis=1), -np.minimum(off.max(1), 0)
    np.testing.assert_allclose(d, outside + inside, atol=1e-12)
    signed = shapes.signed_distance(MeshTree(box()), points)
    np.testing.assert_allclose(signed, outside - inside, atol=1e-12)
    assert set(face) <= set(range(12))


@pytest.mark.parametrize("count", [1, 3, 5, 60, 300])
def test_the_tree_finds_the_nearest_of_all_triangles(count):
    mesh, rng = rough(count=count), np.random.default_rng(1)
    points = rng.random((50, 3)) * 2 - 0.5
    d, face = MeshTree(mesh).distance(points)
    every = (
        np.stack([distance._squared_triangle_distance(np.tile(point, (count, 1)), mesh.corners) for point in points])
        ** 0.5
    )
    np.testing.assert_allclose(d, every.min(1), atol=1e-12)
    np.testing.assert_allclose(every[np.arange(50), face], d, atol=1e-9)


def test_a_triangle_is_as_far_as_the_nearest_of_its_points():
    mesh, rng = rough(seed=2, count=12), np.random.default_rng(2)
    points = rng.random((40, 3)) * 2 - 0.5
    d, _ = MeshTree(mesh).distance(points)
    searched = np.array([nearest_by_search(mesh, point) for point in points])
    assert (searched >= d - 1e-12).all()
    edges = np.linalg.norm(mesh.corners - mesh.corners[:, [1, 2, 0]], axis=-1).max()
    assert (searched - d < edges / 59).all()


def test_a_ball_has_the_distance_of_a_sphere():
    rng = np.random.default_rng(0)
    points = rng.random((300, 3))
    signed = shapes.signed_distance(MeshTree(ball(40)), points)
    sphere = np.linalg.norm(points - 0.5, axis=1) - 0.3
    np.testing.assert_allclose(signed, sphere, atol=1.5e-3)
    assert ((signed < 0) == (sphere < 0))[np.abs(sphere) > 2e-3].all()


# sides -------------------------------------------------------------------------------------------------------------


def solid_angles(mesh, points):
    every = (distance.solid_angle(np.tile(p, (len(mesh.faces), 1)), mesh.corners).sum() for p in points)
    return np.array(list(every)) / (4 * np.pi)


def test_the_winding_number_of_a_closed_surface_is_whole():
    rng = np.random.default_rng(0)
    points = rng.random((200, 3))
    w = solid_angles(ball(), points)
    np.testing.assert_allclose(w, np.linalg.norm(points - 0.5, axis=1) < 0.299, atol=1e-9)
    np.testing.assert_allclose(MeshTree(ball()).winding(points), w, atol=distance.WINDING_MARGIN / 2)


def test_the_winding_number_of_an_open_surface_is_a_fraction():
    half = Mesh(ball().vertices, ball().faces[ball().corners[:, :, 2].max(1) <= 0.5])  # a bowl
    assert not half.watertight
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.random((200, 3)), 0.5 + 0.05 * rng.standard_normal((50, 3))])
    w, approximate = solid_angles(half, points), MeshTree(half).winding(points)
    assert 0.45 < solid_angles(half, np.full((1, 3), 0.5))[0] < 0.55
    assert np.abs(w - w.round()).max() > 0.2
    np.testing.assert_allclose(approximate, w, atol=distance.WINDING_MARGIN / 2)
    sure = np.abs(w - 0.5) < distance.WINDING_MARGIN / 2  # summed without dipoles
    assert sure.sum() > 5
    np.testing.assert_allclose(approximate[sure], w[sure], atol=1e-12)


def test_a_nested_or_doubled_surface_counts_twice():
    faces = np.concatenate([box().faces, box().faces + 8])
    doubled = Mesh(np.concatenate([box().vertices, box(0.2).vertices]), faces)
    points = np.array([[0.5, 0.5, 0.5], [0.7, 0.5, 0.5], [0.9, 0.9, 0.9]])
    np.testing.assert_allclose(solid_angles(doubled, points), [2, 1, 0], atol=1e-12)


# samples -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool():
    return shapes.make_pool(sphere(), SMALL)


def test_a_pool_says_what_is_true_of_its_points(pool):
    for known, count in ((pool.uniform, 500), (pool.near, 400), (pool.held, 600), (pool.boxed, 600)):
        assert known.points.shape == (count, 3)
        sphere = (known.points - 0.5).norm(dim=1) - 0.3
        assert (known.distance - sphere).abs().max() < 5e-3
        assert torch.equal(known.inside, known.distance < 0)
        assert known.points.min() >= 0
        assert known.points.max() <= 1
    assert pool.near.distance.abs().mean() < 0.2 * pool.uniform.distance.abs().mean()
    assert (pool.boxed.points - 0.5).abs().max() <= 0.3
    outward = (pool.surface - 0.5) / 0.3
    assert (outward.norm(dim=1) - 1).abs().max() < 0.02
    assert (outward * pool.normals).sum(1).min() > 0.95


def test_uniform_points_have_a_cell_each():
    points = shapes.samples.stratified_points(1000, np.random.default_rng(0))
    assert len(np.unique((points * 10).astype(int), axis=0)) == 1000
    assert np.linalg.norm(np.diff(points, axis=0), axis=1).max() < 0.4  # neighbours stand side by side
    assert shapes.samples.stratified_points(7, np.random.default_rng(0)).shape == (7, 3)


def test_surface_points_are_even_in_area():
    mesh = box()
    large = Mesh(mesh.vertices * [1, 1, 3], mesh.faces)
    _, face = shapes.samples.surface_points(large, 2000, np.random.default_rng(0))
    share = np.bincount(face, minlength=12) / 2000
    np.testing.assert_allclose(share, large.areas / large.areas.sum(), atol=2 / 2000)


def test_a_batch_is_a_function_of_seed_and_step(pool):
    a, b = (shapes.draw_batch(pool, 64, seed=3, step=5) for _ in range(2))
    assert torch.equal(a.known.points, b.known.points)
    assert torch.equal(a.free, b.free)
    for other in (shapes.draw_batch(pool, 64, seed=3, step=6), shapes.draw_batch(pool, 64, seed=4, step=5)):
        assert not torch.equal(a.known.points, other.known.points)
    assert len(a.known.points) == 48
    assert a.known.distance.shape == a.known.winding.shape == (48,)
    assert len(a.surface) == len(a.normals) == len(a.free) == 16


def test_a_batch_spreads_over_the_whole_pool(pool):
    batch = shapes.draw_batch(pool, 64, seed=0, step=0)
    place = [int((pool.surface == point).all(1).nonzero()[0, 0]) for point in batch.surface]
    run = 300 / 16
    assert all(i * run - 1 < n < (i + 1) * run for i, n in enumerate(place))


def test_a_pool_is_the_same_from_the_same_seed_and_survives_a_file(pool, tmp_path):
    again = shapes.make_pool(sphere(), SMALL)
    shapes.save_pool(again, tmp_path / "data" / "pool.npz")
    back = shapes.load_pool(tmp_path / "data" / "pool.npz")
    for name in shapes.samples.LABELED_PARTS:
        for part, other in zip(getattr(pool, name), getattr(back, name), strict=True):
            assert torch.equal(part, other)
    assert torch.equal(pool.surface, back.surface)
    assert torch.equal(pool.normals, back.normals)
    assert back.shape.mesh.digest() == pool.shape.mesh.digest()
    assert (back.shape.name, back.shape.notes) == ("ball", ("a note",))
    assert back.shape.placement == pool.shape.placement
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["pool.npz"]
    assert not torch.equal(shapes.make_pool(sphere(), SMALL, seed=1).held.points, pool.held.points)


def test_a_damaged_pool_is_refused(pool, tmp_path):
    shapes.save_pool(pool, tmp_path / "pool.npz")
    (tmp_path / "pool.npz").write_bytes((tmp_path / "pool.npz").read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"pool.npz holds no points of a shape .* Remove it"):
        shapes.load_pool(tmp_path / "pool.npz")
    np.savez(tmp_path / "new.npz", format=shapes.samples.FORMAT + 1)
    with pytest.raises(ValueError, match="it is of format"):
        shapes.load_pool(tmp_path / "new.npz")


@pytest.mark.parametrize("sizes", [{"near": 0}, {"sigmas": ()}, {"sigmas": (0.1, 0.0)}])
def test_a_pool_of_nothing_is_refused(sizes):
    with pytest.raises(ValueError, match="at least one point of each kind and one spread above 0"):
        PoolSizes(**sizes)


# scores and surfaces -----------------------------------------------------------------------------------------------


def test_intersection_over_union():
    a, b = torch.tensor([1, 1, 1, 0, 0]).bool(), torch.tensor([0, 1, 1, 1, 0]).bool()
    assert shapes.iou(a, b) == 0.5
    assert shapes.iou(a, a) == 1.0
    assert shapes.iou(a, ~a) == 0.0
    assert shapes.iou(a & ~a, a & ~a) == 1.0
    assert shapes.iou(a, b, torch.tensor([3.0, 1, 1, 1, 100])) == pytest.approx(2 / 6)


def test_equal_surfaces_are_not_apart_and_moved_ones_are_by_how_far():
    same = shapes.surface_error(ball(), ball(), points=500)
    assert same.chamfer < 1e-12
    assert same.normal_error < 1e-3
    larger = shapes.surface_error(ball(32, 0.33), ball(32, 0.3), points=500)
    assert larger.chamfer * ball(32).diagonal == pytest.approx(0.03, abs=1e-3)
    assert larger.normal_error < 5
    turned = Mesh(ball().vertices, ball().faces[:, ::-1])
    assert shapes.surface_error(turned, ball(), points=500).normal_error < 1e-3  # lines, not arrows
    missing = Mesh(ball().vertices, ball().faces[ball().corners[:, :, 2].max(1) <= 0.5])
    assert shapes.surface_error(missing, ball(), points=500).chamfer > 0.02  # what lacks counts as what is too much
    assert shapes.surface_error(ball(), box(0.48), points=500).normal_error > 10


@pytest.mark.full
def test_a_foam_is_as_far_away_as_by_a_tree_of_all_of_it(monkeypatch):
    values = np.random.default_rng(0).standard_normal((24, 24, 24))
    foam, truth = shapes.marching_cubes(values), ball(32)
    assert foam is not None
    place, _ = surfaces.surface_points(truth, 50, np.random.default_rng(1))
    near = surfaces._nearby_faces(foam, place)
    assert len(near.faces) < 0.8 * len(foam.faces)
    (d, face), (known, same) = (MeshTree(mesh).distance(place) for mesh in (near, foam))
    np.testing.assert_array_equal(d, known)
    np.testing.assert_array_equal(near.faces[face], foam.faces[same])
    whole = shapes.surface_error(foam, truth, points=3000)
    monkeypatch.setattr(surfaces, "NOISE_FACES", 10)
    assert shapes.surface_error(foam, truth, points=3000) == pytest.approx(
        whole, rel=0.03
    )  # other points of the same foam
    assert shapes.surface_error(truth, truth, points=500).chamfer < 1e-12


def test_marching_cubes_gives_a_closed_surface_outward():
    mesh = ball(32)
    assert mesh.watertight
    assert mesh.volume == pytest.approx(4 / 3 * np.pi * 0.3**3, rel=0.02)


def test_marching_cubes_closes_what_reaches_the_cube_and_finds_nothing_in_nothing():
    halves = shapes.marching_cubes((surfaces.lattice_points(9)[:, 0] - 0.5).reshape(9, 9, 9).numpy())
    assert halves is not None
    assert halves.watertight
    assert halves.volume == pytest.approx(0.5, rel=0.3)  # it ends somewhere in the layer of cells outside
    assert shapes.marching_cubes(np.ones((4, 4, 4))) is None
    assert shapes.marching_cubes(-np.ones((4, 4, 4))) is None
    assert shapes.marching_cubes(np.full((4, 4, 4), np.nan)) is None


@pytest.mark.parametrize("resolution", [13, 30])
def test_distances_on_a_lattice_are_exact_where_the_surface_is(resolution):
    mesh = Mesh(box(0.3).vertices + 0.07, box().faces)
    found = surfaces.lattice_distances(MeshTree(mesh), resolution)
    exact = shapes.signed_distance(MeshTree(mesh), surfaces.lattice_points(resolution).numpy()).reshape(
        3 * (resolution,)
    )
    assert ((found < 0) == (exact < 0)).all()
    near = np.abs(exact) < 2 / (resolution - 1)
    assert near.any()
    np.testing.assert_allclose(found[near], exact[near], atol=1e-7)
    assert (np.abs(found) <= np.abs(exact) + 1e-7).all()


def test_fields_are_sampled_in_parts(monkeypatch):
    monkeypatch.setattr(surfaces, "CHUNK_POINTS", 10)
    points = surfaces.lattice_points(4)
    asked = []
    values = shapes.evaluate_field(lambda x: asked.append(len(x)) or x[:, 0], points)
    assert torch.equal(values, points[:, 0])
    assert max(asked) <= 10
    with pytest.raises(ValueError, match="at least 2 points per axis"):
        surfaces.lattice_points(1)


def test_a_slice_is_a_picture_of_a_plane_with_y_up():
    points = shapes.slice_points(4, at=0.25).reshape(4, 4, 3)
    assert (points[..., 0] == 0.25).all()
    assert points[0, 0].tolist() == [0.25, 0.875, 0.125]
    assert points[-1, 1].tolist() == [0.25, 0.125, 0.375]


# pictures ----------------------------------------------------------------------------------------------------------


def test_a_ball_is_drawn_as_a_lit_disc():
    picture = shapes.render_mesh(ball(), 64)
    assert picture.shape == (64, 64, 3)
    assert picture.dtype == np.uint8
    shape = (picture != rendering.BACKGROUND_COLOR).any(-1)
    assert shape.mean() == pytest.approx(np.pi * (0.3 / rendering.VIEW_SIDE) ** 2, rel=0.08)
    rows, columns = np.nonzero(shape)
    assert abs(rows.mean() - 31.5) < 0.5
    assert abs(columns.mean() - 31.5) < 0.5
    brightness = picture.sum(-1) * shape
    upper_left, lower_right = brightness[16:32, 16:32].sum(), brightness[32:48, 32:48].sum()
    assert upper_left > 1.2 * lower_right


def test_the_nearest_surface_is_seen():
    """A small ball before a box's front is drawn, one behind its back is not."""
    camera = rendering.camera_direction()
    front, behind = (Mesh(ball(16, 0.1).vertices + side * 0.6 * camera, ball(16, 0.1).faces) for side in (1, -1))
    wall = box(0.5)
    alone = shapes.render_mesh(wall, 48)

    def together(other):
        return Mesh(np.concatenate([wall.vertices, other.vertices]), np.concatenate([wall.faces, other.faces + 8]))

    assert (shapes.render_mesh(together(behind), 48) != alone).mean() < 0.001
    assert (shapes.render_mesh(together(front), 48) != alone).any(-1).mean() > 0.01


def test_faces_are_drawn_in_parts(monkeypatch):
    whole = shapes.render_mesh(ball(), 48)
    monkeypatch.setattr(rendering, "CHUNK_PAIRS", 500)
    np.testing.assert_array_equal(shapes.render_mesh(ball(), 48), whole)


def test_no_surface_is_an_empty_picture():
    assert (shapes.render_mesh(None, 16) == rendering.BACKGROUND_COLOR).all()


def test_margins_and_placements():
    shape = shapes.place_in_cube("box", Mesh(*cuboid(4, 2, 1)), margin=0.1)
    low, high = shape.mesh.box
    np.testing.assert_allclose(low, [0.1, 0.3, 0.4])
    np.testing.assert_allclose(high, [0.9, 0.7, 0.6])
    np.testing.assert_allclose(shape.placement.from_cube(shape.mesh.vertices), cuboid(4, 2, 1)[0])
    assert str(shape.placement) == "x = 0.2 y + (0.5, 0.5, 0.5)"
    with pytest.raises(ValueError, match="margin is a share"):
        shapes.place_in_cube("box", Mesh(*cuboid(4, 2, 1)), margin=0.5)
    assert meshes.MARGIN < 0.5
