"""Gray images of more than 8 bits: one scale for all of a type, and a sentence where they are dark or not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from posenc.workbench.tasks.images import load_images
from posenc.workbench.tasks.images.image_decoder import Square, decode_image, read_square

RAMP = np.tile(np.linspace(0, 1, 8), (8, 1))
BYTES = np.rint(255 * RAMP).astype(np.uint8)


def decoded(path: Path) -> np.ndarray:
    return decode_image(str(path), Square(8)).pixels[..., 0]


def tiff(path: Path, pixels: np.ndarray, **tags: object) -> Path:
    pytest.importorskip("tifffile").imwrite(path, pixels, **tags)
    return path


def test_16_bits_have_one_scale_whatever_the_values(tmp_path: Path) -> None:
    for most in (65535, 4095, 100):
        deep = np.rint(most * RAMP).astype(np.uint16)
        Image.fromarray(deep).save(tmp_path / "a.png")
        assert (decoded(tmp_path / "a.png") == np.rint(deep / 257)).all()
        assert (decoded(tiff(tmp_path / "a.tif", deep)) == np.rint(deep / 257)).all()


def test_bits_that_a_tiff_states_are_its_scale_and_white_may_be_0(tmp_path: Path) -> None:
    """Before, 12 bits were nearly black, and 16 bits whose 0 is white were inverted."""
    deep = np.rint(65535 * RAMP).astype(np.uint16)
    assert (decoded(tiff(tmp_path / "white.tif", 65535 - deep, photometric="miniswhite")) == BYTES).all()
    pytest.importorskip("imagecodecs")
    twelve = np.rint(4095 * RAMP).astype(np.uint16)
    assert (decoded(tiff(tmp_path / "12.tif", twelve, bitspersample=12)) == BYTES).all()


@pytest.mark.parametrize(
    ("pixels", "sentence"),
    [
        (RAMP * 10, "kind F, real numbers from 0 to 10, and 0 to 1 are read"),
        (RAMP * 1.02, r"kind F, real numbers from 0 to 1\.02, and 0 to 1"),
        (RAMP * 2 - 1, "kind F, real numbers from -1 to 1, and 0 to 1"),
        (RAMP * 2000 - 1000, "kind I, signed numbers or 32 bits"),
        (RAMP * 1e6, "kind I, signed numbers or 32 bits"),
    ],
)
def test_values_without_black_and_white_are_refused(tmp_path: Path, pixels: np.ndarray, sentence: str) -> None:
    """Before, their scale was guessed from the largest value of the image: 0 to 10 became 0 to 10 of 255."""
    kind = np.float32 if "kind F" in sentence else np.int16 if pixels.min() < 0 else np.int32
    path = tiff(tmp_path / "a.tif", pixels.astype(kind))
    with pytest.raises(ValueError, match=rf"a\.tif: it has pixels of the {sentence}.*Save it as gray or RGB"):
        read_square(path, Square(8))


def folder(root: Path, pixels: np.ndarray) -> Path:
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        for number in range(4):
            tiff(root / name / f"{number}.tif", np.roll(pixels, number, 1))
    return root


def test_dark_images_of_16_bits_are_said(tmp_path: Path) -> None:
    root = folder(tmp_path / "dark", np.rint(4095 * RAMP).astype(np.uint16))
    for _ in range(2):  # the second time from the cache
        (sentence,) = load_images(root, size=8, cache=tmp_path / "cache").remarks
        assert sentence == (
            "The brightest value of the images of more than 8 bits (8) is 4,095 of 65,535, nearly black. If their "
            "camera has fewer bits, make them brighter, with ImageMagick: convert IN -evaluate multiply 16 OUT.png"
        )
    Image.fromarray(np.full((8, 8), 40000, np.uint16)).save(root / "cat" / "bright.png")
    assert load_images(root, size=8, cache=tmp_path / "cache").remarks == ()


@pytest.mark.filterwarnings("ignore:.*do not decode")
def test_pixels_that_are_not_read_come_with_the_reason(tmp_path: Path) -> None:
    root = folder(tmp_path / "signed", (RAMP * 2000 - 1000).astype(np.int16))
    with pytest.raises(ValueError, match=r"none of the 8 files .* decodes as an image\. cat/0\.tif: it has pixels of"):
        load_images(root, size=8, cache=tmp_path / "cache")
    for name in ("cat", "dog"):
        for number in range(5):
            Image.fromarray(BYTES).save(root / name / f"{number}.png")
    (sentence,) = load_images(root, size=8, cache=tmp_path / "cache").remarks
    assert sentence.startswith("cat/0.tif: it has pixels of the kind I, signed numbers or 32 bits. Save it as gray")


XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="6"/></rdf:RDF></x:xmpmeta>'
)


@pytest.mark.parametrize("form", ["jpg", "png", "webp", "tif", "xmp.jpg", "xmp.png", "text.png"])
def test_a_rotation_is_applied_wherever_it_is_stated(tmp_path: Path, form: str) -> None:
    """Before, only EXIF was read, so that a folder of images had other rotations than image-fit."""
    exif, info, path = Image.Exif(), PngImagePlugin.PngInfo(), tmp_path / f"a.{form}"
    exif[274] = 6
    turned = Image.fromarray(np.stack([BYTES] * 3, -1)).transpose(Image.Transpose.ROTATE_90)
    if form == "xmp.jpg":
        turned.save(path, xmp=XMP, quality=98)
    elif form == "xmp.png":
        info.add_itxt("XML:com.adobe.xmp", XMP.decode())
        turned.save(path, pnginfo=info)
    elif form == "text.png":
        content = b"Exif\0\0" + exif.tobytes().removeprefix(b"Exif\0\0")
        info.add_text("Raw profile type exif", f"\nexif\n{len(content):8d}\n{content.hex()}\n", zip=True)
        turned.save(path, pnginfo=info)
    else:
        turned.save(path, exif=exif, quality=98)
    assert abs(decoded(path).astype(int) - BYTES).max() <= 24
