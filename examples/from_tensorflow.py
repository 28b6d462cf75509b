import onnxport

with onnxport.native_log_kept():  # TensorFlow writes log lines to the terminal when it is imported
    import tensorflow as tf


class Scaler(tf.Module):
    def __init__(self):
        super().__init__()
        self.rate = tf.Variable(0.5)

    @tf.function(input_signature=[tf.TensorSpec((None, 3), tf.float32, name="x")])
    def __call__(self, x):
        return {"scaled": tf.nn.relu(x) * self.rate, "total": tf.reduce_sum(x, axis=1)}


scaler = Scaler()
model = onnxport.convert(scaler)  # the signature says what the inputs are
assert model.input_names == ["x"]
assert model.output_names == ["scaled", "total"]

back = onnxport.convert(model, to="tensorflow")
scaled, total = back(tf.constant([[1.0, -2.0, 3.0]]))
assert scaled.numpy().tolist() == [[0.5, 0.0, 1.5]]
assert total.numpy().tolist() == [2.0]
