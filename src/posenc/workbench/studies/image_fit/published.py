"""Published results for held-out pixels."""

from __future__ import annotations

from posenc.workbench.studies.image_fit.scale_selection import GAUSSIAN, POSENC

HELD_OUT_PSNR = {"none": 19.323, "basic": 21.716, POSENC: 24.947, GAUSSIAN: 25.568}
"""PSNR in dB on natural images of 512 x 512 pixels, as printed in the notebook of the authors of arXiv 2006.10739."""
