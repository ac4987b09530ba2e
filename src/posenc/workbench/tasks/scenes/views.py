"""Views of a scene: images, camera poses and lenses, and the ray through the center of every pixel.

    ray(i, j):  origin = M[:3, 3],  direction = M[:3, :3] ((x - cx) / fx, -(y - cy) / fy, -1),  x = j + 1/2, y = i + 1/2

with the direction normalized. M is camera to world in the OpenGL convention, which is NeRF's: the camera looks along
its own -z, its y is up and its x is to the right. Rows i of an image run downwards and columns j to the right, both
from 0. A lens with distortion maps the point (u, v) of its plane to u (1 + k1 r^2 + k2 r^4) + 2 p1 u v + p2 (r^2 + 2
u^2), and likewise v (OpenCV's model). A ray inverts that by ten steps of fixed-point iteration.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from posenc.workbench.files.array_files import ArrayFile, open_arrays
from posenc.workbench.files.atomic_files import replaced_file
from posenc.workbench.files.user_files import TooLargeError, require_file

FORMAT = 1
STORED_ARRAYS = {"images": "pictures", "poses": "poses", "lenses": "lenses", "mask": "mask"}
"""Name in a scene file of each array of `Views`."""
LENS_PARAMETERS = ("fl_x", "fl_y", "cx", "cy", "k1", "k2", "p1", "p2")
"""Columns of ``lenses``: focal lengths and center in pixels, then OpenCV's four distortion coefficients."""

LARGEST_CAMERA_GAP = torch.pi / 2
"""Largest angle between neighboring cameras around the axis of a full turn, in radians."""

Background = Literal["white", "random", "learned"]


@dataclasses.dataclass(frozen=True, eq=False)
class Views:
    """V images of one size, their cameras, and the masks of the object.

    Attributes:
        images: ``(V, H, W, C)`` uint8, three channels, or four with straight alpha.
        poses: ``(V, 4, 4)`` camera to world.
        lenses: ``(V, 8)``, the columns of ``LENS_PARAMETERS``.
        names: Name of each view.
        mask: ``(V, H, W)``, True on the object; None where it is unknown.
    """

    images: UInt8[Tensor, "V H W C"]
    poses: Float[Tensor, "V 4 4"]
    lenses: Float[Tensor, "V 8"]
    names: tuple[str, ...]
    mask: Bool[Tensor, "V H W"] | None = None

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.images.shape[1], self.images.shape[2]

    @property
    def pixels(self) -> int:
        """Number of rays; ray r belongs to pixel r of (v, i, j) in row-major order."""
        return len(self) * self.shape[0] * self.shape[1]

    def to(self, device: torch.device | str) -> Views:
        """The same views on a device."""
        mask = None if self.mask is None else self.mask.to(device)
        tensors = {name: getattr(self, name).to(device) for name in ("images", "poses", "lenses")}
        return dataclasses.replace(self, mask=mask, **tensors)

    def take(self, index: list[int]) -> Views:
        """Select views by index, in this order."""
        mask = None if self.mask is None else self.mask[index]
        names = tuple(self.names[number] for number in index)
        return Views(self.images[index], self.poses[index], self.lenses[index], names, mask)

    def rays(self, number: Int[Tensor, "R"]) -> tuple[Float[Tensor, "R 3"], Float[Tensor, "R 3"]]:
        """Origins and unit directions of rays in world coordinates, by number; float32, computed in float64."""
        view = number // (self.shape[0] * self.shape[1])
        rest = number % (self.shape[0] * self.shape[1])
        x, y = rest % self.shape[1] + 0.5, rest // self.shape[1] + 0.5
        poses = self.poses[view]
        direction = pixel_directions(x.double(), y.double(), self.lenses[view])
        world = (poses[:, :3, :3] @ direction[..., None])[..., 0]
        return poses[:, :3, 3].float(), torch.nn.functional.normalize(world, dim=-1).float()

    def colors(self, number: Int[Tensor, "R"], behind: Tensor) -> Float[Tensor, "R 3"]:
        """Colors of pixels in [0, 1], over the background ``behind`` (3,) or (R, 3) where they are transparent."""
        color = self.images.reshape(-1, self.images.shape[-1])[number].float() / 255
        if color.shape[-1] == 3:
            return color
        return color[:, :3] * color[:, 3:] + behind * (1 - color[:, 3:])


def pixel_directions(x: Tensor, y: Tensor, lens: Tensor) -> Tensor:
    """Directions ``(R, 3)`` in camera coordinates through points of an image in pixels; not normalized."""
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
    """Training views, held-out views, and the cube of the world to be learned.

    Attributes:
        train: Training views.
        held: Held-out views.
        low: Lower corner of the cube, which is ``low <= p <= low + side`` on each axis.
        side: Side of the cube.
        up: Direction of the axis of turntables, in the world.
        background: Model of what lies behind the cube: "white" or a "random" color per ray, for images with alpha;
            "learned" for a color per direction, for images with a real background.
        about: Origin of the scene, as plain JSON.
    """

    train: Views
    held: Views
    low: tuple[float, float, float]
    side: float
    up: tuple[float, float, float]
    background: Background
    about: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to(self, device: torch.device | str) -> Scene:
        """The same scene on a device."""
        return dataclasses.replace(self, train=self.train.to(device), held=self.held.to(device))

    def to_unit_cube(self, world: Float[Tensor, "R 3"]) -> Float[Tensor, "R 3"]:
        """Points of the world in the coordinates of the cube, where the cube is [0, 1]^3."""
        return (world - world.new_tensor(self.low)) / self.side

    def rays(self, views: Views, number: Int[Tensor, "R"]) -> tuple[Float[Tensor, "R 3"], Float[Tensor, "R 3"]]:
        """Rays as ``views.rays``, with origins in the cube's coordinates and lengths in sides of the cube."""
        origin, direction = views.rays(number)
        return self.to_unit_cube(origin), direction


def look_at(eye: Tensor, target: Tensor, up: Tensor) -> Float[Tensor, "V 4 4"]:
    """Poses of cameras at ``eye (V, 3)`` that look at ``target (3,)``, with ``up (3,)`` upwards in the image."""
    back = torch.nn.functional.normalize(eye - target, dim=-1)
    right = torch.nn.functional.normalize(torch.linalg.cross(up.expand_as(back), back), dim=-1)
    pose = torch.eye(4, dtype=torch.float64).repeat(len(eye), 1, 1)
    pose[:, :3, :3] = torch.stack([right, torch.linalg.cross(back, right), back], -1)
    pose[:, :3, 3] = eye
    return pose


def turntable(scene: Scene, frames: int, side: int) -> Views:
    """Blank views on a circle around the scene, at the training cameras' median distance, height and field of view.

    The axis of the circle is ``up`` through the point nearest to the training cameras' lines of sight. Where the
    cameras leave a gap of more than 90 degrees, the views swing to and fro along the arc of the cameras.

    Args:
        scene: The scene.
        frames: Number of views.
        side: Side of the images in pixels.
    """
    poses, up = scene.train.poses.cpu(), torch.tensor(scene.up, dtype=torch.float64)
    eye, ahead = poses[:, :3, 3], -poses[:, :3, 2]
    target = nearest_point_to_lines(eye, ahead)
    out = eye - target
    height = (out @ up).median()
    radius = (out - (out @ up)[:, None] * up).norm(dim=-1).median()
    first = torch.linalg.cross(up, up.roll(1) + up.new_tensor([0.1, 0.2, 0.3]))
    first = first / first.norm()
    second = torch.linalg.cross(up, first)
    turn = _turns(torch.atan2(out @ second, out @ first), frames)[:, None]
    around = target + height * up + radius * (turn.cos() * first + turn.sin() * second)
    lens = scene.train.lenses.cpu().median(0).values * side / max(scene.train.shape)
    lens[2:4], lens[4:] = side / 2, 0
    blank = torch.zeros(frames, side, side, 3, dtype=torch.uint8)
    return Views(blank, look_at(around, target, up), lens.repeat(frames, 1), tuple(f"turn {n}" for n in range(frames)))


def _turns(cameras: Tensor, frames: int) -> Tensor:
    """Angles ``(F,)`` of the views of a turntable: a full circle, or to and fro along the arc of the cameras."""
    start, length = camera_arc(cameras)
    part = torch.arange(frames, dtype=torch.float64) / frames
    if length == 2 * torch.pi:
        return 2 * torch.pi * part
    return start + length * (1 - (2 * torch.pi * part).cos()) / 2


def camera_arc(angles: Tensor) -> tuple[float, float]:
    """Start and length of the shortest arc that holds all angles; (0, 2 pi) without a gap of more than 90 degrees.

    Args:
        angles: ``(V,)`` angles of the cameras around the axis, in radians.

    Returns:
        Start and length in radians.
    """
    ordered = angles.remainder(2 * torch.pi).sort().values
    gaps = torch.cat([ordered[1:], ordered[:1] + 2 * torch.pi]) - ordered
    widest = int(gaps.argmax())
    if float(gaps[widest]) <= LARGEST_CAMERA_GAP:
        return 0.0, 2 * torch.pi
    return float(ordered[(widest + 1) % len(ordered)]), 2 * torch.pi - float(gaps[widest])


def nearest_point_to_lines(eye: Float[Tensor, "V 3"], ahead: Float[Tensor, "V 3"]) -> Float[Tensor, "3"]:
    """Point nearest to all lines of sight, in the sense of least squares of the distances.

    For parallel lines no point is nearest, and the least-norm solution is returned.

    Args:
        eye: ``(V, 3)`` positions of the cameras.
        ahead: ``(V, 3)`` unit directions.
    """
    across = torch.eye(3, dtype=eye.dtype) - ahead[:, :, None] * ahead[:, None, :]
    solved = torch.linalg.lstsq(across.sum(0), (across @ eye[:, :, None]).sum(0), driver="gelsd")
    return solved.solution[:, 0]


def save_scene(scene: Scene, path: str | Path) -> None:
    """Write a scene as one ``.npz`` file, first under a temporary name; equal scenes give equal bytes."""
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
    with (
        replaced_file(path) as partial,
        zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        archive.writestr(zipfile.ZipInfo("about.json"), json.dumps(about, sort_keys=True))
        for split in ("train", "held"):
            for part, stored in STORED_ARRAYS.items():
                values = getattr(getattr(scene, split), part)
                if values is not None:
                    array = io.BytesIO()
                    np.save(array, values.cpu().numpy(), allow_pickle=False)
                    member = zipfile.ZipInfo(f"{split}_{stored}.npy")
                    member.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(member, array.getvalue())


def load_scene(path: str | Path) -> Scene:
    """Load a file of ``save_scene``. Raises ValueError for another or damaged file."""
    path = Path(path)
    require_file(path, "a file of save_scene")
    try:
        with open_arrays(path, "a scene") as archive:
            about = json.loads(archive.content("about.json", 30))
            if about["task"] != "scenes" or about["format"] not in range(1, FORMAT + 1):
                raise ValueError(f"it is of the task {about['task']!r}, format {about['format']}")
            views = {split: _views(archive, split, about["names"][split]) for split in ("train", "held")}
    except TooLargeError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path.name} is damaged or no scene of this posenc ({error}). Delete it.") from error
    low, up = tuple(about["low"]), tuple(about["up"])
    return Scene(views["train"], views["held"], low, about["side"], up, about["background"], about["about"])


def _views(archive: ArrayFile, split: str, names: list[str]) -> Views:
    def part(name: str) -> Tensor | None:
        stored = f"{split}_{STORED_ARRAYS[name]}"
        return torch.from_numpy(archive[stored]) if stored in archive else None

    images, poses, lenses = (part(name) for name in ("images", "poses", "lenses"))
    if images is None or poses is None or lenses is None:
        raise KeyError(f"the {split} views lack a part")
    return Views(images, poses, lenses, tuple(names), part("mask"))
