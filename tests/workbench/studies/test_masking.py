"""Shared code of the studies of hidden tokens: tokens and masks, variants, scores of tables, one run."""

import msgspec
import numpy as np
import pytest
import torch

from posenc.models.encoder import EncoderConfig
from posenc.positions import Positions, grid, sequence
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.shared.hidden_tokens import execute, settings, table_scores, variants
from posenc.workbench.studies.shared.hidden_tokens.tokens import MASKS, Tokens, draw_hidden, hidden_indices
from posenc.workbench.training.fit import TrainingPosition
from posenc.workbench.training.loop import TrainingConfig, train

pytestmark = pytest.mark.bare

CHANNELS = 8
CONFIG = EncoderConfig(channels=1, classes=1, dim=12, depth=2, hidden=16)
TRAINING = TrainingConfig(epochs=6, batch=16, lr=1e-2, optimizer="adam", evaluate_every=3)


@pytest.fixture
def tokens() -> Tokens:
    """Two modules of four channels that follow one course each, in alternation; two recordings to test with."""
    chance = torch.Generator().manual_seed(0)
    of = torch.arange(CHANNELS) % 2
    values = torch.randn(300, 2, generator=chance)[:, of] + 0.5 * torch.randn(300, CHANNELS, generator=chance)
    places = torch.stack([of.double() * 20, torch.arange(CHANNELS).double(), torch.zeros(CHANNELS)], 1)
    return Tokens(
        values[:200, :, None],
        values[200:, :, None],
        (torch.arange(100) >= 60).long(),
        ("a", "b"),
        tuple(f"c{n}" for n in range(CHANNELS)),
        {"index": sequence(CHANNELS), "places": Positions(places.float())},
        modules=tuple(f"m{n}" for n in of.tolist()),
        coordinates=places,
    )


POSITIONS = {"index": sequence(CHANNELS), "places": Positions(torch.zeros(CHANNELS, 3))}


def spec(label: str, task: settings.MaskedTask, **changes) -> RunSpec:
    chosen = label if label in variants.BASELINES else variants.variant(label, CONFIG, POSITIONS, axes=3)
    stored = settings.settings_of(chosen, task, CONFIG, TRAINING, {"tokens": CHANNELS}, "cpu") | changes
    names = {"procedure": "masked.train", "entry": "a:b"}
    return RunSpec(study="s", preset="p", variant=label, seed=1, settings=stored, **names)


TASK = settings.MaskedTask(rate=0.5, test_rates=(0.75, 0.5))


def test_masks_of_a_test_are_few_exact_and_the_same_every_time(tokens):
    few = tokens.test_masks(0.75)
    assert few.shape == (100, CHANNELS)
    assert (few.sum(1) == 6).all()
    assert len(few.unique(dim=0)) <= MASKS
    assert torch.equal(few, tokens.test_masks(0.75))
    assert few[3].nonzero().flatten().tolist() == hidden_indices(few)[3].tolist()
    drawn = draw_hidden(5, CHANNELS, 0.5, torch.Generator().manual_seed(0))
    assert drawn.shape == (5, 4)
    assert all(len(set(row)) == 4 for row in drawn.tolist())


def test_baselines_are_ordered_by_what_they_know(tokens):
    found = {name: each.mean() for name, each in tokens.baseline_errors(0.5).items()}
    assert set(found) == set(variants.BASELINES)
    assert found["ridge"] < found["nearest"] < found["mean"]
    assert found["ridge"] < 0.6 < 1 < found["mean"]


@pytest.mark.parametrize("label", [*variants.WITHOUT_COORDINATES[:6], *variants.WITH_COORDINATES[:3]])
def test_every_row_learns(label, tokens):
    trained = execute.MaskedModel(spec(label, TASK), tokens)
    before = float(trained.loss(torch.arange(64)).detach())
    optimizer = torch.optim.Adam(trained.model.parameters(), lr=1e-2)
    for step in range(12):
        optimizer.zero_grad()
        trained.loss_at(TrainingPosition(0, step, 0), torch.arange(200)).backward()
        optimizer.step()
    assert float(trained.loss(torch.arange(64)).detach()) < before
    assert bool(trained.tables()) == ("embed" in trained.model.schemes[0].claims.sites)


def test_a_row_of_places_fills_the_width_with_zeros(tokens):
    config = msgspec.structs.replace(CONFIG, dim=16)
    row = variants.variant("sinusoid-xyz", msgspec.structs.replace(CONFIG, dim=16), POSITIONS, axes=3)
    scheme = variants.make_model(row, config, tokens.views["places"], "learned").schemes[0]
    table = scheme.embed(scheme.prepare(tokens.views["places"]))
    assert table.shape == (CHANNELS, 16)
    assert not table[:, 12:].any()
    assert table[:, :12].any()


def test_tables_are_one_a_layer_where_they_are_learned_and_one_where_they_are_fixed(tokens):
    assert len(execute.MaskedModel(spec("learned-0.1", TASK), tokens).tables()) == 2
    assert len(execute.MaskedModel(spec("1d-fixed", TASK), tokens).tables()) == 1
    trained = execute.MaskedModel(spec("learned-0.2", TASK), tokens)
    assert float(torch.stack(trained.tables()).std()) == pytest.approx(0.2, rel=0.2)


def test_what_does_not_fit_is_refused_in_a_sentence(tokens):
    with pytest.raises(ValueError, match="needs coordinates of the channels, and these have none"):
        variants.require_fit(variants.variant("laplacian", CONFIG, POSITIONS, 3), CONFIG, tokens.views)
    with pytest.raises(ValueError, match=r"there is no variant 'learnd'. Did you mean"):
        variants.variant("learnd", CONFIG, POSITIONS, 3)


def test_a_unit_trains_scores_every_recording_and_says_what_its_table_knows(tokens, tmp_path):
    for name in ("k", "r"):
        (tmp_path / "units" / name).mkdir(parents=True)
    found = execute.execute(spec("learned-0.1", TASK), tmp_path / "units" / "k", lambda *_: None, lambda *_: tokens)
    assert found.arrays["errors"].shape == (2, 2)
    assert found.metrics["mse_75"] == pytest.approx(found.arrays["errors"][0].mean())
    assert found.metrics.keys() >= {"auc", "auc_layer_0", "auc_null", "auc_p", "ari", "modularity", "segregation"}
    assert found.arrays["positions"].shape == (CHANNELS, 3)
    assert {row["metric"] for row in found.curves} >= {"mse_75", "mse_50", "auc", "loss_train"}
    plain = execute.execute(spec("ridge", TASK), tmp_path / "units" / "r", lambda *_: None, lambda *_: tokens)
    assert plain.metrics.keys() == {"mse_75", "mse_50"}
    np.testing.assert_allclose(plain.arrays["errors"][1], tokens.baseline_errors(0.5)["ridge"])


@pytest.mark.full
def test_a_stopped_unit_goes_on_to_the_same_last_digit(tokens, tmp_path):
    def stop(step: int, *_: object) -> None:
        if step > 2:
            raise KeyboardInterrupt

    asked = spec("learned-1", TASK)
    (tmp_path / "units" / "a").mkdir(parents=True)
    whole = execute.execute(asked, tmp_path / "units" / "a", lambda *_: None, lambda *_: tokens)
    trained, stopped = execute.MaskedModel(asked, tokens), tmp_path / "units" / "b"
    stopped.mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        train(trained.fit(), TRAINING, seed=1, workdir=stopped, report=stop, checkpoint_seconds=0.0)
    again = execute.execute(asked, stopped, lambda *_: None, lambda *_: tokens)
    assert again.metrics == whole.metrics


# what a table knows --------------------------------------------------------------------------------------------------


def test_a_table_of_modules_is_found_out_and_noise_is_not(tokens):
    chance = torch.Generator().manual_seed(0)
    noise = torch.randn(CHANNELS, 6, generator=chance, dtype=torch.float64)
    of = torch.arange(CHANNELS) % 2
    sorted_out = noise + 20 * of[:, None]
    found = table_scores.final_scores([noise], [sorted_out], tokens, seed=0)
    assert found["auc"] == found["ari"] == 1
    assert found["auc_p"] < 0.1 < found["auc_null_sd"] * 10
    assert abs(found["auc_null"] - 0.5) < 0.1
    assert found["auc_initial"] < 0.9
    assert table_scores.final_scores([], [], tokens, seed=0) == {}
    assert table_scores.curve_scores([sorted_out, noise], tokens)["auc"] == pytest.approx(
        (1 + found["auc_initial"]) / 2
    )


def test_a_table_of_equal_rows_says_nothing(tokens):
    same = torch.ones(CHANNELS, 4, dtype=torch.float64)
    assert "auc" not in table_scores.final_scores([same], [same], tokens, seed=0)
    assert table_scores.table_arrays([same], [same], tokens) == {}


def test_a_table_of_the_true_grid_finds_its_neighbours():
    coords = grid(4, 4).coords.double()
    near = torch.cdist(coords, coords, p=1) == 1
    blank = torch.zeros(1, 16, 1)
    known = Tokens(blank, blank, torch.zeros(1).long(), ("a",), tuple("abcdefghijklmnop"), {}, None, near, coords)
    noise = torch.randn(16, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = table_scores.final_scores([noise], [coords], known, seed=0)
    assert found["neighbours"] == 1
    assert found["residual_straight"] == pytest.approx(0, abs=1e-9)
    assert found["residual"] < 0.05  # along a grid's links the ways are those of a taxi
    assert found["residual_p"] < 0.05
    assert found["neighbours_initial"] < 0.6
    drawn = table_scores.table_arrays([noise], [coords], known)
    np.testing.assert_allclose(drawn["positions"], coords, atol=0.5)
    assert drawn["before"].shape == (16, 2)
