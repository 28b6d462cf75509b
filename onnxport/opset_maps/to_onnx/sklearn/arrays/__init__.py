"""NumPy arrays of the graph: values that compute as NumPy does, its functions, and algorithms written with them."""
