"""sklearn.neural_network."""
