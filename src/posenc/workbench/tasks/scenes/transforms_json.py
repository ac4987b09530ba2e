"""A user's scene: a folder of images with ``transforms.json`` in the NeRF convention.

Blender's synthetic scenes have ``transforms_train.json``, ``_val`` and ``_test`` with ``camera_angle_x``, the field of
view in radians, and a ``file_path`` without suffix. instant-ngp and nerfstudio write one ``transforms.json`` with
``fl_x fl_y cx cy w h`` and optionally ``k1 k2 p1 p2``, for all frames or for each, and a ``file_path`` with suffix.
``train_filenames`` and ``test_filenames`` (or ``val_``) split it; otherwise every eighth frame in the order of names is
held out. ``aabb_scale``, ``scale`` and ``offset`` have the meaning of instant-ngp: a point p of the world is at
scale p + offset in its cube, with defaults 0.33 and 0.5, and the scene fills the cube [0.5 - s/2, 0.5 + s/2]^3, where s
is the aabb_scale. A single file with none of the three (nerfstudio's) does not define the cube. Its cube is then
centered at the point nearest to the cameras' lines of sight. Relative to the distance of the cameras it is as large as
instant-ngp's cube in Blender's scenes.

Poses are camera to world, with OpenGL axes (``views``). All content of a file is checked; an error names file and
frame.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
import torch

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.dataset_record import DatasetRecord, Part
from posenc.workbench.files.user_files import kind_of, read_bytes, read_text, refuse_special, short
from posenc.workbench.memory import require_memory
from posenc.workbench.tasks import single_image
from posenc.workbench.tasks.equal_items import TEST, TRAINING, equal_items_note, file_keys
from posenc.workbench.tasks.scenes.lens_file import (
    ANGLES,
    FARTHEST,
    FOCAL_LENGTHS,
    LENS_NAMES,
    as_float,
    is_number,
    lens_parameters,
)
from posenc.workbench.tasks.scenes.views import LENS_PARAMETERS, Background, Scene, Views, nearest_point_to_lines

SPLITS = ("train", "val", "test")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".PNG", ".JPG", ".JPEG")
HOLD_OUT_EVERY = 8
"""Without a given split, every eighth frame is held out, beginning with the first, as is usual since LLFF."""
LEAST_TRAINING = 3
"""Fewest frames to learn from in a scene of whose frames some have no image."""
ORTHONORMAL = 1e-3
MIN_MEAN_UP = 0.1
"""If the mean of the cameras' up vectors is shorter than this, they do not agree, and z is up."""
CUBE_REACH = 0.375
"""Half of the cube's side over the distance of the cameras, where the file defines no cube: 1.5 / 4 as in Blender."""


JSON_MEMORY, MOST_DIGITS = 40, 400
"""Bytes of memory per byte of a JSON file while it is read, and digits of a whole number that are read as one."""


class Frame(NamedTuple):
    """One entry of ``frames``.

    Attributes:
        label: File, number and path of the frame, for messages.
        path: The image file.
        pose: ``(4, 4)`` camera to world.
        lens: Lens parameters that the file states.
        file_path: ``file_path`` as written in the file, by which split lists name frames.
    """

    label: str
    path: Path
    pose: np.ndarray
    lens: Mapping[str, Any]
    file_path: str


def read_scene(folder: str | Path, *, side: int | None = None, held: int | None = None) -> Scene:
    """Read the scene in a folder.

    Args:
        folder: The folder.
        side: Largest side of the images in pixels. Larger images are reduced by the smallest whole factor that
            suffices, each pixel the mean of a block.
        held: Largest number of held-out views, chosen evenly from the first to the last.

    Raises:
        ValueError: A file is missing, unreadable or inconsistent, or the images do not fit in memory. The message names
            the file and the frame.
    """
    folder = Path(folder)
    files = _split_files(folder)
    parts = {split: _frames(path, content) for split, (path, content) in files.items()}
    train, rest = _split_frames(parts, files)
    _refuse_known_views(train, rest)
    listed = sum(len(content["frames"]) for _, content in files.values())
    absent = listed - sum(map(len, parts.values()))
    if absent and (len(train) < LEAST_TRAINING or not rest):
        raise ValueError(
            f"{folder}: {absent} of {listed} frames have no image, and {len(train)} to learn from and {len(rest)} to "
            f"test are left; a scene needs {LEAST_TRAINING} and 1. Add the images."
        )
    if held is not None and len(rest) > held:
        rest = [rest[round(n * (len(rest) - 1) / max(held - 1, 1))] for n in range(held)]
    first = files["train"][1]
    views = _load_views([*train, *rest], side)
    low, size = _scene_cube(first, files["train"][0], views, single="test" not in files and "val" not in files)
    opaque = views.images.shape[-1] == 3
    background: Background = "learned" if opaque else "random"
    up = views.poses[:, :3, 1].mean(0)
    up = up / up.norm() if up.norm() > MIN_MEAN_UP else up.new_tensor([0.0, 0.0, 1.0])
    about: dict[str, Any] = {
        "files": sorted(path.name for path, _ in files.values()), "frames": len(train) + len(rest)
    }  # fmt: skip
    about |= {"without image": absent, "listed": listed} if absent else {}
    entries = [entry for _, content in files.values() for entry in content["frames"]]
    masked = sum(isinstance(entry, dict) and bool(entry.get("mask_path")) for entry in entries)
    about |= {"masks": masked} if masked else {}
    keys = {TRAINING: file_keys([frame.path for frame in train]), TEST: file_keys([frame.path for frame in rest])}
    about |= {"equal views": note} if (note := equal_items_note(keys, "views", drawn=False)) else {}
    trained, held_out = list(range(len(train))), list(range(len(train), len(views)))
    return Scene(views.take(trained), views.take(held_out), low, size, (*map(float, up),), background, about)  # type: ignore[arg-type]


def scene_digest(folder: str | Path, *, side: int | None = None, held: int | None = None) -> str:
    """Digest (16 hex digits) of everything that ``read_scene`` reads: the bytes of every file, and the arguments."""
    digest = hashlib.sha256(json.dumps([side, held]).encode())
    files = _split_files(Path(folder))
    for split, (path, content) in files.items():
        digest.update(split.encode() + read_bytes(path))
        for frame in _frames(path, content):
            digest.update(frame.file_path.encode() + hashlib.sha256(read_bytes(frame.path)).digest())
    return digest.hexdigest()[:16]


def scene_files(folder: str | Path) -> list[Path]:
    """List every file that ``read_scene`` reads, each once."""
    files = _split_files(Path(folder)).values()
    return sorted({each for path, content in files for each in (path, *(f.path for f in _frames(path, content)))})


def scene_record(scene: Scene, digest: str, folder: Path, *, side: int | None, held: int | None) -> DatasetRecord:
    """Record of the scene in a folder.

    Args:
        scene: The scene.
        digest: Digest of the contents of its files.
        folder: The folder.
        side: Largest side of the images in pixels, as in ``read_scene``.
        held: Largest number of held-out views.

    Returns:
        The record.
    """
    height, width = scene.train.shape
    limits = {"longest side at most": side, "held-out views at most": held}
    return DatasetRecord(
        kind="scene",
        name=folder.resolve().name,
        digest=digest,
        parts=tuple(
            Part(name=name, counts={"views": len(views)})
            for name, views in (("training", scene.train), ("test", scene.held))
        ),
        options={"size": f"{height} x {width} pixels", "background": scene.background}
        | {name: value for name, value in limits.items() if value is not None},
        left_out=(*_frames_without_image(scene), *_masks(scene), *filter(None, [scene.about.get("equal views", "")])),
        own=True,
    )


def _frames_without_image(scene: Scene) -> tuple[str, ...]:
    """Sentence on the frames of the file that have no image; nothing where all have one."""
    absent, listed = scene.about.get("without image", 0), scene.about.get("listed", 0)
    verb = "has no image and is" if absent == 1 else "have no image and are"
    return (f"{absent} of {listed} frames {verb} left out.",) if absent else ()


def _masks(scene: Scene) -> tuple[str, ...]:
    """Sentence on masks that the file names, which are not read; nothing where it names none."""
    masked = scene.about.get("masks", 0)
    return (f"Not read: the masks of {count_of(masked, 'frames')}; what they hide is learned too.",) if masked else ()


def _split_files(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """JSON files of a folder by split; a single file for all frames is "train"."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; a scene is a folder with transforms.json and its images.")
    paths = {split: folder / f"transforms_{split}.json" for split in SPLITS}
    for path in (*paths.values(), folder / "transforms.json"):
        refuse_special(path, "a file of cameras")
        _refuse_link(folder, Path(path.name), path.name)
    paths = {split: path for split, path in paths.items() if path.is_file()}
    if "test" in paths:
        paths.pop("val", None)
    if "train" not in paths:
        whole = folder / "transforms.json"
        if not whole.is_file():
            raise ValueError(
                f"{folder} holds neither transforms.json nor transforms_train.json. COLMAP's cameras become one by "
                "instant-ngp's scripts/colmap2nerf.py or nerfstudio's ns-process-data."
            )
        paths = {"train": whole}
    return {split: (path, _read_json(path)) for split, path in paths.items()}


def _read_json(path: Path) -> dict[str, Any]:
    text = read_text(path, JSON_MEMORY, "a JSON file")
    try:
        # as floats, 5,000 digits are infinite, and are refused where the number is used, with the frame
        content = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < MOST_DIGITS else float(digits))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} cannot be read as JSON: {short(error)}.") from None
    if not isinstance(content, dict) or not isinstance(content.get("frames"), list):
        raise ValueError(f"{path.name} should be an object with a list `frames`; it has none.")
    if not content["frames"]:
        raise ValueError(f"{path.name} has no frames: its list `frames` is empty.")
    model = "OPENCV_FISHEYE" if content.get("is_fisheye") else content.get("camera_model", "OPENCV")
    if model not in ("OPENCV", "PINHOLE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL"):
        raise ValueError(
            f"{path.name} has the camera model {short(repr(model), 60)}; the models OPENCV and PINHOLE can be read. "
            "Undistort the images first."
        )
    return content


def _frames(path: Path, content: Mapping[str, Any]) -> list[Frame]:
    frames = []
    for number, entry in enumerate(content["frames"]):
        label = f"{path.name}, frame {number}"
        if not isinstance(entry, dict) or not isinstance(entry.get("file_path"), str):
            raise ValueError(f"{label}: an entry of `frames` needs a text `file_path`; this one has none.")
        label += f" ({short(entry['file_path'], 80)})"
        angle = any(name in entry for name in ANGLES) and not any(name in entry for name in FOCAL_LENGTHS)
        of_file = {name: value for name, value in content.items() if not (angle and name in FOCAL_LENGTHS)}
        lens = {name: entry.get(name, of_file.get(name)) for name in LENS_NAMES}
        place = _image_path(path.parent, entry["file_path"], label)
        if place is None:  # left out, as by instant-ngp and nerfstudio
            continue
        frames.append(Frame(label, place, _pose(entry.get("transform_matrix"), label), lens, entry["file_path"]))
    if not frames:
        raise ValueError(
            f"{path.name}: none of its {len(content['frames'])} frames has an image, such as "
            f"{short(repr(content['frames'][0]['file_path']), 80)}. Put the images into the folder of the scene."
        )
    return frames


def _image_path(folder: Path, file_path: str, label: str) -> Path | None:
    """Path of a frame's image, inside the folder and behind no link; Blender's names have no suffix. None without one.

    Raises ValueError for a path that leads out of the folder, and for a link.
    """
    inside = Path(file_path.replace("\\", "/"))
    if inside.is_absolute() or PureWindowsPath(file_path).drive or ".." in inside.parts or not inside.name:
        raise ValueError(
            f"{label}: `file_path` leads out of the folder of the scene. Put the images into the folder, and name them "
            "from there: images/0001.png."
        )
    for candidate in (inside, *(inside.with_name(inside.name + suffix) for suffix in SUFFIXES)):
        _refuse_link(folder, candidate, label)
        if kind_of(folder / candidate) != "a folder":  # a folder may have the name of an image without its suffix
            refuse_special(folder / candidate, "an image")
        if kind_of(folder / candidate) == "a file":
            return folder / candidate
    return None


def _refuse_link(folder: Path, inside: Path, label: str) -> None:
    """Raise ValueError where a file of a folder, or a folder on the way to it, is a link."""
    place = folder
    for part in inside.parts:
        place /= part
        try:
            linked = place.is_symlink()
        except (OSError, ValueError):  # a name too long for the system, or with a null character
            return
        if linked:
            raise ValueError(
                f"{label}: {short(str(place))} is a link, and a scene is read from its own folder alone. Copy the file "
                "into the folder."
            )


def _pose(given: Any, label: str) -> np.ndarray:
    rows = given if isinstance(given, list) else []
    if len(rows) != 4 or not all(isinstance(row, list) and len(row) == 4 and all(map(is_number, row)) for row in rows):
        raise ValueError(f"{label}: `transform_matrix` should be 4 rows of 4 numbers; got {short(repr(given), 60)}.")
    pose = np.array([[as_float(value) for value in row] for row in rows])
    if not np.abs(pose).max() <= FARTHEST:
        raise ValueError(f"{label}: `transform_matrix` holds a number that is not finite or above {FARTHEST:g}.")
    if np.abs(pose[3] - (0, 0, 0, 1)).max() > 1e-6:
        raise ValueError(f"{label}: the last row of `transform_matrix` should be 0 0 0 1; got {pose[3].tolist()}.")
    rotation = pose[:3, :3]
    off = np.abs(rotation.T @ rotation - np.eye(3)).max()
    if off > ORTHONORMAL:
        raise ValueError(
            f"{label}: the rotation of `transform_matrix` is not orthonormal, with an error of {off:.2g} (allowed "
            f"{ORTHONORMAL:g}). Put a scaling of the scene into the translations."
        )
    if np.linalg.det(rotation) < 0:
        raise ValueError(
            f"{label}: the rotation of `transform_matrix` is a mirror image (determinant -1). A camera's "
            "columns are right, up and backwards: negate the one that is not."
        )
    return pose


def _split_frames(
    parts: Mapping[str, list[Frame]], files: Mapping[str, tuple[Path, Mapping[str, Any]]]
) -> tuple[list[Frame], list[Frame]]:
    """Training frames and held-out frames."""
    train = parts["train"]
    for other in ("test", "val"):
        if other in parts:
            return train, parts[other]
    path, content = files["train"]
    lists = {split: content.get(f"{split}_filenames") for split in SPLITS}
    for split, names in lists.items():
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise ValueError(
                f"{path.name}: `{split}_filenames` should be a list of texts; got {short(repr(names), 60)}."
            )
    listed = {split: names for split, names in lists.items() if names}
    rest = listed.get("test") or listed.get("val")
    if rest:
        first = listed.get("train") or [frame.file_path for frame in train if frame.file_path not in rest]
        known = {entry["file_path"] for entry in content["frames"]}
        missing = [name for name in (*first, *rest) if name not in known]
        if missing:
            raise ValueError(f"{path.name} splits its frames by name and has no frame {short(repr(missing[0]), 80)}.")
        if twice := sorted({*first} & {*rest}):
            other = "test_filenames" if listed.get("test") else "val_filenames"
            raise ValueError(
                f"{path.name} has {twice[0]!r} among the training frames and among the held-out frames, so that a "
                f"known view would be scored. List it in only one of train_filenames and {other}."
            )
        chosen = (
            [frame for frame in train if frame.file_path in set(first)],
            [f for f in train if f.file_path in set(rest)],
        )
    else:
        in_order = sorted(train, key=lambda frame: frame.file_path)
        chosen = [f for n, f in enumerate(in_order) if n % HOLD_OUT_EVERY], in_order[::HOLD_OUT_EVERY]
    if not chosen[0]:
        raise ValueError(f"{path.name} has {len(train)} frame, all held out; a scene needs at least two.")
    return chosen


def _refuse_known_views(train: Sequence[Frame], rest: Sequence[Frame]) -> None:
    """Raise ValueError for a held-out frame whose image is that of a training frame."""
    known = {frame.path: frame.label for frame in train}
    for frame in rest:
        if frame.path in known:
            raise ValueError(
                f"{frame.label}: its image is also that of a training frame ({known[frame.path]}), so that a known "
                "view would be scored. Leave it out of one of the two."
            )


def _load_views(frames: Sequence[Frame], side: int | None) -> Views:
    """Images of all frames, of one size, with alpha where any image has it."""
    first = _read_rgb(frames[0])
    step = 1 if side is None else -(-max(first.shape[:2]) // side)
    height, width = first.shape[0] // step, first.shape[1] // step
    require_memory(
        9 * len(frames) * height * width,
        f"{frames[0].label} and {len(frames) - 1} more images of {width} x {height} pixels",
        "Make the images smaller, or take fewer frames.",
    )
    whole = np.full((len(frames), height, width, 4), 255, dtype=np.uint8)
    lenses = np.zeros((len(frames), len(LENS_PARAMETERS)))
    has_alpha = False
    for number, frame in enumerate(frames):
        raw = first if number == 0 else _read_rgb(frame)
        if raw.shape[:2] != first.shape[:2]:
            raise ValueError(
                f"{frame.label}: the image has {raw.shape[1]} x {raw.shape[0]} pixels, and that of "
                f"{frames[0].label} has {first.shape[1]} x {first.shape[0]}; all of a scene need one size."
            )
        has_alpha = has_alpha or raw.shape[-1] == 4
        whole[number, ..., : raw.shape[-1]] = _downscale_blocks(raw, step)
        lenses[number] = lens_parameters(frame.label, frame.lens, raw.shape[1], raw.shape[0], step)
    mask = None
    if has_alpha:
        mask = torch.from_numpy(whole[..., 3] >= 128)
    else:
        whole = np.ascontiguousarray(whole[..., :3])
    poses = torch.from_numpy(np.stack([frame.pose for frame in frames]))
    names = tuple(frame.file_path for frame in frames)
    return Views(torch.from_numpy(whole), poses, torch.from_numpy(lenses), names, mask)


def _read_rgb(frame: Frame) -> np.ndarray:
    """Pixels ``(H, W, 3 or 4)`` of a frame's image, 8 bits, as stored: COLMAP's poses ignore the camera's tag."""
    try:
        pixels = single_image.read_image(frame.path, upright=False)
    except ValueError as error:
        raise ValueError(f"{frame.label}: {error}") from None
    if pixels.dtype == np.uint16:
        pixels = np.rint(pixels / 257).astype(np.uint8)
    if pixels.shape[-1] < 3:  # gray, perhaps with alpha
        pixels = np.concatenate([np.repeat(pixels[..., :1], 3, -1), pixels[..., 1:]], -1)
    return pixels


def _downscale_blocks(image: np.ndarray, step: int) -> np.ndarray:
    """Means of ``step x step`` blocks, colors weighted by alpha; incomplete blocks at the end are cut off."""
    if step == 1:
        return image
    height, width = image.shape[0] // step, image.shape[1] // step
    blocks = image[: height * step, : width * step].astype(np.float64)
    weight = blocks[..., 3:] if blocks.shape[-1] == 4 else np.ones((*blocks.shape[:2], 1))
    blocks = np.concatenate([blocks[..., :3] * weight, weight], -1)
    sums = blocks.reshape(height, step, width, step, 4).mean((1, 3))
    color = sums[..., :3] / np.maximum(sums[..., 3:], 1e-12)
    parts = [color, sums[..., 3:]] if image.shape[-1] == 4 else [color]
    return np.round(np.concatenate(parts, -1)).astype(np.uint8)


def _scene_cube(
    content: Mapping[str, Any], path: Path, views: Views, single: bool
) -> tuple[tuple[float, float, float], float]:
    """Lower corner and side, in the world, of the cube that holds the scene."""
    stated = {name: content[name] for name in ("scale", "aabb_scale", "offset") if content.get(name) is not None}
    if single and not stated:
        middle = nearest_point_to_lines(views.poses[:, :3, 3], -views.poses[:, :3, 2])
        half = CUBE_REACH * float((views.poses[:, :3, 3] - middle).norm(dim=-1).median())
        corner = (middle - half).tolist()
        return (corner[0], corner[1], corner[2]), 2 * half
    factor, wide, offset = stated.get("scale", 0.33), stated.get("aabb_scale", 1), stated.get("offset", 0.5)
    offset = offset if isinstance(offset, list) else [offset] * 3
    if len(offset) == 3 and all(map(is_number, (factor, wide, *offset))):
        factor, wide, middle = as_float(factor), as_float(wide), np.array([as_float(each) for each in offset])
    else:
        factor, wide, middle = math.nan, math.nan, np.zeros(3)
    if not (1 / FARTHEST < factor < FARTHEST and 1 / FARTHEST < wide < FARTHEST and np.abs(middle).max() < FARTHEST):
        raise ValueError(
            f"{path.name}: `scale` and `aabb_scale` should be numbers above 0 and `offset` one or three numbers; got "
            + ", ".join(f"{name} {short(repr(value), 40)}" for name, value in stated.items())
            + "."
        )
    low = (0.5 - wide / 2 - middle) / factor
    return (float(low[0]), float(low[1]), float(low[2])), wide / factor
