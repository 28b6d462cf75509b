"""Edits of whole ONNX models: names, parts, joins, simplifications, differences. What they change is proved by the callers."""
