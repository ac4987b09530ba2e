"""NoPE: no positional encoding at all.

Attention without positions is a function of a set: permuting the tokens permutes the outputs. With a causal mask
order leaks in through the mask alone; that is ``CausalNoPE``, another scheme.

Source: Kazemnejad et al. 2023, "The Impact of Positional Encoding on Length Generalization in Transformers",
arXiv 2305.19466.
"""

from __future__ import annotations

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class NoPE(Scheme):
    """``s_ij = q_i . k_j / sqrt(d)``: positions are read by nobody."""

    cite = """@inproceedings{kazemnejad2023impact,
  title={The Impact of Positional Encoding on Length Generalization in Transformers},
  author={Kazemnejad, Amirhossein and Padhi, Inkit and Natesan Ramamurthy, Karthikeyan and Das, Payel and Reddy, Siva},
  booktitle={NeurIPS}, year={2023}, note={arXiv:2305.19466}}"""
    examples = ({},)

    def __init__(self) -> None:
        super().__init__()
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=None,
            sites=frozenset(),
            sharing="model",
            cacheable=True,
        )

    def prepare(self, pos: Positions) -> None:
        self._take(pos)
