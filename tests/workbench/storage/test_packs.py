"""Packs: finished results without weights, small files, equal results after a merge."""

from __future__ import annotations

import json
import lzma
import shutil
from pathlib import Path

import pytest
from packed_runs import ORIGIN, TIMING, result, spec, stored

from posenc import cli
from posenc.workbench.storage import packs
from posenc.workbench.storage.packs import merge, pack, read
from posenc.workbench.storage.result_checks import by_code
from posenc.workbench.storage.store import Store, StoreError

pytestmark = pytest.mark.bare

FIRST = Path(__file__).parent / "store_of_the_first_layout"


def plain(rows: list[dict]) -> str:
    """Rows as text, in which nan equals nan."""
    return json.dumps(rows)


def assert_equal_results(store: Store, reference: Store) -> None:
    """The same tables, metrics, curves and small arrays; order included."""
    assert plain(store.results()) == plain(reference.results())
    assert plain(store.curves()) == plain(reference.curves())
    assert plain(store.timings()) == plain(reference.timings())
    assert store.specs() == reference.specs()
    for each in reference.specs():
        ours, theirs = store.arrays(each.identity), reference.arrays(each.identity)
        for name, array in ours.items():
            assert (array.dtype, array.shape) == (theirs[name].dtype, theirs[name].shape)
            assert array.tobytes() == theirs[name].tobytes()


# there and back -----------------------------------------------------------------------------------------------------


def test_pack_and_merge_give_the_same_results(tmp_path: Path) -> None:
    store = stored(tmp_path / "a", spec(0), spec(1), spec(0, study="other"))
    files = pack(store, tmp_path / "packs")
    assert [path.name for path in files] == ["other-quick.pack", "toy-quick.pack"]
    merged = Store(tmp_path / "b")
    assert merge(merged, tmp_path / "packs") == packs.MergeCounts(new=3)
    assert_equal_results(merged, store)
    assert [path.read_bytes() for path in pack(merged, tmp_path / "again")] == [path.read_bytes() for path in files]
    for each in store.specs():
        assert merged.finished(each.identity)
        assert merged.read(each.identity).provenance == ORIGIN
        assert sorted(merged.arrays(each.identity)) == ["counts", "empty", "right", "scalar", "small"]


def test_a_store_of_the_first_layout_is_packed_under_identities(tmp_path: Path) -> None:
    store = Store(_copy(tmp_path))
    merged = Store(tmp_path / "b")
    merge(merged, *pack(store, tmp_path / "packs"))
    assert_equal_results(merged, store)
    assert all(len(path.name) == 24 for path in (tmp_path / "b" / "units").iterdir())


def _copy(tmp_path: Path) -> Path:
    return shutil.copytree(FIRST, tmp_path / "first")


def test_weights_of_a_packed_run_are_one_sentence(tmp_path: Path) -> None:
    store = Store(tmp_path / "b")
    merge(store, *pack(stored(tmp_path / "a", spec()), tmp_path))
    assert not store.read(spec().identity).has_weights
    with pytest.raises(StoreError, match=r"^line, seed 0, came from a pack, and packs hold no weights\. Train it") as e:
        store.weights(spec().identity)
    assert "\n" not in str(e.value)


def test_merging_twice_changes_nothing(tmp_path: Path) -> None:
    files = pack(stored(tmp_path / "a", spec(0), spec(1)), tmp_path / "packs")
    store = Store(tmp_path / "b")
    merge(store, files[0])
    before = {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()}
    assert merge(store, files[0]) == packs.MergeCounts(same=2)
    assert {path: path.read_bytes() for path in store.root.rglob("*") if path.is_file()} == before


def test_a_pack_merged_into_its_own_store_changes_nothing(tmp_path: Path) -> None:
    store = stored(tmp_path / "a", spec(0), spec(1))
    assert merge(store, *pack(store, tmp_path / "packs")) == packs.MergeCounts(same=2)
    assert len(list((store.root / "units").iterdir())) == 2
    assert store.weights(spec(1).identity)["w"].tolist() == [1.0, 1.0]


def test_a_pack_holds_no_path_of_a_machine(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    command = "posenc run toy photos/cat.jpg --data /home/me/data --out='/tmp/my runs/' --set lr=1/3"
    store.finish(spec(), result(), TIMING, ORIGIN | {"command": command})
    (file,) = pack(store, tmp_path / "packs")
    (packed,) = read(file)[1]
    expected = "posenc run toy photos/cat.jpg --data data '--out=my runs' --set lr=1/3"
    assert packed.provenance == ORIGIN | {"command": expected}


def test_one_study_or_preset_is_packed_alone(tmp_path: Path) -> None:
    store = stored(tmp_path / "a", spec(0), spec(0, study="other"), spec(1, preset="standard"))
    assert [path.name for path in pack(store, tmp_path, study="other")] == ["other-quick.pack"]
    assert [path.name for path in pack(store, tmp_path, preset="standard")] == ["toy-standard.pack"]
    with pytest.raises(StoreError, match=r"nothing to pack.* has no finished run of that study and preset"):
        pack(store, tmp_path, study="nothing")


def test_labels_under_two_presets_survive(tmp_path: Path) -> None:
    store = stored(tmp_path / "a", spec(0), spec(1))
    store.note_labels([spec(0, preset="standard", condition="closed", variant="the line")])
    files = pack(store, tmp_path / "packs")
    assert [path.name for path in files] == ["toy-quick.pack", "toy-standard.pack"]
    for number, source in enumerate((tmp_path / "packs", files[0])):
        merged = Store(tmp_path / f"b{number}")
        merge(merged, source)
        assert_equal_results(merged, store)
    alone = Store(tmp_path / "c")  # the pack of the second preset holds what that preset shows
    merge(alone, files[1])
    assert plain(alone.results(preset="standard")) == plain(store.results(preset="standard"))
    assert [each.labels["scheme"] for each in alone.specs()] == ["line", "the line"]


# merging stores -----------------------------------------------------------------------------------------------------


def test_a_store_is_merged_with_its_weights_and_data(tmp_path: Path) -> None:
    first = stored(tmp_path / "a", spec(0))
    shutil.copytree(first.root, tmp_path / "b")
    second = stored(tmp_path / "b", spec(1))
    (second.root / "data" / "deep").mkdir(parents=True)
    (second.root / "data" / "deep" / "squares.npz").write_bytes(b"new")
    (first.root / "data").mkdir()
    for store, text in ((first, b"mine"), (second, b"theirs")):
        (store.root / "data" / "notes.json").write_bytes(text)
    assert merge(first, second.root) == packs.MergeCounts(new=1, same=1)
    assert_equal_results(first, second)
    assert first.weights(spec(1).identity)["w"].tolist() == [1.0, 1.0]
    assert first.arrays(spec(1).identity)["picture"].shape == (64, 64)
    assert (first.root / "data" / "deep" / "squares.npz").read_bytes() == b"new"
    assert (first.root / "data" / "notes.json").read_bytes() == b"mine"


def test_another_result_of_a_run_with_two_old_labels_is_kept_once(tmp_path: Path) -> None:
    root = _copy(tmp_path)
    first = Store(root).specs()[0]
    target = root / "units" / "00000000000000aa"
    shutil.copytree(Store(root).read(first.identity).folder, target)
    record = json.loads((target / "unit.json").read_text())
    record["unit"]["scheme"], record["key"] = "the same again", target.name
    (target / "unit.json").write_text(json.dumps(record))
    other = Store(tmp_path / "b")
    other.finish(first, result(), TIMING, ORIGIN)
    assert len(merge(Store(root), other.root).different) == 1
    assert merge(Store(root), other.root) == packs.MergeCounts(same=1)
    assert [copy.name for copy in Store(root).copies(first.identity)] == [
        first.identity,
        first.identity,
        f"{first.identity}.2",
    ]


def test_a_store_of_the_first_layout_is_merged(tmp_path: Path) -> None:
    old = Store(_copy(tmp_path))
    store = Store(tmp_path / "b")
    assert merge(store, old.root) == packs.MergeCounts(new=10)
    assert_equal_results(store, old)
    assert merge(store, old.root) == packs.MergeCounts(same=10)
    assert merge(Store(old.root), store.root) == packs.MergeCounts(same=10)


def test_weights_of_a_store_complete_a_run_that_came_from_a_pack(tmp_path: Path) -> None:
    whole = stored(tmp_path / "a", spec())
    store = Store(tmp_path / "b")
    merge(store, *pack(whole, tmp_path))
    assert merge(store, whole.root) == packs.MergeCounts(same=1)
    assert store.weights(spec().identity)["w"].tolist() == [0.0, 0.0]
    assert "picture" in store.arrays(spec().identity)
    assert store.read(spec().identity).left_out == {}
    assert len(list((store.root / "units").iterdir())) == 1
    assert list((store.root / "partial").iterdir()) == []
    assert merge(store, *pack(whole, tmp_path, force=True)) == packs.MergeCounts(same=1)
    assert store.read(spec().identity).has_weights


def test_unequal_results_are_both_kept_and_shown(tmp_path: Path) -> None:
    ours, theirs = stored(tmp_path / "a", spec(0)), Store(tmp_path / "b")
    theirs.finish(spec(0), result(loss=7.0), TIMING, ORIGIN)
    merged = merge(ours, *pack(theirs, tmp_path))
    assert merged == packs.MergeCounts(different=("toy, line, seed 0",))
    assert "both results are kept" in str(merged)
    assert sorted(path.name for path in (ours.root / "units").iterdir()) == [
        spec(0).identity,
        f"{spec(0).identity}.2",
    ]
    losses = {row["unit"]: row["value"] for row in ours.results() if row["metric"] == "loss"}
    assert losses == {spec(0).identity: 1 / 3, f"{spec(0).identity}.2": 7.0}
    assert ours.specs() == [spec(0)]
    assert [copy.name for copy in ours.copies(spec(0).identity)] == sorted(losses)
    assert ours.read(spec(0).identity).metrics["loss"] == 1 / 3  # a page shows the first
    (remark,) = (each for each in by_code(ours, [spec(0)]).remarks if "several" in each)
    assert remark.startswith("The store holds several results of line, seed 0, which differ. The first is shown")
    assert {row["value"] for row in ours.rows_of([spec(0)]) if row["metric"] == "loss"} == {1 / 3}
    assert merge(ours, theirs.root) == packs.MergeCounts(same=1)
    third = Store(tmp_path / "c")
    third.finish(spec(0), result(loss=8.0), TIMING, ORIGIN)
    assert merge(ours, third.root).different == ("toy, line, seed 0",)
    copied = Store(tmp_path / "d")  # copies survive a pack too
    merge(copied, *pack(ours, tmp_path / "packs"))
    assert plain(copied.results()) == plain(ours.results())


@pytest.mark.parametrize("part", ["curves", "arrays", "shape", "weights"])
def test_a_difference_in_any_part_makes_a_copy(tmp_path: Path, part: str) -> None:
    ours, theirs = stored(tmp_path / "a", spec()), Store(tmp_path / "b")
    other = result()
    if part == "curves":
        other.curves[-1]["value"] = 0.0
    elif part == "arrays":
        other.arrays["right"] = ~other.arrays["right"]
    elif part == "shape":
        other.arrays["right"] = other.arrays["right"][None]
    else:
        other.weights["w"] += 1
    theirs.finish(spec(), other, TIMING, ORIGIN)
    assert len(merge(ours, theirs.root).different) == 1


def test_a_result_with_more_than_the_stored_one_completes_it(tmp_path: Path) -> None:
    ours, theirs = stored(tmp_path / "a", spec()), Store(tmp_path / "b")
    more = result()
    more.metrics["further"] = 0.5
    theirs.finish(spec(), more, TIMING, ORIGIN)
    assert merge(ours, theirs.root) == packs.MergeCounts(same=1)
    assert ours.read(spec().identity).metrics["further"] == 0.5
    assert merge(ours, stored(tmp_path / "c", spec()).root) == packs.MergeCounts(same=1)
    assert ours.read(spec().identity).metrics["further"] == 0.5


# sizes --------------------------------------------------------------------------------------------------------------


def test_many_runs_are_split_into_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(tmp_path / "a", *(spec(seed) for seed in range(30)))
    (one,) = pack(stored(tmp_path / "one", spec(0)), tmp_path / "one")
    limit = int(1.5 * one.stat().st_size)
    monkeypatch.setattr(packs, "FILE_BYTES", limit)
    files = pack(store, tmp_path / "packs")
    assert [path.name for path in files[:3]] == ["toy-quick.pack", "toy-quick-2.pack", "toy-quick-3.pack"]
    assert all(path.stat().st_size <= limit for path in files)
    merged = Store(tmp_path / "b")
    assert merge(merged, tmp_path / "packs") == packs.MergeCounts(new=30)
    assert_equal_results(merged, store)


def test_one_run_above_the_limit_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "FILE_BYTES", 10)
    files = pack(stored(tmp_path / "a", spec(0), spec(1)), tmp_path / "packs")
    assert [len(read(path)[1]) for path in files] == [1, 1]


def test_a_pack_never_holds_more_than_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(tmp_path / "a", *(spec(seed) for seed in range(6)))
    content = len(lzma.decompress(pack(store, tmp_path / "whole")[0].read_bytes()))
    monkeypatch.setattr(packs, "CONTENT_BYTES", content // 2)
    files = pack(store, tmp_path / "packs")
    assert sum(len(read(path)[1]) for path in files) == 6
    assert len(files) >= 3


# what is refused ----------------------------------------------------------------------------------------------------


def repacked(path: Path, change: dict | None = None, head: dict | None = None) -> None:
    """Change a field of every run, or of the header, of a pack."""
    first, *runs = lzma.decompress(path.read_bytes()).splitlines()
    lines = [json.loads(first) | (head or {}), *(json.loads(run) | (change or {}) for run in runs)]
    path.write_bytes(lzma.compress(b"\n".join(json.dumps(line).encode() for line in lines)))


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_bytes(b"these are not results\n")
    elif how == "half":
        path.write_bytes(data[: len(data) // 2])
    elif how == "one byte":
        path.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    elif how == "last bytes":
        path.write_bytes(data[:-20])
    elif how == "no runs":
        path.write_bytes(lzma.compress(b""))
    elif how == "other lines":
        path.write_bytes(lzma.compress(b'{"a": 1}\n{"b": 2}\n'))
    elif how == "newer":
        repacked(path, head={"format": 2})
    else:
        repacked(path, change=CRAFTED[how])


CRAFTED: dict[str, dict] = {
    "array too short": {"arrays": {"right": ["float64", [9], "AAAA"]}},
    "array of objects": {"arrays": {"right": ["O", [1], "AAAAAAAAAAA="]}},
    "array of no type": {"arrays": {"right": ["picture", [1], "AAAA"]}},
    "array of no content": {"arrays": {"right": ["bool", [1], "?"]}},
    "columns of unequal length": {"curves": [{"epoch": [1, 2], "value": [1]}]},
    "labels": {"labels": [{"study": "toy", "preset": 3, "setting": "main", "scheme": "line", "seed": 0}]},
    "labels without a name": {"labels": [{"study": "toy"}]},
    "a run without procedure": {"spec": {"study": "t", "scheme": "l", "seed": 0, "preset": "q", "settings": {}}},
}


@pytest.mark.parametrize(
    "how",
    ["empty", "text", "half", "one byte", "last bytes", "no runs", "other lines", "newer", *CRAFTED],
)
def test_a_pack_that_cannot_be_read_is_one_sentence_and_merges_nothing(tmp_path: Path, how: str) -> None:
    files = pack(stored(tmp_path / "a", spec(0), spec(0, study="later")), tmp_path / "packs")
    damage(files[1], how)  # the first pack of the folder is whole
    store = Store(tmp_path / "b")
    says = "has format 2; update posenc" if how == "newer" else "cannot be read as a pack"
    for source in (files[1], tmp_path / "packs"):
        with pytest.raises(StoreError, match=says) as raised:
            merge(store, source)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 400
        assert store.specs() == []


def test_a_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = pack(stored(tmp_path / "a", spec()), tmp_path / "packs")
    content = lzma.decompress(file.read_bytes())
    monkeypatch.setattr(packs, "CONTENT_BYTES", 2**20)
    file.write_bytes(lzma.compress(content + b"\n" * 2**24))
    assert file.stat().st_size < 10_000
    with pytest.raises(StoreError, match="holds more than 1,048,576 bytes"):
        read(file)


def test_a_pack_cannot_claim_weights(tmp_path: Path) -> None:
    (file,) = pack(stored(tmp_path / "a", spec()), tmp_path / "packs")
    repacked(file, change={"left_out": {}})
    store = Store(tmp_path / "b")
    merge(store, file)
    assert not store.read(spec().identity).has_weights


def test_a_source_that_is_neither_store_nor_pack(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    for source in (tmp_path / "nothing", tmp_path / "absent"):
        with pytest.raises(StoreError, match=r"holds neither a store nor packs\. Make packs: posenc store pack"):
            merge(Store(tmp_path / "b"), source)


# the command line ---------------------------------------------------------------------------------------------------


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        cli.main([str(word) for word in words])
    return int(leaving.value.code or 0)


def test_commands_pack_and_merge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = stored(tmp_path / "a", spec(0), spec(1))
    assert call("store", "pack", tmp_path / "packs", "--out", store.root) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{tmp_path / 'packs' / 'toy-quick.pack'}  ")
    assert said.endswith(" bytes, 2 runs\n")
    assert call("store", "merge", tmp_path / "packs" / "toy-quick.pack", "--out", tmp_path / "b") == 0
    assert capsys.readouterr().out == "2 new, 0 stored already, 0 with another result.\n"
    assert_equal_results(Store(tmp_path / "b"), store)
    Store(tmp_path / "c").finish(spec(0), result(loss=7.0), TIMING, ORIGIN)
    assert call("store", "merge", tmp_path / "c", "--out", tmp_path / "b") == 0
    assert capsys.readouterr().out == (
        "0 new, 0 stored already, 1 with another result.\n  toy, line, seed 0: both results are kept.\n"
    )
    assert call("results", "--study", "toy", "--out", tmp_path / "b") == 0
    first, copy = [line for line in capsys.readouterr().out.splitlines() if "line" in line]
    assert "0.8 [0.0, 7.2]" in first  # 0.833 ± 12.706 * 0.707 / sqrt(2), and no loss is below 0
    assert "line (copy 2)" in copy
    assert "7.000" in copy


def test_commands_refuse_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, says in (
        (("pack", tmp_path / "packs", "--out", tmp_path / "absent"), "There are no results in"),
        (("merge", tmp_path / "absent", "--out", tmp_path / "b"), "is not there. Name a pack, a folder of packs or"),
        (("merge", __file__, "--out", tmp_path / "b"), "cannot be read as a pack"),
    ):
        assert call("store", *words) == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1
    assert not (tmp_path / "packs").exists()
