"""Pictures: read as they are, asked at the right places, scored by the formula."""

import io
import math
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from posenc.workbench.tasks import single_image
from posenc.workbench.tasks.single_image import image_file

pytestmark = pytest.mark.bare

COLOURS = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)


def saved(path, pixels, **options):
    Image.fromarray(pixels).save(path, **options)
    return path


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def sixteen(path, pixels, exif=b""):
    """A 16-bit RGB PNG by hand."""

    height, width, channels = pixels.shape
    lines = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 3: 2}[channels], 0, 0, 0)
    told = [chunk(b"eXIf", exif)] if exif else []
    parts = [chunk(b"IHDR", head), *told, chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    return path


def empty(path, width, height, bits, lines=None):
    """A black PNG of grey."""
    line = bytes(1 + -(-width * bits // 8))
    head = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    content = zlib.compress(line * (height if lines is None else lines), 1)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", content), chunk(b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    return path


def test_eight_bits_come_as_they_are(tmp_path):
    assert (single_image.read_image(saved(tmp_path / "a.png", COLOURS)) == COLOURS).all()
    assert (single_image.read_image(saved(tmp_path / "a.webp", COLOURS, lossless=True)) == COLOURS).all()
    assert single_image.read_image(saved(tmp_path / "a.jpg", COLOURS)).shape == (6, 9, 3)
    assert (single_image.read_image(saved(tmp_path / "grey.png", COLOURS[..., 0]))[..., 0] == COLOURS[..., 0]).all()


@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_stay_sixteen(tmp_path, channels):
    deep = np.random.default_rng(1).integers(0, 2**16, (5, 4, channels), dtype=np.uint16)
    found = single_image.read_image(sixteen(tmp_path / "deep.png", deep))
    assert found.dtype == np.uint16
    assert (found == deep).all()
    assert single_image.pixel_values(found, np.array([7])).max() <= 1


def test_tiff_is_read_deep(tmp_path):
    import tifffile

    deep = np.random.default_rng(1).integers(0, 2**16, (5, 4, 3), dtype=np.uint16)
    tifffile.imwrite(tmp_path / "deep.tiff", deep, photometric="rgb")
    assert (single_image.read_image(tmp_path / "deep.tiff") == deep).all()
    tifffile.imwrite(tmp_path / "real.tiff", deep.astype(np.float32), photometric="rgb")
    with pytest.raises(
        ValueError, match=r"pixels of the kind RGB, float32, 32 bits\. Save it as gray or RGB of 8 or 16 bits"
    ):
        single_image.read_image(tmp_path / "real.tiff")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_format_is_turned_alike(tmp_path, orientation):
    import tifffile

    exif = Image.Exif()
    exif[image_file.ORIENTATION] = orientation
    expected = single_image.read_image(saved(tmp_path / "eight.png", COLOURS, exif=exif))  # by Pillow
    deep = COLOURS.astype(np.uint16) * 257
    turned = single_image.read_image(sixteen(tmp_path / "deep.png", deep, exif.tobytes().removeprefix(b"Exif\0\0")))
    assert (turned == expected.astype(np.uint16) * 257).all()
    tags = [(image_file.ORIENTATION, "H", 1, orientation, True)]
    tifffile.imwrite(tmp_path / "turned.tiff", COLOURS, photometric="rgb", extratags=tags)
    assert (single_image.read_image(tmp_path / "turned.tiff") == expected).all()


def test_a_tiff_whose_white_is_zero_is_no_negative(tmp_path):
    import tifffile

    grey = COLOURS[..., 0]
    for name, pixels in (("eight", grey), ("deep", grey.astype(np.uint16) * 257)):
        top = np.iinfo(pixels.dtype).max
        tifffile.imwrite(tmp_path / f"{name}.tiff", top - pixels, photometric="miniswhite")
        assert (single_image.read_image(tmp_path / f"{name}.tiff")[..., 0] == pixels).all()


@pytest.mark.parametrize("kept", [26, 30, 33, 60])
def test_a_deep_picture_that_was_cut_short_is_refused(tmp_path, kept):
    path = sixteen(tmp_path / "cut.png", COLOURS.astype(np.uint16))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"cut\.png does not decode as an image \("):
        single_image.read_image(path)


def test_alpha_stays_where_it_says_something(tmp_path):
    alpha = np.dstack([COLOURS, np.arange(54, dtype=np.uint8).reshape(6, 9)])
    assert (single_image.read_image(saved(tmp_path / "half.png", alpha)) == alpha).all()
    alpha[..., 3] = 255
    assert (single_image.read_image(saved(tmp_path / "full.png", alpha)) == COLOURS).all()


def test_the_cameras_rotation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the row of the picture's top is its right column
    found = single_image.read_image(saved(tmp_path / "turned.png", COLOURS, exif=exif))
    assert (found == np.rot90(COLOURS, -1)).all()


def test_a_palette_becomes_colours(tmp_path):
    image = Image.fromarray(COLOURS).quantize(4)
    image.save(tmp_path / "palette.png")
    assert (single_image.read_image(tmp_path / "palette.png") == np.asarray(image.convert("RGB"))).all()


def test_every_kind_of_tiff_comes_as_its_colours_or_is_refused(tmp_path):
    import tifffile

    image = Image.fromarray(COLOURS)
    few = image.quantize(4)
    few.save(tmp_path / "palette.tiff")
    assert (single_image.read_image(tmp_path / "palette.tiff") == np.asarray(few.convert("RGB"))).all()
    image.convert("1").save(tmp_path / "bilevel.tiff")
    assert (
        single_image.read_image(tmp_path / "bilevel.tiff")[..., 0] == np.asarray(image.convert("1").convert("L"))
    ).all()
    image.convert("YCbCr").save(tmp_path / "video.tiff")
    assert np.abs(single_image.read_image(tmp_path / "video.tiff").astype(int) - COLOURS).max() < 6
    for deep in (COLOURS, COLOURS.astype(np.uint16) * 257):
        apart = deep.transpose(2, 0, 1)
        tifffile.imwrite(tmp_path / "planes.tiff", apart, photometric="rgb", planarconfig="separate")
        assert (single_image.read_image(tmp_path / "planes.tiff") == deep).all()
    tags = [(image_file.ORIENTATION, "H", 1, 6, True)]
    for kind, top in (("minisblack", 0), ("miniswhite", 15)):
        packed = np.abs(top - np.arange(54).reshape(6, 9) % 16).astype(np.uint8)
        tifffile.imwrite(tmp_path / "four.tiff", packed, photometric=kind, bitspersample=4, extratags=tags)
        grey = (np.arange(54).reshape(6, 9) % 16 * 17).astype(np.uint8)
        assert (single_image.read_image(tmp_path / "four.tiff")[..., 0] == np.rot90(grey, -1)).all()
    colours = np.array(few.getpalette()[:12], np.uint16).reshape(4, 3)
    table = np.zeros((3, 256), np.uint16)
    table[:, :4] = colours.T * 257
    turned = np.asarray(few)
    tifffile.imwrite(tmp_path / "turned.tiff", turned, photometric="palette", colormap=table, extratags=tags)
    assert (single_image.read_image(tmp_path / "turned.tiff") == np.rot90(np.asarray(few.convert("RGB")), -1)).all()
    tifffile.imwrite(tmp_path / "twelve.tiff", COLOURS[..., 0].astype(np.uint16), bitspersample=12)
    with pytest.raises(ValueError, match="pixels of the kind MINISBLACK, uint16, 12 bits"):
        single_image.read_image(tmp_path / "twelve.tiff")
    tifffile.imwrite(tmp_path / "lab.tiff", COLOURS, photometric="cielab")
    with pytest.raises(ValueError, match=r"pixels of the kind CIELAB, uint8, 8 bits\. Save it as gray or RGB"):
        single_image.read_image(tmp_path / "lab.tiff")


def test_a_deep_picture_that_would_be_cut_is_refused(tmp_path):
    (tmp_path / "deep.pgm").write_bytes(b"P5 3 2 65535\n" + np.arange(6, dtype=">u2").tobytes())
    with pytest.raises(ValueError, match=r"pixels of the kind I\. Save it as gray or RGB of 8 or 16 bits"):
        single_image.read_image(tmp_path / "deep.pgm")


@pytest.mark.parametrize("bits", [8, 16])
def test_a_picture_without_pixels_is_refused(tmp_path, bits):
    path = empty(tmp_path / "none.png", 0, 5, bits)
    with pytest.raises(ValueError, match=r"none\.png has no pixels: 0 x 5"):
        single_image.read_image(path)


def test_memory_decides_how_large_a_picture_may_be(tmp_path):
    side = 13_500  # more pixels than Pillow opens unless it is told to
    limit = Image.MAX_IMAGE_PIXELS
    found = single_image.read_image(empty(tmp_path / "large.png", side, side, 1))
    assert limit == Image.MAX_IMAGE_PIXELS
    assert found.shape == (side, side, 1)
    with pytest.raises(ValueError, match=r"1000000 x 1000000: decoding it takes about 3725\.3 GiB"):
        single_image.read_image(empty(tmp_path / "huge.png", 10**6, 10**6, 8, lines=0))


def test_a_png_that_begins_with_another_chunk_is_not_read_by_its_size(tmp_path):
    (tmp_path / "phone.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"CgBI", bytes(4)) + bytes(60))
    with pytest.raises(ValueError, match=r"phone\.png does not decode as an image"):
        single_image.read_image(tmp_path / "phone.png")


def test_what_is_no_picture_is_refused(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("not a picture")
    torn = tmp_path / "torn.png"
    torn.write_bytes(saved(tmp_path / "a.png", COLOURS).read_bytes()[:60])
    inks = io.BytesIO()
    Image.fromarray(COLOURS).convert("CMYK").save(inks, "JPEG")
    (tmp_path / "inks.jpg").write_bytes(inks.getvalue())
    for path, sentence in (
        (text, "a.txt does not decode as an image"),
        (torn, "torn.png does not decode as an image"),
        (tmp_path / "inks.jpg", "inks.jpg is CMYK, the color space of printing: save it as RGB"),
        (tmp_path, "is a folder, and an image .* is one regular file"),
        (tmp_path / "none.png", "there is no file .*none.png"),
    ):
        with pytest.raises(ValueError, match=sentence):
            single_image.read_image(path)


def test_what_does_not_fit_into_memory_is_refused_with_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(image_file, "free_memory", lambda: 10)
    with pytest.raises(ValueError, match=r"9 x 6: decoding it takes about 0\.0 GiB, and this machine has 0\.0 free"):
        single_image.read_image(saved(tmp_path / "a.png", COLOURS))


def test_a_worked_example():
    picture = np.zeros((4, 4, 3), np.uint8)
    picture[:, 2:] = 255
    assert single_image.pixel_positions(picture.shape, np.array([0, 15])).tolist() == [[0.125, 0.125], [0.875, 0.875]]
    assert single_image.pixel_values(picture, np.array([0, 15])).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert single_image.pixel_positions(picture.shape, np.array([6]), "held-out").tolist() == [[0.25, 0.5]]


@pytest.mark.parametrize("shape", [(6, 9, 3), (7, 5, 1), (2, 2, 3)])
def test_held_out_pixels_are_never_learned(shape):
    learned = {int(p) for step in range(60) for p in single_image.stratified_batch(shape, "held-out", 8, 0, step)}
    rows, columns = np.divmod(sorted(learned), shape[1])
    assert not (rows % 2).any()
    assert not (columns % 2).any()
    assert len(learned) == math.prod(single_image.train_shape(shape, "held-out"))
    asked = single_image.eval_pixels(shape, "held-out").reshape(-1)
    row, column = np.divmod(asked, shape[1])
    assert np.concatenate(list(single_image.eval_batches(shape, "held-out", 3))).tolist() == asked.tolist()
    assert all(len(part) <= 3 for part in single_image.eval_batches(shape, "all", 3))
    assert sum(len(part) for part in single_image.eval_batches(shape, "all", 3)) == shape[0] * shape[1]
    assert (row % 2 == 1).all()
    assert (column % 2 == 1).all()
    assert len(row) == (shape[0] // 2) * (shape[1] // 2)


@pytest.mark.parametrize("shape", [(64, 64, 3), (16, 256, 3), (1, 50, 1), (50, 1, 1)])
def test_a_batch_has_one_pixel_in_each_cell(shape):
    batch = single_image.stratified_batch(shape, "all", 64, 3, 5)
    assert len(batch) <= 64
    assert len(batch) >= min(32, shape[0] * shape[1])
    assert len(set(batch.tolist())) == len(batch)
    assert (batch == single_image.stratified_batch(shape, "all", 64, 3, 5)).all()
    if shape[0] * shape[1] > 64:
        assert (batch != single_image.stratified_batch(shape, "all", 64, 3, 6)).any()
        assert (batch != single_image.stratified_batch(shape, "all", 64, 4, 5)).any()
    if shape == (64, 64, 3):  # 8 x 8 cells of 8 x 8 pixels
        row, column = np.divmod(batch, 64)
        assert len({(r // 8, c // 8) for r, c in zip(row.tolist(), column.tolist(), strict=True)}) == 64


@pytest.mark.parametrize("protocol", ["all", "held-out"])
def test_a_part_of_what_is_scored_is_strewn_over_the_picture(protocol):
    shape = (90, 60, 1)
    some, whole = single_image.stratified_sample(shape, protocol, 100), single_image.eval_pixels(shape, protocol)
    assert whole.shape == single_image.eval_shape(shape, protocol)
    assert set(some.tolist()) < set(whole.reshape(-1).tolist())
    assert len(set(some.tolist())) == len(some) > 80
    assert (some == single_image.stratified_sample(shape, protocol, 100)).all()
    rows, columns = np.divmod(some, shape[1])
    assert abs(rows.mean() - 44.5) < 3
    assert abs(columns.mean() - 29.5) < 3


def test_psnr_is_minus_ten_log_ten_of_the_squared_error():
    truth = torch.full((10, 3), 0.5)
    assert single_image.psnr(truth + 0.1, truth) == pytest.approx(20.0, abs=1e-4)
    assert single_image.psnr(torch.full((10, 3), 7.0), torch.ones(10, 3)) == math.inf  # cut to what can be shown


def test_a_wave_has_all_its_power_at_its_frequency():
    x = np.arange(32)
    cycles, power = single_image.radial_spectrum(np.cos(2 * np.pi * 5 * x / 32) * np.ones((32, 1)))
    assert cycles[power.argmax()] == 5
    assert power[cycles != 5].max() < 1e-12 * power.max()


def test_a_smaller_picture_has_the_means_of_blocks():
    small = single_image.downscale(COLOURS[:, :8], 4)
    assert small.shape == (3, 4, 3)
    assert small[1, 2, 0] == round(COLOURS[2:4, 4:6, 0].mean())
    assert single_image.downscale(COLOURS, 9) is COLOURS


@pytest.mark.parametrize("longest", [8, 7, 4, 3, 1])
def test_a_smaller_picture_is_as_large_as_asked_and_has_the_means_of_areas(longest):
    def share(before, after):
        """How much of each old pixel a new one covers."""
        edges = np.arange(after + 1) * before / after
        old = np.arange(before)
        return (np.minimum(edges[1:, None], old + 1) - np.maximum(edges[:-1, None], old)).clip(0) * after / before

    small = single_image.downscale(COLOURS, longest)
    height = max(1, round(6 * longest / 9))
    assert small.shape == (height, longest, 3)
    exact = np.einsum("yr,xs,rsc->yxc", share(6, height), share(9, longest), COLOURS.astype(float))
    assert np.abs(small - exact).max() <= 0.5 + 1e-9


def test_what_is_clear_gives_a_smaller_picture_no_colour():
    red = np.zeros((2, 2, 4), np.uint8)
    red[0, 0] = 200, 0, 0, 255
    assert single_image.downscale(red, 1).tolist() == [[[200, 0, 0, 64]]]
    assert single_image.downscale(np.zeros((2, 2, 2), np.uint8), 1).tolist() == [[[0, 0]]]


def test_a_large_picture_is_reduced_a_band_at_a_time():
    large = np.random.default_rng(0).integers(0, 2**16, (1024, 6000, 1), dtype=np.uint16)  # two bands
    small = single_image.downscale(large, 60)
    assert small.shape == (10, 60, 1)
    assert abs(float(small.mean()) - large[:1024].mean()) < 1


@pytest.mark.data
def test_the_photographs_have_names(data_folder):
    found = single_image.load_photos(data_folder, 256)
    assert len(found) == 10
    assert found["astronaut"].shape == (256, 256, 3)


def test_missing_photographs_are_named(tmp_path):
    with pytest.raises(ValueError, match="Give an image of your own"):
        single_image.load_photos(tmp_path, 256)
