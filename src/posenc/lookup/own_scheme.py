"""Schemes of your own, defined in a file, a script or a notebook: their code, and a name that tells two codes apart.

    text_of(Ramp(dim=16))    # "Ramp_3f2a9c1d(dim=16)"; posenc.lookup.scheme_text reads it as any other name

The name ends with a digest of the code, so the runs of an edited scheme are other runs. The code is the class and the
imports, constants, functions and classes that it uses; ``posenc.lookup.own_files`` reads it from files and installed
packages. Worker processes get it from their parent process. No code is read from a store.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import dis
import hashlib
import importlib
import importlib.abc
import importlib.util
import inspect
import linecache
import re
import sys
import sysconfig
import textwrap
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor
from typing_extensions import override

if TYPE_CHECKING:
    from posenc.scheme import Scheme

PACKAGE = "posenc_own_scheme:"
"""First part of the name of the module of a scheme, which makes it distinct from importable modules."""
DIGITS = 8
INSTALLED = {"site-packages", "dist-packages"}
"""Names of the folders of installed libraries."""
MOST_NUMBERS = 4096
"""Most numbers of a tensor that are written as text."""


class Source(NamedTuple):
    """Origin of the code of a scheme.

    Attributes:
        name: File and class, module and class, or "a notebook".
        digest: sha256 of the code, whose first digits end the name of the scheme.
        path: The file; None without one.
        text: Text of the file as it was read.
        document: Docstring of the module.
    """

    name: str
    digest: str
    path: Path | None = None
    text: str = ""
    document: str | None = None

    @property
    def edited(self) -> bool:
        """True if the file has another text now, or is gone."""
        if self.path is None:
            return False
        try:
            with tokenize.open(self.path) as file:
                return file.read().rstrip("\n") != self.text.rstrip("\n")
        except (OSError, SyntaxError, UnicodeDecodeError):
            return True


def text_of(scheme: Scheme | type[Scheme]) -> str:
    """Return the text of a scheme, such as ``Ramp_3f2a9c1d(slope=0.5)``, and make its code available under that name.

    Args:
        scheme: A class, whose arguments follow from the model, or an object. An object stands for its class with the
            same arguments: every run makes a new one.

    Returns:
        The text. A scheme of posenc has its plain name.

    Raises:
        ValueError: It is not a scheme, its code cannot be read, or an argument cannot be written as text.
    """
    from posenc.scheme import Scheme
    from posenc.schemes import catalogue

    kind = scheme if isinstance(scheme, type) else type(scheme)
    if not issubclass(kind, Scheme) or inspect.isabstract(kind):
        raise ValueError(
            f"{kind.__name__} is not a scheme. Pass a name, a subclass of posenc.Scheme that defines `prepare`, or an "
            "object of one."
        )
    own = catalogue().get(kind.__name__) is not kind and not kind.__module__.startswith(PACKAGE)
    name = _add(kind) if own else kind.__name__
    options = {} if isinstance(scheme, type) else _options(scheme)
    words = ", ".join(_words(options))
    return f"{name}({words})" if words else name


def call_of(scheme: Scheme) -> str:
    """Return the class of a scheme and all of its arguments, with those that were left out, as ``Ramp(slope=1.0)``.

    Args:
        scheme: The scheme.

    Returns:
        The call. Two codes of one class name have equal calls.

    Raises:
        ValueError: An argument cannot be written as text.
    """
    return f"{type(scheme).__name__}({', '.join(_words(_options(scheme, defaults=True)))})"


def find(name: str) -> type[Scheme] | None:
    """Return the class with a name of ``text_of``, None for another name.

    Args:
        name: The name.

    Returns:
        The class.

    Raises:
        ValueError: This process does not have the code of the name.
    """
    module = sys.modules.get(PACKAGE + name.strip())
    if module is None and re.fullmatch(rf"\w+_[0-9a-f]{{{DIGITS}}}", name):
        raise ValueError(
            f"{name} is a scheme of your own, and no code is read from a store. Pass the scheme with the code of the "
            "run: schemes=[..] in Python, --schemes FILE.py on the command line."
        )
    return None if module is None else vars(module)[name.strip()]


def source(name: str) -> Source | None:
    """Return the origin of the code of a name of ``text_of``, None for another name.

    Args:
        name: The name.

    Returns:
        The origin.
    """
    module = sys.modules.get(PACKAGE + name)
    return None if module is None else module.__loader__.source  # pyright: ignore


def codes() -> dict[str, str]:
    """Return the code of every scheme that ``text_of`` named in this process, by its name."""
    modules = {name.removeprefix(PACKAGE): each for name, each in sys.modules.items() if name.startswith(PACKAGE)}
    return {name: module.__loader__.code for name, module in modules.items()}  # pyright: ignore


def add_codes(codes: Mapping[str, str]) -> None:
    """Make code of another process available in this one.

    Args:
        codes: Name to code, as ``codes`` returns them there.
    """
    for name, code in codes.items():
        _import(name, code, Source("another process", hashlib.sha256(code.encode()).hexdigest()))


@contextlib.contextmanager
def errors_in_a_sentence(text: str) -> Iterator[None]:
    """Turn an error of a scheme of your own into a ValueError that names its source.

    Args:
        text: Text of the scheme that is built or called.

    Yields:
        None. Every ValueError, and errors of other schemes, are raised as they are.

    Raises:
        ValueError: A scheme of your own raised another error.
    """
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        found = next((source(name) for name in codes() if name in text), None)
        if found is None:
            raise
        command = f" `posenc check {found.path.name}` says what to mend." if found.path else ""
        raise ValueError(
            f"the scheme of {found.name} fails at the positions of this study: {type(error).__name__}: "
            f"{str(error) or 'no message'}.{command}"
        ) from error


def _words(options: Mapping[str, Any]) -> list[str]:
    return [f"{option}={_word(value)}" for option, value in options.items()]


def _options(scheme: Scheme, *, defaults: bool = False) -> dict[str, Any]:
    """Arguments that an object was made with. Frequencies in a tensor become a list, which is read back exactly."""
    kind = type(scheme)
    positional, named = scheme._arguments
    bound = inspect.signature(kind).bind(*positional, **named)
    if defaults:
        bound.apply_defaults()
    options = {name: _numbers(value) for name, value in bound.arguments.items()}
    for name, value in options.items():
        for part in value if _has_schemes(value) else (value,):
            if not (_is_scheme(part) or _is_literal(part) or _of_frequencies(part)):
                raise ValueError(
                    f"{kind.__name__} has the argument {name}={type(part).__name__}(..), which text cannot hold. Build "
                    "it in the constructor of a class of your own."
                )
    return options


def _numbers(value: Any) -> Any:
    """The numbers of a list of frequencies without an attention factor; any other value unchanged."""
    from posenc.frequencies import Frequencies

    tensor = value.theta if isinstance(value, Frequencies) and value.attention_factor == 1 else value
    if not isinstance(tensor, Tensor) or tensor.dim() != 1 or not tensor.is_floating_point() or tensor.requires_grad:
        return value
    return tensor.tolist() if len(tensor) <= MOST_NUMBERS else value


def _of_frequencies(value: Any) -> bool:
    """True for frequencies with an attention factor, as of YaRN, few enough to be written."""
    from posenc.frequencies import Frequencies

    return isinstance(value, Frequencies) and len(value.theta) <= MOST_NUMBERS


def _is_scheme(value: Any) -> bool:
    from posenc.scheme import Scheme

    return isinstance(value, Scheme)


def _has_schemes(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(map(_is_scheme, value))


def _word(value: Any) -> str:
    """Text of an argument. A scheme in it stands for its class with the same arguments, as an object does."""
    if _has_schemes(value):
        return f"[{', '.join(map(_word, value))}]"
    if _of_frequencies(value):
        return f"Frequencies({value.theta.tolist()}, {value.attention_factor!r})"
    return text_of(value) if _is_scheme(value) else repr(value)


def _is_literal(value: Any) -> bool:
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, RuntimeError):
        return False


# a class as code ---------------------------------------------------------------------------------------------------


def _add(kind: type[Scheme]) -> str:
    """Name of a class of one's own, whose code is then available under this name."""
    code = _code(kind)
    digest = hashlib.sha256(code.encode()).hexdigest()
    name = f"{kind.__name__}_{digest[:DIGITS]}"
    origin = _source(kind, digest)
    _import(name, code, origin)
    sys.modules[PACKAGE + name].__loader__.source = origin  # pyright: ignore  # the file that was read last
    return name


def _source(kind: type[Scheme], digest: str) -> Source:
    module = sys.modules[kind.__module__]
    document, file = module.__doc__, getattr(module, "__file__", None)
    if file is None:
        return Source("a notebook", digest, document=document)
    path, text = Path(file), "".join(linecache.getlines(file))
    written = path.name if module.__name__ == "__main__" or ":" in module.__name__ else module.__name__
    return Source(f"{written}:{kind.__name__}", digest, path, text, document)


class _Loader(importlib.abc.SourceLoader):
    """Loader of a module whose code is a text."""

    def __init__(self, code: str, source: Source) -> None:
        self.code, self.source = code, source

    @override
    def get_filename(self, fullname: str) -> str:
        return f"{fullname}.py"  # no such file: linecache asks the loader for the text

    @override
    def get_data(self, path: str) -> bytes:
        return self.code.encode()


def _import(name: str, code: str, source: Source) -> None:
    if PACKAGE + name in sys.modules:
        return
    loader = _Loader(code, source)
    spec = importlib.util.spec_from_loader(PACKAGE + name, loader)
    assert spec is not None, "a loader is given"
    module = sys.modules[PACKAGE + name] = importlib.util.module_from_spec(spec)
    try:
        loader.exec_module(module)
    except Exception as error:
        del sys.modules[PACKAGE + name]
        raise ValueError(
            f"the code of {name.rpartition('_')[0]} cannot run on its own: {type(error).__name__}: {error}. Import at "
            "the top level what it uses."
        ) from error
    module.__doc__ = source.document
    kind = vars(module)[name.rpartition("_")[0]]
    if kind.shown:  # it names the class as its file does
        kind.shown = re.sub(rf"\b{kind.__name__}\b", name, kind.shown)
    kind.__name__ = kind.__qualname__ = name
    setattr(module, name, kind)


def _code(kind: type[Scheme]) -> str:
    """Code of a module that defines a class: what it uses of the module that defined it, and the class."""
    if "." in kind.__qualname__:
        raise ValueError(f"{kind.__name__} is defined inside a function or class. Define it at the top level.")
    short, long = dict[str, str](), dict[str, str]()
    _collect(kind.__name__, vars(sys.modules[kind.__module__]) | {kind.__name__: kind}, kind, short, long)
    lines = ["from __future__ import annotations", *sorted(short.values())]
    return "\n\n\n".join(["\n".join(lines), *long.values()]) + "\n"


def _collect(
    name: str, namespace: Mapping[str, Any], kind: type[Scheme], short: dict[str, str], long: dict[str, str]
) -> None:
    """Add the definition of a name and of all names that it uses, those first.

    Args:
        name: The name.
        namespace: Names of the module of the scheme, with their values.
        kind: The scheme.
        short: Receives imports and constants.
        long: Receives functions and classes.
    """
    value = namespace[name]
    if not (isinstance(value, (type, FunctionType)) and value.__module__ == kind.__module__):
        short[name] = _statement(name, value, kind)
        return
    if value.__name__ != name:
        raise ValueError(f"{kind.__name__} uses {value.__name__} by another name, {name}. Use one name.")
    text = _definition(value, kind)
    needed = _needed(compile(text, "", "exec", __future__.annotations.compiler_flag, dont_inherit=True))
    long[name] = text  # before the names that it uses, which may use it in turn
    for other in sorted(needed | _annotations(ast.parse(text))):
        if other in {*short, *long} or other.startswith("__") or other not in namespace:
            continue
        try:
            _collect(other, namespace, kind, short, long)
        except ValueError:
            if other in needed:
                raise
            long.pop(other, None)
    long[name] = long.pop(name)


def _needed(code: CodeType) -> set[str]:
    """Names that code reads from its module when it runs."""
    read, written = set[str](), set[str]()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            read.add(instruction.argval)
        elif instruction.opname == "STORE_NAME":
            written.add(instruction.argval)
    return (read - written).union(*(_needed(part) for part in code.co_consts if isinstance(part, CodeType)))


def _annotations(tree: ast.AST) -> set[str]:
    """Names in annotations, which no run reads. Error messages about arguments do, if they are known."""
    parts = [part for node in ast.walk(tree) for part in (getattr(node, "annotation", 0), getattr(node, "returns", 0))]
    nodes = [node for part in parts if isinstance(part, ast.AST) for node in ast.walk(part)]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _statement(name: str, value: Any, kind: type[Scheme]) -> str:
    """Line that gives a module, an imported object or a constant its name."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}{_version(value.__name__, kind)}"
    if _is_literal(value):
        return f"{name} = {value!r}"
    attribute = getattr(value, "__name__", None) or getattr(value, "_name", None) or ""
    for module in (getattr(value, "__module__", None), "torch"):  # functions of torch name no module
        if module in sys.modules and getattr(sys.modules[module], attribute, None) is value:
            return f"from {module} import {attribute} as {name}{_version(module, kind)}"
    raise ValueError(
        f"{kind.__name__} uses {name}, which is a {type(value).__name__} and cannot be written as text. Make it in the "
        "constructor, or import its module."
    )


def _version(module: str, kind: type[Scheme]) -> str:
    """Comment with the digest of a module of the user's own, and of the others that it imports; "" for libraries.

    Modules of the user's own are those of the scheme's package, and those that no installation put where libraries are.
    """
    package = kind.__module__.partition(".")[0]
    pending, files = [module], dict[str, str]()
    while pending:
        name = pending.pop()
        loaded = sys.modules.get(name)
        if loaded is None or name in files:
            continue
        if name.partition(".")[0] != package and not _is_of_the_user(loaded):
            continue
        files[name] = "".join(linecache.getlines(getattr(loaded, "__file__", None) or ""))
        for each in vars(loaded).values():
            if isinstance(each, ModuleType | type | FunctionType):
                pending.append(each.__name__ if isinstance(each, ModuleType) else each.__module__)
    text = "".join(f"{name}\n{files[name]}" for name in sorted(files))
    return f"  # {hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}" if files else ""


def _is_of_the_user(module: ModuleType) -> bool:
    """True for a module with a Python file outside posenc, Python's own library and the folders of installed ones."""
    file = getattr(module, "__file__", None) or ""
    if module.__name__.partition(".")[0] == "posenc" or not file.endswith(".py"):
        return False
    path = Path(file).resolve()
    libraries = {Path(place).resolve() for name, place in sysconfig.get_paths().items() if "lib" in name}
    return INSTALLED.isdisjoint(path.parts) and not any(path.is_relative_to(each) for each in libraries)


def _definition(value: Any, kind: type[Scheme]) -> str:
    """Code of a class or function, from the file or the notebook cell that defines it."""
    files = [function.__code__.co_filename for function in _functions(value)]
    own = getattr(sys.modules[value.__module__], "__file__", None)  # of a class without functions
    for file in (*files, *([own] if own else [])):
        text = "".join(linecache.getlines(file))
        for node in reversed(ast.parse(text).body):
            if getattr(node, "name", None) == value.__name__:
                first = min(each.lineno for each in (node, *getattr(node, "decorator_list", ())))
                return textwrap.dedent("\n".join(text.splitlines()[first - 1 : node.end_lineno]))
    raise ValueError(
        f"the code of {value.__name__}, which {kind.__name__} needs, cannot be read. Define it in a file or a cell."
    )


def _functions(value: Any) -> Iterator[FunctionType]:
    members = vars(value).values() if isinstance(value, type) else (value,)
    for member in members:
        function = getattr(member, "fget", None) or getattr(member, "__func__", None) or member
        function = inspect.unwrap(function) if callable(function) else function
        if isinstance(function, FunctionType):
            yield function
