import numpy as np

import onnxport

with onnxport.native_log_kept():  # TensorFlow writes log lines to the terminal when it is imported
    import keras

model = keras.Sequential(
    [
        keras.Input((28, 28, 1), name="image"),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
onnxport.convert(model, output="digits.onnx", target_opset=17)

net = onnxport.convert("digits.onnx", to="pytorch")  # a torch.nn.Module, ready to be trained further
image = np.random.default_rng(0).random((4, 28, 28, 1), dtype=np.float32)
assert onnxport.validate(model, net, inputs=(image,)).passed
