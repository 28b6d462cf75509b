"""TensorFlow Lite: files read as programs of TensorFlow's own operators, which TensorFlow's driver lowers."""
