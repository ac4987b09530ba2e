"""Code of stored runs: kept once, carried by merges and packs, mixed by a continued checkpoint, never averaged."""

from pathlib import Path

import msgspec
import torch

from posenc.workbench import runner
from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage import stored_code
from posenc.workbench.storage.packs import merge, pack
from posenc.workbench.storage.result_checks import by_code, changed_runs, retrain
from posenc.workbench.storage.source_digests import first_digest_of
from posenc.workbench.storage.store import Store
from posenc.workbench.tables.metric_table import metric_tables

ORIGIN = {"command": "posenc run toy", "versions": {}, "machine": {}}


def train(spec: RunSpec, workdir: Path, report: object) -> RunResult:
    """Fail once after a checkpoint, as a killed run does."""
    state = workdir / "state.pt"
    if spec.settings.get("twice") and not state.exists():
        state.write_bytes(b"checkpoint")
        raise ValueError("killed")
    return RunResult(metrics={"loss": float(spec.seed)}, weights={"w": torch.zeros(2)})


PROCEDURE = Procedure("toy.train", 1, train)


def spec(seed: int = 0, variant: str = "line", **settings: object) -> RunSpec:
    return PROCEDURE.spec(
        study="toy", variant=variant, seed=seed, preset="quick", settings={"scheme": "RoPE", **settings}
    )


def finish(
    store: Store, seed: int, code: dict[str, str], at: str = "2026-01-01", variant: str = "line", **settings: object
) -> None:
    timing = {"seconds": 1.0, "finished_at": at}
    store.finish(spec(seed, variant, **settings), RunResult(metrics={"loss": float(seed)}), timing, ORIGIN, code)


def present(store: Store) -> dict[str, str]:
    return store.code.present(spec())


def old(store: Store) -> dict[str, str]:
    return present(store) | {"posenc.schemes.rope": "0" * 16}


def test_a_run_stores_the_digests_of_its_code_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    runner.run([spec(0), spec(1)], store, runner.InProcess(find=lambda entry: train), emit=lambda event: None)
    stored = [store.read(spec(seed).identity) for seed in (0, 1)]
    assert stored[0].code == stored[1].code
    assert [path.stem for path in (tmp_path / "code").iterdir()] == [stored[0].code]
    digests = store.code.get(stored[0].code)
    assert digests == present(store)
    assert {"posenc.schemes.rope", "test_stored_code"} <= digests.keys()
    assert {row["code"] for row in store.results()} == {stored[0].code}
    assert changed_runs(store, [spec(0), spec(1)]) == []


def test_changed_files_are_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, 0, old(store))
    finish(store, 1, present(store))
    finish(store, 2, {})
    changed = changed_runs(store, [spec(seed) for seed in range(4)])
    assert [(each.stored.spec.seed, each.modules) for each in changed] == [(0, ("posenc.schemes.rope",))]


def test_the_code_of_a_store_with_keys_of_the_first_form_is_known(tmp_path: Path, monkeypatch) -> None:
    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(stored_code, "digest_of", first_digest_of)
        finish(store, 0, old(store))
        finish(store, 1, present(store))
    finish(store, 2, present(store))
    store = Store(tmp_path)
    first, second, third = (store.read(spec(seed).identity).code for seed in range(3))
    assert len({first, second, third}) == 3
    assert store.code.get(second) == store.code.get(third) == present(store)
    changed = changed_runs(store, [spec(seed) for seed in range(3)])
    assert [(each.stored.spec.seed, each.modules) for each in changed] == [(0, ("posenc.schemes.rope",))]


def test_a_checkpoint_that_other_code_continues_is_of_no_code(tmp_path: Path) -> None:
    store, executor = Store(tmp_path), runner.InProcess(find=lambda entry: train)
    twice = spec(0, twice=True)
    assert runner.run([twice], store, executor, emit=lambda event: None).failed
    attempts = store.workdir(twice) / "code.json"
    attempts.write_text(attempts.read_text().replace(present(store)["posenc.schemes.rope"], "0" * 16))
    assert runner.run([twice], store, executor, emit=lambda event: None).done
    digest = present(store)["posenc.schemes.rope"]
    assert store.code.get(store.read(twice.identity).code)["posenc.schemes.rope"] == f"{'0' * 16}+{digest}"
    assert changed_runs(store, [twice])[0].modules == ("posenc.schemes.rope",)


def test_a_checkpoint_that_the_same_code_continues_is_of_that_code(tmp_path: Path) -> None:
    store, executor = Store(tmp_path), runner.InProcess(find=lambda entry: train)
    twice = spec(0, twice=True)
    for _ in range(2):
        runner.run([twice], store, executor, emit=lambda event: None)
    assert store.code.get(store.read(twice.identity).code) == present(store)


def test_merges_and_packs_carry_the_code(tmp_path: Path) -> None:
    store = Store(tmp_path / "a")
    finish(store, 0, old(store))
    merged, unpacked = Store(tmp_path / "b"), Store(tmp_path / "c")
    merge(merged, store.root)
    merge(unpacked, pack(store, tmp_path / "packs")[0])
    for other in (merged, unpacked):
        assert other.code.get(other.read(spec(0).identity).code) == old(store)


def test_a_page_averages_one_code_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, 0, old(store), at="2026-03-01")
    finish(store, 1, present(store))
    specs = [spec(seed) for seed in range(3)]
    shown = by_code(store, specs)
    assert [each.seed for each in shown.specs] == [1, 2]
    assert shown.remarks[0].startswith("Left out, because other code made them than the other seeds: line, seed 0 (ch")
    assert by_code(store, specs[:1]).specs == specs[:1]


def test_a_page_without_runs_of_the_present_code_shows_the_newest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, 0, old(store), at="2026-01-01")
    finish(store, 1, old(store) | {"posenc.schemes.rope": "1" * 16})
    store.folders.record(spec(1).identity)
    newest = max((0, 1), key=lambda seed: store.read(spec(seed).identity).timing["finished_at"])
    shown = by_code(store, [spec(0), spec(1)]).specs
    assert len(shown) == 1
    assert (
        store.read(shown[0].identity).timing["finished_at"] == store.read(spec(newest).identity).timing["finished_at"]
    )


def test_an_unknown_code_is_not_the_present_one_of_a_run_without_a_procedure(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, 0, {})
    finish(store, 1, old(store))
    finish(store, 2, present(store))
    stored = [msgspec.structs.replace(spec(seed), entry="") for seed in range(3)]  # as read from a pack
    assert store.code.present(stored[0]) == {}
    shown = [each.seed for each in by_code(store, stored).specs]
    assert shown in ([0, 1], [0, 2])  # both may have finished in the same second


def test_an_unknown_code_is_named_only_beside_a_known_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, 0, {})
    assert by_code(store, [spec(0)]).remarks == ()
    finish(store, 1, present(store))
    shown = by_code(store, [spec(0), spec(1)])
    assert len(shown.specs) == 2
    (remark,) = shown.remarks
    assert remark.startswith("The code of these runs is unknown, because an early version stored no digests of it: ")
    assert ": line, seed 0. They are averaged" in remark
    for seed, code in ((2, {}), (3, present(store))):
        finish(store, seed, code, variant="curve")
    curves = [spec(seed, "curve") for seed in (2, 3)]
    (remark,) = by_code(store, [spec(0), spec(1), *curves]).remarks
    assert ": line, seed 0; curve, seed 2. They are averaged" in remark


def test_a_table_of_results_has_a_line_for_each_code(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, 0, old(store))
    finish(store, 1, present(store))
    finish(store, 2, present(store))
    (table,) = metric_tables(store.results())
    codes = {store.read(spec(seed).identity).code[:6] for seed in range(3)}
    assert {line.variant: line.seeds for line in table.lines}.keys() == {f"line (code {code})" for code in codes}
    assert sorted(line.seeds for line in table.lines) == [1, 2]
    assert all(run in line.run_names for line in table.lines for run in (each[:8] for each in line.runs))


def test_training_again_sets_the_measurements_of_the_old_model_aside(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, 0, old(store))
    finish(store, 1, old(store))
    measured = Procedure("toy.measure", 1, train).measuring(spec(0), {"noise": 0.1})
    store.finish(measured, RunResult(metrics={"accuracy": 1.0}), {"seconds": 1.0}, ORIGIN)
    assert retrain(store, changed_runs(store, [spec(0)])) == 2
    assert [store.finished(each.identity) for each in (spec(0), spec(1), measured)] == [False, True, False]
    assert sorted(path.name for path in (tmp_path / "replaced").iterdir()) == sorted(
        [spec(0).identity, measured.identity]
    )


def test_a_damaged_list_of_digests_makes_the_code_unknown(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, 0, old(store))
    (path,) = (tmp_path / "code").iterdir()
    path.write_text(path.read_text().replace("0" * 16, "2" * 16))
    assert changed_runs(Store(tmp_path), [spec(0)]) == []
    assert Store(tmp_path).code.get(path.stem) == {}
