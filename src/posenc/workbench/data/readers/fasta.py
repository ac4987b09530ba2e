"""FASTA: sequences, each after a header line that begins with ``>``. Headers and line breaks are not part of them."""

from __future__ import annotations

from pathlib import Path

from posenc.workbench.data.documents import Documents, text_record
from posenc.workbench.data.endings import reason_by_ending
from posenc.workbench.data.reading_options import ReadingOptions
from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.files import user_files
from posenc.workbench.files.user_files import UserFileError

FORM = "FASTA"
KIND = "text"
OPTIONS: tuple[str, ...] = ("val", "tokenizer")
ENDINGS = tuple(f".{end}{packed}" for end in ("fasta", "fa", "fna", "faa", "ffn") for packed in ("", ".gz"))
MEMORY_FACTOR = 30


def match(path: Path) -> str:
    """Match files with an ending of FASTA."""
    return reason_by_ending(path, ENDINGS)


def inspect(path: Path, options: ReadingOptions) -> DatasetRecord:
    """Count the bytes of the file; nothing is read."""
    return text_record(FORM, path, [path])


def read(path: Path, options: ReadingOptions) -> Documents:
    """Read the sequences.

    Args:
        path: The file.
        options: No option.

    Returns:
        One document a sequence. Headers without a sequence are left out and counted.

    Raises:
        UserFileError: A line stands before the first header, is not ASCII, or no sequence has a letter.
    """
    user_files.require_file(path, "sequences")
    content = user_files.unpack(path, MEMORY_FACTOR, "sequences", "Cut the file.")
    sequences = list[list[str]]()
    for number, line in enumerate(content.splitlines(), start=1):
        if line.startswith(b">"):
            sequences.append([])
            continue
        if not line.strip() or line.startswith(b";"):
            continue
        if not sequences:
            raise UserFileError(f"{path}, line {number} stands before the first header. A header begins with >.")
        try:
            sequences[-1].append(line.strip().decode("ascii"))
        except UnicodeDecodeError:
            raise UserFileError(f"{path}, line {number} is not ASCII. A sequence is letters.") from None
    documents = tuple("".join(lines) for lines in sequences if lines)
    if not documents:
        raise UserFileError(f"{path} has no sequence. FASTA has a header, >NAME, and the letters on the next lines.")
    without = len(sequences) - len(documents)
    left_out = (f"Left out: {without} headers without a sequence",) if without else ()
    alphabet = "".join(sorted({letter for text in documents for letter in text}))
    read_as = {"documents": len(documents), "alphabet": alphabet}
    return Documents(FORM, documents, separator="\n", options=read_as, left_out=left_out)
