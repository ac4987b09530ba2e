"""Schemes as text or JSON: parsing, and construction with the sizes of a model.

parse("RoPE(pairing='half')") -> Specification("RoPE", {"pairing": "half"})
build(specification, {"head_dim": 32, "dim": 64})    # sizes of the model, for arguments that the text does not give

A scheme that is made of others holds them in its options, as ``{"scheme": name, "options": options}``, and a frequency
schedule as ``{"schedule": name, "options": options}``. All of it is plain JSON.

parse("Scaled(Sinusoid(axes=2), 0.02)")    parse("RoPE(64, frequencies=yarn(factor=4, trained=2048))")
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, get_type_hints

import msgspec
import torch

from posenc import frequencies
from posenc.lookup import own_scheme
from posenc.lookup.name_suggestion import plain_name, unknown_option, unknown_variant, unreadable_call
from posenc.lookup.name_suggestion import unknown as unknown
from posenc.scheme import Scheme
from posenc.schemes import catalogue

LONGEST = 1000
"""Largest number of characters of a scheme as text."""
LARGE = 1 << 13
"""A constructor with a larger whole number is tried without memory first."""
LISTED = 32
"""Largest number of entries of a vector that text lists."""
RECIPE = "interleaved"
"""Name of the function of ``posenc.models.layers`` that the text of a variant may call."""
NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
"""Kinds of parameters that take an argument without a name."""
Known = Mapping[str, Any] | Callable[[type[Scheme]], Mapping[str, Any]]
"""Values of constructor arguments by name, or a function from a scheme class to them."""


class Specification(msgspec.Struct, frozen=True):
    """Class name of a scheme and some of its constructor arguments."""

    scheme: str
    options: dict[str, Any] = {}


def parse(text: str, *, longest: int = LONGEST) -> Specification:
    """Parse ``Name`` or ``Name(option=value, ..)``, where a value is literal, a scheme or a frequency schedule.

    Args:
        text: the text. Case, hyphens and underscores of the name are ignored. Arguments without a name come first, in
            the order of the constructor.
        longest: largest number of characters.

    Returns:
        Class name and arguments.

    Raises:
        ValueError: an unknown name, with the nearest known names; or text of another form.
    """
    if len(text) > longest:
        raise ValueError(f"an encoding is written in up to {longest:,} characters; got {len(text):,}.")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # such as hundreds of brackets
        node = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        kind = find(node.func.id)
        return Specification(kind.__name__, _arguments(node, kind, text))
    if "(" in text:
        raise ValueError(unreadable_call(text))
    return Specification(find(text.strip()).__name__)


def _arguments(node: ast.Call, called: Callable[..., Any], text: str) -> dict[str, Any]:
    """Arguments of a call by name, as plain JSON."""
    parameters = inspect.signature(called).parameters.values()
    places = [each.name for each in parameters if each.kind in NAMED]
    name = called.__name__
    further = _further(called)  # such as the names of periods("day", "week", unit="day")
    if (len(node.args) > len(places) and not further) or any(isinstance(each, ast.Starred) for each in node.args):
        takes = f"at most {len(places)} options without a name: {', '.join(places)}" if places else "named options only"
        raise ValueError(f"{name} takes {takes}. {text!r} has {len(node.args)}.{_list_hint(called, node)}")
    if any(word.arg is None for word in node.keywords):
        raise ValueError(f"the options of {text!r} are named, as {name}(option=value).")
    given = [_value(word, text) for word in node.args]
    options = dict(zip(places, given, strict=False))
    if further and len(given) > len(places):
        options[further] = given[len(places) :]
    for word in node.keywords:
        option = str(word.arg)
        if option in options:
            raise ValueError(f"{text!r} gives {name} the option {option} twice. Give it once.")
        options[option] = _value(word.value, text)
    return options


def _further(called: Callable[..., Any]) -> str:
    """Name of the parameter that takes any number of arguments without a name; "" without one."""
    parameters = inspect.signature(called).parameters.values()
    return next((each.name for each in parameters if each.kind is inspect.Parameter.VAR_POSITIONAL), "")


def _list_hint(called: Callable[..., Any], node: ast.Call) -> str:
    """Sentence for several schemes given to a scheme that takes a list of them."""
    first = next(iter(inspect.signature(called).parameters.values()), None)
    if first is None or "Sequence[Scheme]" not in str(first.annotation):
        return ""
    return f" Put the schemes into a list: {called.__name__}([{', '.join(map(ast.unparse, node.args))}])"


def _value(node: ast.expr, text: str) -> Any:
    """A value of a text as plain JSON: a literal, a scheme, a schedule, or a list of them."""
    if isinstance(node, ast.List | ast.Tuple):
        values = [_value(each, text) for each in node.elts]
        return tuple(values) if isinstance(node, ast.Tuple) else values
    if isinstance(node, ast.Name):
        known = {plain_name(name): name for name in catalogue()}
        if plain_name(node.id) in known:
            return {"scheme": known[plain_name(node.id)], "options": {}}
        if own_scheme.find(node.id) is not None:
            return {"scheme": node.id, "options": {}}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if schedule := schedules().get(plain_name(node.func.id)):
            return {"schedule": schedule.__name__, "options": _arguments(node, schedule, text)}
        kind = find(node.func.id)
        return {"scheme": kind.__name__, "options": _arguments(node, kind, text)}
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # TypeError: a list as a key
        raise ValueError(
            f"the options of {text!r} must be plain values or schemes, as Name(option=0.5, other='half')."
        ) from None


def parse_variant(text: str, label: str, variants: Iterable[str]) -> Specification:
    """Parse the text of a variant that a study does not name itself.

    Args:
        text: the text.
        label: the label in which it stands, for the error message.
        variants: labels of the study's variants.

    Returns:
        Class name and arguments.

    Raises:
        ValueError: an unknown name, with the nearest names and all variants and encodings; or text of another form.
    """
    known = own_scheme.find(text) is not None or plain_name(text) in map(plain_name, catalogue())
    if "(" not in text and not known:
        raise ValueError(unknown_variant(label, variants, catalogue()))
    return parse(text)


def parse_layers(text: str, label: str, variants: Iterable[str]) -> tuple[Specification, ...]:
    """Parse the text of a variant whose layers may differ: ``interleaved(local, full, every=4)``, or one scheme.

    Args:
        text: the text.
        label: the label in which it stands, for the error message.
        variants: labels of the study's variants.

    Returns:
        The schemes of successive layers, which are repeated: ``every - 1`` times the first, then the second.

    Raises:
        ValueError: an unknown name, text of another form, or ``every`` less than 2.
    """
    node = None
    with contextlib.suppress(SyntaxError, ValueError, MemoryError, RecursionError):
        node = ast.parse(text.strip(), mode="eval").body if text.strip().startswith(f"{RECIPE}(") else None
    if node is None:
        return (parse_variant(text, label, variants),)
    named = {word.arg: word.value for word in node.keywords} if isinstance(node, ast.Call) else {}
    every = named.pop("every", ast.Constant(4))
    number = every.value if isinstance(every, ast.Constant) else None
    if not isinstance(node, ast.Call) or len(node.args) != 2 or named or type(number) is not int or number < 2:
        raise ValueError(
            f"{RECIPE} takes the scheme of most layers, that of every n-th layer, and n of at least 2, as "
            f"{RECIPE}(RoPE, NoPE, every=4); got {text!r}."
        )
    local, full = (parse_variant(ast.unparse(part), label, variants) for part in node.args)
    return (local,) * (number - 1) + (full,)


def find(name: str) -> type[Scheme]:
    """Return the scheme class of a name. Raises ValueError with the nearest names if there is none."""
    if (own := own_scheme.find(name)) is not None:
        return own
    schemes = catalogue()
    plain = {plain_name(known): scheme for known, scheme in schemes.items()}
    if plain_name(name) in plain:
        return plain[plain_name(name)]
    raise ValueError(unknown("encoding", name, schemes))


def schedules() -> dict[str, Callable[..., Any]]:
    """Return the frequency schedules of ``posenc.frequencies`` by their name without underscores."""
    names = (*frequencies.CITATIONS, "periods", "from_span", "Frequencies")  # the last three have no paper
    return {plain_name(name): getattr(frequencies, name) for name in names}


def specifications(specification: Specification) -> Iterator[Specification]:
    """Yield a specification and those of the schemes inside it.

    Args:
        specification: the specification.

    Yields:
        The specification itself, then its parts, depth first.
    """
    yield specification
    for value in specification.options.values():
        for part in value if isinstance(value, list | tuple) else (value,):
            if isinstance(part, Mapping) and "scheme" in part:
                yield from specifications(Specification(part["scheme"], part["options"]))


def schedules_in(specification: Specification) -> list[Callable[..., Any]]:
    """Return the frequency schedules among the options of a specification, without those of its parts."""
    options = (value for value in specification.options.values() if isinstance(value, Mapping) and "schedule" in value)
    return [schedules()[plain_name(value["schedule"])] for value in options]


def axes_of(specification: Specification) -> int | None:
    """Return the number of axes that a specification names, in its options or in those of a part; None without one."""
    return next((each.options["axes"] for each in specifications(specification) if "axes" in each.options), None)


def build(specification: Specification, known: Known) -> Scheme:
    """Build a scheme from a specification.

    Args:
        specification: class name and arguments.
        known: values of further constructor arguments, such as ``head_dim``, for the scheme and for those inside it; or
            a function from a class to them. Arguments that the class does not have are ignored; those of the
            specification take precedence.

    Returns:
        The scheme.

    Raises:
        ValueError: an argument that the class does not have or of another type, or a missing argument.
    """
    kind = find(specification.scheme)
    parameters = inspect.signature(kind).parameters
    for option in specification.options:
        if option not in parameters:
            raise ValueError(unknown_option(kind.__name__, option, parameters))
    sizes = known(kind) if callable(known) else known
    needed = {name: value for name, value in sizes.items() if name in parameters}
    given = {**needed, **specification.options}
    missing = [name for name, each in parameters.items() if each.default is each.empty and name not in given]
    if missing and "Scheme" in str(parameters[missing[0]].annotation):
        example = "[Sinusoid, RoPE]" if "Sequence" in str(parameters[missing[0]].annotation) else "Sinusoid, 0.02"
        raise ValueError(f"{kind.__name__} is made of other schemes. Write them, as {kind.__name__}({example}).")
    if missing:
        raise ValueError(f"{kind.__name__} needs {missing[0]}=..; write {kind.__name__}({missing[0]}=value).")
    made = {name: _built(value, known, given) for name, value in given.items()}
    try:
        _refuse_size(kind, made)
        scheme = kind(**made)
    except (TypeError, AttributeError, OverflowError, RuntimeError) as error:
        reason = _of_another_type(kind, specification.options) or str(error).partition("\n")[0]
        raise ValueError(
            f"{_call(kind, specification.options)} cannot be built: {reason}. Give each option a value of its type."
        ) from error
    scheme.built_as = _call(kind, given)
    return scheme


def _refuse_size(kind: type[Scheme], options: Mapping[str, Any]) -> None:
    """Raise ValueError for a scheme with more parameters than the machine has memory, without making them."""
    if max((value for value in options.values() if isinstance(value, int)), default=0) < LARGE:
        return
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):  # tensors of that device have no values
            scheme = kind(**options)
        needed = sum(tensor.numel() * tensor.element_size() for tensor in (*scheme.parameters(), *scheme.buffers()))
    except ValueError:
        raise
    except Exception as error:
        if "overflow" not in str(error).lower():
            return  # the constructor reads the values of a tensor
        needed = 2**63
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**40
    if needed > memory:
        words = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise ValueError(
            f"{kind.__name__}({words}) has {needed / 2**30:,.0f} GiB of parameters, and this machine has "
            f"{memory / 2**30:,.0f} GiB of memory. Use smaller sizes."
        )


def _built(value: Any, known: Known, given: Mapping[str, Any]) -> Any:
    """A value of an option, with schemes and schedules in it built. given: the arguments of the scheme around it."""
    if isinstance(value, list | tuple):
        return type(value)(_built(each, known, given) for each in value)
    if isinstance(value, Mapping) and "scheme" in value:
        return build(Specification(value["scheme"], dict(value["options"])), known)
    if isinstance(value, Mapping) and "schedule" in value:
        return _schedule(schedules()[plain_name(value["schedule"])], value["options"], given)
    return value


def schedule_frequencies(value: Mapping[str, Any]) -> torch.Tensor:
    """Return the frequencies of a schedule that states their number or follows from names, such as ``periods``.

    Args:
        value: the schedule as plain JSON, ``{"schedule": name, "options": options}``.

    Returns:
        Frequencies, in radians per unit of the positions.

    Raises:
        ValueError: an unknown option, or a missing one.
    """
    return _schedule(schedules()[plain_name(value["schedule"])], value["options"], {})


def _schedule(schedule: Callable[..., Any], options: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """Frequencies of a schedule. Their number is half the rotated channels if the options do not give it."""
    parameters, given_options, options = inspect.signature(schedule).parameters, options, dict(options)
    for option in options:
        if option not in parameters:
            raise ValueError(unknown_option(schedule.__name__, option, parameters))
    if "count" in parameters and "count" not in options and isinstance(given.get("head_dim"), int):
        options["count"] = given["head_dim"] // 2
    further = options.pop(_further(schedule), ())
    for name, each in parameters.items():
        if each.default is each.empty and name not in options and each.kind is not each.VAR_POSITIONAL:
            raise ValueError(f"{schedule.__name__} needs {name}=..; write {schedule.__name__}({name}=value).")
    try:
        return schedule(*further, **options)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{_call(schedule, given_options)} cannot be computed: {error}.") from error


def call_text(specification: Specification) -> str:
    """Return a specification as the call that builds the scheme, such as ``Scaled(scheme=Sinusoid(axes=2), factor=2)``.

    Args:
        specification: the specification.

    Returns:
        Text that ``parse`` reads.
    """
    return _call(find(specification.scheme), specification.options)


def _call(called: Callable[..., Any], options: Mapping[str, Any]) -> str:
    further = _further(called)
    words = [value_text(value) for value in options.get(further, ())]
    words += [f"{name}={value_text(value)}" for name, value in options.items() if name != further]
    return f"{called.__name__}({', '.join(words)})"


def value_text(value: Any) -> str:
    """Return the value of an option as text.

    Args:
        value: a literal, a list, a scheme or schedule as plain JSON, or a tensor.

    Returns:
        Text that ``parse`` reads as a value; a short vector is a list of numbers, rounded to six digits, and another
        tensor is described by its shape.
    """
    if isinstance(value, list | tuple):
        words = ", ".join(map(value_text, value))
        return f"[{words}]" if isinstance(value, list) else f"({words}{',' * (len(value) == 1)})"
    if isinstance(value, Mapping) and "scheme" in value:
        return _call(find(value["scheme"]), value["options"])
    if isinstance(value, Mapping) and "schedule" in value:
        return _call(schedules()[plain_name(value["schedule"])], value["options"])
    if not isinstance(value, torch.Tensor):
        return repr(value)
    if value.dim() == 1 and len(value) <= LISTED and value.device.type != "meta":
        return f"[{', '.join(f'{number:.6g}' for number in value.tolist())}]"
    return f"<tensor {tuple(value.shape)}>"


def _of_another_type(kind: type[Scheme], options: Mapping[str, Any]) -> str:
    """Describe the first option whose value has another type than the constructor's annotation; "" if there is none."""
    wanted = get_type_hints(kind.__init__)
    for name, value in options.items():
        try:
            msgspec.convert(value, wanted[name])
        except msgspec.ValidationError:
            return f"{name} is {inspect.formatannotation(wanted[name])}, not {value!r}"
        except TypeError:  # a type that no text has, such as a tensor
            continue
    return ""


def signature(kind: type[Scheme]) -> str:
    """Return the signature of a scheme's constructor as text: ``(head_dim: int, *, of: int | None = None)``."""
    return str(inspect.signature(kind, eval_str=True)).removesuffix(" -> None")


def per_layer(specification: Specification, known: Known) -> Callable[[int], Scheme]:
    """Make a factory ``layer -> scheme``: one scheme for all layers, or one per layer if the scheme claims that."""
    first = build(specification, known)

    def schemes(layer: int) -> Scheme:
        return first if layer == 0 or not first.claims.per_layer else build(specification, known)

    return schemes
