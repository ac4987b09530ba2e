"""What the clues of a Latin square puzzle imply: the fast rules against slow ones that follow the definitions."""

import itertools

import numpy as np
import pytest

from posenc.workbench.tasks.latin_squares import (
    SQUARES,
    Puzzles,
    classify_puzzle,
    classify_puzzles,
    jaccard_distant,
    load_authors,
    solve_puzzles,
)
from posenc.workbench.tasks.latin_squares import one_hot as one_hot_cells

pytestmark = pytest.mark.bare

LINES = [[4 * i + j for j in range(4)] for i in range(4)] + [[4 * i + j for i in range(4)] for j in range(4)]


def random_cells(n, seed, fewest=1, most=15):
    """Puzzles with a solution: random clues of random squares; most do not imply the probe's symbol."""
    random = np.random.default_rng(seed)
    cells = np.zeros((n, 16), dtype=np.uint8)
    for row in cells:
        order = random.permutation(16)
        shown = order[: random.integers(fewest, most + 1)]
        row[shown] = random.choice(SQUARES)[shown]
        row[order[-1]] = 5
    return cells


def symbols_by_enumeration(cells):
    """The probe's symbols in all squares that agree with the clues, one square at a time."""
    clues = [(cell, symbol) for cell, symbol in enumerate(cells) if symbol in (1, 2, 3, 4)]
    probe = list(cells).index(5)
    return {int(square[probe]) for square in SQUARES if all(square[cell] == symbol for cell, symbol in clues)}


def can_fill(cells, lines, at, symbol):
    """Whether the cells of these lines can be filled with ``symbol`` at cell ``at`` and no repeat along any of them."""
    held = {cell: int(cells[cell]) for line in lines for cell in line if cells[cell] in (1, 2, 3, 4)} | {at: symbol}
    free = sorted({cell for line in lines for cell in line} - set(held))

    def fits():
        return all(len(known) == len(set(known)) for line in lines for known in [[held[c] for c in line if c in held]])

    def fill(left):
        if not fits():
            return False
        if not left:
            return True
        for guess in (1, 2, 3, 4):
            held[left[0]] = guess
            if fill(left[1:]):
                return True
        held.pop(left[0])
        return False

    return fill(free)


def entailment_by_enumeration(cells):
    probe = list(cells).index(5)
    for k in (1, 2, 3):
        for lines in itertools.combinations(LINES, k):
            if any(probe in line for line in lines):
                left = [symbol for symbol in (1, 2, 3, 4) if can_fill(cells, lines, probe, symbol)]
                if len(left) == 1:
                    return k
    return 0


def authors_by_definition(cells, line_holds=((0, 3), (1, 2), (2, 1))):
    """line_holds: the (clues, blanks) beside the probe at which a hidden single counts; by default all there are."""
    grid = np.array(cells).reshape(4, 4)
    r, c = np.argwhere(grid == 5)[0]
    clues = {1, 2, 3, 4}
    row, column = clues & set(grid[r]), clues & set(grid[:, c])
    if 3 in (len(row), len(column)):
        return 1
    if len(row | column) == 3:
        return 2
    for own, lines, place in ((row, grid, (r, c)), (column, grid.T, (c, r))):
        blanks = [j for j in range(4) if j != place[1] and lines[place[0], j] == 0]
        for symbol in clues - row - column:
            if (len(own), len(blanks)) in line_holds and all(symbol in lines[:, j] for j in blanks):
                return 3
    return 0


AS_THE_VERIFIER_ASKS = ((0, 3), (1, 2))


def test_there_are_576_latin_squares():
    assert len({tuple(square) for square in SQUARES.tolist()}) == 576 == len(SQUARES)
    for line in LINES:
        assert (np.sort(SQUARES[:, line], axis=1) == [1, 2, 3, 4]).all()


def test_solve_agrees_with_trying_every_square():
    cells = random_cells(400, seed=0)
    expected = [symbols_by_enumeration(row) for row in cells]
    assert solve_puzzles(cells).tolist() == [symbols.pop() if len(symbols) == 1 else 0 for symbols in expected]


def test_solve_sees_contradictions_and_rows_that_are_no_puzzle():
    rows = ["1100000000000005", "1230004000000005", "1230000400005000", "0000000000000000", "5000000000000005"]
    cells = np.array([[int(symbol) for symbol in row] for row in [*rows, "7230000000000005", "1235000000000000"]])
    assert solve_puzzles(cells).tolist() == [0, 0, 0, 0, 0, 0, 4]
    assert classify_puzzles(cells, "entailment").tolist() == [0, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(("fewest", "most"), [(3, 9), (1, 15)])
def test_authors_classes_agree_with_their_definition(fewest, most):
    cells = random_cells(1500, seed=1, fewest=fewest, most=most)
    expected = [authors_by_definition(row) for row in cells]
    assert classify_puzzles(cells, "authors").tolist() == expected
    assert min(np.bincount(expected, minlength=4)) > 50


@pytest.mark.full
def test_entailment_classes_agree_with_filling_the_lines():
    cells = random_cells(2000, seed=2, fewest=3, most=10)
    expected = [entailment_by_enumeration(row) for row in cells]
    assert classify_puzzles(cells, "entailment").tolist() == expected
    assert min(np.bincount(expected, minlength=4)) > 100


@pytest.mark.parametrize("rule", ["authors", "entailment"])
def test_a_class_implies_one_symbol(rule):
    cells = random_cells(3000, seed=3)
    assert (solve_puzzles(cells)[classify_puzzles(cells, rule) > 0] > 0).all()


@pytest.mark.parametrize("rule", ["authors", "entailment"])
def test_classes_do_not_depend_on_orientation_or_names(rule):
    cells = random_cells(1000, seed=4, fewest=3, most=9)
    kind = classify_puzzles(cells, rule)
    grid = cells.reshape(-1, 4, 4)
    renamed = np.array([0, 3, 1, 4, 2, 5], dtype=np.uint8)[cells]
    for other in (grid.swapaxes(1, 2), grid[:, [2, 0, 3, 1]], grid[:, :, [1, 3, 2, 0]], renamed):
        assert np.array_equal(classify_puzzles(other.reshape(-1, 16), rule), kind)


def test_the_rules_differ_where_the_documentation_says():
    # Row 1 shows 1 and 2 and has one other blank, which stands in a column with 3: that row and that column imply 3.
    two_lines = "1205000000300000"
    assert (classify_puzzle(two_lines), classify_puzzle(two_lines, "entailment")) == (3, 2)
    assert authors_by_definition([int(s) for s in two_lines], AS_THE_VERIFIER_ASKS) == 0
    # Row 4 and column 2 leave 3 for the cell where they meet, so the probe is 1: no hidden single, but three lines.
    bent = "0200054000004001"
    assert classify_puzzle(bent, "entailment") == 3
    with pytest.raises(ValueError, match="none of the authors' three classes; rule='entailment' has one for it"):
        classify_puzzle(bent)
    # An empty row whose three other columns all show 1: by the authors' rule 3, though it takes four lines.
    four_lines = "5000010000100001"
    assert classify_puzzle(four_lines) == 3
    with pytest.raises(ValueError, match="none of the three classes of rule='entailment': its probe needs more lines"):
        classify_puzzle(four_lines, "entailment")


@pytest.mark.parametrize(
    ("puzzle", "reason"),
    [
        ("123", "puzzle '123' has 3 characters; it needs 16 digits, row by row"),
        ("20005002340010000", "has 17 characters; it needs 16 digits"),
        ("2000500734001000", "has '7' in row 2, column 4; a cell is 0 (blank), 1-4 (a symbol) or 5 (the probe)."),
        ("2000500x34001000", "has 'x' in row 2, column 4"),
        ("200050023400100²", "has '²' in row 4, column 4"),
        ("2000000234001000", "has no probes (digit 5); it needs exactly one."),
        ("2000550234001000", "has 2 probes (digit 5); it needs exactly one."),
        ("2020500034001000", "shows 2 more than once in row 1: it has no solution."),
        ("2000500220003400", "shows 2 more than once in column 1: it has no solution."),
        ("1230000400005000", "has no solution: no Latin square agrees with all of its clues."),
        ("1000000000000005", "leaves 1, 2, 3 and 4 possible at the probe; its clues must imply one symbol."),
        ("1250000000000000", "leaves 3 and 4 possible at the probe"),
    ],
)
def test_a_bad_puzzle_is_refused_in_one_sentence(puzzle, reason):
    with pytest.raises(ValueError) as caught:
        classify_puzzle(puzzle)
    message = str(caught.value)
    assert reason in message
    assert message.startswith(f"puzzle {puzzle!r} ")
    assert message.endswith(".")
    assert ". " not in message
    with pytest.raises(ValueError, match="puzzle"):
        Puzzles.from_strings([puzzle])


def test_other_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="a puzzle is a string of 16 digits, since a leading 0 counts; got 2000"):
        classify_puzzle(2000500234001000)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="'authors' or 'entailment'; got 'author'"):
        classify_puzzle("2000500234001000", "author")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"an array of shape \(n, 16\).*got \(2, 15\)"):
        solve_puzzles(np.zeros((2, 15), dtype=np.uint8))


def items(puzzle, rule):
    return {
        (cell, symbol) for cell, symbol in enumerate(puzzle) if symbol in "1234" or (rule, symbol) == ("one-hot", "5")
    }


@pytest.mark.parametrize("rule", ["one-hot", "clue-pairs"])
def test_jaccard_agrees_with_sets(rule):
    cells = random_cells(260, seed=5, fewest=1, most=9)
    nothing = np.ones(len(cells), dtype=np.uint8)
    a, b = Puzzles(cells[:200], nothing[:200], nothing[:200]), Puzzles(cells[200:], nothing[200:], nothing[200:])
    expected = []
    for one in a.strings():
        pairs = [(items(one, rule), items(other, rule)) for other in b.strings()]
        expected.append(all(5 * (len(p | q) - len(p & q)) > 4 * len(p | q) for p, q in pairs))
    assert jaccard_distant(a, b, rule).tolist() == expected
    assert 10 < sum(expected) < 190
    assert jaccard_distant(a, b.take(slice(0, 0)), rule).all()


def test_a_distance_of_exactly_four_fifths_is_not_far():
    one, other = "1230000000000005", "1000002000005001"
    assert items(one, "clue-pairs") & items(other, "clue-pairs") == {(0, "1")}
    assert len(items(one, "clue-pairs") | items(other, "clue-pairs")) == 5
    a, b = (Puzzles(np.array([[int(s) for s in p]]), np.ones(1), np.ones(1)) for p in (one, other))  # pyright: ignore
    assert not jaccard_distant(a, b, "clue-pairs")[0]
    assert jaccard_distant(a, b, "one-hot")[0]
    with pytest.raises(ValueError, match="'one-hot' or 'clue-pairs'; got 'cosine'"):
        jaccard_distant(a, b, "cosine")  # pyright: ignore[reportArgumentType]


@pytest.mark.data
def test_all_of_the_authors_puzzles_have_their_class_and_one_answer(authors_folder):
    # Reading compares every stated condition and solution with what the clues imply, and refuses what differs.
    data = load_authors(authors_folder)
    assert {name: len(part) for name, part in data.splits().items()} == {"train": 8100, "iid": 900, "ood": 108}
    assert [np.bincount(part.kind).tolist()[1:] for part in data.splits().values()] == [[2700] * 3, [300] * 3, [36] * 3]
    everything = np.concatenate([part.cells for part in data.splits().values()])
    assert len(np.unique(everything, axis=0)) == 9108
    assert (classify_puzzles(everything) > 0).all()
    assert classify_puzzles(everything).tolist() == [authors_by_definition(row) for row in everything]
    as_verified = [authors_by_definition(row, AS_THE_VERIFIER_ASKS) for row in everything]
    assert classify_puzzles(everything).tolist() == as_verified
    generated = np.concatenate([one_hot_cells(part, 5).reshape(len(part), 80) for part in (data.train, data.iid)])
    human = one_hot_cells(data.ood, 5).reshape(108, 80)
    common = generated @ human.T
    distance = 1 - common / (generated.sum(1)[:, None] + human.sum(1) - common)
    assert distance.min() == 0.8125
    assert data.manifest["arguments"]["jaccard"] == "one-hot"
