"""Labels of variants: one name for one thing, no commas, and old stores under their present names."""

from __future__ import annotations

from pathlib import Path

import pytest

from posenc.cli import index, name_checks
from posenc.lookup.name_suggestion import plain_name
from posenc.workbench import studies
from posenc.workbench.report.result_rows import read_csv
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.old_stores import old_key
from posenc.workbench.storage.packs import merge, pack
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.gridpe import variants as gridpe
from posenc.workbench.studies.language import variants as language
from posenc.workbench.studies.shared.planning import with_present_labels
from posenc.workbench.variant_labels import OLD_LABELS, current_label, first_label

pytestmark = pytest.mark.bare

CONFIG = language.LanguageConfig(vocabulary=8, dim=16, depth=1, heads=2, key_heads=2, hidden=16)


def spec(study: str, label: str, condition: str = "main") -> RunSpec:
    return RunSpec(
        study=study, variant=label, seed=0, preset="quick", condition=condition, procedure=f"{study}.train",
        settings={"row": 1},
    )  # fmt: skip


@pytest.mark.parametrize("study", sorted(studies.studies()))
def test_no_label_has_a_comma_and_no_two_labels_are_one_name(study: str) -> None:
    labels = name_checks.variants_of(index.load().studies[study])
    assert [label for label in labels if "," in label] == []
    assert len({plain_name(label) for label in labels}) == len(labels)
    assert not set(labels) & set(OLD_LABELS.get(study, ()))


@pytest.mark.parametrize("study", sorted(studies.studies()))
def test_an_encoding_and_a_variant_of_one_name_are_one_variant(study: str) -> None:
    definition, known = studies.find(study), index.load()
    labels = {plain_name(label): label for label in name_checks.variants_of(known.studies[study])}
    for scheme in name_checks.scheme_names(known):
        request = with_present_labels(definition, Request(preset="quick", schemes=[scheme]))
        assert request.schemes is not None
        assert request.schemes[0] in (labels.get(plain_name(scheme), scheme), *OLD_LABELS.get(study, {}).values())


def test_the_name_of_a_learned_table_tells_its_size() -> None:
    for study, label in (("gridpe", "learned-0.02"), ("language", "learned-0.5")):
        definition = studies.find(study)
        for name in ("learned", "Learned", label):
            assert with_present_labels(definition, Request(preset="quick", schemes=[name])).schemes == (label,)
    assert gridpe.encoding("vit", "learned-0.3").scheme == "Learned(sigma=0.3)"
    assert language.variant("learned-0.3", CONFIG, longest=8, window=4).schemes[0].options == {"sigma": 0.3}
    with pytest.raises(ValueError, match="'learned-big' should name a learned table by its standard deviation"):
        gridpe.encoding("vit", "learned-big")


def test_the_sign_of_a_number_is_no_hyphen() -> None:
    for label in ("learned--0.2", "learned_-0.2"):
        request = Request(preset="quick", schemes=[label])
        assert with_present_labels(studies.find("latin-squares"), request).schemes == (label,)


def test_the_number_of_a_learned_table_has_one_form(tmp_path: Path) -> None:
    study = studies.find("latin-squares")
    for names, label in (
        (("learned-2.0", "learned-2", "learned-2e0"), "learned-2"),
        (("learned-0.20", "learned-.2"), "learned-0.2"),
        (("learned-0.30",), "learned-0.3"),
        (("learned-0.123456789",), "learned-0.123456789"),
    ):
        assert with_present_labels(study, Request(preset="quick", schemes=list(names))).schemes == (label,)
    plans = [study.plan(Request(preset="quick", schemes=[name], seeds=[0]), Store(tmp_path)) for name in
             ("learned-2", "learned-2.0")]  # fmt: skip
    first, second = ([(spec.condition, spec.variant, spec.identity) for spec in specs] for specs in plans)
    assert first == second
    assert {variant for _, variant, _ in first} == {"learned-2"}
    for name in ("learned-0.02-4-heads", "learned-big", "learned-nan"):
        assert with_present_labels(studies.find("gridpe"), Request(preset="quick", schemes=[name])).schemes == (name,)


def test_a_store_a_pack_and_a_file_with_old_labels_are_read_under_the_present_ones(tmp_path: Path) -> None:
    old, label = Store(tmp_path / "old"), "learned, 4 heads"
    old.finish(spec("gridpe", label), RunResult(metrics={"accuracy": 0.5}), {"seconds": 1.0})
    stored = next((tmp_path / "old" / "units").glob("*/unit.json"))
    assert f'"{label}"'.encode() in stored.read_bytes(), "files of a store are not changed"
    assert [each.variant for each in old.specs()] == ["learned-0.02-4-heads"]
    assert {row["scheme"] for row in old.results()} == {"learned-0.02-4-heads"}
    (file,) = pack(old, tmp_path / "packs")
    new = Store(tmp_path / "new")
    assert (merge(new, file).new, merge(new, old.root).same) == (1, 1)
    assert [each.labels for each in new.specs()] == [each.labels for each in old.specs()]
    assert new.specs()[0].identity == spec("gridpe", "any label").identity
    rows = tmp_path / "rows.csv"
    rows.write_text('study,preset,setting,scheme,seed,metric,value\nlanguage,quick,main,"rope, yarn",0,loss,1\n')
    assert read_csv(rows)[0]["scheme"] == "rope-yarn"


def test_old_labels_are_found_again_for_keys_of_the_first_layout() -> None:
    for study, names in OLD_LABELS.items():
        for old, new in names.items():
            assert (current_label(study, old), first_label(study, new)) == (new, old)
    for old, new in (("rope, randomised", "rope-randomized"), ("Learned, randomised", "Learned(sigma=1.0)-randomized")):
        assert (current_label("language", old), first_label("language", new)) == (new, old)
    assert old_key(spec("language", "rope-yarn")) == old_key(spec("language", "rope, yarn")) is not None
    assert current_label("latin-squares", "learned-1") == "learned-1"


def test_a_wrong_variant_lists_the_variants_and_the_encodings() -> None:
    sentence = r"no variant 'foxx'\. Did you mean fox\?.* The variants are .*alibi.* the encodings are ALiBi"
    with pytest.raises(ValueError, match=sentence):
        language.variant("foxx", CONFIG, longest=8, window=4)
