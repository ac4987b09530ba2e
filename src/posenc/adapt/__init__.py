"""Schemes in models that are there already: the weights stay theirs, the positions become ours.

    swap(model, RoPE(32))                                an encoder of ours, trained with another scheme
    multihead(model, RoPE(64))                           every nn.MultiheadAttention of a torch model
    llama(model, RoPE(64, pairing="half", base=5e5))     the rotary embedding of a transformers model
    vision_transformer(model, Sinusoid(384, axes=2))     the table of a timm ViT

Models are changed in place and returned. Neither transformers nor timm is imported: a model is asked for the parts that
it must have, and one that lacks them is refused by name.
"""

from posenc.adapt.attention import Attention, multihead
from posenc.adapt.configuration import configured
from posenc.adapt.rotary import llama
from posenc.adapt.swapping import swap
from posenc.adapt.vision import vision_transformer

__all__ = ["Attention", "configured", "llama", "multihead", "swap", "vision_transformer"]
