"""Pack contents: metrics, curves and arrays up to a limit; weights and larger arrays are named as left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from packed_runs import spec, stored

from posenc.workbench.storage.packs import merge, pack, read
from posenc.workbench.storage.store import Store

pytestmark = pytest.mark.bare


def test_parts_that_a_pack_leaves_out_are_named(tmp_path: Path) -> None:
    (file,) = pack(stored(tmp_path / "a", spec()), tmp_path)
    header, (run,) = read(file)
    assert (header.format, header.study, header.preset) == (1, "toy", "quick")
    assert header.made_by.startswith("posenc ")
    assert run.left_out == {
        "weights.safetensors": "packs hold no weights",
        "picture": "float32 [64, 64] is larger than 4096 bytes",
    }
    store = Store(tmp_path / "b")
    merge(store, file)
    assert store.read(spec().identity).left_out == run.left_out
    again, (same,) = read(pack(store, tmp_path / "again")[0])
    assert (again, same) == (header, run)


def test_a_larger_limit_brings_arrays_also_to_a_store_that_lacks_them(tmp_path: Path) -> None:
    origin, store = stored(tmp_path / "a", spec()), Store(tmp_path / "b")
    merge(store, *pack(origin, tmp_path / "small"))
    assert "picture" not in store.arrays(spec().identity)
    (file,) = pack(origin, tmp_path / "large", array_bytes=64 * 64 * 4)
    assert read(file)[1][0].left_out == {"weights.safetensors": "packs hold no weights"}
    assert merge(store, file).same == 1
    assert (store.arrays(spec().identity)["picture"] == origin.arrays(spec().identity)["picture"]).all()
    (none,) = pack(origin, tmp_path / "none", array_bytes=0)
    assert "counts" in read(none)[1][0].left_out
    with pytest.raises(ValueError, match="array_bytes is a number of bytes, at least 0; got -1"):
        pack(origin, tmp_path / "wrong", array_bytes=-1)
