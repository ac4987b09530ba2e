"""One quantity against another: Spearman's ρ by hand, the control taken out, too few points refused."""

from posenc.workbench.report.page import FigureGroup, Text
from posenc.workbench.report.scatter_plot import scatter_plot

NAMES = ("a", "b", "c", "d", "e")
LABELS = {"title": "Distance", "x_label": "distance", "y_label": "accuracy"}


def sides(*columns):
    return [{name: {0: float(value), 1: float(value)} for name, value in zip(NAMES, c, strict=True)} for c in columns]


def told(panel):
    return [text.replace("\u00a0", " ") for text in next(b for b in panel.blocks if isinstance(b, Text)).paragraphs]


def test_rho_of_five_points_by_hand():
    # ranks differ by (−1, 1, −1, 1, 0): ρ = 1 − 6 · 4 / (5 · 24) = 0.8
    x, y = sides((1, 2, 3, 4, 5), (0.2, 0.1, 0.4, 0.3, 0.5))
    panel = scatter_plot(x, y, published="Published: ρ = −0.98.", **LABELS)
    assert "ρ = 0.80 [" in told(panel)[0]
    assert "n = 5 encodings, computed from means over 2 seeds" in told(panel)[0]
    assert told(panel)[-1] == "Published: ρ = −0.98."
    turned, _ = sides((5, 4, 3, 2, 1), (0,) * 5)
    assert "ρ = −0.80 [" in told(scatter_plot(turned, y, **LABELS))[0]


def test_a_control_takes_its_part_away():
    x, y = sides((1, 2, 3, 4, 5), (0.2, 0.1, 0.4, 0.3, 0.5))
    control = dict(zip(NAMES, (1.0, 2.0, 3.0, 5.0, 4.0), strict=True))
    # ρ of x and control 0.9, of y and control 0.6: (0.8 − 0.54) / √((1 − 0.81)(1 − 0.36)) = 0.746
    panel = scatter_plot(x, y, control=control, control_label="the norm", **LABELS)
    assert "Partial Spearman’s ρ given the norm: ρ = 0.75 [" in told(panel)[1]
    del control["e"]
    assert (
        "not computed (4 encodings with a value, at least 5 needed)"
        in told(scatter_plot(x, y, control=control, **LABELS))[1]
    )


def test_fewer_than_four_points_are_refused_by_name():
    x, y = sides((1, 2, 3, 4, 5), (1, 2, 3, 4, 5))
    three = {name: x[name] for name in ("a", "b", "c")}
    panel = scatter_plot(three, y, **LABELS)
    assert told(panel) == ["A rank correlation needs at least 4 encodings with both values; there are 3: a, b and c."]
    assert not any(isinstance(block, FigureGroup) for block in panel.blocks)


def test_every_point_is_named_and_the_null_is_shaded():
    x, y = sides((1, 2, 3, 4, 5), (0.2, 0.1, 0.4, 0.3, 0.5))
    pictures = [
        next(
            b
            for b in scatter_plot(x, y, null=null, null_label="an untrained table", **LABELS).blocks
            if b.kind != "text"
        )
        for null in (None, (2.0, 0.25))
    ]
    assert all(f">{name}<" in pictures[0].figures[0].svg for name in NAMES)
    assert "an untrained table" not in pictures[0].figures[0].svg
    assert "an untrained table" in pictures[1].figures[0].svg
    assert "an untrained table, mean 2.00 ± 2 SD (SD 0.25)" in pictures[1].key
    assert [cells[0] for cells in pictures[0].table.rows] == ["e", "c", "d", "a", "b"]


def test_each_point_has_its_own_null():
    x, y = sides((1, 2, 3, 4, 5), (0.2, 0.1, 0.4, 0.3, 0.5))
    own = {"a": {0: 0.25, 1: 0.75}, "b": {0: 9.0}}
    group = scatter_plot(x, y, own_null=own, own_null_label="untrained models", **LABELS).blocks[1]
    assert "Hollow circle, joined by a dashed line: untrained models of the encoding, mean over seeds." in group.key
    assert "Shaded band" not in group.key
    assert group.table.columns[-1] == "Distance, untrained models"
    nulls = {cells[0]: cells[-1] for cells in group.table.rows}
    assert nulls == {"a": "0.500", "b": "9.000", **dict.fromkeys("cde", "–")}
    plain = scatter_plot(x, y, **LABELS).blocks[1]
    assert "Hollow" not in plain.key
    assert group.figures[0].svg != plain.figures[0].svg
