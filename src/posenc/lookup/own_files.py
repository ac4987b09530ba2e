"""Schemes of your own from text: files, modules and installed packages that a text names, read and given a name.

    with_names("my_bias.py:MyBias(heads=8)")    # "MyBias_3f2a9c1d(heads=8)", which posenc.lookup.scheme_text reads

Only the files and modules that the text names are executed. ``posenc.lookup.own_scheme`` makes the names.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator
from hashlib import sha256
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

from posenc import frequencies
from posenc.lookup import own_scheme
from posenc.lookup.name_suggestion import nearest_names, plain_name
from posenc.lookup.scheme_reference import GROUP, Reference, installed, references
from posenc.scheme import Scheme
from posenc.schemes import catalogue, schemes_in

FILES = "file:"
"""First part of the name of the module of a file."""
SHOWN = 60
"""Largest number of printed characters that a message repeats."""


def with_names(text: str) -> str:
    """Replace the references of a text by names of schemes.

    Args:
        text: The text of one scheme, such as ``Sum([RoPE(16), my_bias.py:MyBias(heads=4)])``. Text without references
            is returned as it is.

    Returns:
        The text with names that ``posenc.lookup.scheme_text`` reads.

    Raises:
        ValueError: A file or module cannot be imported, or does not define exactly one scheme of the name.
    """
    parts = [part if isinstance(part, str) else _name(part) for part in references(text)]
    return "".join(parts)


def texts_with_names(text: str) -> list[str]:
    """Replace the references of a text by names of schemes. A file alone stands for each of its schemes.

    Args:
        text: The text, or the path of a file, with a view after it if it has one.

    Returns:
        One text, or one for each scheme of the file.

    Raises:
        ValueError: As ``with_names``.
    """
    first, *rest = references(text) or [text]
    if isinstance(first, Reference) and first.is_file and not first.name and not any("(" in str(part) for part in rest):
        ending = "".join(map(str, rest))
        return [own_scheme.text_of(kind) + ending for kind in schemes_of_file(Path(first.source))]
    return [with_names(text)]


def classes_named(text: str) -> list[type[Scheme]] | None:
    """Return the classes of a text that is a reference alone, without arguments.

    Args:
        text: A file, a class of a file or of a module, or the name of an entry point.

    Returns:
        The classes as their file defines them; None for other text.

    Raises:
        ValueError: As ``with_names``.
    """
    parts = references(text)
    if len(parts) != 1 or isinstance(parts[0], str) or _is_known(parts[0]):
        return None
    only = parts[0]
    if only.is_file and not only.name:
        return schemes_of_file(Path(only.source))
    return [_class(only)]


def schemes_of_file(path: Path) -> list[type[Scheme]]:
    """Import a Python file.

    Args:
        path: The file.

    Returns:
        The schemes that it defines.

    Raises:
        ValueError: The file is absent, cannot be imported, or defines no scheme.
    """
    module = _module_of_file(path.expanduser())
    schemes, unfinished = list(schemes_in(module).values()), _unfinished(module)
    if not schemes:
        lacks = f" Its class {unfinished[0].__name__} lacks {_lacking(unfinished[0])}." if unfinished else ""
        raise ValueError(f"{path} defines no scheme.{lacks} Subclass posenc.Scheme and write its abstract `prepare`.")
    for kind in unfinished:
        print(f"{path}: {kind.__name__} is left out, because it lacks {_lacking(kind)}.", file=sys.stderr)
    return schemes


def _unfinished(module: ModuleType) -> list[type[Scheme]]:
    """Classes of a module that cannot be built yet, without the bases of others."""
    kinds = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    schemes = [kind for kind in kinds if issubclass(kind, Scheme)]
    bases = {base for kind in schemes for base in kind.__mro__[1:]}
    return [kind for kind in schemes if inspect.isabstract(kind) and kind not in bases]


def _lacking(kind: type[Scheme]) -> str:
    return " and ".join(f"its method `{name}`" for name in sorted(kind.__abstractmethods__))


def _is_known(reference: Reference) -> bool:
    """True for a word that is no reference: a scheme or a schedule of posenc, or the name of no entry point."""
    plain = plain_name(reference.name)
    if reference.source:
        return False
    return plain in map(plain_name, (*catalogue(), *frequencies.CITATIONS)) or reference.name not in installed()


def _name(reference: Reference) -> str:
    return reference.name if _is_known(reference) else own_scheme.text_of(_class(reference))


def _class(reference: Reference) -> type[Scheme]:
    """The class of a reference."""
    if not reference.source:
        (entry, *others) = installed()[reference.name]
        if others:
            ways = " or ".join(each.value for each in (entry, *others))
            raise ValueError(
                f"{reference.name} is a scheme of {1 + len(others)} installed packages. Write which one: {ways}"
            )
        return _of_entry_point(entry)
    if not reference.is_file:
        return _member(_imported(reference.source, reference), reference)
    path = Path(reference.source).expanduser()
    if reference.name:
        return _member(_module_of_file(path), reference)
    first, *others = schemes_of_file(path)
    if others:
        names = [each.__name__ for each in (first, *others)]
        raise ValueError(
            f"{path} defines {len(names)} schemes: {', '.join(names)}. Name one, as {path}:{first.__name__}"
        )
    return first


def _of_entry_point(entry: EntryPoint) -> type[Scheme]:
    """Class of an entry point, which an installed package names."""
    module, _, attribute = entry.value.partition(":")
    if not attribute:
        raise ValueError(
            f"the entry point {entry.name} of the group {GROUP} is {entry.value!r}, and a scheme is needed. Write "
            f"{module}:{entry.name} in the package's pyproject.toml."
        )
    return _member(_imported(module, entry.name), Reference(module, attribute))


def _member(module: ModuleType, reference: Reference) -> type[Scheme]:
    value = getattr(module, reference.name, None)
    if isinstance(value, type) and issubclass(value, Scheme):
        return value
    known = {
        name: each
        for name, each in vars(module).items()
        if isinstance(each, type) and issubclass(each, Scheme) and each is not Scheme
    }
    near = nearest_names(reference.name, known)
    hint = f"Did you mean {reference.source}:{near[0]}?" if near else f"Its schemes: {', '.join(known) or 'none'}."
    raise ValueError(f"{reference.source} has no scheme {reference.name!r}. {hint}")


# files and modules -------------------------------------------------------------------------------------------------


def _module_of_file(path: Path) -> ModuleType:
    """The module of a file, executed anew, with the text that was read kept for ``posenc.lookup.own_scheme``."""
    if not path.is_file():
        known = {plain_name(name): name for name in catalogue()}.get(plain_name(path.stem))
        also = f" For posenc's own {known} leave .py out." if known else ""
        raise ValueError(
            f"there is no file {path}. Give a Python file with a class that subclasses posenc.Scheme.{also}"
        )
    # The prefix keeps a file random.py from replacing the module random, the digest two files of one name apart.
    place = str(path.resolve())
    name = f"{FILES}{path.stem}:{sha256(place.encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "its name ends with .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickle looks up classes here.

    def execute() -> ModuleType:
        file = module.__file__ or place
        linecache.checkcache(file)
        text = "".join(linecache.getlines(file))  # posenc.lookup.own_scheme reads these lines too, also after an edit
        exec(compile(text, file, "exec", dont_inherit=True), vars(module))
        return module

    return _guarded(str(path), execute)


def _imported(name: str, written: Any) -> ModuleType:
    def execute() -> ModuleType:
        with _working_folder_importable():
            return importlib.import_module(name)

    return _guarded(f"the module {name} of {str(written)!r}", execute)


@contextlib.contextmanager
def _working_folder_importable() -> Iterator[None]:
    """Let a module of the working folder be imported, as ``python -m`` does."""
    before = list(sys.path)
    sys.path.append(str(Path.cwd()))
    try:
        yield
    finally:
        sys.path[:] = before


def _guarded(what: str, execute: Callable[[], ModuleType]) -> ModuleType:
    """Import code of a user: errors are one sentence, and printed text goes to standard error."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            module = execute()
    except SystemExit as error:
        raise ValueError(
            f"{what} cannot be imported: it ends the process. Put what is no definition under "
            "`if __name__ == '__main__':`."
        ) from error
    except Exception as error:
        raise ValueError(f"{what} cannot be imported: {_in_words(error)}") from error
    if text := " ".join(printed.getvalue().split()):
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]} .."
        print(f"{what} prints when it is imported: {shown!r}. This is left out of the output.", file=sys.stderr)
    return module


def _in_words(error: Exception) -> str:
    """Type, message and line of an error."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__} in line {error.lineno}: {error.msg}"
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_globals.get("__name__", "").startswith(FILES)]
    where = f" in line {lines[-1]}" if lines else ""
    message = f"{type(error).__name__}{where}: {str(error) or 'no message'}"
    return f"{message}. Install it." if isinstance(error, ModuleNotFoundError) else message
