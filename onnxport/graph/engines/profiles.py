"""The operators that each engine documents, with the page and the version that it is of."""

from __future__ import annotations

from onnxport.graph.engines.limits import (
    Limit,
    axes_constant,
    constant_inputs,
    first_output_only,
    no_antialias,
    no_dilations,
    no_reduction,
    on_images,
    only_modes,
    single_input_rank,
    without_training,
)
from onnxport.graph.engines.profile import Profile

# Elementwise and moving operators that all of them have.
_COMMON = (
    "Abs Add AveragePool Cast Ceil Clip Concat Conv ConvTranspose Cos Div Elu Erf Exp Gemm GlobalAveragePool GlobalMaxPool "
    "LeakyRelu MatMul Max MaxPool Mul Pow ReduceMax ReduceMean ReduceSum Relu Reshape Resize Shape Sigmoid Sin Slice "
    "Softmax Split Sqrt Squeeze Sub Tanh Tile Transpose Unsqueeze"
)
_COMPARING = "And Equal Floor Gather Greater GreaterOrEqual Less LessOrEqual Log Not Or Where"
_REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
_TRIGONOMETRY = "Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan"

_POOLS = dict.fromkeys(("AveragePool", "MaxPool", "LpPool"), (no_dilations,))
_TENSORRT: dict[str, tuple[Limit, ...]] = {
    **_POOLS,
    "MaxPool": (no_dilations, first_output_only),
    "LayerNormalization": (first_output_only,),
    "Resize": (only_modes("mode", ("nearest", "linear")), no_antialias),
    "ScatterND": (no_reduction,),
    "Dropout": (without_training,),
    "GridSample": (on_images,),
    "CumSum": (constant_inputs(1),),
    "OneHot": (constant_inputs(1),),
    "Squeeze": (axes_constant,),
    "Unsqueeze": (axes_constant,),
    **dict.fromkeys(_REDUCTIONS.split(), (axes_constant,)),
}
TENSORRT = Profile(
    "tensorrt",
    "TensorRT 10.15",
    "https://github.com/onnx/onnx-tensorrt/blob/main/docs/operators.md",
    f"{_COMMON} {_COMPARING} {_REDUCTIONS} {_TRIGONOMETRY} ArgMax ArgMin Attention BatchNormalization "
    "BlackmanWindow CastLike Celu Constant ConstantOfShape CumSum DeformConv DepthToSpace "
    "DequantizeLinear Dropout Einsum Expand EyeLike Flatten GRU GatherElements GatherND Gelu GlobalLpPool "
    "GridSample GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity If "
    "InstanceNormalization IsInf IsNaN LRN LSTM LayerNormalization LogSoftmax Loop LpNormalization LpPool "
    "Mean MeanVarianceNormalization Min Mish Mod Neg NonMaxSuppression NonZero OneHot PRelu Pad "
    "QuantizeLinear RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike "
    "Range Reciprocal ReverseSequence RoiAlign RotaryEmbedding Round STFT Scan Scatter ScatterElements "
    "ScatterND Selu Shrink Sign Size Softplus Softsign SpaceToDepth Sum TensorScatter ThresholdedRelu "
    "TopK Trilu Upsample Xor",
    types="FLOAT FLOAT16 BFLOAT16 FLOAT8E4M3FN INT4 INT8 INT32 INT64 UINT8 BOOL",
    limits=_TENSORRT,
    otherwise="the parser refuses the model; a plugin of TensorRT can stand for an operator",
)

OPENVINO = Profile(
    "openvino",
    "OpenVINO's ONNX frontend",
    "https://github.com/openvinotoolkit/openvino/blob/master/src/frontends/onnx/docs/supported_ops.md",
    f"{_COMMON} {_COMPARING} {_REDUCTIONS} {_TRIGONOMETRY} AffineGrid ArgMax ArgMin Attention "
    "BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow CastLike Celu "
    "CenterCropPad Col2Im Compress ConcatFromSequence Constant ConstantOfShape ConvInteger CumSum DFT "
    "DepthToSpace DequantizeLinear Dropout DynamicQuantizeLinear Einsum Expand EyeLike Flatten GRU "
    "GatherElements GatherND Gelu GlobalLpPool GridSample GroupNormalization HammingWindow HannWindow "
    "HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN LRN LSTM "
    "LayerNormalization LogSoftmax Loop LpNormalization MatMulInteger MaxRoiPool Mean "
    "MeanVarianceNormalization Min Mish Mod Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression "
    "NonZero OneHot PRelu Pad QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN RandomNormal "
    "RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal ReverseSequence RoiAlign "
    "RotaryEmbedding Round STFT Scan Scatter ScatterElements ScatterND Selu SequenceAt SequenceConstruct "
    "SequenceEmpty SequenceErase SequenceInsert SequenceLength Shrink Sign Size SoftmaxCrossEntropyLoss "
    "Softplus Softsign SpaceToDepth SplitToSequence Sum ThresholdedRelu TopK Trilu Unique Upsample Xor "
    "com.microsoft::Attention com.microsoft::BiasAdd com.microsoft::BiasGelu "
    "com.microsoft::DequantizeLinear com.microsoft::DynamicQuantizeMatMul "
    "com.microsoft::EmbedLayerNormalization com.microsoft::FastGelu com.microsoft::FusedConv "
    "com.microsoft::FusedGemm com.microsoft::FusedMatMul com.microsoft::Gelu "
    "com.microsoft::GroupQueryAttention com.microsoft::MatMulIntegerToFloat com.microsoft::MatMulNBits "
    "com.microsoft::Pad com.microsoft::QLinearAdd com.microsoft::QLinearAveragePool "
    "com.microsoft::QLinearConcat",
    otherwise="reading the model fails; an extension of the frontend can stand for an operator",
)

COREML = Profile(
    "coreml",
    "Core ML's ML Programs, by onnxruntime's execution provider",
    "https://onnxruntime.ai/docs/execution-providers/CoreML-ExecutionProvider.html",
    f"{_COMMON} ArgMax DepthToSpace GatherND Gelu GridSample GroupNormalization HardSigmoid Identity "
    "InstanceNormalization LayerNormalization PRelu Range Reciprocal Round Softplus "
    "com.microsoft::QuickGelu com.microsoft::FusedConv",
    types="FLOAT FLOAT16 INT32 INT64 BOOL",
    without="Abs",
    limits={
        "AveragePool": (single_input_rank(4),),
        "MaxPool": (single_input_rank(4), first_output_only),
        "GlobalAveragePool": (single_input_rank(4),),
        "GlobalMaxPool": (single_input_rank(4),),
        "Conv": (single_input_rank(3, 4),),
        "ConvTranspose": (constant_inputs(1, 2),),
        "Gemm": (constant_inputs(1),),
        "Slice": (constant_inputs(1, 2, 3, 4),),
        "Split": (constant_inputs(1),),
        "GridSample": (on_images,),
    },
    otherwise="these nodes run on the processor, and the graph is cut into parts around them",
)

WEB = Profile(
    "web",
    "onnxruntime-web on WebGPU",
    "https://github.com/microsoft/onnxruntime/blob/main/js/web/docs/webgpu-operators.md",
    f"{_COMMON} {_REDUCTIONS} {_TRIGONOMETRY} ArgMax ArgMin BatchNormalization Einsum Equal Expand Flatten "
    "Floor Gather GatherElements Greater GreaterOrEqual If InstanceNormalization LayerNormalization Less "
    "LessOrEqual Log Neg Not Pad Range Reciprocal ThresholdedRelu Where com.microsoft::BiasAdd "
    "com.microsoft::BiasSplitGelu com.microsoft::FusedConv com.microsoft::Gelu "
    "com.microsoft::SkipLayerNormalization",
    without="Max",
    limits={"Conv": (single_input_rank(3, 4),), "ConvTranspose": (single_input_rank(3, 4),)},
    otherwise="these nodes run in WebAssembly on the processor, with copies from and to the graphics card",
)

LITERT = Profile(
    "litert",
    "LiteRT's built-in operators (TensorFlow Lite schema 3)",
    "https://ai.google.dev/edge/litert/conversion/tensorflow/ops_compatibility",
    f"{_COMMON} {_COMPARING} ArgMax ArgMin BatchNormalization Constant ConstantOfShape CumSum DepthToSpace "
    "DequantizeLinear Dropout Expand Flatten GatherND Gelu HardSwish Identity If LRN LSTM LogSoftmax Loop "
    "Min Mod Neg NonMaxSuppression NonZero OneHot PRelu Pad QuantizeLinear RandomNormal RandomUniform "
    "Range Reciprocal ReduceMin ReduceProd ReverseSequence Round ScatterND Sign Size SpaceToDepth Sum "
    "TopK Unique",
    types="FLOAT FLOAT16 INT8 INT16 INT32 INT64 UINT8 BOOL STRING",
    without="Erf",
    limits={
        "MaxPool": (first_output_only, no_dilations),
        "AveragePool": (no_dilations,),
        "Dropout": (without_training,),
    },
    composes=True,
    otherwise="a converter has to compose them of others, or TensorFlow's own operators (Flex) or custom ones are built in",
)

PROFILES = {item.name: item for item in (TENSORRT, COREML, OPENVINO, LITERT, WEB)}
