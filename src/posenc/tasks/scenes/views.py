"""Views of a scene: pictures, where each was taken from, and the ray through the centre of every pixel.

    ray(i, j):  origin = M[:3, 3],  direction = M[:3, :3] ((x - cx) / fx, -(y - cy) / fy, -1),  x = j + 1/2, y = i + 1/2

made a unit vector. M is camera to world in the OpenGL convention, which is NeRF's: the camera looks along its own -z,
its y is up and its x to the right. Rows i of a picture go down, columns j to the right, both from 0. A lens with
distortion sees the point (u, v) of its plane at u (1 + k1 r^2 + k2 r^4) + 2 p1 u v + p2 (r^2 + 2 u^2), and likewise v
(OpenCV's model); a ray undoes that by ten rounds of fixed-point iteration.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

FORMAT = 1
LENS = ("fl_x", "fl_y", "cx", "cy", "k1", "k2", "p1", "p2")
"""What the columns of ``lenses`` are: focal lengths and centre in pixels, then OpenCV's four of distortion."""

Background = Literal["white", "random", "learned"]


@dataclasses.dataclass(frozen=True, eq=False)
class Views:
    """V pictures of one size, what took them, and where the object is on them.

    pictures: three channels, or four with a straight alpha. poses: camera to world. lenses: the columns of ``LENS``.
    mask: True on the object, or None where nobody knows.
    """

    pictures: UInt8[Tensor, "V H W C"]
    poses: Float[Tensor, "V 4 4"]
    lenses: Float[Tensor, "V 8"]
    names: tuple[str, ...]
    mask: Bool[Tensor, "V H W"] | None = None

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.pictures.shape[1], self.pictures.shape[2]

    @property
    def pixels(self) -> int:
        """How many rays there are; number r is the r-th of the pixels (v, i, j) in row-major order."""
        return len(self) * self.shape[0] * self.shape[1]

    def to(self, device: torch.device | str) -> Views:
        mask = None if self.mask is None else self.mask.to(device)
        moved = {name: getattr(self, name).to(device) for name in ("pictures", "poses", "lenses")}
        return dataclasses.replace(self, mask=mask, **moved)

    def take(self, index: list[int]) -> Views:
        """Some of the views, in the order of ``index``."""
        mask = None if self.mask is None else self.mask[index]
        names = tuple(self.names[number] for number in index)
        return Views(self.pictures[index], self.poses[index], self.lenses[index], names, mask)

    def rays(self, number: Int[Tensor, "R"]) -> tuple[Float[Tensor, "R 3"], Float[Tensor, "R 3"]]:
        """Origins and unit directions of rays in the world, by their numbers; float32 from float64 arithmetic."""
        view = number // (self.shape[0] * self.shape[1])
        rest = number % (self.shape[0] * self.shape[1])
        x, y = rest % self.shape[1] + 0.5, rest // self.shape[1] + 0.5
        poses = self.poses[view]
        direction = through(x.double(), y.double(), self.lenses[view])
        world = (poses[:, :3, :3] @ direction[..., None])[..., 0]
        return poses[:, :3, 3].float(), torch.nn.functional.normalize(world, dim=-1).float()

    def colours(self, number: Int[Tensor, "R"], behind: Tensor) -> Float[Tensor, "R 3"]:
        """The colours of these pixels in [0, 1], over ``behind`` (3,) or (R, 3) where they are not opaque."""
        found = self.pictures.reshape(-1, self.pictures.shape[-1])[number].float() / 255
        if found.shape[-1] == 3:
            return found
        return found[:, :3] * found[:, 3:] + behind * (1 - found[:, 3:])


def through(x: Tensor, y: Tensor, lens: Tensor) -> Tensor:
    """Directions ``(R, 3)`` in the camera's own axes, of length above 1, through points of pictures in pixels."""
    u0, v0 = (x - lens[:, 2]) / lens[:, 0], (y - lens[:, 3]) / lens[:, 1]
    u, v = u0, v0
    if bool(lens[:, 4:].any()):
        k1, k2, p1, p2 = lens[:, 4:].unbind(-1)
        for _ in range(10):
            square = u * u + v * v
            radial = 1 + square * (k1 + square * k2)
            u, v = (
                (u0 - 2 * p1 * u * v - p2 * (square + 2 * u * u)) / radial,
                (v0 - 2 * p2 * u * v - p1 * (square + 2 * v * v)) / radial,
            )
    return torch.stack([u, -v, -torch.ones_like(u)], -1)


@dataclasses.dataclass(frozen=True, eq=False)
class Scene:
    """Views to train on, views held out, and the cube of the world that holds what is to be learned.

    low, side: the cube is ``low <= p <= low + side`` on each axis. up: the world's direction that turntables turn
    about. background: how what lies behind the cube is to be modelled: "white" or a "random" colour a ray where
    pictures have alpha, "learned" as a colour for each direction where they show a real background.
    about: where it came from, plain JSON.
    """

    train: Views
    held: Views
    low: tuple[float, float, float]
    side: float
    up: tuple[float, float, float]
    background: Background
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to(self, device: torch.device | str) -> Scene:
        return dataclasses.replace(self, train=self.train.to(device), held=self.held.to(device))

    def unit(self, world: Float[Tensor, "R 3"]) -> Float[Tensor, "R 3"]:
        """Points of the world in the cube's own coordinates, where the cube is [0, 1]^3."""
        return (world - world.new_tensor(self.low)) / self.side

    def rays(self, views: Views, number: Int[Tensor, "R"]) -> tuple[Float[Tensor, "R 3"], Float[Tensor, "R 3"]]:
        """As ``views.rays``, with the origins in the cube's coordinates; lengths along a ray are then in sides."""
        origin, direction = views.rays(number)
        return self.unit(origin), direction


def look_at(eye: Tensor, target: Tensor, up: Tensor) -> Float[Tensor, "V 4 4"]:
    """Poses of cameras at ``eye (V, 3)`` that look at ``target (3,)`` with ``up (3,)`` upwards on their pictures."""
    back = torch.nn.functional.normalize(eye - target, dim=-1)
    right = torch.nn.functional.normalize(torch.linalg.cross(up.expand_as(back), back), dim=-1)
    pose = torch.eye(4, dtype=torch.float64).repeat(len(eye), 1, 1)
    pose[:, :3, :3] = torch.stack([right, torch.linalg.cross(back, right), back], -1)
    pose[:, :3, 3] = eye
    return pose


def turntable(scene: Scene, frames: int, side: int) -> Views:
    """Empty views from around the scene: as far away, as high and as wide as the training cameras are in the middle.

    The circle is about the axis ``up`` through the point that the training cameras look at most nearly.
    """
    poses, up = scene.train.poses.cpu(), torch.tensor(scene.up, dtype=torch.float64)
    eye, ahead = poses[:, :3, 3], -poses[:, :3, 2]
    target = gaze(eye, ahead)
    out = eye - target
    height = (out @ up).median()
    radius = (out - (out @ up)[:, None] * up).norm(dim=-1).median()
    first = torch.linalg.cross(up, up.roll(1) + up.new_tensor([0.1, 0.2, 0.3]))
    first = first / first.norm()
    second = torch.linalg.cross(up, first)
    turn = 2 * torch.pi * torch.arange(frames, dtype=torch.float64)[:, None] / frames
    around = target + height * up + radius * (turn.cos() * first + turn.sin() * second)
    lens = scene.train.lenses.cpu().median(0).values * side / max(scene.train.shape)
    lens[2:4], lens[4:] = side / 2, 0
    blank = torch.zeros(frames, side, side, 3, dtype=torch.uint8)
    return Views(blank, look_at(around, target, up), lens.repeat(frames, 1), tuple(f"turn {n}" for n in range(frames)))


def gaze(eye: Float[Tensor, "V 3"], ahead: Float[Tensor, "V 3"]) -> Float[Tensor, "3"]:
    """The point nearest to all lines of sight: the least squares of its distances to them.

    Where cameras look the same way no point is nearest; the least-norm one of the equations is taken.
    """
    across = torch.eye(3, dtype=eye.dtype) - ahead[:, :, None] * ahead[:, None, :]
    found = torch.linalg.lstsq(across.sum(0), (across @ eye[:, :, None]).sum(0), driver="gelsd")
    return found.solution[:, 0]


def save(scene: Scene, path: str | Path) -> None:
    """Write a scene as one ``.npz`` file; the same scene gives the same bytes. It is there whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {
        "format": FORMAT,
        "task": "scenes",
        "low": scene.low,
        "side": scene.side,
        "up": scene.up,
        "background": scene.background,
        "names": {split: getattr(scene, split).names for split in ("train", "held")},
        "about": dict(scene.about),
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr(zipfile.ZipInfo("about.json"), json.dumps(about, sort_keys=True))
            for split in ("train", "held"):
                for part in ("pictures", "poses", "lenses", "mask"):
                    values = getattr(getattr(scene, split), part)
                    if values is not None:
                        array = io.BytesIO()
                        np.save(array, values.cpu().numpy(), allow_pickle=False)
                        member = zipfile.ZipInfo(f"{split}_{part}.npy")
                        member.compress_type = zipfile.ZIP_DEFLATED
                        archive.writestr(member, array.getvalue())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | Path) -> Scene:
    """A scene that ``save`` wrote. Raises ValueError for another file and for damaged contents."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read("about.json"))
            if about["task"] != "scenes" or about["format"] > FORMAT:
                raise ValueError(f"it is of the task {about['task']!r}, format {about['format']}")
            held = {split: _views(archive, split, about["names"][split]) for split in ("train", "held")}
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}; `save(scene, path)` writes one.") from None
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError, zlib.error) as error:
        raise ValueError(f"{path.name} is damaged or no scene of this posenc ({error}). Delete it.") from error
    low, up = tuple(about["low"]), tuple(about["up"])
    return Scene(held["train"], held["held"], low, about["side"], up, about["background"], about["about"])


def _views(archive: zipfile.ZipFile, split: str, names: list[str]) -> Views:
    def part(name: str) -> Tensor | None:
        member = f"{split}_{name}.npy"
        if member not in archive.namelist():
            return None
        return torch.from_numpy(np.load(io.BytesIO(archive.read(member)), allow_pickle=False))

    pictures, poses, lenses = (part(name) for name in ("pictures", "poses", "lenses"))
    if pictures is None or poses is None or lenses is None:
        raise KeyError(f"the {split} views lack a part")
    return Views(pictures, poses, lenses, tuple(names), part("mask"))
