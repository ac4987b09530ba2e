"""Missing values of recordings: their times are left out, they are filled, or their channels are dropped."""

from pathlib import Path

import numpy as np
import pytest

from posenc.workbench.tasks.recordings import Recordings, read_recordings
from posenc.workbench.tasks.recordings.missing_values import without_missing_values

NUMBERS = np.random.default_rng(0).normal(size=(2, 4, 60))


def with_gaps(*, many: bool = False) -> Recordings:
    """Two recordings of four channels; the second channel lacks five values of the first one, or most of them."""
    numbers = NUMBERS.copy()
    numbers[0, 1, slice(0, 40) if many else [0, 7, 8, 30, 59]] = np.nan
    return Recordings(tuple(numbers), ("a", "b"), tuple("wxyz"))


def test_five_missing_times_cost_five_times_and_no_channel() -> None:
    found = without_missing_values(with_gaps(), "times").validated()
    assert [each.shape for each in found.series] == [(4, 55), (4, 60)]
    np.testing.assert_array_equal(found.series[0], np.delete(NUMBERS[0], [0, 7, 8, 30, 59], 1))
    assert found.note == (
        "Left out: 5 of 120 times, in recording 'a', because a channel has no value there (most often 'x'). "
        "--fill linear fills them instead."
    )
    whole = Recordings(tuple(NUMBERS), ("a", "b"))
    assert without_missing_values(whole, "times") is whole
    assert without_missing_values(with_gaps(), "refuse").frames == 120


def test_missing_values_are_filled_linearly_in_time() -> None:
    found = without_missing_values(with_gaps(), "linear").validated()
    first, given = found.series[0][1], NUMBERS[0, 1]
    assert first[30] == pytest.approx((given[29] + given[31]) / 2)
    assert first[7] == pytest.approx(given[6] + (given[9] - given[6]) / 3)
    assert (first[0], first[59]) == (given[1], given[58]), "the ends have the nearest value"
    assert found.note == "Filled linearly in time: 5 of 480 values, which were missing."


def test_too_many_missing_values_are_refused_with_the_remedy() -> None:
    told = r"only 20 of 60 times of recording 'a' have a value in every channel; 'x' lacks the most, 40. Leave out the"
    with pytest.raises(ValueError, match=told):
        without_missing_values(with_gaps(many=True), "times")
    with pytest.raises(ValueError, match=r"'x' has a value at only 20 of 60 times .* Leave the channel out: --fill"):
        without_missing_values(with_gaps(many=True), "linear")
    scattered = NUMBERS.copy()
    scattered[0, 1, :20], scattered[0, 2, 20:40] = np.nan, np.inf
    with pytest.raises(ValueError, match=r"only 20 of 60 .* Fill the gaps with --fill linear, or leave out"):
        without_missing_values(Recordings(tuple(scattered), ("a", "b")), "times")


def test_drop_leaves_out_what_cannot_be_filled(tmp_path: Path) -> None:
    numbers = NUMBERS.copy()
    numbers[0, 1, :40], numbers[1, 2, 5], numbers[1, 3] = np.nan, np.nan, 2.0
    np.savez(tmp_path / "some.npz", recordings=numbers, channels=np.array(list("wxyz")))

    def kept(**treatment) -> tuple[str, ...]:
        return read_recordings(tmp_path / "some.npz", **treatment).channels

    assert kept(drop=True, missing="linear") == ("w", "y")
    with pytest.raises(ValueError, match="3 of 4 channels are constant or not finite; at least two must be left"):
        kept(drop=True, missing="times")
    numbers[0, 1, :40] = NUMBERS[0, 1, :40]
    np.savez(tmp_path / "some.npz", recordings=numbers, channels=np.array(list("wxyz")))
    assert kept(drop=True, missing="times") == ("w", "x")
    with pytest.raises(ValueError, match=r"'z' is constant in recording 'recording 2'.* every recording: --drop"):
        kept(missing="times")


def write_tables(folder: Path, *orders: str) -> Path:
    folder.mkdir()
    for number, order in enumerate(orders):
        columns = ["wxyz".find(name) for name in order]
        lines = [",".join(order), *(",".join(map(repr, row)) for row in NUMBERS[number, columns].T.tolist())]
        (folder / f"day{number}.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_tables_with_the_channels_in_another_order_are_aligned_by_name(tmp_path: Path) -> None:
    found = read_recordings(write_tables(tmp_path / "days", "wxyz", "zxwy"))
    np.testing.assert_allclose(found.series, NUMBERS, rtol=1e-12)
    assert found.channels == tuple("wxyz")
    aligned = "Aligned by name: the channels of 'day1.csv', whose order differs from that of day0.csv."
    assert found.remarks[0] == aligned
    assert (
        found.note == f"{aligned} Each file counts as a subject. If one has several, begin their names with sub-LABEL_"
    )


def test_tables_with_other_channels_are_refused_with_the_difference(tmp_path: Path) -> None:
    told = r"same channels, in any order; 'q' is only in day1.csv and 'y' is only in day0.csv. Rename them"
    with pytest.raises(ValueError, match=told):
        read_recordings(write_tables(tmp_path / "days", "wxyz", "zxwq"))
    with pytest.raises(ValueError, match=r"in any order; 'w', 'y' is only in day0.csv. Rename them"):
        read_recordings(write_tables(tmp_path / "fewer", "wxyz", "zx"))


def test_numbers_that_stand_for_missing_values_are_named(tmp_path: Path) -> None:
    numbers = NUMBERS.copy()
    numbers[:, 2, ::7] = -9999
    np.savez(tmp_path / "a.npz", recordings=numbers, channels=list("wxyz"))
    note = read_recordings(tmp_path / "a.npz").note
    assert "y is -9999 in 18 time points, and from -" in note
    assert note.endswith("It is read as a number: if it stands for a missing value, write nan for it.")
    numbers[:, :, 0] = -9999
    np.savez(tmp_path / "b.npz", recordings=np.concatenate([numbers, numbers + 1e-3 * (numbers != -9999)], 1))
    assert read_recordings(tmp_path / "b.npz").note.endswith("The same holds for 5 more channels.")
    np.savez(tmp_path / "c.npz", recordings=NUMBERS)
    assert "9999" not in read_recordings(tmp_path / "c.npz").note


def test_many_more_channels_than_times_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", recordings=NUMBERS.swapaxes(1, 2))
    assert "There are 60 channels and at most 4 times." in read_recordings(tmp_path / "a.npz").note


def test_a_last_column_that_counts_the_times_is_refused(tmp_path: Path) -> None:
    for name, numbers in zip("ab", NUMBERS, strict=True):
        np.savetxt(tmp_path / f"{name}.csv", np.column_stack([numbers.T, np.arange(60)]), delimiter=",")
    with pytest.raises(ValueError, match=r"column 5 of a\.csv rises at every time, so it is a clock and no channel"):
        read_recordings(tmp_path)
