"""What a model that nobody vouches for may cost: bounds that hold wherever something is computed before a user runs it."""

from __future__ import annotations

MAX_ELEMENTS = 1 << 25  # elements of a value that is computed while a model is read or rebuilt: 128 MiB of float32
# Bytes of all values together that are computed while a model is read, besides four times its weights.
MAX_COMPUTED_BYTES = 96 << 20
MAX_DRAWN_ELEMENTS = 1 << 22  # elements of an input that is drawn from the sizes which a file declares
MAX_DEPTH = 40  # functions in functions and graphs in graphs: each level takes a dozen frames of Python's stack
# Nodes that the calls of functions expand to, over those that the file holds.
MIN_EXPANDED, EXPANSION = 20_000, 20
MAX_CHARACTERS = 1 << 24  # characters of one string that is computed
