"""IDX files, CIFAR's python batches, class folders and packed files: read rightly, refused in a sentence."""

import gzip
import io
import os
import pickle

import numpy as np
import pytest
from PIL import Image

from posenc.workbench.data.readers import cifar_batches, class_folders, idx_files, packed_images
from posenc.workbench.data.reading_options import NO_OPTIONS
from posenc.workbench.tasks.images.image_decoder import Square, decode_image, decoder_pool, image_size
from small_images import RANDOM, archived, as_python2, batch, encoded, idx_bytes, write_cifar10, write_idx, write_packed


def arrays(reader, path):
    """Training and test part of images that are arrays."""
    return reader.read(path, NO_OPTIONS).arrays().values()


# IDX -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [True, False])
def test_idx_is_read_plain_and_gzipped(tmp_path, pack):
    train, test = arrays(idx_files, write_idx(tmp_path, pack=pack))
    assert (len(train), len(test)) == (12, 6)
    assert train.pixels.shape[1:] == (1, 4, 5)
    assert train.classes == ("0", "1", "2")
    assert (train.pixels[[3, 1]].reshape(2, -1) == RANDOM[[3, 1], :20]).all()
    assert train.labels[:4].tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda path: path.unlink(), r"lacks train-images-idx3-ubyte\.gz, plain or gzipped"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), r"damaged or cut short"),
        (lambda path: path.write_bytes(b""), r"is no IDX file|truncated"),
        (lambda path: path.write_bytes(b"text"), r"damaged or cut short"),
        (lambda path: path.write_bytes(gzip.compress(b"\0\0\x0d\x03" + bytes(12))), r"no IDX file of uint8"),
        (lambda path: path.write_bytes(gzip.compress(idx_bytes(RANDOM))), r"has 2 axes; 3 are needed"),
        (
            lambda path: path.write_bytes(gzip.compress(idx_bytes(RANDOM.reshape(40, 48, 64))[:-1])),
            r"its header states 40 x 48 x 64 values and 122879 follow",
        ),
        (lambda path: path.write_bytes(gzip.compress(b"\0\0\x08\x03\0\0")), r"truncated or damaged"),
        (lambda path: path.write_bytes(gzip.compress(idx_bytes(RANDOM[:3].reshape(3, 48, 64)))), r"3 images and 12"),
        (lambda path: path.write_bytes(gzip.compress(idx_bytes(np.zeros((12, 0, 4), np.uint8)))), r"without pixels"),
    ],
)
def test_a_damaged_idx_file_is_refused(tmp_path, spoil, sentence):
    write_idx(tmp_path)
    spoil(tmp_path / "train-images-idx3-ubyte.gz")
    with pytest.raises(ValueError, match=sentence):
        arrays(idx_files, tmp_path)


def test_a_plain_idx_file_that_is_cut_is_refused(tmp_path):
    write_idx(tmp_path, pack=False)
    path = tmp_path / "t10k-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(ValueError, match="its header states 6 values and 4 follow"):
        arrays(idx_files, tmp_path)


def test_a_label_out_of_range_is_refused(tmp_path):
    write_idx(tmp_path, classes=3)
    labels = np.array([0, 1, 2, 3, 0, 1], np.uint8)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte .* has label 3, which no training image has"):
        arrays(idx_files, tmp_path)


def test_classes_are_the_labels_that_training_images_have(tmp_path):
    """Before, labels from 1 to 3 were 4 classes, of which 0 was empty."""
    write_idx(tmp_path, classes=3)
    for part, count in (("train", 12), ("t10k", 6)):
        labels = 1 + 2 * (np.arange(count) % 3).astype(np.uint8)
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
    train, test = arrays(idx_files, tmp_path)
    assert train.classes == test.classes == ("1", "3", "5")
    assert test.labels.tolist() == [0, 1, 2, 0, 1, 2]
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(np.full(12, 7, np.uint8))))
    with pytest.raises(ValueError, match="has one label, 7; images to classify have two or more"):
        arrays(idx_files, tmp_path)


# CIFAR ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("archive", [False, True])
def test_cifar10_is_read_from_its_folder_and_its_archive(tmp_path, archive):
    place = write_cifar10(tmp_path / "cifar-10-batches-py")
    if archive:
        place = archived(place, tmp_path / "cifar-10-python.tar.gz")
    assert cifar_batches.match(place) == "it has the names of CIFAR-10"
    train, test = arrays(cifar_batches, place)
    assert (len(train), len(test)) == (30, 10)
    assert train.pixels.shape[1:] == (3, 32, 32)
    assert train.classes[3] == "cat"
    assert (train.pixels[13] == RANDOM[13].reshape(3, 32, 32)).all()
    assert test.labels.tolist() == [row % 10 for row in range(30, 40)]


def test_cifar100_has_fine_labels(tmp_path):
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    (folder / "train").write_bytes(as_python2(batch(list(range(20)), b"fine_labels", 100)))
    (folder / "test").write_bytes(as_python2(batch(list(range(5)), b"fine_labels", 100)))
    (folder / "meta").write_bytes(as_python2({b"fine_label_names": [f"kind {i}".encode() for i in range(100)]}))
    train, _ = arrays(cifar_batches, folder)
    assert len(train.classes) == 100
    assert train.labels[19] == 19


class Dangerous:
    def __reduce__(self):
        return os.mkdir, (os.fspath(self.target),)


def test_a_pickle_that_would_run_something_is_refused_and_runs_nothing(tmp_path):
    folder = write_cifar10(tmp_path / "cifar-10-batches-py")
    evil = Dangerous()
    evil.target = tmp_path / "made"
    (folder / "data_batch_3").write_bytes(pickle.dumps(evil))
    with pytest.raises(ValueError, match=r"data_batch_3 is truncated, damaged or no batch \(it asks for posix.mkdir"):
        arrays(cifar_batches, folder)
    assert not evil.target.exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("data_batch_2", None, "lacks data_batch_2"),
        ("data_batch_2", b"", "data_batch_2 is truncated, damaged or no batch"),
        ("data_batch_2", as_python2(batch([1, 2]))[:-50], "data_batch_2 is truncated, damaged or no batch"),
        ("test_batch", as_python2([1]), "test_batch is not a batch; it contains a list"),
        ("test_batch", as_python2({b"data": RANDOM[:2], b"labels": [1]}), "n x 3072 of uint8, and n labels"),
        ("test_batch", as_python2({b"data": RANDOM[:2, :9], b"labels": [1, 2]}), "n x 3072 of uint8"),
        ("test_batch", as_python2({b"data": RANDOM[:2], b"labels": [1, 10]}), "label 10, but its 10 classes"),
        ("batches.meta", as_python2({}), "no list of class names"),
    ],
)
def test_a_damaged_batch_is_refused(tmp_path, name, content, sentence):
    folder = write_cifar10(tmp_path / "cifar-10-batches-py")
    (folder / name).unlink() if content is None else (folder / name).write_bytes(content)
    for place in (folder, archived(folder, tmp_path / "cifar-10-python.tar.gz")):
        with pytest.raises(ValueError, match=sentence.replace("lacks ", "lacks .*")):
            arrays(cifar_batches, place)


def test_a_truncated_archive_is_refused(tmp_path):
    path = archived(write_cifar10(tmp_path / "cifar-10-batches-py"), tmp_path / "cifar-10-python.tar.gz")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match="is truncated or no archive"):
        arrays(cifar_batches, path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="is truncated or no archive"):
        arrays(cifar_batches, path)


# class folders and packed files --------------------------------------------------------------------------------------


def test_class_folders_are_listed_in_their_layouts(tmp_path):
    for part in ("train", "val", "test"):
        for name in ("cat", "dog"):
            folder = tmp_path / "both" / part / name / "deeper"
            folder.mkdir(parents=True)
            (folder / f"{part}.JPG").write_bytes(b"x")
            (folder / "notes.txt").write_bytes(b"x")
            (folder / ".hidden.jpg").write_bytes(b"x")
    (tmp_path / "both" / ".git").mkdir()
    found = class_folders.read(tmp_path / "both", NO_OPTIONS).parts
    assert {part: files.names for part, files in found.items()} == {
        "train": ("cat/deeper/train.JPG", "dog/deeper/train.JPG"),
        "validation": ("cat/deeper/val.JPG", "dog/deeper/val.JPG"),
        "test": ("cat/deeper/test.JPG", "dog/deeper/test.JPG"),
    }
    assert found["train"].classes == ("cat", "dog")
    assert found["train"].labels.tolist() == [0, 1]
    assert set(class_folders.read(tmp_path / "both" / "train", NO_OPTIONS).parts) == {"train"}
    for path in sorted((tmp_path / "both" / "test").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "both" / "test").rmdir()
    assert set(class_folders.read(tmp_path / "both", NO_OPTIONS).parts) == {"train", "test"}  # the one held-out folder


def test_the_stamp_changes_with_a_file(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(b"x")
    before = class_folders.read(tmp_path, NO_OPTIONS).parts["train"].stamp
    assert class_folders.read(tmp_path, NO_OPTIONS).parts["train"].stamp == before
    os.utime(tmp_path / "cat" / "1.png", ns=(1, 1))
    assert class_folders.read(tmp_path, NO_OPTIONS).parts["train"].stamp != before


def test_too_few_classes_and_empty_ones_are_refused(tmp_path):
    with pytest.raises(ValueError, match="has no class folder; images to classify lie in a folder for each class"):
        class_folders.read(tmp_path, NO_OPTIONS)
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.jpg").write_bytes(b"x")
    with pytest.raises(ValueError, match="has one class folder, cat; images to classify"):
        class_folders.read(tmp_path, NO_OPTIONS)
    (tmp_path / "dog").mkdir()
    with pytest.raises(ValueError, match="dog has no images"):
        class_folders.read(tmp_path, NO_OPTIONS)


def test_a_held_out_class_that_is_not_learned_is_refused(tmp_path):
    for place in ("train/cat", "train/dog", "val/cat", "val/cow"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "1.jpg").write_bytes(b"x")
    with pytest.raises(ValueError, match="has the class cow, which the training images lack"):
        class_folders.read(tmp_path, NO_OPTIONS)


def test_packed_files_are_cut_where_they_end(tmp_path):
    parts = packed_images.read(write_packed(tmp_path / "some.npz"), NO_OPTIONS).parts
    assert [len(parts[part]) for part in ("train", "test")] == [8, 4]
    assert decode_image(parts["train"].open(5), Square(8)).pixels[0, 0].tolist() == [100, 100, 100]
    assert decode_image(parts["test"].open(0), Square(8)).pixels[0, 0].tolist() == [160, 160, 160]
    assert parts["train"].stamp != parts["test"].stamp


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"y_train": np.array([0, 1, 0, 1, 0, 1, 0, 2])}, "has label 2, but its 2 classes"),
        ({"end_train": np.arange(8)}, "train has 8 labels, and its files do not end to end"),
        ({"y_test": np.zeros(3, np.uint8)}, "test has 3 labels"),
    ],
)
def test_a_packed_file_that_does_not_add_up_is_refused(tmp_path, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        packed_images.read(write_packed(tmp_path / "some.npz", **changes), NO_OPTIONS)


def test_a_packed_file_that_is_no_such_file_is_refused(tmp_path):
    path = write_packed(tmp_path / "some.npz")
    content = path.read_bytes()
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    path.write_bytes(content[: len(content) // 2])
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("some.npz", "other.npz", "empty.npz", "none.npz"):
        with pytest.raises(ValueError, match=f"{name} is missing, truncated or no packed images"):
            packed_images.read(tmp_path / name, NO_OPTIONS)


# decoding ------------------------------------------------------------------------------------------------------------

COLOURS = np.zeros((16, 16, 3), np.uint8)
COLOURS[:8], COLOURS[8:] = (200, 40, 90), (30, 160, 220)
GREY = Image.fromarray(COLOURS).convert("L")


def of(content, size=16, fit="crop", background="white"):
    return decode_image(io.BytesIO(content), Square(size, fit, background)).pixels.astype(int)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_colours_come_as_they_are(kind):
    assert (of(encoded(COLOURS, kind)) == COLOURS).all()


def test_every_mode_becomes_the_colours_that_one_sees():
    assert (of(encoded(GREY, "PNG")) == np.asarray(GREY)[..., None]).all()
    assert (of(encoded(GREY.point(lambda v: 255 * (v > 100)).convert("1"), "PNG")) % 255 == 0).all()
    deep = Image.fromarray(np.asarray(GREY).astype(np.uint16) * 257)
    assert (of(encoded(deep, "PNG")) == np.asarray(GREY)[..., None]).all()
    palette = Image.fromarray(COLOURS).quantize(2)
    assert abs(of(encoded(palette, "GIF")) - COLOURS).max() <= 2
    inks = Image.fromarray(COLOURS).convert("CMYK")
    assert abs(of(encoded(inks, "JPEG", quality=95)) - COLOURS).max() <= 12
    assert (of(encoded(inks, "TIFF")) == COLOURS).all()
    assert (of(encoded(Image.fromarray(COLOURS).convert("RGBA"), "PNG")) == COLOURS).all()


def test_what_is_transparent_is_white():
    alpha = np.dstack([COLOURS, np.full((16, 16), 255, np.uint8)])
    alpha[:8, :, 3] = 0
    found = of(encoded(alpha, "PNG"))
    assert (found[:8] == 255).all()
    assert (found[8:] == COLOURS[8:]).all()
    keyed = of(encoded(Image.fromarray(COLOURS), "PNG", transparency=(200, 40, 90)))
    assert (keyed[:8] == 255).all()
    assert (keyed[8:] == COLOURS[8:]).all()


def test_the_cameras_rotation_is_applied():
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    assert (of(encoded(COLOURS, "PNG", exif=exif)) == COLOURS[::-1]).all()


def test_the_middle_is_cut_or_everything_squeezed():
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    assert (of(encoded(wide, "PNG"), 10) == 255).all()
    squeezed = of(encoded(wide, "PNG"), 30, "resize")
    assert (squeezed[:, 2:8] < 30).all()
    assert (squeezed[:, 13:17] > 225).all()


def test_small_pictures_grow_and_large_jpegs_are_decoded_small(monkeypatch):
    assert of(encoded(COLOURS, "PNG"), 40).shape == (40, 40, 3)
    smooth = np.add.outer(np.arange(512), np.arange(700))[..., None] // 5
    large = encoded(np.broadcast_to(smooth, (512, 700, 3)).astype(np.uint8), "JPEG", quality=95)
    asked = []
    real = Image.Image.resize

    def watched(self, *arguments, **options):
        asked.append(self.size)
        return real(self, *arguments, **options)

    monkeypatch.setattr(Image.Image, "resize", watched)
    found = of(large, 100)
    assert asked == [(175, 128)]  # a quarter of its size
    full = np.asarray(real(Image.open(io.BytesIO(large)), (100, 100), Image.Resampling.BICUBIC, box=(94, 0, 606, 512)))
    assert abs(found - full).max() <= 4


def test_a_picture_is_measured_without_decoding(tmp_path):
    assert image_size(io.BytesIO(encoded(np.zeros((5, 9, 3), np.uint8), "PNG"))) == (9, 5)
    with pytest.raises(ValueError, match="choose the size at which to read"):
        image_size(io.BytesIO(b"text"))


def test_threads_are_as_many_as_asked_for():
    with decoder_pool(3) as pool:
        assert pool._max_workers == 3
    with decoder_pool(None) as pool:
        assert pool._max_workers >= 1
