"""A data set by its name or place: found, downloaded with its checksum, or missed in a sentence."""

import functools
import hashlib
import http.server
import threading

import pytest

from posenc.cli.data import data
from posenc.workbench.tasks import images as face
from posenc.workbench.tasks.images import download
from posenc.workbench.tasks.images.data_sets import load_images
from posenc.workbench.tasks.images.download import Download, download_files
from small_images import write_cifar10, write_folder, write_idx, write_packed

pytestmark = pytest.mark.bare


def test_sets_are_found_by_name_and_by_place(tmp_path):
    real = tmp_path / "data"
    write_idx(real / "fashion_mnist", train=20, classes=10)
    write_idx(real / "mine", classes=3)
    write_cifar10(real / "cifar-10-batches-py")
    (real / "caltech100").mkdir()
    write_packed(real / "caltech100" / "caltech100_128px_packed.npz")
    options = {"cache": tmp_path / "cache", "validation": 0.25}
    assert load_images("fashion-mnist", real, validation=0.0).train.classes[5] == "sandal"
    assert load_images(real / "mine", **options).train.classes == ("0", "1", "2")
    assert load_images("cifar-10", real, size=16, validation=0.0).train.shape == (3, 16, 16)
    parts = load_images("caltech-100", real, **options)
    assert parts.train.name == "caltech-100"
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [6, 2, 4]
    assert parts.train.shape == (3, 8, 8)  # as large as they are
    folder = write_folder(tmp_path / "pets", count=20)
    parts = load_images(folder, size=8, seed=3, images=6, **options)
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [6, 4, 4]
    assert parts.train.counts.tolist() == [3, 3]


def test_a_validation_folder_is_the_validation_part(tmp_path):
    for part, count in (("train", 10), ("val", 6), ("test", 4)):
        write_folder(tmp_path / "pets" / part, count=count)
    parts = load_images(tmp_path / "pets", size=8, cache=tmp_path / "cache")
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [10, 6, 4]


def test_what_is_not_there_says_where_to_put_it(tmp_path):
    with pytest.raises(
        ValueError, match=r"fashion_mnist or .*posenc data fashion-mnist, put it into that folder, or .*--data DIR"
    ):
        load_images("fashion-mnist", tmp_path, cache=tmp_path)
    with pytest.raises(ValueError, match=r"cifar-10 is not at .*cifar-10-batches-py or .*your own copy.*--data DIR"):
        load_images("cifar-10", tmp_path, cache=tmp_path)
    with pytest.raises(ValueError, match=r"does not exist, and no data set has that name. .* fashion-mnist, mnist"):
        load_images(tmp_path / "none")
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(ValueError, match=r"a\.txt has no labeled images"):
        load_images(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="Choose the size at which to read them: size=128"):
        load_images(write_folder(tmp_path / "pets"), cache=tmp_path)


@pytest.mark.data
def test_fashion_mnist_is_whole(data_folder):
    parts = load_images("fashion-mnist", data_folder, images=10_000)
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [10_000, 6_000, 10_000]
    assert parts.train.counts.tolist() == [1000] * 10
    assert parts.test.shape == (1, 28, 28)
    assert parts.test.labels[:5].tolist() == [9, 2, 1, 1, 6]
    for name, digest in download.FASHION_MNIST.files.items():
        assert hashlib.sha256((data_folder / "fashion_mnist" / name).read_bytes()).hexdigest() == digest


@pytest.mark.full
@pytest.mark.data
def test_caltech_is_whole(data_folder, tmp_path):
    parts = load_images("caltech-100", data_folder, size=32, cache=tmp_path, validation=0.1)
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [4945, 549, 2748]
    assert parts.note == ""
    assert len(parts.train.classes) == 100
    assert parts.train.counts.min() >= 15
    mean = parts.test.read(range(200)).float().mean()
    assert 60 < mean < 200


# downloads -----------------------------------------------------------------------------------------------------------


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked: list[str]

    def log_message(self, format, *arguments):
        self.server.asked.append(self.path)


@pytest.fixture
def served(tmp_path):
    """A web server on this machine, and what it was asked for."""
    (tmp_path / "web").mkdir()
    handler = functools.partial(Quiet, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield tmp_path / "web", f"http://127.0.0.1:{server.server_port}/", server.asked
        server.shutdown()
        thread.join()


def test_a_download_is_checked_and_happens_once(served, tmp_path):
    pytest.importorskip("pooch")
    web, base, asked = served
    (web / "a.gz").write_bytes(b"content")
    download = Download("toy", "toy", "none", base, {"a.gz": hashlib.sha256(b"content").hexdigest()})
    for _ in range(2):
        assert (download_files(download, tmp_path / "cache") / "a.gz").read_bytes() == b"content"
    assert asked == ["/a.gz"]
    (web / "a.gz").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"a\.gz of toy could not be downloaded \(its checksum differs\)"):
        download_files(download, tmp_path / "second")
    assert not (tmp_path / "second" / "toy" / "a.gz").exists()


def test_without_a_network_a_download_says_what_to_do(served, tmp_path):
    pytest.importorskip("pooch")
    _, base, _ = served
    absent = Download("toy", "toy", "none", base, {"a.gz": "0" * 64})
    with pytest.raises(ValueError, match=rf"\(HTTPError\)\. Get it from {base} yourself and put it into .*--data DIR"):
        download_files(absent, tmp_path)
    closed = Download("toy", "toy", "none", "http://127.0.0.1:1/", {"a.gz": "0" * 64})
    with pytest.raises(ValueError, match=r"a\.gz of toy could not be downloaded \(ConnectionError\)"):
        download_files(closed, tmp_path)


def test_the_command_downloads_into_a_folder_of_yours(served, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pooch")
    web, base, _ = served
    (web / "a.gz").write_bytes(b"content")
    toy = Download("toy", "toy", "none", base, {"a.gz": hashlib.sha256(b"content").hexdigest()})
    monkeypatch.setattr(face, "FASHION_MNIST", toy)
    assert data("fashion-mnist", to=tmp_path / "mine") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'mine' / 'toy'}\n"
    assert (tmp_path / "mine" / "toy" / "a.gz").read_bytes() == b"content"
    with pytest.raises(ValueError, match="fashion-mnist is downloaded, so --read has no use here"):
        data("fashion-mnist", read=tmp_path)


def test_the_cache_is_where_the_variable_says(tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path))
    assert download.cache_folder() == tmp_path
    monkeypatch.delenv("POSENC_CACHE")
    assert download.cache_folder().name == "posenc"


def test_find_downloads_on_request_alone(served, tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    web, base, asked = served
    write_idx(web, train=20, classes=10)
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in web.iterdir()}
    toy = Download("fashion-mnist", "fashion_mnist", "none", base, digests)
    monkeypatch.setattr("posenc.workbench.tasks.images.data_sets.FASHION_MNIST", toy)
    with pytest.raises(ValueError, match="download it"):
        load_images("fashion-mnist", cache=tmp_path / "cache")
    assert asked == []
    parts = load_images("fashion-mnist", tmp_path, cache=tmp_path / "cache", download=True, validation=0.0)
    assert len(parts.train) == 20
    assert len(load_images("fashion-mnist", cache=tmp_path / "cache", validation=0.0).train) == 20
    assert len(asked) == 4
