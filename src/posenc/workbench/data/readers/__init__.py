"""One reader for each form of a text: a module with ``FORM``, ``OPTIONS``, ``match(path)`` and ``read(path, options)``.

    FORM      name of the form
    OPTIONS   names of the reading options that it takes
    match     reason why the reader reads a path, as "it ends in .jsonl"; "" if it does not
    read      the documents

The modules are found by walking this folder.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from posenc.workbench.data.documents import Documents, ReadingOptions
from posenc.workbench.files.user_files import UserFileError

FLAGS = {"field": "--field", "dtype": "--dtype"}
"""Reading option to the flag of the command line."""


def readers() -> Mapping[str, ModuleType]:
    """Find the readers.

    Returns:
        Form to module, sorted by the names of the modules.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    return {module.FORM: module for module in modules}


def find_reader(path: Path) -> tuple[ModuleType, str]:
    """Find the reader of a path.

    Args:
        path: File or folder.

    Returns:
        The reader, and the reason why it reads the path.

    Raises:
        UserFileError: No reader matches, or two do.
    """
    if not path.exists() and not path.is_symlink():
        raise UserFileError(f"there is no file {path}. Give the path of a text.")
    matches = [(module, reason) for module in readers().values() if (reason := module.match(path))]
    if len(matches) > 1:
        forms = " and as ".join(f"{module.FORM} ({reason})" for module, reason in matches)
        raise UserFileError(f"{path} can be read as {forms}. Divide it into files of one form.")
    if not matches:
        raise UserFileError(
            f"{path} is no text: a text is a UTF-8 file, a folder of .txt or .md files, .jsonl, .fasta, or token ids "
            "as .npy or .bin. Give one of these."
        )
    return matches[0]


def read_documents(path: Path, options: ReadingOptions) -> Documents:
    """Read the texts, or the token ids, of a file or folder.

    Args:
        path: File or folder.
        options: Options of the reader.

    Returns:
        The documents.

    Raises:
        UserFileError: The path has no form that a reader knows, is damaged or too large, or an option is of another
            form.
    """
    reader, reason = find_reader(path)
    for name, value in options.given.items():
        if name not in reader.OPTIONS:
            raise UserFileError(
                f"{FLAGS[name]} {value} is not for {path}, which is read as {reader.FORM}: {reason}. Leave it out."
            )
    return reader.read(path, options)
