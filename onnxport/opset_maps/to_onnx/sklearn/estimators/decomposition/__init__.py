"""sklearn.decomposition, sklearn.cross_decomposition and sklearn.random_projection."""
