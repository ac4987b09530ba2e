"""The face of posenc, schemes included. Generated: python tools/stub.py"""

from posenc.attention import attend as attend
from posenc.attention import attention as attention
from posenc.attention import attention_weights as attention_weights
from posenc.contract import check as check
from posenc.positions import Positions as Positions
from posenc.positions import as_positions as as_positions
from posenc.positions import graph as graph
from posenc.positions import grid as grid
from posenc.positions import sequence as sequence
from posenc.positions import sphere as sphere
from posenc.scheme import Claims as Claims
from posenc.scheme import Scheme as Scheme
from posenc.schemes.causal_nope import CausalNoPE as CausalNoPE
from posenc.schemes.learned import Learned as Learned
from posenc.schemes.nope import NoPE as NoPE
from posenc.schemes.random import Random as Random
from posenc.schemes.rope import RoPE as RoPE
from posenc.schemes.shaw import Shaw as Shaw
from posenc.schemes.sinusoid import Sinusoid as Sinusoid
from posenc.version import __version__ as __version__
