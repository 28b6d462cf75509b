"""What a model that nobody vouches for may cost: bounds that hold wherever something is computed before a user runs it."""

from __future__ import annotations

# Elements of a value that is computed while a model is read or rebuilt: 128 MiB of float32.
MAX_ELEMENTS = 1 << 25
# Bytes of all values together that are computed while a model is read, besides four times its weights.
MAX_COMPUTED_BYTES = 96 << 20
# Elements of all inputs that are drawn from the sizes which a file declares.
MAX_DRAWN_ELEMENTS = 1 << 22
# Functions in functions and graphs in graphs: each level takes a dozen frames of Python's stack.
MAX_DEPTH = 40
# Nodes that the calls of functions expand to, over those that the file holds.
MIN_EXPANDED, EXPANSION = 20_000, 20
# Characters of one string that is computed.
MAX_CHARACTERS = 1 << 24
