"""Proving a conversion by running both sides."""
