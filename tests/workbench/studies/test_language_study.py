"""The language study: its rows, its units from plan to page, what a longer context shows, and what it refuses."""

import dataclasses
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from posenc.measure.loss_by_context import loss_by_context
from posenc.models.language import LanguageConfig
from posenc.workbench import runner, studies
from posenc.workbench.store import Store
from posenc.workbench.studies.language import PANELS, STUDY, presets, recalling, rows, stretching, work
from posenc.workbench.studies.language.texts import keep

CONFIG = LanguageConfig(vocabulary=7, dim=16, depth=2, heads=2, key_heads=1, hidden=32)
WINDOW, MULTIPLE = 8, 4
EVERY = tuple(dict.fromkeys((*rows.MAIN, *rows.PUBLISHED, *rows.EXTRAPOLATION, *rows.RECALLING)))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> presets.Preset:
    """The quick preset made tiny; the same rows, settings and panels."""
    model = {"dim": 16, "depth": 2, "heads": 2, "key_heads": 1, "hidden": 32}
    asked = {"model": model, "window": 16, "training": presets.training(3, 4), "symbols": 4, "needles": 2}
    own = {
        **presets.PRESETS["quick"].own,
        "window": WINDOW,
        "multiple": MULTIPLE,
        "targets": 32,
        "model": model,
        "training": presets.training(3, 4),
        "recall": asked,
    }
    found = dataclasses.replace(presets.PRESETS["quick"], own=own, seeds=(0,))
    monkeypatch.setitem(presets.PRESETS, "quick", found)
    return found


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A text of the user's own, in which the next letter follows from the last ones."""
    path = tmp_path / "my_text.txt"
    path.write_text("to be or not to be, that is the question. " * 60)
    return path


def run(request: studies.Request, store: Store) -> list:
    specs = STUDY.plan(request, store)
    report = runner.run(specs, store, runner.InProcess(), emit=lambda event: None)
    assert report.exit_code == 0, report.failed
    return specs


# rows ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", EVERY)
def test_every_row_tells_from_the_past_alone_and_learns(label: str) -> None:
    row = rows.row(label, CONFIG, reach=32)
    model = row.model(WINDOW)
    tokens = torch.randint(7, (3, WINDOW), generator=torch.Generator().manual_seed(0))
    pos = work.positions(row, WINDOW, 3, torch.Generator().manual_seed(0))
    logits = model(tokens, pos)
    assert logits.shape == (3, WINDOW, 7)
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 1) % 7
    torch.testing.assert_close(model(other, pos)[:, :-1], logits[:, :-1], atol=1e-6, rtol=0)


def test_rows_are_named_once_and_panels_name_rows() -> None:
    assert set(EVERY) | set(rows.COUNTED) == set(rows.ABOUT)
    assert len(rows.MAIN) == 8
    assert len(rows.PUBLISHED) == 9
    for panel in presets.PRESETS.values():
        assert set(panel.panels) <= set(PANELS)


def test_the_nine_settings_turn_what_they_say() -> None:
    sites = {
        label: frozenset().union(*(s.claims.sites for s in rows.row(label, CONFIG, reach=8).model(8).unique_schemes))
        for label in rows.PUBLISHED
    }
    assert sites.pop("nope") == frozenset()
    assert sites.pop("rope") == frozenset("qk")
    assert sites == {label: frozenset(label.removesuffix("-rope")) for label in sites}


def test_layers_take_turns_and_schemes_as_text_are_rows() -> None:
    deep = msgspec.structs.replace(CONFIG, depth=8)
    model = rows.row("rope and nope", deep, reach=32).model(WINDOW)
    assert ["q" in model.unique_schemes[n].claims.sites for n in model.scheme_of] == [True, True, True, False] * 2
    assert rows.row("KERPLEPower", CONFIG, reach=32).turns[0].scheme == "KERPLEPower"
    assert rows.row("Sinusoid(base=100.0), randomised", CONFIG, reach=32).randomised == 64
    with pytest.raises(ValueError, match=r"there is no row 'rop, yarn'. Did you mean rope, yarn"):
        rows.row("rop, yarn", CONFIG, reach=32)


def test_what_stops_says_so_in_its_own_sentence() -> None:
    sentence = rows.stops(rows.row("learned", CONFIG, reach=32), WINDOW, 9)
    assert "Learned starts at 0 and stops at 7; position 8 was asked for" in sentence
    assert [label for label in EVERY if rows.stops(rows.row(label, CONFIG, reach=32), WINDOW, 32)] == ["learned"]


def test_stretched_frequencies_slow_down_and_fast_ones_are_kept() -> None:
    plain = torch.tensor(rows.row("rope", msgspec.structs.replace(CONFIG, dim=64), reach=32).model(64).schemes[0].theta)
    slowed = {
        name: torch.tensor(rows.stretched(name, 32, factor=8, trained=64).theta) / plain
        for name in rows.STRETCHED.values()
    }
    assert slowed["linear"].tolist() == pytest.approx([1 / 8] * 16)
    assert slowed["ntk"][0].item() == pytest.approx(1)
    for name in ("ntk", "yarn"):
        assert slowed[name][-1].item() == pytest.approx(1 / 8)
        assert bool((slowed[name].diff() <= 1e-6).all())
        assert slowed[name][0].item() > 2 * slowed["linear"][0].item()
    assert rows.stretched("yarn", 32, factor=8, trained=64).attention_factor > 1


# from plan to page ---------------------------------------------------------------------------------------------------


def test_from_a_text_of_ones_own_to_a_page(tmp_path: Path, mine: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    whole = studies.Request(preset="quick", source=mine, seeds=[0, 1])
    assert {spec.variant for spec in STUDY.plan(whole, store)} == {*rows.MAIN, *rows.COUNTED}
    request = dataclasses.replace(whole, schemes=["nope", "learned", "rope", "unigram", "bigram"])
    specs = run(request, store)
    mine.unlink()  # the store holds what it needs
    page = STUDY.page(request, store, specs, {}).read_text()
    for said in (
        "Loss by encoding", "Beside what counting tells", "Longer contexts than trained", "How they write",
        "Learned starts at 0 and stops at 7", "As they learn", "counted: how often each token follows each",
        "15 different characters", "rope below nope in loss", "not measured",
    ):  # fmt: skip
        assert said.lower() in page.lower()
    verdict = " ".join(STUDY.verdict(request, store, specs))
    assert "At the trained length:" in verdict
    assert "At 4 times it:" in verdict


def test_a_unit_tells_what_it_promises(tmp_path: Path, mine: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    labels = ["rope", "learned", "v-rope", "rope, randomised", "bigram"]
    specs = {spec.variant: spec for spec in run(studies.Request(preset="quick", source=mine, schemes=labels), store)}
    told = {label: store.read(spec.identity).metrics for label, spec in specs.items()}
    assert told["rope"].keys() >= {"loss", "loss_at_x1", "loss_at_x2", "loss_at_x4", "tokens_a_second", "parameters"}
    assert "loss_at_x2" not in told["learned"], "it reads no further than it was built"
    assert store.arrays(specs["learned"].identity)["loss_by_context"].shape == (WINDOW,)
    by = store.arrays(specs["rope"].identity)["loss_by_context"]
    assert by.shape == (MULTIPLE * WINDOW,)
    assert told["rope"]["loss_at_x4"] == pytest.approx(float(by[16:].mean()))
    assert told["rope"]["moved"] < 1e-5 < 1e-3 < told["v-rope"]["moved"]
    assert (told["rope"]["relative"], told["v-rope"]["relative"]) == (1, 0)
    assert told["bigram"]["loss_at_x1"] == told["bigram"]["loss_at_x4"]
    assert "written" not in store.arrays(specs["rope, randomised"].identity)


def test_the_loss_by_context_is_that_of_the_model_read_plainly(
    tmp_path: Path, mine: Path, small: presets.Preset
) -> None:
    store = Store(tmp_path / "runs")
    (spec,) = run(studies.Request(preset="quick", source=mine, schemes=["sinusoid"]), store)
    reader = work.Reader(spec, store.root)
    reader.model.load_state_dict(store.read(spec.identity).weights)
    by, test = store.arrays(spec.identity)["loss_by_context"], reader.parts.test.long()
    for context in (1, WINDOW, MULTIPLE * WINDOW):  # token by token, as the definition has it
        first = MULTIPLE * WINDOW
        told = []
        for token in range(first + 1, first + 33):
            if (token - context) % (WINDOW // 2) == 0:
                logits = reader.model(test[None, token - context : token])[0, -1]
                told.append(-float(logits.detach().log_softmax(-1)[test[token]]))
        assert by[context - 1] == pytest.approx(np.mean(told), abs=1e-5)


def test_a_stretched_row_is_the_trained_one_with_other_frequencies(
    tmp_path: Path, mine: Path, small: presets.Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, apart = Store(tmp_path / "runs"), Store(tmp_path / "apart")
    request = studies.Request(preset="quick", source=mine, schemes=["rope", "rope, yarn"])
    alone = run(dataclasses.replace(request, schemes=["rope, yarn"]), apart)
    trainings, real = [], stretching.train
    monkeypatch.setattr(stretching, "train", lambda *a, **k: trainings.append(a) or real(*a, **k))
    plain, yarn = run(request, store)
    assert len(trainings) == 1, "the second row found the first one's training"
    one, other = store.read(plain.identity), store.read(yarn.identity)
    assert all(torch.equal(one.weights[name], value) for name, value in other.weights.items())
    assert other.metrics["loss_at_x4"] != one.metrics["loss_at_x4"]
    again = apart.read(alone[0].identity).metrics
    losses = [name for name in again if name.startswith("loss")]
    assert {name: other.metrics[name] for name in losses} == {name: again[name] for name in losses}


def test_recall_is_trained_and_asked_at_greater_lengths(tmp_path: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["recall"], schemes=["nope", "rope, randomised"])
    specs = run(request, store)
    assert {spec.condition for spec in specs} == {"copy", "needle"}
    for spec in specs:
        found = store.read(spec.identity).metrics
        assert found["accuracy"] == found["accuracy_at_x1"]
        for multiple in recalling.MULTIPLES:
            assert 0 <= found[f"whole_at_x{multiple}"] <= found[f"accuracy_at_x{multiple}"] <= 1
        if spec.condition == "copy":  # there is more to copy, and a bag of more tells less
            assert 0 < found["bag_at_x8"] < found["bag_at_x1"] < 1
    page = STUDY.page(request, store, specs, {}).read_text()
    assert "Samples with every answer right" in page
    assert "a bag of the answers" in page
    assert "Copying at twice the trained length" in " ".join(STUDY.verdict(request, store, specs))


def test_a_row_that_stops_recalls_as_far_as_it_reads(tmp_path: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", panels=["recall"], schemes=["learned"])
    specs = run(request, store)
    for spec in specs:
        found = store.read(spec.identity).metrics
        assert "accuracy_at_x1" in found
        assert "accuracy_at_x2" not in found
    assert "Copying" in STUDY.page(request, store, specs, {}).read_text()


def test_a_page_without_a_text_is_of_the_only_one_and_never_of_two(
    tmp_path: Path, mine: Path, small: presets.Preset
) -> None:
    store, other = Store(tmp_path / "runs"), tmp_path / "other.txt"
    other.write_text("the quick brown fox jumps over the lazy dog. " * 60)
    asked = {"preset": "quick", "panels": ["loss", "recall"], "schemes": ["nope"]}
    specs = run(studies.Request(**asked, source=mine), store)
    alone = STUDY.stored(studies.Request(preset="quick"), store)
    assert {spec.identity for spec in alone} == {spec.identity for spec in specs}, (
        "recall needs no text, which hides no text"
    )
    run(studies.Request(**asked, source=other), store)
    with pytest.raises(ValueError, match=r"several data sets: .* posenc report language FILE"):
        STUDY.stored(studies.Request(preset="quick"), store)
    assert {spec.identity for spec in STUDY.stored(studies.Request(**asked, source=mine), store)} == {
        spec.identity for spec in specs
    }


def test_a_row_that_stops_tells_the_tokens_that_others_tell() -> None:
    settings = {"window": 8, "targets": 20, "text": {"multiple": 4}}
    far, near = (
        loss_by_context(
            lambda tokens: tokens[:, 1:].float(),
            work.asked(torch.arange(100, dtype=torch.int32), settings, reach),
            reach=reach,
            stride=4,
        )
        for reach in (32, 8)
    )
    assert near.tolist() == far[:8].tolist()


def test_drawn_positions_lie_as_far_apart_as_those_of_a_text_of_each_length(
    tmp_path: Path, mine: Path, small: presets.Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, reach = Store(tmp_path / "runs"), MULTIPLE * WINDOW
    (spec,) = STUDY.plan(studies.Request(preset="quick", source=mine, schemes=["rope, randomised"]), store)
    reader = work.Reader(spec, store.root)
    whole, read = reader.parts.test[None, : reach + 1].long(), []
    real = work.positions
    monkeypatch.setattr(work, "positions", lambda *args: read.append(real(*args)) or read[-1])
    generator = torch.Generator().manual_seed(0)
    one, other = (reader.by_octave(whole, generator) for _ in range(2))
    assert one.shape == (1, reach)
    lengths = [pos.coords.shape[1] for pos in read]
    assert lengths == [WINDOW, 2 * WINDOW, reach] * 2
    assert not torch.equal(read[0].coords, read[3].coords), "each window has a draw of its own"
    for pos in read:
        assert int(pos.coords.max()) < rows.SPREAD * reach
        assert bool((pos.coords[0, :, 0].diff() > 0).all())
        assert not torch.equal(pos.coords[0, :, 0].diff(), torch.ones(pos.coords.shape[1] - 1)), (
            "nor do any stand in a row"
        )
    at = reader.model(whole[:, : 2 * WINDOW], read[1]).detach().log_softmax(-1)
    told = -at.gather(2, whole[:, 1 : 2 * WINDOW + 1, None])[0, :, 0]
    assert one[0, WINDOW : 2 * WINDOW].tolist() == pytest.approx(told[WINDOW:].tolist(), abs=1e-5)
    assert not torch.equal(one, other)


def test_stretched_rows_recall_with_the_weights_of_rope(
    tmp_path: Path, small: presets.Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, made, real = Store(tmp_path / "runs"), [], stretching.stretched
    monkeypatch.setattr(stretching, "stretched", lambda *a, **known: made.append(known) or real(*a, **known))
    request = studies.Request(preset="quick", panels=["recall"], schemes=["rope", "rope, linear"])
    done = {(spec.condition, spec.variant): store.read(spec.identity) for spec in run(request, store)}
    plain, linear = done["copy", "rope"], done["copy", "rope, linear"]
    assert all(torch.equal(plain.weights[name], value) for name, value in linear.weights.items())
    window = small.own["recall"]["window"]
    assert made == [{"factor": recalling.MULTIPLES[-1], "trained": window}] * 2


def test_a_stopped_unit_goes_on_to_the_same_last_digit(tmp_path: Path, mine: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    request = studies.Request(preset="quick", source=mine, schemes=["rope, randomised"])
    (spec,) = STUDY.plan(request, store)

    def stop(step: int, *_: object) -> None:
        if step:
            raise KeyboardInterrupt

    whole = work.train_unit(spec, store.root / "units" / "a", lambda *_: None)
    reader, stopped = work.Reader(spec, store.root), store.root / "units" / "b"
    stopped.mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        stretching.train(reader.fit(), reader.training, seed=0, workdir=stopped, report=stop, checkpoint_seconds=0.0)
    again = work.train_unit(spec, stopped, lambda *_: None)
    assert again.metrics == whole.metrics
    assert all(torch.equal(again.weights[name], value) for name, value in whole.weights.items())


def test_rows_of_a_seed_share_their_batches(tmp_path: Path, mine: Path, small: presets.Preset) -> None:
    store = Store(tmp_path / "runs")
    specs = STUDY.plan(studies.Request(preset="quick", source=mine, schemes=["nope", "rope"], seeds=[0, 1]), store)
    drawn = {(spec.variant, spec.seed): work.Reader(spec, store.root).draw(2) for spec in specs}
    assert torch.equal(drawn["nope", 0], drawn["rope", 0])
    assert not torch.equal(drawn["nope", 0], drawn["nope", 1])


def test_the_estimate_is_of_this_machine(tmp_path: Path, mine: Path, small: presets.Preset) -> None:
    store, threads = Store(tmp_path / "runs"), torch.get_num_threads()
    request = studies.Request(preset="quick", source=mine, panels=["loss", "recall"], schemes=["nope"])
    found = STUDY.estimate(STUDY.plan(request, store), store, 2)
    assert 0 < found.seconds < 60
    assert torch.get_num_threads() == threads


# what is refused -----------------------------------------------------------------------------------------------------


def test_without_a_text_one_sentence_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    with pytest.raises(ValueError, match=r"none was given. Name a file of yours, posenc run language my_text.txt, or"):
        STUDY.plan(studies.Request(preset="quick"), store)
    with pytest.raises(ValueError, match=r"holds no text: text/tinyshakespeare.txt"):
        STUDY.plan(studies.Request(preset="quick", data=tmp_path), store)


def test_a_short_text_is_asked_less_far_and_a_shorter_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    multiples = {}
    for size in (20 * 17, 20 * 24, 20 * 40, 20 * 400):
        path.write_text("ab" * (size // 2))
        multiples[size // 20] = keep(tmp_path / "runs", path, window=8, multiple=16).multiple
    assert multiples == {17: 1, 24: 2, 40: 4, 400: 16}
    path.write_text("ab" * 160)
    with pytest.raises(ValueError, match=r"16 are held out to report, and that takes at least 17"):
        keep(tmp_path / "runs", path, window=8, multiple=16)


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("PEG", "the row 'PEG' cannot be built: PEG mixes a token with those around it"),
        ("RoPE(head_dim=6)", r"the row 'RoPE\(head_dim=6\)' cannot be built: .* heads of width 6"),
        ("rpoe", "there is no row 'rpoe'. Did you mean rope"),
    ],
)
def test_what_is_no_row_is_said_in_a_sentence(
    tmp_path: Path, mine: Path, small: presets.Preset, label: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        STUDY.plan(studies.Request(preset="quick", source=mine, schemes=[label]), Store(tmp_path / "runs"))
