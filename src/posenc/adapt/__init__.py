"""Adapters: put a scheme into an existing model, which keeps its other weights.

    swap(model, RoPE(32))                                a posenc encoder that was built with another scheme
    multihead(model, RoPE(64))                           every nn.MultiheadAttention of a torch model
    llama(model, RoPE(64, pairing="half", base=5e5))     the rotary embedding of a transformers model
    llama(model, ALiBi(32))                              the same model with a bias in its attention
    saved_class(path).from_pretrained(path)              such a model, after save_pretrained
    replace_table(model, Sinusoid(768), length=2048)     the position table of GPT-2, BERT and others
    vision_transformer(model, image=384)                 the position table of a ViT of timm or transformers
    resize_windows(model, 12, image=384)                 the relative position biases of a Swin of transformers
    replace_grid_rotation(model, MixedRoPE(64, 6, ..))   the rotary embedding of DINOv3, EVA-02 and RoPE ViTs
    AddNodeEncoding(RWSE(64, axes=16))                   a transform of PyTorch Geometric's data

``posenc.adapt.sklearn`` has a transformer and two estimators of scikit-learn; it alone imports that library.

Each function changes the model in place and returns it. No function imports transformers, timm or PyTorch Geometric. It
looks for the modules that such a model has, and raises ValueError with the name of a missing one.
"""

from posenc.adapt.attention import Attention, multihead
from posenc.adapt.configuration import configured
from posenc.adapt.graph_transform import AddNodeEncoding
from posenc.adapt.grid_rotation import grid_rotation, replace_grid_rotation
from posenc.adapt.position_tables import learned_table, replace_table, resize_table
from posenc.adapt.rotary import llama
from posenc.adapt.saved_scheme import saved_class
from posenc.adapt.swap import swap
from posenc.adapt.vision import vision_transformer
from posenc.adapt.window_biases import replace_window_biases, resize_windows, window_biases

__all__ = [
    "AddNodeEncoding",
    "Attention",
    "configured",
    "grid_rotation",
    "learned_table",
    "llama",
    "multihead",
    "replace_grid_rotation",
    "replace_table",
    "replace_window_biases",
    "resize_table",
    "resize_windows",
    "saved_class",
    "swap",
    "vision_transformer",
    "window_biases",
]
