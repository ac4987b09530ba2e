"""The language study: its runs from plan to page, losses at longer contexts, recall tasks, and errors."""

import dataclasses
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from posenc.measure.loss_by_context import loss_by_context
from posenc.workbench import runner, studies
from posenc.workbench.runs import TRAINED
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.language import STUDY, execute, presets, rope_scaling, text_model, variants
from posenc.workbench.studies.language.recall_model import MULTIPLES
from posenc.workbench.studies.language.stored_text import StoredText, load_text, store_text, text_of_run
from posenc.workbench.studies.shared import page_records, training_run
from posenc.workbench.studies.shared.declarations import OwnDataPlan
from posenc.workbench.training import loop

pytestmark = pytest.mark.bare

WINDOW, MULTIPLE = 8, 4
SIZE = presets.ModelSize(dim=16, depth=2, heads=2, key_heads=1, hidden=32)
TRAINING = presets.adamw(3, 4)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> presets.LanguagePreset:
    """The quick preset made tiny; the same variants, conditions and panels."""
    tiny = dataclasses.replace(
        presets.PRESETS["quick"],
        seeds=(0,),
        own=OwnDataPlan(seeds=(0,), half=False),
        window=WINDOW,
        max_multiple=MULTIPLE,
        targets=32,
        model=SIZE,
        training=TRAINING,
        recall=presets.RecallScale(SIZE, window=16, training=TRAINING, symbols=4, needles=2),
    )
    monkeypatch.setitem(presets.PRESETS, "quick", tiny)
    assert STUDY.presets is presets.PRESETS
    return tiny


@pytest.fixture
def own_text(tmp_path: Path) -> Path:
    """A text of the user's own, in which the next letter follows from the last ones."""
    path = tmp_path / "my_text.txt"
    path.write_text("to be or not to be, that is the question. " * 60)
    return path


def run(request: studies.Request, store: Store) -> list:
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return specs


# from plan to page --------------------------------------------------------------------------------------------------


def test_from_a_users_text_to_a_page(tmp_path: Path, own_text: Path, small: presets.LanguagePreset) -> None:
    store = Store(tmp_path / "runs")
    all_variants = studies.Request(preset="quick", source=own_text, seeds=[0, 1])
    planned = {spec.variant for spec in STUDY.plan(all_variants, store)}
    assert planned == {*variants.COMPARED, *variants.NGRAMS}
    request = dataclasses.replace(all_variants, schemes=["nope", "learned-0.5", "rope", "unigram", "bigram"])
    specs = run(request, store)
    own_text.unlink()  # the store holds what the page needs
    page = STUDY.page(request, store, specs, {}).read_text()
    for text in (
        "Loss by encoding", "Loss of encodings and n-gram baselines", "Loss by context length",
        "Generated text and its speed", "Learned starts at 0 and stops at 7", "Learning curves",
        "Frequency of each token after each other token (counted)", "15 different characters",
        "rope below nope in loss at the training length", "They are not judged on your data.",
    ):  # fmt: skip
        assert text.lower() in page.lower()
    headline, *further = STUDY.verdict(request, store, specs)
    assert headline.startswith("Best at the training length: cannot be told yet. ")  # no runs with half the steps
    assert " Best at 4 times the training length: cannot be told yet. " in headline
    for reference, times in ((each, times) for each in ("nope", "bigram") for times in ("", "4 times ")):
        start = f"Differences from {reference} in loss at {times}the training length that cannot be told yet: "
        assert sum(each.startswith(start) for each in further) == 1


def test_a_run_has_the_metrics_and_arrays_of_its_variant(
    tmp_path: Path, own_text: Path, small: presets.LanguagePreset
) -> None:
    store = Store(tmp_path / "runs")
    labels = ["rope", "learned-0.5", "v-rope", "rope-randomized", "bigram"]
    request = studies.Request(preset="quick", source=own_text, schemes=labels)
    specs = {spec.variant: spec for spec in run(request, store)}
    metrics = {label: store.read(spec.identity).metrics for label, spec in specs.items()}
    names = {"loss", "loss_at_x1", "loss_at_x2", "loss_at_x4", "tokens_a_second", "parameters"}
    assert metrics["rope"].keys() >= names
    assert "loss_at_x2" not in metrics["learned-0.5"], "a learned table has no positions beyond the training length"
    assert store.arrays(specs["learned-0.5"].identity)["loss_by_context"].shape == (WINDOW,)
    by_context = store.arrays(specs["rope"].identity)["loss_by_context"]
    assert by_context.shape == (MULTIPLE * WINDOW,)
    assert metrics["rope"]["loss_at_x4"] == pytest.approx(float(by_context[16:].mean()))
    assert metrics["rope"]["moved"] < 1e-5 < 1e-3 < metrics["v-rope"]["moved"]
    assert (metrics["rope"]["relative"], metrics["v-rope"]["relative"]) == (1, 0)
    assert metrics["bigram"]["loss_at_x1"] == metrics["bigram"]["loss_at_x4"]
    assert "written" not in store.arrays(specs["rope-randomized"].identity)


@pytest.mark.full
def test_a_page_shows_the_only_text_and_refuses_to_mix_two(
    tmp_path: Path, own_text: Path, small: presets.LanguagePreset
) -> None:
    store, other = Store(tmp_path / "runs"), tmp_path / "other.txt"
    other.write_text("the quick brown fox jumps over the lazy dog. " * 60)
    options = {"preset": "quick", "panels": ["loss", "recall"], "schemes": ["nope"]}
    specs = run(studies.Request(**options, source=own_text), store)
    alone = STUDY.stored(studies.Request(preset="quick"), store)
    assert {spec.identity for spec in alone} == {spec.identity for spec in specs}, "runs of recall tasks have no text"
    run(studies.Request(**options, source=other), store)
    with pytest.raises(
        ValueError, match=r"several data sets. Name the one .*: --source my_text-\w{6}, --source other-"
    ):
        STUDY.stored(studies.Request(preset="quick"), store)
    assert {spec.identity for spec in STUDY.stored(studies.Request(**options, source=own_text), store)} == {
        spec.identity for spec in specs
    }


def test_variants_of_a_seed_have_the_same_batches(
    tmp_path: Path, own_text: Path, small: presets.LanguagePreset
) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", source=own_text, schemes=["nope", "rope"], seeds=[0, 1])
    starts = {
        (spec.variant, spec.seed): text_model.TextModel(spec, store.root).draw_starts(2)
        for spec in STUDY.plan(request, store)
    }
    assert torch.equal(starts["nope", 0], starts["rope", 0])
    assert not torch.equal(starts["nope", 0], starts["nope", 1])


def test_a_stopped_run_continues_to_the_same_result(
    tmp_path: Path, own_text: Path, small: presets.LanguagePreset
) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", source=own_text, schemes=["rope-randomized"])
    (spec,) = STUDY.plan(request, store)

    def stop(step: int, *_: object) -> None:
        if step:
            raise KeyboardInterrupt

    whole = execute.train(spec, store.root / "work" / "a", lambda *_: None)
    model, folder = text_model.TextModel(spec, store.root), store.root / "work" / "b"
    folder.mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        loop.train(model.fit(), model.training, seed=0, workdir=folder, report=stop, checkpoint_seconds=0.0)
    continued = execute.train(spec, folder, lambda *_: None)
    assert continued.metrics == whole.metrics
    assert all(torch.equal(continued.weights[name], value) for name, value in whole.weights.items())


def test_the_estimate_is_in_seconds_of_this_machine(
    tmp_path: Path, own_text: Path, small: presets.LanguagePreset
) -> None:
    store, threads = Store(tmp_path / "runs"), torch.get_num_threads()
    request = studies.Request(preset="quick", source=own_text, panels=["loss", "recall"], schemes=["nope"])
    estimate = STUDY.estimate(STUDY.plan(request, store), store, 2)
    assert 0 < estimate.seconds < 60
    assert torch.get_num_threads() == threads


# longer contexts ----------------------------------------------------------------------------------------------------


def test_the_loss_by_context_equals_that_of_single_predictions(
    tmp_path: Path, own_text: Path, small: presets.LanguagePreset
) -> None:
    store = Store(tmp_path / "runs")
    (spec,) = run(studies.Request(preset="quick", source=own_text, schemes=["sinusoid"]), store)
    model = text_model.TextModel(spec, store.root)
    model.model.load_state_dict(store.read(spec.identity).weights)
    by_context, test = store.arrays(spec.identity)["loss_by_context"], model.splits.test.long()
    for context in (1, WINDOW, MULTIPLE * WINDOW):  # token by token, as the definition has it
        first = MULTIPLE * WINDOW
        losses = []
        for token in range(first + 1, first + 33):
            if (token - context) % (WINDOW // 2) == 0:
                logits = model.model(test[None, token - context : token])[0, -1]
                losses.append(-float(logits.detach().log_softmax(-1)[test[token]]))
        assert by_context[context - 1] == pytest.approx(np.mean(losses), abs=1e-5)


def test_an_encoding_with_a_limited_length_predicts_the_same_tokens_as_others() -> None:
    settings = {"window": 8, "targets": 20, "text": {"multiple": 4}}
    far, near = (
        loss_by_context(
            lambda tokens: tokens[:, 1:].float(),
            text_model.context_tokens(torch.arange(100, dtype=torch.int32), settings, longest),
            reach=longest,
            stride=4,
        )
        for longest in (32, 8)
    )
    assert near.tolist() == far[:8].tolist()


def test_randomized_positions_of_an_octave_are_as_far_apart_as_those_of_a_text_of_its_length(
    tmp_path: Path, own_text: Path, small: presets.LanguagePreset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, longest = Store(tmp_path / "runs"), MULTIPLE * WINDOW
    request = studies.Request(preset="quick", source=own_text, schemes=["rope-randomized"])
    (spec,) = STUDY.plan(request, store)
    model = text_model.TextModel(spec, store.root)
    tokens, positions = model.splits.test[None, : longest + 1].long(), []
    real = variants.LanguageVariant.positions
    monkeypatch.setattr(
        variants.LanguageVariant, "positions", lambda *args: positions.append(real(*args)) or positions[-1]
    )
    generator = torch.Generator().manual_seed(0)
    first, second = (model.losses_by_octave(tokens, generator) for _ in range(2))
    assert first.shape == (1, longest)
    lengths = [pos.coords.shape[1] for pos in positions]
    assert lengths == [WINDOW, 2 * WINDOW, longest] * 2
    assert not torch.equal(positions[0].coords, positions[3].coords), "each call draws its own positions"
    for pos in positions:
        assert int(pos.coords.max()) < variants.RANGE_FACTOR * longest
        assert bool((pos.coords[0, :, 0].diff() > 0).all())
        consecutive = torch.ones(pos.coords.shape[1] - 1)
        assert not torch.equal(pos.coords[0, :, 0].diff(), consecutive)
    log_p = model.model(tokens[:, : 2 * WINDOW], positions[1]).detach().log_softmax(-1)
    losses = -log_p.gather(2, tokens[:, 1 : 2 * WINDOW + 1, None])[0, :, 0]
    assert first[0, WINDOW : 2 * WINDOW].tolist() == pytest.approx(losses[WINDOW:].tolist(), abs=1e-5)
    assert not torch.equal(first, second)


def test_a_run_with_scaled_frequencies_has_the_weights_of_the_unscaled_run(
    tmp_path: Path, own_text: Path, small: presets.LanguagePreset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other_store = Store(tmp_path / "runs"), Store(tmp_path / "other")
    request = studies.Request(preset="quick", source=own_text, schemes=["rope", "rope-yarn"])
    alone = run(dataclasses.replace(request, schemes=["rope-yarn"]), other_store)
    trainings = []
    for module in (training_run, rope_scaling):
        monkeypatch.setattr(
            module,
            "train_to_state",
            lambda *args, **options: trainings.append(args) or loop.train_to_state(*args, **options),
        )
    plain, yarn = run(request, store)
    assert len(trainings) == 1, "the scaled run takes the weights of the finished one"
    unscaled, scaled = store.read(plain.identity), store.read(yarn.identity)
    assert all(torch.equal(unscaled.weights[name], value) for name, value in scaled.weights.items())
    assert scaled.metrics["loss_at_x4"] != unscaled.metrics["loss_at_x4"]
    trained_alone = other_store.read(alone[0].identity).metrics
    losses = [name for name in trained_alone if name.startswith("loss")]
    assert {name: scaled.metrics[name] for name in losses} == {name: trained_alone[name] for name in losses}
    amounts = [{name: run.timing[name] for name in TRAINED} for run in (unscaled, scaled)]
    assert amounts[0] == amounts[1]


# recall tasks -------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_recall_is_tested_at_greater_lengths_than_trained(tmp_path: Path, small: presets.LanguagePreset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["recall"], schemes=["nope", "rope-randomized"])
    specs = run(request, store)
    assert {spec.condition for spec in specs} == {"copy", "needle", "reverse", "sort", "mqar"}
    for spec in specs:
        metrics = store.read(spec.identity).metrics
        assert metrics["accuracy"] == metrics["accuracy_at_x1"]
        for multiple in MULTIPLES:
            assert 0 <= metrics[f"whole_at_x{multiple}"] <= metrics[f"accuracy_at_x{multiple}"] <= 1
        if spec.condition == "copy":  # longer samples have more different orders of their answers
            assert 0 < metrics["bag_at_x8"] < metrics["bag_at_x1"] < 1
    page = STUDY.page(request, store, specs, {}).read_text()
    for text in ("Samples with all answers correct", "order-free predictor", "training length: up to 16 tokens"):
        assert text in page
    headline = STUDY.verdict(request, store, specs)[0]
    assert headline.startswith("Best for copying at twice the training length")
    assert "For reference, the order-free predictor: " in headline


@pytest.mark.full
def test_recall_stops_at_the_longest_length_that_an_encoding_reads(
    tmp_path: Path, small: presets.LanguagePreset
) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["recall"], schemes=["learned-0.5"])
    specs = run(request, store)
    for spec in specs:
        metrics = store.read(spec.identity).metrics
        assert "accuracy_at_x1" in metrics
        assert "accuracy_at_x2" not in metrics
    assert "Copying" in STUDY.page(request, store, specs, {}).read_text()
    assert STUDY.verdict(request, store, specs)[0].startswith("No answer yet")


@pytest.mark.full
def test_recall_with_scaled_frequencies_has_the_weights_of_rope(
    tmp_path: Path, small: presets.LanguagePreset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, scaled, real = Store(tmp_path / "runs"), [], rope_scaling.scaled_rope
    monkeypatch.setattr(
        rope_scaling, "scaled_rope", lambda *args, **options: scaled.append(options) or real(*args, **options)
    )
    request = studies.Request(preset="quick", panels=["recall"], schemes=["rope", "rope-linear"])
    results = {(spec.condition, spec.variant): store.read(spec.identity) for spec in run(request, store)}
    plain, linear = results["copy", "rope"], results["copy", "rope-linear"]
    assert all(torch.equal(plain.weights[name], value) for name, value in linear.weights.items())
    assert scaled == [{"factor": MULTIPLES[-1], "trained": small.recall.window}] * 5


@pytest.mark.full
def test_lengths_of_the_recall_tasks_are_settings(tmp_path: Path, small: presets.LanguagePreset) -> None:
    store, changes = Store(tmp_path / "runs"), {"recall.window": "24", "recall.max_multiple": "4"}
    request = studies.Request(preset="quick", panels=["recall"], schemes=["rope"], changes=changes)
    specs = run(request, store)
    for spec in specs:
        metrics = store.read(spec.identity).metrics
        assert (spec.settings["window"], spec.settings["multiple"]) == (24, 4)
        assert {"accuracy_at_x4"} < metrics.keys()
        assert "accuracy_at_x8" not in metrics
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "Share at 96 tokens" in page
    assert "Share at 192 tokens" not in page
    plain = STUDY.plan(studies.Request(preset="quick", panels=["recall"], schemes=["rope"]), store)
    assert all("multiple" not in spec.settings for spec in plain), "runs of earlier versions keep their identity"
    for wrong, sentence in (({"recall.max_multiple": "3"}, "got 3 times"), ({"recall.window": "8"}, "at 8 tokens")):
        with pytest.raises(ValueError, match=sentence):
            STUDY.plan(dataclasses.replace(request, changes=wrong), store)


def test_a_preset_trains_copying_and_needles_unless_the_panel_is_named() -> None:
    standard, needs = presets.PRESETS["standard"], STUDY.panels["recall"].needs
    assert needs(studies.Request(preset="standard"), standard).keys() == {"copy", "needle"}


# errors -------------------------------------------------------------------------------------------------------------


def test_without_a_text_the_error_names_the_commands(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    with pytest.raises(ValueError, match=r"none was given. Name a file of yours, posenc run language my_text.txt, or"):
        STUDY.plan(studies.Request(preset="quick"), store)
    with pytest.raises(ValueError, match=r"has no text: neither text/tinyshakespeare.txt nor the same name with .gz"):
        STUDY.plan(studies.Request(preset="quick", data=tmp_path), store)


def test_a_short_text_has_a_shorter_longest_context_and_a_shorter_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    multiples = {}
    for size in (20 * 17, 20 * 24, 20 * 40, 20 * 400):
        path.write_text("ab" * (size // 2))
        record, counts, _ = store_text(tmp_path / "runs", path, window=8, max_multiple=16)
        multiples[size // 20] = record.max_multiple
        assert counts["test"] == size // 20
    assert multiples == {17: 1, 24: 2, 40: 4, 400: 16}
    path.write_text("ab" * 160)
    with pytest.raises(ValueError, match=r"16 are held out for testing; at least 17 are needed"):
        store_text(tmp_path / "runs", path, window=8, max_multiple=16)


def test_a_page_of_a_short_text_reports_its_longest_context(tmp_path: Path, small: presets.LanguagePreset) -> None:
    store, path = Store(tmp_path / "runs"), tmp_path / "short.txt"
    path.write_text("ab" * (10 * 24 // 2))
    specs = STUDY.plan(studies.Request(preset="quick", source=path, schemes=["rope"]), store)
    data, length = STUDY.remarks(store, specs)
    assert data.startswith('The text has 2 different characters and begins "ababab')
    assert length == (
        "The text is too short for contexts of 32 tokens: the longest context here is 16 tokens (2 times the training "
        "length)."
    )


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("PEG", "'PEG' cannot be built: PEG mixes a token with those around it"),
        ("RoPE(head_dim=6)", r"'RoPE\(head_dim=6\)' cannot be built: .* heads of width 6"),
        ("rpoe", "there is no variant 'rpoe'. Did you mean rope"),
    ],
)
def test_a_variant_that_cannot_be_built_is_refused_with_a_reason(
    tmp_path: Path, own_text: Path, small: presets.LanguagePreset, label: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        STUDY.plan(studies.Request(preset="quick", source=own_text, schemes=[label]), Store(tmp_path / "runs"))


def test_documents_are_held_out_and_named_with_the_flags_that_read_them(tmp_path: Path, small) -> None:
    store, path = Store(tmp_path / "runs"), tmp_path / "docs.jsonl"
    words = [chr(97 + number) * 120 for number in range(24)]
    path.write_text("".join(json.dumps({"title": "a title", "body": word}) + "\n" for word in words))
    request = studies.Request(preset="quick", source=path, schemes=["rope"], seeds=(0, 1), reading={"field": "body"})
    specs = STUDY.plan(request, store)
    record = store.record_of(specs[0])
    assert record is not None
    assert (record.options["form"], record.options["documents"], record.options["field"]) == ("JSON Lines", 24, "body")
    assert page_records.reading_flags(record) == ["--field", "body"]
    said, *_ = STUDY.remarks(store, specs)
    assert 'begins "aaaa' in said
    assert "Each seed draws an order of its documents." in said
    stored = msgspec.convert(specs[0].settings["text"], StoredText)
    letters = {}
    for spec in specs:
        whole, splits = load_text(store.root, stored), text_of_run(spec, store.root).splits
        parts = [set(whole.decode(part)) - {"\n"} for part in splits[:3]]
        assert len(set.union(*parts)) == sum(len(part) for part in parts)  # no document is in two parts
        counts = {name: len(getattr(splits, name)) for name in ("train", "validation", "test")}
        assert counts == {name: spec.settings["items"][name] for name in counts}
        letters[spec.seed] = parts[2]
    assert letters[0] != letters[1]
