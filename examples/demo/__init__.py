"""The demo: trains small models in every framework, converts each to every other, and proves it."""
