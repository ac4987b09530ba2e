"""Pictures are decoded once, by one process, and those that do not decode are counted."""

import json
import multiprocessing
import os
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from posenc.workbench.data.readers import class_folders
from posenc.workbench.data.reading_options import NO_OPTIONS
from posenc.workbench.tasks.images import image_cache
from posenc.workbench.tasks.images.image_cache import cached_images
from posenc.workbench.tasks.images.image_decoder import Square
from posenc.workbench.tasks.images.splits import split
from small_images import write_folder


def taken(root, cache, **options):
    return cached_images(class_folders.read(root, NO_OPTIONS).parts["train"], cache, Square(8), **options)


def test_pictures_are_decoded_once(tmp_path, monkeypatch):
    root = write_folder(tmp_path / "pets")
    first = taken(root, tmp_path / "cache")
    assert first.shape == (3, 8, 8)
    assert first.classes == ("cat", "dog")
    assert first.read(np.arange(6))[:, 0, 4, 4].tolist() == [0, 20, 40, 10, 30, 50]
    assert first.note == ""
    monkeypatch.setattr(image_cache, "decode_images", None)  # no second time
    again = taken(root, tmp_path / "cache")
    assert torch.equal(first.read(range(6)), again.read(range(6)))
    assert again.read([1]).is_contiguous(memory_format=torch.channels_last)


def test_another_size_shape_or_date_is_decoded_anew(tmp_path):
    root = write_folder(tmp_path / "pets")
    files = class_folders.read(root, NO_OPTIONS).parts["train"]
    cache = tmp_path / "cache"
    for square in (Square(8), Square(9), Square(8, "resize"), Square(8, background="black")):
        cached_images(files, cache, square)
    assert len(list((cache / "pictures").iterdir())) == 4
    Image.new("RGB", (10, 10), (99, 0, 0)).save(root / "cat" / "0.png")
    os.utime(root / "cat" / "0.png", ns=(5, 5))
    assert taken(root, cache).read([0])[0, 0, 0, 0] == 99


def test_pictures_that_do_not_decode_are_counted_once(tmp_path):
    root = write_folder(tmp_path / "pets", count=8)
    whole = root / "cat" / "whole.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(whole)
    (root / "cat" / "torn.jpg").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    (root / "dog" / "empty.png").write_bytes(b"")
    sentence = "2 images of pets do not decode and were left out: cat/torn.jpg, dog/empty.png."
    with pytest.warns(UserWarning, match="do not decode") as said:
        images = taken(root, tmp_path / "cache")
    assert [str(one.message) for one in said] == [sentence]
    assert len(images) == 9
    assert images.counts.tolist() == [5, 4]
    assert images.read(range(9))[:, 0].flatten(1).float().std(1).argmax() == 4  # cat/whole.jpg stays in its place
    assert images.note == sentence
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert taken(root, tmp_path / "cache").note == sentence  # known, not said again
    parts = split(images, validation=0.0, share=0.3)
    assert parts.note == sentence


def test_nothing_that_decodes_is_refused(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        (tmp_path / "pets" / name / "1.jpg").write_bytes(b"x")
    with pytest.warns(UserWarning, match="do not decode"), pytest.raises(ValueError, match="none of the 2 files"):
        taken(tmp_path / "pets", tmp_path / "cache")


def test_a_file_that_the_system_cannot_read_stops_it_and_is_no_bad_picture(tmp_path):
    root = write_folder(tmp_path / "pets")
    files = class_folders.read(root, NO_OPTIONS).parts["train"]
    (root / "dog" / "3.png").unlink()
    with pytest.raises(ValueError, match=r"dog/3\.png of pets cannot be read \(No such file"):
        cached_images(files, tmp_path / "cache", Square(8))


def test_a_filling_that_was_stopped_goes_on(tmp_path, monkeypatch):
    root, cache = write_folder(tmp_path / "pets"), tmp_path / "cache"
    expected = taken(root, tmp_path / "other").read(range(6))
    monkeypatch.setattr(image_cache, "CHUNK", 2 * 3 * 8 * 8)  # two pictures
    seen = []

    def stop(done, total):
        seen.append((done, total))
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        taken(root, cache, progress=stop)
    (folder,) = (cache / "pictures").iterdir()
    assert json.loads((folder / "state.json").read_text())["done"] == 4
    found = taken(root, cache, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(2, 6), (4, 6), (6, 6)]
    assert torch.equal(found.read(range(6)), expected)
    (folder / "pixels.u8").unlink()  # a cache whose pictures are gone is filled anew
    assert torch.equal(taken(root, cache).read(range(6)), expected)


def fill(root, cache, line):
    counted = []
    found = taken(root, cache, threads=1, progress=lambda done, total: counted.append(done))
    line.put((len(counted), int(found.read(range(40)).sum())))


def test_two_processes_fill_it_once(tmp_path):
    root, cache = write_folder(tmp_path / "pets", count=40), tmp_path / "cache"
    context = multiprocessing.get_context("fork")
    line = context.SimpleQueue()
    others = [context.Process(target=fill, args=(root, cache, line)) for _ in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join(60)
    (one, first), (two, second) = line.get(), line.get()
    assert first == second > 0
    assert sorted((one, two)) == [0, 1]


def test_a_full_disk_and_a_forbidden_cache_are_sentences(tmp_path, monkeypatch):
    root = write_folder(tmp_path / "pets")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot be written to .*Name another folder: POSENC_CACHE=DIR"):
        taken(root, tmp_path / "file")
    monkeypatch.setattr(image_cache.shutil, "disk_usage", lambda folder: type("Disk", (), {"free": 10}))
    with pytest.raises(ValueError, match=r"decoded images take 0\.0 GiB in .*, which has 0\.0 left"):
        taken(root, tmp_path / "cache")
    with pytest.raises(ValueError, match="at least one pixel; got size=0"):
        cached_images(class_folders.read(root, NO_OPTIONS).parts["train"], tmp_path / "cache", Square(0))
