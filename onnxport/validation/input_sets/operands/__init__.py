"""Operands that must fit together, drawn for one node at a time: a rule an operator, a file a family of operators."""
