"""A data set by its name or place: found, downloaded with its checksum, or missed in a sentence."""

import functools
import hashlib
import http.server
import threading

import pytest

from posenc.cli.tasks import data
from posenc.tasks import images as face
from posenc.tasks.images import downloading
from posenc.tasks.images.downloading import Download, fetch
from posenc.tasks.images.finding import find
from small_images import write_cifar10, write_folder, write_idx, write_packed


def test_sets_are_found_by_name_and_by_place(tmp_path):
    real = tmp_path / "data"
    write_idx(real / "fashion_mnist", train=20, classes=10)
    write_idx(real / "mine", classes=3)
    write_cifar10(real / "cifar-10-batches-py")
    (real / "caltech100").mkdir()
    write_packed(real / "caltech100" / "caltech100_128px_packed.npz")
    options = {"kept_in": tmp_path / "cache", "validation": 0.25}
    assert find("fashion-mnist", real, validation=0.0).train.classes[5] == "sandal"
    assert find(real / "mine", **options).train.classes == ("0", "1", "2")
    assert find("cifar-10", real, size=16, validation=0.0).train.shape == (3, 16, 16)
    parts = find("caltech-100", real, **options)
    assert parts.train.name == "caltech-100"
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [6, 2, 4]
    assert parts.train.shape == (3, 8, 8)  # as large as they are
    folder = write_folder(tmp_path / "pets", count=20)
    parts = find(folder, size=8, seed=3, images=6, **options)
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [6, 4, 4]
    assert parts.train.counts.tolist() == [3, 3]


def test_a_validation_folder_is_the_validation_part(tmp_path):
    for part, count in (("train", 10), ("val", 6), ("test", 4)):
        write_folder(tmp_path / "pets" / part, count=count)
    parts = find(tmp_path / "pets", size=8, kept_in=tmp_path / "cache")
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [10, 6, 4]


def test_what_is_not_there_says_where_to_put_it(tmp_path):
    with pytest.raises(
        ValueError, match=r"fashion_mnist or .*posenc data fashion-mnist, put it there, or .*--data DIR"
    ):
        find("fashion-mnist", tmp_path, kept_in=tmp_path)
    with pytest.raises(ValueError, match=r"cifar-10 is not at .*cifar-10-batches-py or .*your own copy.*--data DIR"):
        find("cifar-10", tmp_path, kept_in=tmp_path)
    with pytest.raises(ValueError, match="is not there, and no set has that name: fashion-mnist, mnist"):
        find(tmp_path / "none")
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(ValueError, match=r"a\.txt is no data set"):
        find(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="Say at which to read them, as size=128"):
        find(write_folder(tmp_path / "pets"), kept_in=tmp_path)


@pytest.mark.data
def test_fashion_mnist_is_whole(data_folder):
    parts = find("fashion-mnist", data_folder, images=10_000)
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [10_000, 6_000, 10_000]
    assert parts.train.counts.tolist() == [1000] * 10
    assert parts.test.shape == (1, 28, 28)
    assert parts.test.labels[:5].tolist() == [9, 2, 1, 1, 6]
    for name, digest in downloading.FASHION_MNIST.files.items():
        assert hashlib.sha256((data_folder / "fashion_mnist" / name).read_bytes()).hexdigest() == digest


@pytest.mark.data
def test_caltech_is_whole(data_folder, tmp_path):
    parts = find("caltech-100", data_folder, size=32, kept_in=tmp_path, validation=0.1)
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
        assert (fetch(download, tmp_path / "cache") / "a.gz").read_bytes() == b"content"
    assert asked == ["/a.gz"]
    (web / "a.gz").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"a\.gz of toy could not be downloaded \(its checksum is another\)"):
        fetch(download, tmp_path / "second")
    assert not (tmp_path / "second" / "toy" / "a.gz").exists()


def test_without_a_network_a_download_says_what_to_do(served, tmp_path):
    pytest.importorskip("pooch")
    _, base, _ = served
    absent = Download("toy", "toy", "none", base, {"a.gz": "0" * 64})
    with pytest.raises(ValueError, match=rf"\(HTTPError\)\. Get it from {base} yourself and put it into .*--data DIR"):
        fetch(absent, tmp_path)
    closed = Download("toy", "toy", "none", "http://127.0.0.1:1/", {"a.gz": "0" * 64})
    with pytest.raises(ValueError, match=r"a\.gz of toy could not be downloaded \(ConnectionError\)"):
        fetch(closed, tmp_path)


def test_the_command_downloads_into_a_folder_of_yours(served, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pooch")
    web, base, _ = served
    (web / "a.gz").write_bytes(b"content")
    toy = Download("toy", "toy", "none", base, {"a.gz": hashlib.sha256(b"content").hexdigest()})
    monkeypatch.setattr(face, "FASHION_MNIST", toy)
    assert data("fashion-mnist", to=tmp_path / "mine") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'mine' / 'toy'}\n"
    assert (tmp_path / "mine" / "toy" / "a.gz").read_bytes() == b"content"
    with pytest.raises(ValueError, match="fashion-mnist is downloaded; to read a copy"):
        data("fashion-mnist", read=tmp_path)


def test_the_cache_is_where_the_variable_says(tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path))
    assert downloading.cache_folder() == tmp_path
    monkeypatch.delenv("POSENC_CACHE")
    assert downloading.cache_folder().name == "posenc"


def test_find_downloads_on_request_alone(served, tmp_path, monkeypatch):
    pytest.importorskip("pooch")
    web, base, asked = served
    write_idx(web, train=20, classes=10)
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in web.iterdir()}
    toy = Download("fashion-mnist", "fashion_mnist", "none", base, digests)
    monkeypatch.setattr("posenc.tasks.images.finding.FASHION_MNIST", toy)
    with pytest.raises(ValueError, match="download it"):
        find("fashion-mnist", kept_in=tmp_path / "cache")
    assert asked == []
    parts = find("fashion-mnist", tmp_path, kept_in=tmp_path / "cache", download=True, validation=0.0)
    assert len(parts.train) == 20
    assert len(find("fashion-mnist", kept_in=tmp_path / "cache", validation=0.0).train) == 20
    assert len(asked) == 4
