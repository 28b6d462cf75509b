"""Calls of `tf.raw_ops` drawn from the operators' own definitions, one for each element type that TensorFlow itself runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from scripts.conformance.tensorflow_calls import CALLS

# What can't stand in an inference graph, or has no kernel on a CPU, by kind.
LEFT_OUT = re.compile(
    r"Dataset|Iterator|Summary|File|TFRecord|Collective|TPU|Tpu|XLA|Xla|Apply|Queue|Debug|Reader|Barrier|Session|Stage|"
    r"^(Ordered)?Map|TensorArray|Save|Restore|Checkpoint|Mutex|Nccl|Accumulator|Boosted|Bigtable|Cudnn|Mkl|Fact|Rpc|Stats|"
    r"Timer|DecodeJpeg|^Decode(?!Base64)|^Encode(?!Base64)|Recv|Send|^Py|^Eager|Parse|Candidate|Sampler|Skipgram|Audio|Delete|"
    r"Anonymous|MultiDevice|Stack(Close|Pop|Push|V2)|^Stack$|Sdca|Lmdb|Experimental|Unbatch|^Batch(Function)?$|Kmeans|KMC2|Print|"
    r"Assert|^Copy|RiscAdd|^Ref|Minibatch|SparseCore|CSR|CooTensor|Uniform(Quantized|Dequant|Quantize|Requant)|Optional|"
    r"WorkerHeartbeat|Infeed|Outfeed|Dummy|ThreadPool|Composite|Prelinearize|Embedding|AllToAll|CrossReplica|MemoryCache|"
    r"GlobalIter|HostCompute|Device|Variable|VarHandle|Assign|Resource|Rng|Generator|Placeholder|Timestamp|Abort|Fake(Param|Queue)|"
    r"Handle|Table|Lookup|^Scatter(?!Nd$|NdNon)|ImmutableConst|Remap|^Inplace|Unstage|Record|SymbolicGradient|RemoteCall|"
    r"Requantiz|Quantized(?!Concat|Reshape|Relu)|NonDeterministic|MapDefun|^For$|Variant|TensorMap|CheckPinned|SyncDevice|"
    r"Nearest(Neighbors)|ComputeBatchSize|GetOptions|ElementAt|CompressElement|ImportEvent|CountUpTo|DestroyTemp|TemporaryVar|"
    r"^(If|While|Case|StatelessIf|StatelessWhile|StatelessCase|PartitionedCall|StatefulPartitionedCall|Switch|Merge|Enter|Exit)$|"
    r"FusedPad|FusedResize|BlockCell|"  # TensorFlow ends the process on some operands
    r"NextIteration|LoopCond|ControlTrigger|NoOp|^Const$|TensorList|Serialize|Deserialize|TakeMany|AddMany|AddSparse"
)
DTYPES = "float32 float64 float16 bfloat16 int32 int64 uint8 int8 bool complex64 string".split()
RANDOM = re.compile(
    r"Random|Multinomial|Shuffle|TruncatedNormal|^Empty$|SampleDistorted|UniformCandidate|^Fractional.*Pool$"
)


@dataclass(frozen=True)
class Draw:
    """A call of one operator: what is varied comes as `inputs`, the rest is bound."""

    op: str
    label: str
    function: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]


def _data(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, low: float, high: float) -> np.ndarray:
    if dtype == "string":
        return rng.choice(np.array([b"a", b"bc", b"Def", b""], object), shape)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    values = rng.uniform(low, high, shape)
    if dtype == "complex64":
        return (values + 1j * rng.uniform(low, high, shape)).astype(np.complex64)
    if dtype == "bfloat16":
        return values.astype(tf.bfloat16.as_numpy_dtype)
    return (
        (np.round(np.abs(values) if dtype.startswith("uint") else values)).astype(dtype)
        if "int" in dtype
        else values.astype(dtype)
    )


# Integer operands by name, as candidates that are tried one after the other.
_WHOLE: dict[str, list[Any]] = {
    "axis": [1, [1], 0], "dimension": [1, 0], "dim": [1, 0], "reduction_indices": [[1]], "reduction_axes": [[1]],
    "perm": [[1, 0], [0, 2, 1], [0, 3, 1, 2]], "shape": [[2, 6], [4, 3], [3, 4], [12]],
    "multiples": [[2, 1], [1, 2, 1, 1]], "paddings": [[[1, 0], [0, 1]], [[0, 0], [1, 1], [1, 1], [0, 0]]],
    "indices": [[2, 0, 1], [[2], [0], [1]], [[0, 1], [2, 3]]], "segment_ids": [[0, 0, 1]], "num_segments": [3],
    "k": [2, 1, 0], "n": [1], "size": [5, [3, 5], 4], "num_lower": [1], "num_upper": [0], "num_rows": [-1],
    "num_cols": [-1], "begin": [[1, 0]], "end": [[3, 2]], "strides": [[1, 1]], "num_split": [2], "split_dim": [1],
    "concat_dim": [0], "size_splits": [[1, 3]], "seq_lengths": [[1, 2, 3], [2, 1]], "block_shape": [[2, 2]],
    "crops": [[[0, 0], [0, 0]]], "depth": [4], "num": [5], "start": [1], "limit": [7], "delta": [2], "shift": [1],
    "diag_index": [0], "num_bins": [4], "crop_size": [[3, 3]], "box_ind": [[0, 1]], "max_output_size": [3],
    "filter_sizes": [[2, 2, 3, 4]], "input_sizes": [[2, 4, 4, 3]], "nbins": [4], "seed": [[1, 2]], "num_samples": [3],
    "minval": [0], "maxval": [9], "partitions": [[0, 1, 1]], "targets": [[1, 0, 2]], "labels": [[1, 0, 3]],
    "dims": [[3, 4], [4, 5], [0, 1]], "output_shape": [[3, 4], [5]], "fft_length": [[4], [3, 4], [2, 3, 4]],
    "rates": [[1]], "sequence_length": [[2, 3, 3, 1]], "s0": [[3, 1]], "s1": [[1, 4]],
    "orig_input_shape": [[2, 4, 4, 3]], "sparse_indices": [[[0, 1], [2, 3]]], "key": [[7]], "counter": [[0, 0]],
    "alg": [1],
}  # fmt: skip
_KERNEL = {2: [1, 2, 2, 1], 3: [1, 2, 2, 2, 1]}


def _attributes(definition: Any) -> list[dict[str, Any]]:
    """Values of the attributes that have no default and follow from no operand; several ways where sizes depend on the rank."""
    implied = {arg.type_attr for arg in definition.input_arg} | {arg.number_attr for arg in definition.input_arg}
    implied |= {arg.type_list_attr for arg in definition.input_arg}
    wanted = [a for a in definition.attr if a.name not in implied and not a.HasField("default_value")]
    ways = []
    for spatial in (2, 3):
        given: dict[str, Any] = {}
        for attr in wanted:
            sized = {"ksize": _KERNEL, "ksizes": _KERNEL, "strides": _KERNEL, "rates": {2: [1] * 4, 3: [1] * 5}}
            if attr.name in sized:
                given[attr.name] = sized[attr.name][spatial]
            elif attr.name == "padding":
                given[attr.name] = "SAME"
            elif attr.name == "mode":
                given[attr.name] = "REFLECT"
            elif attr.type == "type":
                given[attr.name] = tf.float32
            elif attr.type == "int":
                given[attr.name] = 2
            elif attr.name == "boundaries":
                given[attr.name] = [-1.0, 0.5]
            elif attr.name == "equation":
                given[attr.name] = "ij,kj->ik"
            elif attr.type == "float":
                given[attr.name] = 0.5
            else:
                return []
        ways.append(given)
        if not {"ksize", "ksizes", "strides", "rates"} & set(given):
            break
    return ways


_SHAPES = [(3, 4), (2, 4, 4, 3), (3, 3), (4,), (), (2, 3, 4), (2, 4, 4, 4, 3), (2, 3, 3)]


# TensorFlow ends the process where the sizes that these take do not belong together: the cases beside their entries are tried.
_ABORTING = frozenset(("AvgPoolGrad", "AvgPool3DGrad"))


def _given(name: str) -> Iterator[Draw]:
    """The calls that are written down, as far as TensorFlow runs them."""
    call = getattr(tf.raw_ops, name)
    for index, bound in enumerate(CALLS.get(name, ())):
        varied = [key for key, item in bound.items() if isinstance(item, np.ndarray) and item.dtype.kind in "fc"]
        draw = Draw(name, f"call {index}", _bound(call, varied, bound, {}), tuple(bound[key] for key in varied))
        if _traced(draw):
            yield draw


def _traced(draw: Draw) -> bool:
    """Whether TensorFlow has a kernel for a call, and takes it within a graph."""
    try:
        tf.nest.map_structure(tf.convert_to_tensor, tf.function(draw.function)(*map(tf.constant, draw.inputs)))
    except Exception:  # TensorFlow's own refusal, of any type
        return False
    return True


def draws(name: str, limit: int = 6) -> Iterator[Draw]:
    """Calls of one operator that TensorFlow itself runs, at most one an element type, and those that are written down."""
    yield from _given(name)
    definition = op_def_registry.get(name)
    if definition is None or name in _ABORTING:
        return
    kinds = {attr.name: attr for attr in definition.attr}
    main = next((arg.type_attr for arg in definition.input_arg if arg.type_attr and arg.name not in _WHOLE), None)
    allowed = DTYPES
    if main and kinds[main].HasField("allowed_values"):
        types = [tf.as_dtype(item).name for item in kinds[main].allowed_values.list.type]
        allowed = [item for item in DTYPES if item in types]
    elif main is None:
        allowed = ["float32"]
    count = 0
    for dtype in allowed:
        found = _first(name, definition, main, dtype)
        if found is not None:
            yield found
            count += 1
        if count >= limit:
            return


def _first(name: str, definition: Any, main: str | None, dtype: str) -> Draw | None:
    for attributes, shape, low in product(_attributes(definition), _SHAPES, (-2.0, 0.2)):
        windows = next((attributes[key] for key in ("strides", "ksize", "ksizes") if key in attributes), None)
        if isinstance(windows, list) and len(windows) != len(shape):  # TensorFlow ends the process for some of these
            continue
        found = _attempt(name, definition, main, dtype, attributes, shape, low)
        if found is not None:
            return found
    return None


def _attempt(
    name: str,
    definition: Any,
    main: str | None,
    dtype: str,
    attributes: dict[str, Any],
    shape: tuple[int, ...],
    low: float,
) -> Draw | None:
    rng = np.random.default_rng(len(name))
    call = getattr(tf.raw_ops, name)
    slots: list[list[Any]] = []
    varied = []
    for arg in definition.input_arg:
        whole = arg.name in _WHOLE and (arg.type_attr != main or arg.type_attr == "")
        if arg.type_list_attr:
            return None
        if whole:
            kind = tf.as_dtype(arg.type).as_numpy_dtype if arg.type else np.int32
            slots.append([np.asarray(item, kind) for item in _WHOLE[arg.name]])
            continue
        kind = dtype if arg.type_attr == main and main else (tf.as_dtype(arg.type).name if arg.type else "int32")
        if kind not in (*DTYPES, "int32"):
            return None
        own = (*[2] * (len(shape) - 2), shape[-1], 4) if arg.name == "filter" and len(shape) >= 4 else shape
        values = _data(rng, own, kind, low, 2.0)
        if arg.name == "sorted_inputs":
            values = np.sort(values, -1)
        if name.endswith("Cholesky") and own[-2:] == (
            3,
            3,
        ):  # others have no factor: TensorFlow gives NaN or stray memory
            values = values @ np.conj(np.swapaxes(values, -1, -2)) + np.eye(3, dtype=values.dtype)
        if arg.number_attr:
            slots.append([[values, _data(rng, own, kind, low, 2.0)]])
        else:
            varied.append(arg.name)
            slots.append([values])
    names = [arg.name for arg in definition.input_arg]
    for choice in list(product(*slots))[:24]:
        bound = dict(zip(names, choice, strict=True))
        try:
            result = call(**bound, **attributes)
        except Exception:  # TensorFlow refuses this way of calling it
            continue
        if not tf.nest.flatten(result) or any(
            not hasattr(item, "dtype") or item.dtype in (tf.variant, tf.resource) for item in tf.nest.flatten(result)
        ):
            return None
        draw = Draw(
            name, f"{dtype}{list(shape)}", _bound(call, varied, bound, attributes), tuple(map(bound.get, varied))
        )
        if _traced(draw):
            return draw
    return None


def _bound(call: Any, varied: list[str], bound: dict[str, Any], attributes: dict[str, Any]) -> Callable[..., Any]:
    rest = {key: item for key, item in bound.items() if key not in varied}
    return lambda *inputs: call(**dict(zip(varied, inputs, strict=True)), **rest, **attributes)
