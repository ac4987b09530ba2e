"""Graphs: edges in the forms that people have, and positions of their nodes.

``edges`` normalizes a graph. ``eigenvectors``, ``walks`` and ``distances`` compute what the views need. ``builders``
makes ``Positions`` of one graph or of a padded batch.
"""
