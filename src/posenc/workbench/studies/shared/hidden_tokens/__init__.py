"""Shared code of the studies of hidden tokens: variants, tokens, training, scores of learned tables, plots."""
