"""Lines of ``posenc data look`` on the content of a user's data: counts, excerpt, what is left out or unread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from posenc.workbench.counted_nouns import count_of
from posenc.workbench.request_checks import READING_OPTIONS

if TYPE_CHECKING:
    from posenc.workbench.data.documents import Documents
    from posenc.workbench.dataset_record import DatasetRecord
    from posenc.workbench.tasks.text import Text

Lines = Generator[str, None, str | None]
"""Lines on data, and further flags of their command."""
CLASSES_SHOWN = 20
"""Classes whose counts are printed."""
SHORTEST_WINDOW = 2
"""Shortest window that a command for a short text names, in tokens."""
EXCERPT = 60
"""Tokens of the beginning of a text that are printed."""
UNREAD: Mapping[str, str] = {
    "images": "Not read: pixels. A run names the images that do not decode",
    "clouds": "Not read: points and faces. A run names files that it leaves out, as those without three points",
    "brain": "Not read: the images. A run checks atlas, voxels and channels",
    "image": "Not read: pixels. A run decodes them",
    "scene": "Not read: cameras and images. A run checks them",
}
"""Kind of data to what names and headers do not tell."""


def unread(kind: str, study: str, path: Path, flags: str = "") -> str:
    """Sentence on what was not read, with the command that reads it and trains nothing.

    Args:
        kind: A key of UNREAD.
        study: A study that takes the data.
        path: The data.
        flags: Further flags of its command.

    Returns:
        The sentence.
    """
    return f"{UNREAD[kind]}: posenc run {study} {quote(str(path))}{flags} --dry-run"


def record_lines(path: Path, kind: str, stated: Mapping[str, str]) -> Lines:
    """Parts, classes and options of images.

    Args:
        path: File or folder.
        kind: Kind of the data.
        stated: Options of the reader.

    Yields:
        The lines.
    """
    from posenc.workbench.data.readers import inspect
    from posenc.workbench.data.reading_options import ReadingOptions

    given = {name: value for name, value in stated.items() if kind in READING_OPTIONS[name]}
    record = inspect(path, kind, ReadingOptions(**given))  # type: ignore[arg-type]  # the parser has checked them
    yield from _of_record(record)
    return ""


def graph_lines(path: Path, stated: Mapping[str, str]) -> Lines:
    """Counts, classes and features of graphs, which are read whole.

    Args:
        path: File or folder.
        stated: Options of the reader.

    Yields:
        The lines.
    """
    from posenc.workbench.data.graph_set import GraphSet, graph_record
    from posenc.workbench.data.readers import read
    from posenc.workbench.data.reading_options import ReadingOptions
    from posenc.workbench.studies.graphs.settings import refuse_unusable

    graphs: GraphSet = read(path, "graphs", ReadingOptions(**stated))  # type: ignore[arg-type]  # parser has checked
    yield from _of_record(graph_record(graphs, path))
    refuse_unusable(graphs, path)
    return ""


def _of_record(record: DatasetRecord) -> Iterator[str]:
    for part in record.parts:
        yield f"{part.name}: {', '.join(count_of(count, unit) for unit, count in part.counts.items())}"
    for number, name in enumerate(record.classes[:CLASSES_SHOWN]):
        counts = ", ".join(f"{part.name} {part.by_class[number]:,}" for part in record.parts)
        yield f"class {name}: {counts}"
    if len(record.classes) > CLASSES_SHOWN:
        yield f"and {len(record.classes) - CLASSES_SHOWN:,} more classes"
    yield from (f"{name}: {value}" for name, value in record.options.items() if name != "form")
    yield from record.left_out


def read_text(path: Path, stated: Mapping[str, str]) -> tuple[Text, Documents]:
    """Read a text, as the study language does.

    Args:
        path: File or folder.
        stated: Options of the reader.

    Returns:
        Its tokens and its documents.
    """
    from posenc.workbench.data.readers import read_documents
    from posenc.workbench.data.reading_options import ReadingOptions
    from posenc.workbench.tasks.text import named_tokenizer, tokenize_documents

    options = ReadingOptions(**stated)  # type: ignore[arg-type]  # the parser has checked them
    tokenizer, documents = named_tokenizer(options.tokenizer), read_documents(path, options)
    return tokenize_documents(documents, tokenizer), documents


def text_flags(path: Path, text: Text) -> str:
    """Flag of the command for a text that is too short for the windows of quick.

    Args:
        path: File or folder.
        text: The text.

    Returns:
        The flag, such as " --set window=8"; "" for a long text.

    Raises:
        ValueError: The text is of one token, or too short for any window.
    """
    from posenc.workbench.studies.language.presets import PRESETS
    from posenc.workbench.studies.language.stored_text import refuse_one_token, split_text

    refuse_one_token(text, path)
    window = usual = PRESETS["quick"].window
    while True:
        try:
            split_text(text, window, 0)
        except ValueError:
            if window == SHORTEST_WINDOW:
                raise
            window //= 2
        else:
            return "" if window == usual else f" --set window={window}"


def text_lines(path: Path, text: Text, documents: Documents) -> Lines:
    """Counts, vocabulary and beginning of a text.

    Args:
        path: File or folder.
        text: Its tokens.
        documents: Its documents.

    Yields:
        The lines.
    """
    from posenc.workbench.tasks.text import distinct_tokens, vocabulary_phrase

    used, known = distinct_tokens(text), len(text.vocabulary)
    counts = f"{len(text.tokens):,} {text.unit}, {used:,} of them different"
    counts += f", of a vocabulary of {known:,}" if used < known else ""
    parts = zip(("train", "val", "test"), text.given, strict=False)
    files = "".join(f"; {name} {count:,}" for name, count in parts)
    read_as = ", ".join(f"{name} {value}" for name, value in documents.options.items())
    yield f"{counts}{files}{f'; {read_as}' if read_as else ''}"
    if listed := vocabulary_phrase(text):
        yield f"{'most frequent' if text.unit in ('words', 'subwords') else 'vocabulary'}: {listed}"
    yield f"begins: {text.decode(text.tokens[:EXCERPT])!r}"
    yield from documents.left_out
    return text_flags(path, text)


def cloud_lines(path: Path) -> Iterator[str]:
    """Parts, forms and features of class folders of clouds.

    Args:
        path: The folder.

    Yields:
        The lines.
    """
    from posenc.workbench.data.readers import cloud_folder
    from posenc.workbench.data.reading_options import ReadingOptions

    record = cloud_folder.inspect(path, ReadingOptions())
    for part in record.parts:
        counts = [f"{name} {count:,}" for name, count in zip(record.classes, part.by_class, strict=True)]
        more = f", {len(counts) - CLASSES_SHOWN} more" if len(counts) > CLASSES_SHOWN else ""
        yield f"{part.name}: {count_of(part.counts['clouds'], 'clouds')}: {', '.join(counts[:CLASSES_SHOWN])}{more}"
    yield f"files: {record.options['files']}; points: {record.options['points']}"
    for form, names in cloud_folder.features_of(cloud_folder.read(path, ReadingOptions())).items():
        yield f"features of the first {form}: {', '.join(names) or 'none beside the coordinates'}"
    yield from record.left_out


def recording_lines(path: Path) -> Lines:
    """Counts of recordings, which are read whole as the study masked reads them.

    Args:
        path: A .npz, or a folder of tables.

    Yields:
        The lines.
    """
    from posenc.workbench.tasks.recordings import read_recordings

    found = read_recordings(path, missing="times")
    times = sorted({each.shape[1] for each in found.series})
    reach = f"{times[0]:,}" if len(times) == 1 else f"{times[0]:,} to {times[-1]:,}"
    subjects = len(set(found.subjects))
    yield (
        f"{count_of(len(found), 'recordings')} of {count_of(subjects, 'subjects')}, "
        f"{count_of(len(found.channels), 'channels')}, {reach} time points"
    )
    given = {"modules": found.modules, "coordinates": found.coordinates}
    named = [name for name, value in given.items() if value is not None]
    yield f"also given: {' and '.join(named) or 'neither modules nor coordinates of the channels'}"
    if subjects == 1:
        yield "One subject leaves no other to test on: a run cuts the recording into blocks (--blocks N)."
    if found.note:
        yield found.note


def series_lines(path: Path, stated: Mapping[str, str]) -> Lines:
    """Counts, columns and steps of a table of series, which is read whole.

    Args:
        path: The table.
        stated: Options of the reader.

    Yields:
        The lines.
    """
    from posenc.workbench.data.readers import read
    from posenc.workbench.data.reading_options import ReadingOptions
    from posenc.workbench.data.series import SeriesTable, span_phrase
    from posenc.workbench.studies.series.presets import PRESETS
    from posenc.workbench.tasks.series import make_windows, part_times

    table: SeriesTable = read(path, "series", ReadingOptions(**stated))  # type: ignore[arg-type]  # parser has checked
    for each in table.series[:CLASSES_SHOWN]:
        yield f"{each.name}: {span_phrase(each)}"
    if len(table.series) > CLASSES_SHOWN:
        yield f"and {len(table.series) - CLASSES_SHOWN:,} more series"
    yield from table.left_out
    quick, ends = PRESETS["quick"], part_times(table.series, table.columns)
    make_windows(table.series, quick.context, quick.horizon, ends, str(path))
    return ""


def place_lines(path: Path, stated: Mapping[str, str]) -> Lines:
    """Rows, coordinates, target and features of a table of places, which is read whole.

    Args:
        path: The table.
        stated: Options of the reader.

    Yields:
        The lines.
    """
    from posenc.workbench.data.readers import read
    from posenc.workbench.data.reading_options import ReadingOptions

    given = "target" in stated
    target = stated["target"] if given else example_target(path, stated)
    table = read(path, "places", ReadingOptions(**{**stated, "target": target}))  # type: ignore[arg-type]  # as above
    kind = f"{len(table.classes)} classes of {target}" if table.classes else f"values of {target}"
    yield f"{count_of(len(table), 'rows')}, {kind}, coordinates {', '.join(table.names)}"
    yield f"features: {table.options['features'].replace(',', ', ')}"
    yield from table.left_out
    if not given:
        yield f"{target} is the last column that can be predicted. Name another one after --target."


def example_target(path: Path, stated: Mapping[str, str]) -> str:
    """Last column of a table of places that can be a target, for an example of a command.

    Args:
        path: The table.
        stated: Options of the reader.

    Returns:
        Name of the column: of numbers if there is one that may be a target, else the last one.
    """
    from posenc.workbench.data.place_coordinates import find_coordinates
    from posenc.workbench.data.places import is_possible_target
    from posenc.workbench.data.readers import find_reader
    from posenc.workbench.data.reading_options import ReadingOptions

    options = ReadingOptions(**stated)  # type: ignore[arg-type]  # parser has checked
    reader, _ = find_reader(path, "places", options.format)
    cells = reader.cells_of(path)  # type: ignore[attr-defined]  # readers of places have it
    used = {*find_coordinates(cells, options).names, options.time, options.groups}
    others = [name for name in cells.names if name not in used] or [cells.names[-1]]
    return next((name for name in reversed(others) if is_possible_target(cells.column(name), name)), others[-1])


def mesh_lines(path: Path) -> Lines:
    """Size of a mesh, which is read whole, and the panel that a mesh without an inside needs.

    Args:
        path: The file.

    Yields:
        The lines.
    """
    from posenc.workbench.studies.shape_fit.stored_shape import no_volume
    from posenc.workbench.tasks.shapes import has_inside, read_shape

    mesh = read_shape(path).mesh
    yield f"{len(mesh.vertices):,} vertices, {len(mesh.faces):,} faces"
    if not has_inside(mesh):
        raise ValueError(no_volume(path.name))
    if mesh.watertight:
        return ""
    yield (
        f"{mesh.open_edges:,} of its edges do not join two faces that agree on the outside, so it has no signed "
        "distance, and its occupancy is fitted"
    )
    return " --panels occupancy"


def printed(lines: Callable[[], Lines]) -> str:
    """Print lines below the form of the data.

    Args:
        lines: Makes the lines; it may return further flags of the command.

    Returns:
        The flags, or "".

    Raises:
        ValueError: No study can take the data.
    """
    made = lines()
    try:
        while True:
            print(f"  {next(made)}")
    except StopIteration as end:
        return end.value or ""
