"""Animations from frames: GIF and animated PNG with Pillow, MP4 with the program ffmpeg of the user."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

FRAME_MILLISECONDS = 80
"""Time of a frame of a turntable."""
GIF_COLORS = 96
"""Colors of a GIF on a page, which has to stay small."""


def write_animated_png(path: Path, frames: np.ndarray, milliseconds: int) -> None:
    """Write an animated PNG with every color, atomically.

    Args:
        path: The file.
        frames: ``(F, H, W, 3)`` bytes.
        milliseconds: Time of a frame.

    Raises:
        ValueError: Pillow is not installed.
    """
    first, *rest = [_pillow().fromarray(frame) for frame in frames]
    partial = path.with_name(f".{path.name}.tmp")
    first.save(partial, format="PNG", save_all=True, append_images=rest, duration=milliseconds, loop=0)
    partial.replace(path)


def encode_gif(frames: np.ndarray, milliseconds: int, colors: int = 256) -> bytes:
    """Encode a GIF that repeats forever.

    Args:
        frames: ``(F, H, W, 3)`` bytes.
        milliseconds: Time of a frame.
        colors: Number of colors of each frame.

    Returns:
        The content of the file.

    Raises:
        ValueError: Pillow is not installed.
    """
    Image = _pillow()
    images = [Image.fromarray(frame).quantize(colors, dither=Image.Dither.NONE) for frame in frames]
    content = io.BytesIO()
    images[0].save(content, format="GIF", save_all=True, append_images=images[1:], duration=milliseconds, loop=0)
    return content.getvalue()


def require_ffmpeg() -> str:
    """Path of the program ffmpeg. Raises ValueError where it is not installed."""
    program = shutil.which("ffmpeg")
    if program is None:
        raise ValueError(".mp4 needs the program ffmpeg, which is not installed. Install it, or write a .gif.")
    return program


def write_mp4(path: Path, frames: np.ndarray, milliseconds: int) -> None:
    """Write an MP4 (H.264) with ffmpeg. An odd side gets one more row or column.

    Args:
        path: The file.
        frames: ``(F, H, W, 3)`` bytes.
        milliseconds: Time of a frame.

    Raises:
        ValueError: ffmpeg is not installed, or fails.
    """
    _, height, width, _ = frames.shape
    reading = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{1000 / milliseconds:g}"]
    writing = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4"]
    command = [require_ffmpeg(), "-loglevel", "error", "-y", *reading, "-i", "-", *writing, str(path)]
    done = subprocess.run(command, input=np.ascontiguousarray(frames).tobytes(), capture_output=True, check=False)
    if done.returncode:
        reason = " ".join(done.stderr.decode(errors="replace").split())[-200:]
        raise ValueError(f"ffmpeg could not write {path.name}: {reason or 'no reason was given'}. Write a .gif.")


def write_film(path: Path, suffix: str, frames: np.ndarray) -> None:
    """Write the frames of a turntable as ``.gif`` or ``.mp4``."""
    if suffix == ".mp4":
        write_mp4(path, frames, FRAME_MILLISECONDS)
    else:
        path.write_bytes(encode_gif(frames, FRAME_MILLISECONDS))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("an animated turntable needs Pillow: pip install 'posenc[fields]'") from None
    return Image
