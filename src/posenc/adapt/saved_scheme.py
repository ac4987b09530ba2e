"""Save a transformers model with schemes in its attention by ``save_pretrained``, and load it by ``from_pretrained``.

``config.json`` gets the entry ``posenc`` with the text of each scheme, the model type ``posenc_llama``, and a type of
rotation that no other program knows. Without posenc such a folder is therefore an error and not a model with other
positions, also in ``LlamaForCausalLM.from_pretrained``. Weights of a scheme are saved with those of the model.
"""

from __future__ import annotations

import copy
import importlib
import json
import warnings
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import nn

from posenc.adapt.attention_interface import SchemeEmbedding, attach, made_for, register
from posenc.adapt.rotary_embedding import Kind
from posenc.lookup import own_scheme
from posenc.lookup.scheme_text import build, parse
from posenc.scheme import Scheme
from posenc.schemes import catalogue

PREFIX = "posenc_"
AUTO = (
    "AutoModel", "AutoModelForCausalLM", "AutoModelForSequenceClassification", "AutoModelForTokenClassification",
    "AutoModelForQuestionAnswering",
)  # fmt: skip
"""Classes of transformers that find a model's class by its configuration."""
ROTATION = "rope_parameters"
"""Entry of ``config.json`` about a model's own rotation; ``posenc`` holds it while a saved model has schemes."""
LONGEST = 1_000_000
"""Largest number of characters of a scheme in ``config.json``."""
FOREIGN = "of posenc: load this model by posenc.adapt.saved_class(path).from_pretrained(path)"
"""Type of the rotation in a saved configuration. Classes of transformers raise a KeyError with this text."""


def saved_class(path: str | PathLike[str], *, scheme: Scheme | Callable[[int], Scheme] | None = None) -> Any:
    """The class of a transformers model that was saved with schemes in its attention.

    Its ``from_pretrained`` loads the model. The call also registers the class, so that ``AutoModelForCausalLM`` and
    others load such models in this process from then on.

    Args:
        path: The folder, or the name of a model on the hub.
        scheme: The scheme, or a function ``layer -> scheme``, if ``config.json`` cannot hold it, as a class of your
            own. Default: the scheme of ``config.json``.

    Returns:
        The class.

    Raises:
        ValueError: If the model was not saved with schemes, or its scheme is neither given nor in ``config.json``, or
            both.

    Example:
        >>> from posenc.adapt import saved_class
        >>> def load(path):
        ...     return saved_class(path).from_pretrained(path)
    """
    transformers = importlib.import_module("transformers")
    if not isinstance(path, str | PathLike) or (Path(path).is_absolute() and not Path(path).is_dir()):
        raise ValueError(f"{path!r} is no folder of a saved model. Pass that of save_pretrained, or a name on the hub.")
    described, _ = transformers.PreTrainedConfig.get_config_dict(path)
    kind = str(described.get("model_type"))
    if not kind.startswith(PREFIX):
        raise ValueError(
            f"{str(path)!r} holds a model of the type {kind!r} without schemes of posenc. Load it by transformers' "
            "from_pretrained, and pass it to posenc.adapt.llama."
        )
    names = described["posenc"]["names"]
    unwritten = [own for own, text in zip(names, described["posenc"]["texts"], strict=True) if text is None]
    if unwritten and scheme is None:
        raise ValueError(
            f"this model was saved with {unwritten[0]}, which config.json cannot hold. Pass it: "
            f"saved_class(path, scheme={'lambda layer: ..' if len(names) > 1 else f'{unwritten[0]}(..)'})."
        )
    if scheme is not None and not unwritten:
        raise ValueError(
            f"config.json of this model holds {described['posenc']['texts'][0]}. Leave out `scheme`, or change it by "
            "posenc.adapt.llama(model, scheme) after loading."
        )
    own = transformers.CONFIG_MAPPING[kind.removeprefix(PREFIX)]
    classes = {
        name: _with_scheme(each) for each in _known_classes(own) for name in (f"Posenc{each.__name__}", each.__name__)
    }  # the latter if a part of it was adapted
    (architecture,) = described["architectures"]
    if architecture not in classes:
        raise ValueError(f"{architecture} is not among the classes of {', '.join(AUTO)}, so posenc cannot build it.")
    found = classes[architecture]
    found.posenc_given = None if scheme is None else staticmethod(lambda: copy.deepcopy(scheme))
    return found


def write_schemes(model: Any, embedding: SchemeEmbedding) -> None:
    """Turn a model into one that saves its schemes, in place.

    Args:
        model: A model of transformers, after ``attach``.
        embedding: Its schemes.
    """
    texts = [_text(scheme) for scheme in embedding.schemes]
    names = [type(scheme).__name__ for scheme in embedding.schemes]
    if None in texts:
        name = names[texts.index(None)]
        again = f"{name}(..)" if len(names) == 1 else "lambda layer: .."
        warnings.warn(
            f"config.json cannot hold this {name}. After save_pretrained load the model by posenc.adapt.saved_class("
            f"path, scheme={again}).from_pretrained(path).",
            UserWarning,
            stacklevel=3,
        )
    if not hasattr(type(model), "posenc_given"):
        kind = _with_scheme(type(model))
        model.config.__class__ = kind.config_class
        model.__class__ = kind
    layers, kind = list(embedding.numbers), embedding.kind._asdict()
    unwritten = zip(embedding.schemes, texts, strict=True)
    calls = [_call(scheme) if text is None else None for scheme, text in unwritten]
    model.config.posenc = {"names": names, "texts": texts, "calls": calls, "layers": layers, **kind}


def remove_schemes(model: Any) -> None:
    """Give a model back the class and the attention that it had before its schemes, in place.

    Args:
        model: Any model.
    """
    if hasattr(type(model), "posenc_given"):
        model.__class__ = type(model).__mro__[1]
        model.config.__class__ = type(model).config_class
        del model.config.posenc
        model.set_attn_implementation("sdpa")


def _text(scheme: nn.Module) -> str | None:
    """A scheme of the catalogue as text; None for one of your own, or with arguments that text cannot hold."""
    kinds = {type(part) for part in scheme.modules() if isinstance(part, Scheme)}
    if any(catalogue().get(kind.__name__) is not kind for kind in kinds):
        return None
    try:
        text = own_scheme.text_of(scheme)  # pyright: ignore
        parse(text, longest=LONGEST)
    except ValueError:
        return None
    return text


def _call(scheme: nn.Module) -> str | None:
    """Class and arguments of a scheme, also of your own; None if an argument cannot be written."""
    try:
        return own_scheme.call_of(scheme)  # pyright: ignore
    except ValueError:
        return None


def _known_classes(config_class: Any) -> list[Any]:
    """The classes of a configuration in transformers' Auto classes, without repetition."""
    transformers = importlib.import_module("transformers")
    found = [getattr(transformers, name)._model_mapping.get(config_class, None) for name in AUTO]
    return list({each: None for each in found if isinstance(each, type)})


def _with_scheme(kind: Any) -> Any:
    """A class of transformers whose configuration describes schemes; one for each class."""
    if "posenc_made" in vars(kind):
        return kind.posenc_made
    transformers = importlib.import_module("transformers")
    own = kind.config_class
    if "posenc_made" not in vars(own):
        own.posenc_made = _configuration_class(own)
    config_class = own.posenc_made

    def initialize(self: Any, config: Any, *more: Any, **named: Any) -> None:
        kind.__init__(self, config, *more, **named)
        if getattr(config, "posenc", None):
            _attach_saved(self)

    @classmethod
    def from_pretrained(cls: Any, *args: Any, **named: Any) -> Any:
        loaded = super(made, cls).from_pretrained(*args, **named)
        _fill_buffers(loaded[0] if isinstance(loaded, tuple) else loaded)
        return loaded

    def reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
        return (_blank_model, (kind,), *super(made, self).__reduce_ex__(protocol)[2:])

    made = type(
        f"Posenc{kind.__name__}",
        (kind,),
        {
            "__init__": initialize, "__module__": __name__, "__doc__": kind.__doc__, "config_class": config_class,
            "from_pretrained": from_pretrained, "__reduce_ex__": reduce, "posenc_given": None,
            "_can_set_attn_implementation_cached_value": True,
        },
    )  # fmt: skip
    kind.posenc_made = made
    transformers.AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
    for name in AUTO:
        auto = getattr(transformers, name)
        if auto._model_mapping.get(own, None) is kind:
            auto.register(config_class, made, exist_ok=True)
    return made


def _configuration_class(own: Any) -> Any:
    """A class of configurations with schemes. Its JSON has a rotation that only ``from_dict`` of this class reads."""

    def to_json_string(self: Any, use_diff: bool = True) -> str:
        described = json.loads(super(made, self).to_json_string(use_diff))
        rotation = described.get(ROTATION)
        if described.get("posenc") and isinstance(rotation, dict):
            described["posenc"][ROTATION] = rotation
            described[ROTATION] = {**rotation, "rope_type": FOREIGN}
        return json.dumps(described, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_dict(cls: Any, config_dict: dict[str, Any], **named: Any) -> Any:
        schemes = dict(config_dict.get("posenc") or {})
        if ROTATION in schemes:
            config_dict = config_dict | {ROTATION: schemes.pop(ROTATION), "posenc": schemes}
        return super(made, cls).from_dict(config_dict, **named)

    def reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
        return (_blank_configuration, (own,), *super(made, self).__reduce_ex__(protocol)[2:])

    made = type(
        f"Posenc{own.__name__}",
        (own,),
        {
            "model_type": PREFIX + own.model_type, "__module__": __name__, "to_json_string": to_json_string,
            "from_dict": from_dict, "__reduce_ex__": reduce,
        },
    )  # fmt: skip
    return made


def _blank_model(kind: Any) -> Any:
    """A model with schemes that a pickle fills; ``kind`` is its class in transformers."""
    register()
    made = _with_scheme(kind)
    return made.__new__(made)


def _blank_configuration(own: Any) -> Any:
    """A configuration with schemes that a pickle fills."""
    if "posenc_made" not in vars(own):
        own.posenc_made = _configuration_class(own)
    return own.posenc_made.__new__(own.posenc_made)


def _place(model: Any) -> Any:
    return next(module for module in model.modules() if isinstance(getattr(module, "rotary_emb", None), nn.Module))


def _saved_schemes(model: Any) -> Scheme | Callable[[int], Scheme]:
    described, given = model.config.posenc, type(model).posenc_given
    if None in described["texts"]:
        if given is None:
            raise ValueError("config.json has no scheme of this model: posenc.adapt.saved_class(path, scheme=..).")
        return _of_saved_classes(given(), described)
    with torch.device("cpu"):
        schemes = [build(parse(text, longest=LONGEST), {}) for text in described["texts"]]
    return lambda layer: schemes[described["layers"][layer]]


def _of_saved_classes(
    given: Scheme | Callable[[int], Scheme], described: dict[str, Any]
) -> Scheme | Callable[[int], Scheme]:
    """Schemes that a user passes for a saved model. Raises ValueError for one of another class, or other arguments."""
    calls = described.get("calls", [None] * len(described["names"]))
    for layer, number in enumerate(described["layers"]):
        scheme, name, call = (
            given if isinstance(given, Scheme) else given(layer),
            described["names"][number],
            calls[number],
        )
        found = _call(scheme)
        if type(scheme).__name__ != name or (None not in (call, found) and call != found):
            got = type(scheme).__name__ if call is None else found or type(scheme).__name__
            raise ValueError(
                f"layer {layer} of this model was saved with {call or name}; got {got}. Pass the scheme that the model "
                "was trained with, or a function of the layer."
            )
    return given


def _attach_saved(model: Any) -> None:
    """Attach the schemes of a configuration to a new model, whose weights may have no values yet."""
    place, described = _place(model), model.config.posenc
    kind = Kind(described["turning"], described.get("pairs", "half"), described.get("numbers", "half"))
    attach(model, place, made_for(model, place, _saved_schemes(model), kind))


def _fill_buffers(model: Any) -> None:
    """Give buffers that no file holds the values of a newly built scheme; transformers leaves them without values."""
    embedding, fresh = _place(model).rotary_emb, _saved_schemes(model)
    for layer, number in enumerate(embedding.numbers):
        new = fresh if isinstance(fresh, Scheme) else fresh(layer)
        values = dict(new.named_buffers())
        for name, buffer in embedding.schemes[number].named_buffers():
            if name not in embedding.schemes[number].state_dict():
                buffer.copy_(values[name])
    if "pairs" in model.config.posenc:
        embedding.find_rotations()
