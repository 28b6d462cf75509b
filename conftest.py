"""Settings of all tests."""

import os

# TensorFlow reads these when it is imported; without them it writes its start-up notes between the results.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
