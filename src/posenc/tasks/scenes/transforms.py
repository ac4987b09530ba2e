"""A user's own scene: a folder of pictures with ``transforms.json`` in the NeRF convention.

Blender's synthetic scenes have ``transforms_train.json``, ``_val`` and ``_test`` with ``camera_angle_x``, the width of
view in radians, and a ``file_path`` without suffix. What instant-ngp and nerfstudio write is one ``transforms.json``
with ``fl_x fl_y cx cy w h``, perhaps ``k1 k2 p1 p2``, for all frames or for each, and ``file_path`` with a suffix;
``train_filenames`` and ``test_filenames`` (or ``val_``) divide it, else every eighth frame in the order of names is
held out. ``aabb_scale``, ``scale`` and ``offset`` mean what they mean to instant-ngp: the point p of the world is
scale p + offset of its cube, 0.33 and 0.5 where nothing is said, and the scene fills the cube [0.5 - s/2, 0.5 + s/2]^3,
s the aabb_scale. A single file with none of the three (nerfstudio's) leaves it open: its cube is about the point that
the cameras look at most nearly, as large beside their distance from it as instant-ngp's is in Blender's scenes.

Poses are camera to world, OpenGL axes (``views``). Nothing in a file is believed: each error names file and frame.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from posenc.tasks import pictures
from posenc.tasks.room import refuse_beyond
from posenc.tasks.scenes.views import LENS, Background, Scene, Views, gaze

SPLITS = ("train", "val", "test")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".PNG", ".JPG", ".JPEG")
EVERY = 8
"""Of a folder that says nothing else, every eighth frame is held out, from the first on: the custom since LLFF."""
ORTHONORMAL = 1e-3
LEVEL = 0.1
"""Cameras whose mean up is shorter do not agree on one, and z is up."""
REACH = 0.375
"""Half a cube's side beside the distance of the cameras, where the file does not say: 1.5 beside Blender's 4."""


class Frame(NamedTuple):
    """One entry of a file: where its picture is, its pose, and what is said of its lens."""

    label: str
    path: Path
    pose: np.ndarray
    lens: Mapping[str, Any]
    written: str
    """``file_path`` as the file has it, by which split lists name frames."""


def read(folder: str | Path, *, side: int | None = None, held: int | None = None) -> Scene:
    """The scene in a folder.

    side: pictures larger than this are made smaller by the least whole number that makes them fit, each pixel the mean
    of a block. held: at most so many held-out views are kept, evenly from the first to the last.

    Raises ValueError, one sentence with the file and the frame, for what is missing, unreadable or inconsistent, and
    for pictures that will not fit in memory.
    """
    folder = Path(folder)
    files = _files(folder)
    parts = {split: _frames(path, content) for split, (path, content) in files.items()}
    train, rest = _divide(parts, files)
    if held is not None and len(rest) > held:
        rest = [rest[round(n * (len(rest) - 1) / max(held - 1, 1))] for n in range(held)]
    first = files["train"][1]
    views = _pictures([*train, *rest], side)
    low, size = _cube(first, files["train"][0], views, single="test" not in files and "val" not in files)
    opaque = views.pictures.shape[-1] == 3
    background: Background = "learned" if opaque else "random"
    up = views.poses[:, :3, 1].mean(0)
    up = up / up.norm() if up.norm() > LEVEL else up.new_tensor([0.0, 0.0, 1.0])
    about = {"files": sorted(path.name for path, _ in files.values()), "frames": len(train) + len(rest)}
    here, there = list(range(len(train))), list(range(len(train), len(views)))
    return Scene(views.take(here), views.take(there), low, size, (*map(float, up),), background, about)  # type: ignore[arg-type]


def digest(folder: str | Path, *, side: int | None = None, held: int | None = None) -> str:
    """Sixteen hex digits of what ``read`` would read: every file's bytes, and how they are read."""
    found = hashlib.sha256(json.dumps([side, held]).encode())
    files = _files(Path(folder))
    for split, (path, content) in files.items():
        found.update(split.encode() + path.read_bytes())
        for frame in _frames(path, content):
            found.update(frame.written.encode() + hashlib.sha256(frame.path.read_bytes()).digest())
    return found.hexdigest()[:16]


def _files(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """The JSON files of a folder by split, those that are read; one file for all is "train"."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; a scene is a folder with transforms.json and its pictures.")
    found = {split: folder / f"transforms_{split}.json" for split in SPLITS}
    found = {split: path for split, path in found.items() if path.is_file()}
    if "test" in found:
        found.pop("val", None)
    if "train" not in found:
        whole = folder / "transforms.json"
        if not whole.is_file():
            raise ValueError(
                f"{folder} holds neither transforms.json nor transforms_train.json. COLMAP's cameras become one by "
                "instant-ngp's scripts/colmap2nerf.py or nerfstudio's ns-process-data."
            )
        found = {"train": whole}
    return {split: (path, _content(path)) for split, path in found.items()}


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name} is not JSON that can be read: {error}.") from None
    if not isinstance(content, dict) or not isinstance(content.get("frames"), list):
        raise ValueError(f"{path.name} should be an object with a list `frames`; it has none.")
    if not content["frames"]:
        raise ValueError(f"{path.name} has no frames: its list `frames` is empty.")
    model = content.get("camera_model", "OPENCV")
    if model not in ("OPENCV", "PINHOLE", "SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL") or content.get("is_fisheye"):
        raise ValueError(
            f"{path.name} is of the camera model {'OPENCV_FISHEYE' if content.get('is_fisheye') else model!r}; the "
            "models OPENCV and PINHOLE can be read. Undistort the pictures first."
        )
    return content


def _frames(path: Path, content: Mapping[str, Any]) -> list[Frame]:
    found = []
    for number, entry in enumerate(content["frames"]):
        label = f"{path.name}, frame {number}"
        if not isinstance(entry, dict) or not isinstance(entry.get("file_path"), str):
            raise ValueError(f"{label}: an entry of `frames` needs a text `file_path`; this one has none.")
        label += f" ({entry['file_path']})"
        lens = {
            name: entry.get(name, content.get(name)) for name in (*LENS, "camera_angle_x", "camera_angle_y", "w", "h")
        }
        place = _place(path.parent, entry["file_path"], label)
        found.append(Frame(label, place, _pose(entry.get("transform_matrix"), label), lens, entry["file_path"]))
    return found


def _place(folder: Path, written: str, label: str) -> Path:
    """Where a frame's picture is; Blender's names have no suffix."""
    plain = folder / written.replace("\\", "/")
    for candidate in (plain, *(plain.with_name(plain.name + suffix) for suffix in SUFFIXES)):
        if candidate.is_file():
            return candidate
    raise ValueError(
        f"{label}: there is no picture {plain}, nor one with a suffix such as .png or .jpg. Put it there, or "
        "take the frame out of the file."
    )


def _pose(given: Any, label: str) -> np.ndarray:
    try:
        pose = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        pose = np.zeros(0)
    if pose.shape != (4, 4):
        raise ValueError(f"{label}: `transform_matrix` should be 4 rows of 4 numbers; its shape is {pose.shape}.")
    if not np.isfinite(pose).all():
        raise ValueError(f"{label}: `transform_matrix` holds a number that is not finite.")
    if np.abs(pose[3] - (0, 0, 0, 1)).max() > 1e-6:
        raise ValueError(f"{label}: the last row of `transform_matrix` should be 0 0 0 1; got {pose[3].tolist()}.")
    turn = pose[:3, :3]
    off = np.abs(turn.T @ turn - np.eye(3)).max()
    if off > ORTHONORMAL:
        raise ValueError(
            f"{label}: the rotation of `transform_matrix` is not orthonormal, it misses by {off:.2g} (allowed "
            f"{ORTHONORMAL:g}). Put a scaling of the scene into the translations."
        )
    if np.linalg.det(turn) < 0:
        raise ValueError(
            f"{label}: the rotation of `transform_matrix` is a mirror image (determinant -1). A camera's "
            "columns are right, up and backwards: negate the one that is not."
        )
    return pose


def _divide(
    parts: Mapping[str, list[Frame]], files: Mapping[str, tuple[Path, Mapping[str, Any]]]
) -> tuple[list[Frame], list[Frame]]:
    """Frames to train on and frames held out."""
    train = parts["train"]
    for other in ("test", "val"):
        if other in parts:
            return train, parts[other]
    path, content = files["train"]
    lists = {split: content.get(f"{split}_filenames") for split in SPLITS}
    named = {split: names for split, names in lists.items() if isinstance(names, list) and names}
    rest = named.get("test") or named.get("val")
    if rest:
        kept = named.get("train") or [frame.written for frame in train if frame.written not in rest]
        lost = [name for name in (*kept, *rest) if name not in {frame.written for frame in train}]
        if lost:
            raise ValueError(f"{path.name} divides its frames by name and has no frame {lost[0]!r}.")
        if twice := sorted({*kept} & {*rest}):
            raise ValueError(
                f"{path.name} has {twice[0]!r} among the frames to train on and among those held out, so that what is "
                f"known would be asked. Name it in one of train_filenames and {'test' if named.get('test') else 'val'}"
                "_filenames."
            )
        chosen = [frame for frame in train if frame.written in set(kept)], [f for f in train if f.written in set(rest)]
    else:
        in_order = sorted(train, key=lambda frame: frame.written)
        chosen = [f for n, f in enumerate(in_order) if n % EVERY], in_order[::EVERY]
    if not chosen[0]:
        raise ValueError(f"{path.name} has {len(train)} frame, all held out; a scene needs at least two.")
    return chosen


def _pictures(frames: Sequence[Frame], side: int | None) -> Views:
    """The pictures of all frames, of one size, with alpha where any has it."""
    first = _open(frames[0])
    step = 1 if side is None else -(-max(first.shape[:2]) // side)
    height, width = first.shape[0] // step, first.shape[1] // step
    refuse_beyond(
        9 * len(frames) * height * width,
        f"{frames[0].label} and {len(frames) - 1} more pictures of {width} x {height} pixels",
        "Make the pictures smaller, or take fewer frames.",
    )
    whole = np.full((len(frames), height, width, 4), 255, dtype=np.uint8)
    lenses = np.zeros((len(frames), len(LENS)))
    see_through = False
    for number, frame in enumerate(frames):
        raw = first if number == 0 else _open(frame)
        if raw.shape[:2] != first.shape[:2]:
            raise ValueError(
                f"{frame.label}: the picture has {raw.shape[1]} x {raw.shape[0]} pixels, and that of "
                f"{frames[0].label} has {first.shape[1]} x {first.shape[0]}; all of a scene need one size."
            )
        see_through = see_through or raw.shape[-1] == 4
        whole[number, ..., : raw.shape[-1]] = _smaller(raw, step)
        lenses[number] = _lens(frame, raw.shape[1], raw.shape[0], step)
    mask = None
    if see_through:
        mask = torch.from_numpy(whole[..., 3] >= 128)
    else:
        whole = np.ascontiguousarray(whole[..., :3])
    poses = torch.from_numpy(np.stack([frame.pose for frame in frames]))
    names = tuple(frame.written for frame in frames)
    return Views(torch.from_numpy(whole), poses, torch.from_numpy(lenses), names, mask)


def _open(frame: Frame) -> np.ndarray:
    """Pixels ``(H, W, 3 or 4)`` of a frame's picture, 8 bits."""
    try:
        found = pictures.read(frame.path)
    except ValueError as error:
        raise ValueError(f"{frame.label}: {error}") from None
    if found.dtype == np.uint16:
        found = np.rint(found / 257).astype(np.uint8)
    if found.shape[-1] < 3:  # grey, perhaps with an alpha
        found = np.concatenate([np.repeat(found[..., :1], 3, -1), found[..., 1:]], -1)
    return found


def _smaller(picture: np.ndarray, step: int) -> np.ndarray:
    """The means of ``step x step`` blocks, colours weighted by their alpha; what is over at the end is cut off."""
    if step == 1:
        return picture
    height, width = picture.shape[0] // step, picture.shape[1] // step
    blocks = picture[: height * step, : width * step].astype(np.float64)
    weight = blocks[..., 3:] if blocks.shape[-1] == 4 else np.ones((*blocks.shape[:2], 1))
    blocks = np.concatenate([blocks[..., :3] * weight, weight], -1)
    sums = blocks.reshape(height, step, width, step, 4).mean((1, 3))
    colour = sums[..., :3] / np.maximum(sums[..., 3:], 1e-12)
    parts = [colour, sums[..., 3:]] if picture.shape[-1] == 4 else [colour]
    return np.round(np.concatenate(parts, -1)).astype(np.uint8)


def _lens(frame: Frame, width: int, height: int, step: int) -> list[float]:
    """The numbers of ``LENS`` for the picture as it is kept."""
    told = {}
    for name, value in frame.lens.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{frame.label}: `{name}` should be a number; got {value!r}.")
        told[name] = float(value)
    for name, there in (("w", width), ("h", height)):
        told[name] = told.get(name, there)
    scale = width / told["w"] if told["w"] > 0 else math.nan
    if not (told["h"] > 0 and abs(height / told["h"] / scale - 1) < 0.01):
        raise ValueError(
            f"{frame.label}: the file says {told['w']:g} x {told['h']:g} pixels, and the picture has {width} x "
            f"{height}, which is no smaller copy of that."
        )
    for axis, size, name in (("x", told["w"], "fl_x"), ("y", told["h"], "fl_y")):
        angle = told.get(f"camera_angle_{axis}")
        if name not in told and angle is not None and 0 < angle < math.pi:
            told[name] = 0.5 * size / math.tan(0.5 * angle)
    focal = told.get("fl_x", told.get("fl_y"))
    if focal is None or not focal > 0 or not told.get("fl_y", focal) > 0:
        raise ValueError(
            f"{frame.label}: neither it nor its file says fl_x above 0, or camera_angle_x below pi. Write "
            "the focal length in pixels, fl_x."
        )
    told = {"fl_x": focal, "fl_y": focal, "cx": told["w"] / 2, "cy": told["h"] / 2} | told
    pixels = [told[name] * scale / step for name in LENS[:4]]
    return pixels + [told.get(name, 0.0) for name in LENS[4:]]


def _cube(
    content: Mapping[str, Any], path: Path, views: Views, single: bool
) -> tuple[tuple[float, float, float], float]:
    """The corner and the side, in the world, of the cube that holds the scene."""
    told = {name: content[name] for name in ("scale", "aabb_scale", "offset") if content.get(name) is not None}
    if single and not told:
        middle = gaze(views.poses[:, :3, 3], -views.poses[:, :3, 2])
        half = REACH * float((views.poses[:, :3, 3] - middle).norm(dim=-1).median())
        corner = (middle - half).tolist()
        return (corner[0], corner[1], corner[2]), 2 * half
    try:
        factor, wide = float(told.get("scale", 0.33)), float(told.get("aabb_scale", 1))
        middle = np.broadcast_to(np.array(told.get("offset", 0.5), dtype=np.float64), 3)
    except (TypeError, ValueError):
        factor, wide, middle = math.nan, math.nan, np.zeros(3)
    if not (0 < factor < math.inf and 0 < wide < math.inf and np.isfinite(middle).all()):
        raise ValueError(
            f"{path.name}: `scale` and `aabb_scale` should be numbers above 0 and `offset` one or three numbers; got "
            + ", ".join(f"{name} {value!r}" for name, value in told.items())
            + "."
        )
    low = (0.5 - wide / 2 - middle) / factor
    return (float(low[0]), float(low[1]), float(low[2])), wide / factor
