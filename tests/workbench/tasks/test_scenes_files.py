"""Folders with transforms.json: both conventions read, every mistake told with its file and frame."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from posenc.workbench import memory
from posenc.workbench.tasks import scenes
from posenc.workbench.tasks.scenes import views

PIL = pytest.importorskip("PIL.Image")

EYES = torch.tensor([[1.0, 0.2, 0.3], [0.1, -0.4, 1], [-1, 0.5, 0], [0.3, 1, 0.4]], dtype=torch.float64)
POSES = views.look_at(
    4 * torch.nn.functional.normalize(EYES, dim=-1),
    torch.zeros(3, dtype=torch.float64),
    torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64),
).tolist()


def paint(path: Path, width: int = 6, height: int = 4, channels: int = 3, seed: int = 0) -> np.ndarray:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.fromarray(pixels[..., 0] if channels == 1 else pixels).save(path)
    return pixels


def blender(folder: Path, channels: int = 4, splits: tuple[str, ...] = ("train", "test")) -> dict[str, dict]:
    contents = {}
    for split in splits:
        frames = []
        for number, pose in enumerate(POSES):
            paint(folder / split / f"r_{number}.png", channels=channels, seed=number)
            frames.append({"file_path": f"./{split}/r_{number}", "rotation": 0.01, "transform_matrix": pose})
        contents[split] = {"camera_angle_x": 0.7, "frames": frames}
        write(folder, contents[split], split)
    return contents


def single(folder: Path, count: int = 4, **told: object) -> dict:
    frames = []
    for number in range(count):
        paint(folder / "images" / f"{number:04}.png", seed=number)
        frames.append({"file_path": f"images/{number:04}.png", "transform_matrix": POSES[number % 4]})
    content = {"fl_x": 7.0, "fl_y": 8.0, "cx": 3.1, "cy": 2.2, "w": 6, "h": 4, "frames": frames, **told}
    write(folder, content)
    return content


def write(folder: Path, content: object, split: str = "") -> None:
    name = f"transforms_{split}.json" if split else "transforms.json"
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def test_blenders_files(tmp_path):
    blender(tmp_path)
    scene = scenes.read_scene(tmp_path)
    assert (len(scene.train), len(scene.held), scene.train.shape) == (4, 4, (4, 6))
    focal = 0.5 * 6 / math.tan(0.35)
    assert torch.allclose(scene.train.lenses, torch.tensor([focal, focal, 3, 2, 0, 0, 0, 0]).double().expand(4, 8))
    assert torch.allclose(scene.train.poses, torch.tensor(POSES).double())
    assert scene.background == "random"
    assert scene.side == pytest.approx(1 / 0.33)
    assert scene.low == pytest.approx((-0.5 / 0.33,) * 3)
    pixels = np.random.default_rng(1).integers(0, 256, (4, 6, 4), dtype=np.uint8)
    assert np.array_equal(scene.held.images[1].numpy(), pixels)
    assert scene.held.mask is not None
    assert np.array_equal(scene.held.mask[1].numpy(), pixels[..., 3] >= 128)
    assert scene.up[2] > 0.7


def test_pictures_without_alpha_have_no_mask_and_a_background_to_learn(tmp_path):
    blender(tmp_path, channels=3, splits=("train", "val"))
    scene = scenes.read_scene(tmp_path)
    assert scene.train.images.shape[-1] == 3
    assert scene.train.mask is None
    assert scene.background == "learned"


def test_one_file_holds_out_every_eighth_frame(tmp_path):
    single(tmp_path, 10, aabb_scale=4, scale=0.5, offset=[0.5, 0.5, 0.0], k1=0.1, p2=-0.01)
    scene = scenes.read_scene(tmp_path)
    assert scene.held.names == ("images/0000.png", "images/0008.png")
    assert len(scene.train) == 8
    assert torch.allclose(scene.train.lenses[0], torch.tensor([7.0, 8.0, 3.1, 2.2, 0.1, 0, 0, -0.01]).double())
    assert scene.side == pytest.approx(8)
    assert scene.low == pytest.approx((-4, -4, -3))


def test_frames_may_stand_in_any_order_and_be_written_as_windows_does(tmp_path):
    content = single(tmp_path, 10)
    content["frames"] = content["frames"][::-1]
    content["frames"][3]["file_path"] = ".\\images\\0006.png"
    write(tmp_path, content)
    scene = scenes.read_scene(tmp_path)
    assert scene.held.names == (".\\images\\0006.png", "images/0008.png")
    assert len(scene.train) == 8


def test_blenders_third_file_is_not_read_where_the_test_is_there(tmp_path):
    blender(tmp_path)
    write(tmp_path, {"frames": [{"file_path": "./val/r_0"}]}, "val")
    assert scenes.read_scene(tmp_path).held.names[0] == "./test/r_0"


def test_cameras_that_agree_on_no_up_have_z(tmp_path):
    content = single(tmp_path)
    for entry, angle in zip(content["frames"], (0, math.pi / 2, math.pi, 3 * math.pi / 2), strict=True):
        turn = [[math.cos(angle), -math.sin(angle), 0, 0], [math.sin(angle), math.cos(angle), 0, 0]]
        entry["transform_matrix"] = [*turn, [0, 0, 1, 4], [0, 0, 0, 1]]
    write(tmp_path, content)
    assert scenes.read_scene(tmp_path).up == (0.0, 0.0, 1.0)


def test_one_file_that_names_its_split(tmp_path):
    names = [f"images/{number:04}.png" for number in range(4)]
    single(tmp_path, train_filenames=names[:2], val_filenames=names[2:3], test_filenames=names[3:])
    scene = scenes.read_scene(tmp_path)
    assert scene.train.names == tuple(names[:2])
    assert scene.held.names == tuple(names[3:])


def test_a_file_that_says_nothing_of_its_cube_has_one_about_what_is_looked_at(tmp_path):
    single(tmp_path)
    scene = scenes.read_scene(tmp_path)
    assert scene.side == pytest.approx(2 * 0.375 * 4)
    assert scene.low == pytest.approx((-1.5,) * 3)


def test_a_frame_may_have_a_lens_of_its_own(tmp_path):
    content = single(tmp_path)
    content["frames"][2] |= {"fl_x": 9.0, "k1": 0.2}
    write(tmp_path, content)
    scene = scenes.read_scene(tmp_path)
    assert scene.train.lenses[1].tolist() == [9.0, 8.0, 3.1, 2.2, 0.2, 0, 0, 0]


def test_large_pictures_are_made_smaller_with_their_lens(tmp_path):
    blender(tmp_path)
    scene = scenes.read_scene(tmp_path, side=3, held=2)
    assert scene.train.shape == (2, 3)
    focal = 0.5 * 6 / math.tan(0.35)
    assert torch.allclose(scene.train.lenses[0, :4], torch.tensor([focal, focal, 3, 2]).double() / 2)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 4), dtype=np.uint8).astype(float)
    block = pixels[:2, :2].reshape(4, 4)
    expected = [*(block[:, :3] * block[:, 3:]).sum(0) / block[:, 3].sum(), block[:, 3].mean()]
    assert np.abs(scene.train.images[0, 0, 0].numpy() - np.round(expected)).max() <= 1e-9
    assert scene.held.names == ("./test/r_0", "./test/r_3")


def test_a_smaller_copy_of_the_pictures_that_the_file_speaks_of(tmp_path):
    single(tmp_path, w=12, h=8)
    scene = scenes.read_scene(tmp_path)
    assert torch.allclose(scene.train.lenses[0, :4], torch.tensor([3.5, 4.0, 1.55, 1.1]).double())


def test_the_digest_follows_what_is_read(tmp_path):
    content = single(tmp_path)
    first = scenes.scene_digest(tmp_path, side=100)
    assert first == scenes.scene_digest(tmp_path, side=100) != scenes.scene_digest(tmp_path, side=50)
    paint(tmp_path / "images" / "0001.png", seed=77)
    second = scenes.scene_digest(tmp_path, side=100)
    content["frames"][0]["transform_matrix"][0][3] += 0.5
    write(tmp_path, content)
    assert len({first, second, scenes.scene_digest(tmp_path, side=100)}) == 3


def test_further_distortion_is_refused_and_masks_are_said(tmp_path):
    content = single(tmp_path, k1=0.1, k3=0.0, k4=0)
    scene = scenes.read_scene(tmp_path)
    assert scene.train.lenses[0, 4] == 0.1
    content["frames"][0]["mask_path"] = "masks/0.png"
    write(tmp_path, content)
    record = scenes.scene_record(scenes.read_scene(tmp_path), "0", tmp_path, side=None, held=None)
    assert record.left_out == ("Not read: the masks of 1 frame; what they hide is learned too.",)
    content["frames"][1]["k3"] = 0.02
    write(tmp_path, content)
    with pytest.raises(ValueError, match=r"frame 1 .*: the lens has k3 = 0\.02; .* Undistort the images first"):
        scenes.read_scene(tmp_path)


def test_frames_without_an_image_are_left_out_with_one_line(tmp_path):
    """The fox of instant-ngp lists 67 frames and has 50 images."""
    content = single(tmp_path, count=12)
    for number in (0, 3, 5, 7):
        (tmp_path / "images" / f"{number:04}.png").unlink()
    scene = scenes.read_scene(tmp_path)
    assert (len(scene.train), len(scene.held)) == (7, 1)
    digest = scenes.scene_digest(tmp_path)
    record = scenes.scene_record(scene, digest, tmp_path, side=None, held=None)
    assert record.left_out == ("4 of 12 frames have no image and are left out.",)
    names = [frame["file_path"] for frame in content["frames"]]
    write(tmp_path, content | {"train_filenames": names[:10], "test_filenames": names[10:]})
    scene = scenes.read_scene(tmp_path)
    assert (len(scene.train), len(scene.held)) == (6, 2)
    for number in (1, 2, 4, 6):
        (tmp_path / "images" / f"{number:04}.png").unlink()
    with pytest.raises(ValueError, match=r"8 of 12 frames have no image, and 2 to learn from and 2 to test are left"):
        scenes.read_scene(tmp_path)
    for path in (tmp_path / "images").glob("*.png"):
        path.unlink()
    with pytest.raises(ValueError, match=r"none of its 12 frames has an image, such as 'images/0000\.png'"):
        scenes.read_scene(tmp_path)


def broken_pose(**entries: float) -> list[list[float]]:
    pose = [list(row) for row in POSES[1]]
    for place, value in entries.items():
        pose[int(place[1])][int(place[2])] = value
    return pose


SCALED = [[1.01 * x for x in row[:3]] + row[3:] for row in POSES[1][:3]] + [[0, 0, 0, 1]]
MIRROR = [[-row[0], *row[1:]] for row in POSES[1][:3]] + [[0, 0, 0, 1]]
FRAME = r"transforms\.json, frame 1 \(images/0001\.png\)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file_path": 3}, r"transforms\.json, frame 1: an entry of `frames` needs a text `file_path`"),
        ({"transform_matrix": None}, rf"{FRAME}: `transform_matrix` should be 4 rows of 4 numbers"),
        ({"transform_matrix": POSES[1][:3]}, rf"{FRAME}: .* should be 4 rows of 4 numbers; got \[\["),
        ({"transform_matrix": [[1], [2, 3]]}, rf"{FRAME}: .* 4 rows of 4 numbers"),
        ({"transform_matrix": broken_pose(r00=math.nan)}, rf"{FRAME}: .* holds a number that is not finite"),
        ({"transform_matrix": broken_pose(r33=2.0)}, rf"{FRAME}: the last row .* should be 0 0 0 1"),
        ({"transform_matrix": SCALED}, rf"{FRAME}: .* is not orthonormal, with an error of 0\.02 \(allowed 0\.001\)"),
        ({"transform_matrix": MIRROR}, rf"{FRAME}: .* is a mirror image"),
        ({"fl_x": "long"}, rf"{FRAME}: `fl_x` should be a number; got 'long'"),
        ({"w": 60}, rf"{FRAME}: the file states 60 x 4 pixels, and the image has 6 x 4"),
        ({"fl_x": -1.0}, rf"{FRAME}: neither the frame nor its file states fl_x above 0"),
    ],
)  # fmt: skip
def test_a_wrong_frame_is_told(tmp_path, change, message):
    content = single(tmp_path)
    content["frames"][1] |= change
    write(tmp_path, content)
    with pytest.raises(ValueError, match=message):
        scenes.read_scene(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"transforms\.json cannot be read as JSON"),
        ("[1]", r"transforms\.json should be an object with a list `frames`"),
        ({"frames": []}, r"transforms\.json has no frames"),
        ({"frames": [1], "camera_model": "OPENCV_FISHEYE"}, r"camera model 'OPENCV_FISHEYE'; .* Undistort"),
        ({"frames": [1], "is_fisheye": True}, r"camera model 'OPENCV_FISHEYE'"),
    ],
)
def test_a_wrong_file_is_told(tmp_path, content, message):
    write(tmp_path, content)
    with pytest.raises(ValueError, match=message):
        scenes.read_scene(tmp_path)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"aabb_scale": 0}, r"transforms\.json: `scale` and `aabb_scale` .* above 0 .* got aabb_scale 0\."),
        ({"offset": [1, 2]}, r"transforms\.json: .* `offset` one or three numbers; got offset \[1, 2\]"),
        (
            {"train_filenames": ["images/0001.png", "images/0002.png"], "val_filenames": ["images/0002.png"]},
            r"transforms\.json has 'images/0002\.png' among .* held-out.* in only one of train_filenames and val_f",
        ),
        ({"test_filenames": ["images/9.png"]}, r"transforms\.json splits its .* has no frame 'images/9"),
        (
            {"fl_x": None, "fl_y": None},
            r"frame 1 .*: neither the frame nor its file states fl_x above 0, or camera_angle_x",
        ),
    ],
)  # fmt: skip
def test_a_wrong_setting_of_a_file_is_told(tmp_path, told, message):
    if told.get("fl_x", 1) is None:
        content = single(tmp_path)
        write(tmp_path, {name: value for name, value in content.items() if name not in told})
    else:
        single(tmp_path, **told)
    with pytest.raises(ValueError, match=message):
        scenes.read_scene(tmp_path)


def test_a_known_view_is_not_held_out(tmp_path):
    contents = blender(tmp_path)
    scene = scenes.read_scene(tmp_path)  # equal images under other names
    record = scenes.scene_record(scene, "digest", tmp_path, side=None, held=None)
    assert record.left_out == (
        "Of 4 test views 4 are equal to one of the training views: the score counts what a network remembers.",
    )
    contents["test"]["frames"][1]["file_path"] = "./train/r_2"
    write(tmp_path, contents["test"], "test")
    with pytest.raises(
        ValueError, match=r"transforms_test\.json, frame 1 .* is also that of a training frame \(transf"
    ):
        scenes.read_scene(tmp_path)
    twice = single(tmp_path / "once", count=9)
    twice["frames"].append(twice["frames"][0])
    write(tmp_path / "once", twice)
    with pytest.raises(ValueError, match=r"a known view would be scored\. Leave it out of one"):
        scenes.read_scene(tmp_path / "once")


def test_a_field_of_view_of_a_frame_goes_before_the_focal_length_of_its_file(tmp_path):
    content = single(tmp_path)
    content["frames"][2]["camera_angle_x"] = 1.2
    write(tmp_path, content)
    lenses = scenes.read_scene(tmp_path).train.lenses
    assert lenses[0, :2].tolist() == [7, 8]
    assert lenses[1, :2].tolist() == pytest.approx([3 / math.tan(0.6)] * 2)


def test_pixels_are_those_that_the_poses_belong_to(tmp_path):
    single(tmp_path)
    pixels = np.random.default_rng(1).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    tags = PIL.Exif()
    tags[274] = 3  # the camera was upside down
    PIL.fromarray(pixels).save(tmp_path / "images" / "0001.png", exif=tags)
    scene = scenes.read_scene(tmp_path)
    assert np.array_equal(scene.train.images[0].numpy(), pixels)


def test_pictures_of_two_sizes_are_told(tmp_path):
    content = single(tmp_path)
    paint(tmp_path / "images" / "0003.png", width=7)
    write(tmp_path, {name: value for name, value in content.items() if name not in ("w", "h")})
    with pytest.raises(
        ValueError, match=r"frame 3 \(images/0003\.png\): the image has 7 x 4 pixels, and that of .*0001"
    ):
        scenes.read_scene(tmp_path)


def test_a_picture_that_does_not_decode_is_told(tmp_path):
    single(tmp_path)
    (tmp_path / "images" / "0002.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"frame 2 \(images/0002\.png\): .*does not decode as an image"):
        scenes.read_scene(tmp_path)


def test_no_folder_and_no_file(tmp_path):
    with pytest.raises(ValueError, match=r"is not a folder; a scene is a folder with transforms\.json"):
        scenes.read_scene(tmp_path / "absent")
    with pytest.raises(ValueError, match=r"holds neither transforms\.json nor transforms_train\.json"):
        scenes.read_scene(tmp_path)
    single(tmp_path, 1)
    with pytest.raises(ValueError, match="has 1 frame, all held out"):
        scenes.read_scene(tmp_path)


def test_pictures_that_do_not_fit_in_memory_are_refused_with_the_number(tmp_path, monkeypatch):
    single(tmp_path)
    monkeypatch.setattr(memory, "free_memory", lambda: 500)
    with pytest.raises(ValueError, match=r"and 3 more images of 6 x 4 pixels needs 0\.00 GiB of memory"):
        scenes.read_scene(tmp_path)


def test_grey_and_palette_pictures_are_read_as_colours(tmp_path):
    single(tmp_path)
    pixels = paint(tmp_path / "images" / "0001.png", channels=1)
    scene = scenes.read_scene(tmp_path)
    assert np.array_equal(scene.train.images[0].numpy(), np.repeat(pixels, 3, -1))
