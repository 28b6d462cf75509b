"""The inputs that a proof runs on: given, at other sizes and values, at edges, and drawn ones where nothing is given.

A conversion is proved on inputs that the tracer did not see: a size that was baked in by mistake shows only at another.
"""
