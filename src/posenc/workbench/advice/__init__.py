"""Advice on the encoding for a user's data: candidates, their race, the answer, and its page."""
