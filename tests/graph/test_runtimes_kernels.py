"""The table of defects against the kernels that onnxruntime lists: what it lacks is written otherwise, or stands here."""

from collections import defaultdict

import onnx
import onnx_ir as ir
import onnxruntime.capi.onnxruntime_pybind11_state as state

from onnxport.graph.runtimes.casts import CASTS
from onnxport.graph.runtimes.fitting import DEFECTS
from tests.graph.runtime_rows import LACKING

OPSETS = (13, 17, 21, 23, 26)
NEWEST = 2**31 - 1
# Rows of casts of which the installed onnxruntime has the kernel: 1.24, the oldest that is supported, has not, or (BFLOAT16)
# the kernel takes NaN for a number.
OLDER = {
    "BFLOAT16": "IsInf Sign",
    "INT8": "TopK Where",
    "UINT8": "TopK",
    "INT16": "TopK",
    "INT32": "Trilu",
    "UINT32": "Where",
}
# Expanded by onnxruntime into the operators of their function bodies, or into an initializer.
EXPANDED = frozenset(
    "AffineGrid Attention Bernoulli BlackmanWindow CastLike CenterCropPad Constant Gelu GroupNormalization HammingWindow "
    "HannWindow HardSwish MeanVarianceNormalization Mish NegativeLogLikelihoodLoss ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp Selu SequenceMap SoftmaxCrossEntropyLoss PRelu RotaryEmbedding RMSNormalization".split()
)


def kernels():
    found = defaultdict(list)
    for item in state.get_all_opkernel_def():
        if item.provider == "CPUExecutionProvider" and item.domain == "":
            found[item.op_name].append((*item.version_range, item.type_constraints))
    return found


KERNELS = kernels()


def has_kernel(rows, since, variable, dtype):
    """A kernel without an end is of its first version only: onnxruntime takes it for no later one."""
    kind = f"tensor({dtype.name.lower()})"
    return any(
        (first == since or (first < since <= last < NEWEST)) and kind in types.get(variable, [kind])
        for first, last, types in rows
    )


def lacking():
    """Pairs of operator and type that onnxruntime has no kernel for and the table no row."""
    rows = defaultdict(list)
    for defect in DEFECTS:
        for operator in defect.operators:
            rows[operator].append(defect)
    dtypes = [getattr(ir.DataType, name) for name in LACKING]
    for opset in OPSETS:
        for name in {
            schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain
        } - EXPANDED:
            if not onnx.defs.has(name, max_inclusive_version=opset):
                continue
            schema = onnx.defs.get_schema(name, opset, "")
            used = {item.type_str for item in (*schema.inputs, *schema.outputs)}
            for constraint in schema.type_constraints if not schema.deprecated else ():
                variable = constraint.type_param_str
                for dtype in dtypes:
                    allowed = f"tensor({dtype.name.lower()})" in constraint.allowed_type_strs and variable in used
                    kinds = (
                        (dtype, ir.DataType.FLOAT) if dtype == ir.DataType.FLOAT16 else (dtype,)
                    )  # it casts float16 itself
                    known = any(has_kernel(KERNELS[name], schema.since_version, variable, kind) for kind in kinds)
                    lacks = [d for d in rows[name] if not (d.misread or d.optimised)]
                    written = any((not d.dtypes or dtype in d.dtypes) and opset in d.opsets for d in lacks)
                    if allowed and not known and not written:
                        yield dtype.name, name


def test_what_onnxruntime_has_no_kernel_for_is_written_otherwise():
    found = defaultdict(set)
    for dtype, name in lacking():
        if not (name.startswith("Random") and name.endswith("Like")):  # any type gives its shape
            found[dtype].add(name)
    assert {dtype: sorted(names) for dtype, names in found.items()} == {
        dtype: sorted(names.split()) for dtype, names in LACKING.items()
    }


def gaps(name, dtype, defect):
    """By opset of the row and operand of the type, whether onnxruntime lacks the kernel."""
    for opset in defect.opsets:
        if not onnx.defs.has(name, max_inclusive_version=opset):
            continue
        schema = onnx.defs.get_schema(name, opset, "")
        operands = [*schema.inputs, *schema.outputs]
        if defect.operands is not None:
            operands = [schema.inputs[min(index, len(schema.inputs) - 1)] for index in defect.operands]
        for variable in {item.type_str for item in operands}:
            kinds = [item.allowed_type_strs for item in schema.type_constraints if item.type_param_str == variable]
            if any(f"tensor({dtype.name.lower()})" in kind for kind in kinds):
                yield not has_kernel(KERNELS[name], schema.since_version, variable, dtype)


def test_no_operator_is_cast_whose_kernel_is_there():
    needless = defaultdict(set)
    for defect in CASTS:
        for name in defect.operators:
            for dtype in defect.dtypes:
                missing = list(gaps(name, dtype, defect))
                if missing and not any(missing):
                    needless[dtype.name].add(name)
    assert {dtype: " ".join(sorted(names)) for dtype, names in needless.items()} == OLDER
