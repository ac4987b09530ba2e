"""Mutation testing of the encodings: small changes of their code, each of which the contract or a test must find."""
