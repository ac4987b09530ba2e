"""NoPE: no positional encoding; attention does not read positions.

    s_ij = q_i . k_j / sqrt(d)

Attention without positions is permutation equivariant: permuting the tokens permutes the outputs. A causal mask breaks
this symmetry and so reveals the order of the tokens. ``CausalNoPE`` is the scheme with that mask.

Source: Kazemnejad et al. 2023, "The Impact of Positional Encoding on Length Generalization in Transformers",
arXiv 2305.19466.
"""

from __future__ import annotations

from typing_extensions import override

from posenc.positions import Positions
from posenc.scheme import Claims, Scheme


class NoPE(Scheme):
    """No positional encoding: ``prepare`` checks the positions, and no hook uses them.

        s_ij = q_i . k_j / sqrt(d)

    Example:
        >>> import torch
        >>> from posenc import NoPE, attention, sequence
        >>> q, k, v = torch.randn(3, 1, 4, 6, 12).unbind()  # each (B, H, N, D)
        >>> attention(q, k, v, scheme=NoPE(), q_pos=sequence(6)).shape
        torch.Size([1, 4, 6, 12])

    References:
        Kazemnejad, Padhi, Natesan Ramamurthy, Das and Reddy, 2023, "The Impact of Positional Encoding on Length
        Generalization in Transformers", arXiv 2305.19466.
    """

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

    @override
    def prepare(self, pos: Positions) -> None:
        self._take(pos)
