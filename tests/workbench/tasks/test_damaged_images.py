"""TIFF and JPEG files that are cut short, lack pixels or state more of them than they hold; found by tools/fuzz.py."""

import struct

import numpy as np
import pytest

from posenc.workbench.tasks.single_image import read_image

tifffile = pytest.importorskip("tifffile")
pytestmark = pytest.mark.bare
COLORS = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
WIDTH, LENGTH, BITS, SAMPLES, COUNTS = 256, 257, 258, 277, 279


def changed_tag(path, tag, value):
    """Change the value of a tag, of which a TIFF has one short or long in its entry."""
    with tifffile.TiffFile(path) as file:
        entry, order = file.pages[0].tags[tag].valueoffset, file.byteorder
        size = {3: "H", 4: "I"}[int(file.pages[0].tags[tag].dtype)]
    content = bytearray(path.read_bytes())
    struct.pack_into(order + size, content, entry, value)
    path.write_bytes(content)


@pytest.mark.parametrize("kept", [26, 60, 200, -1])
@pytest.mark.parametrize("compression", [None, "zlib", "lzw"])
def test_a_file_that_was_cut_short_is_refused(tmp_path, kept, compression):
    path = tmp_path / "cut.tiff"
    tifffile.imwrite(path, COLORS, photometric="rgb", compression=compression)
    assert (read_image(path) == COLORS).all()
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"cut\.tiff (does not decode as an image|has 0 of the 1 parts of its pixels)"):
        read_image(path)


def test_a_strip_that_is_missing_is_no_black_image(tmp_path):
    path = tmp_path / "empty.tiff"
    tifffile.imwrite(path, COLORS, photometric="rgb", compression="zlib")
    changed_tag(path, COUNTS, 0)
    with tifffile.TiffFile(path) as file:
        assert not file.pages[0].asarray().any()  # the library fills it with zeros
    with pytest.raises(ValueError, match=r"has 0 of the 1 parts of its pixels\. Copy or save it again\."):
        read_image(path)


def test_a_wrong_length_of_one_plain_strip_is_read(tmp_path):
    path = tmp_path / "wrong.tiff"
    tifffile.imwrite(path, COLORS, photometric="rgb")
    changed_tag(path, COUNTS, 0)
    assert (read_image(path) == COLORS).all()


def test_thousands_of_channels_are_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "many.tiff"
    tifffile.imwrite(path, COLORS[..., 0], photometric="minisblack")
    changed_tag(path, SAMPLES, 7939)
    with pytest.raises(ValueError, match=r"many\.tiff has 7,939 channels; an image has up to 4"):
        read_image(path)


def test_a_width_of_several_numbers_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "wide.tiff"
    tifffile.imwrite(path, COLORS, photometric="rgb")
    changed_tag(path, LENGTH, 30_000_000)
    with tifffile.TiffFile(path) as file:
        entry, bits = file.pages[0].tags[WIDTH].offset, file.pages[0].tags[BITS]
    content = bytearray(path.read_bytes())
    struct.pack_into(
        "<HHII", content, entry, WIDTH, 3, 3, bits.valueoffset
    )  # three shorts, which are those of the bits
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"wide\.tiff states no size: .* are \(\(8, 8, 8\), 30000000, 3, 8\)"):
        read_image(path)


def test_a_jpeg_too_short_for_its_size_is_refused_before_memory_is_taken(tmp_path):
    from PIL import Image

    path = tmp_path / "large.jpg"
    Image.fromarray(COLORS).save(path)
    content = bytearray(path.read_bytes())
    size = content.index(b"\xff\xc0") + 5  # marker, length and bits before height and width
    content[size : size + 4] = struct.pack(">HH", 60_000, 50_000)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"large\.jpg is a JPEG of 50000 x 60000 pixels in [\d,]+ bytes"):
        read_image(path)


def test_a_damaged_tag_of_a_tiff_is_not_logged_at_the_terminal(tmp_path, caplog):
    """tifffile logged each tag that it could not read, beside the project's own sentence or none."""
    pixels = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, pixels, resolution=(72, 72))
    content = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as file:
        tag = file.pages[0].tags["XResolution"].offset
    content[tag + 2 : tag + 4] = b"\xff\xff"  # the type of its value
    path.write_bytes(content)
    np.testing.assert_array_equal(read_image(path), pixels)
    assert not caplog.records
