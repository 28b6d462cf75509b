"""Other engines as witnesses: each runs an ONNX file in a process of its own and is judged against the source, beside the proof.

An engine is one file in `engines`, with its descriptor `ENGINE` and the function that opens a file in it; nothing else names it.
"""
