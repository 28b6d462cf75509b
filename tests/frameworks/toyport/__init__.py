"""A framework from outside of onnxport: a chain of steps over one NumPy array, and the one descriptor that brings it."""

from onnxport.frameworks.descriptor import Files, Framework, Lazy, SourceKind

FRAMEWORK = Framework(
    name="toy",
    title="Toy",
    kinds=(
        SourceKind(
            "a toy model",
            frozenset({"target_opset", "runtime"}),
            named_options=frozenset({"output_names"}),
            carries_signature=False,
        ),
    ),
    aliases=("toyport",),
    package="toyport",
    owners=("toyport",),
    files=Files(
        reads=(".toy",), writes=(".toy",), load=Lazy("toyport.model:load"), save=Lazy("toyport.model:Toy.save")
    ),
    export=Lazy("toyport.drivers:export"),
    build=Lazy("toyport.drivers:build"),
    bind=Lazy("toyport.runner:bind"),
    to_onnx_map=Lazy("toyport.operators:to_onnx").get,
    from_onnx_map=Lazy("toyport.operators:from_onnx").get,
)
