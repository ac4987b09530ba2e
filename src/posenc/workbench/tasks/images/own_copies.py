"""Where data sets are to be had of which a user brings a copy, and in which form they are read."""

from __future__ import annotations

from collections.abc import Mapping

OWN_COPIES: Mapping[str, str] = {
    "cifar-10": """\
CIFAR-10 is at https://www.cs.toronto.edu/~kriz/cifar.html
posenc does not download it, for its authors state no license.

1. Take "CIFAR-10 python version", cifar-10-python.tar.gz.
2. Put it, packed or unpacked (cifar-10-batches-py), into the folder of your data:
   posenc run sc-pe --data DIR --figure "Fig. 2, CIFAR-10"
""",
    "imagenet-100": """\
ImageNet-100 is a choice of 100 of the 1,000 classes of ImageNet, which is open to everybody who accepts its terms:
https://image-net.org/download.php

1. Take the training images of ILSVRC 2012, and keep the folders of 100 classes, such as n01440764.
2. Name the folder that holds these class folders. Of all images a fifth is held out, as in arXiv 2406.07049:
   posenc run gridpe FOLDER --preset paper
arXiv 2406.07049 does not say which classes it has.
""",
}
"""Instructions for data sets of which a user brings a copy."""
