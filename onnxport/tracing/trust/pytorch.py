"""What the graph of a ``.pt2`` file may say: torch resolves its targets by name and writes its names into Python source."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch

from onnxport.errors import InvalidModelError
from onnxport.tracing.trust.faults import damaged, hostile, untrusted
from onnxport.tracing.trust.pytorch_expressions import is_guard, is_identifier, is_plain, is_symbolic

_OPERATOR = re.compile(
    r"torch\.ops\.(?P<space>aten|prims|quantized_decomposed|torchvision)\.(?P<name>\w+)(\.(?P<overload>\w+))?", re.ASCII
)
_HIGHER = re.compile(
    r"torch\.ops\.higher_order\.(cond|while_loop|map_impl|scan|associative_scan|wrap_with_set_grad_enabled|wrap_with_autocast"
    r"|invoke_subgraph|out_dtype|strict_mode|hints_wrapper|flex_attention|tag_activation_checkpoint"
    r"|wrap_activation_checkpoint|auto_functionalized|auto_functionalized_v2|run_and_save_rng_state)"
)
_OF_SIZES = re.compile(
    r"_operator\.(eq|ne|le|ge|lt|gt|neg|pos|abs|mul|add|sub|floordiv|mod|pow|truediv|and_|or_|not_|lshift|rshift|getitem)"
    r"|torch\.(_sym_|sym_)\w+|math\.(trunc|ceil|floor|sqrt|exp|log|log2|isnan|isinf)",
    re.ASCII,
)
_FILES = frozenset(("from_file",))  # of all ATen operators these alone touch files
# What makes a tensor of sizes that stand in the graph.
_GROWING = re.compile(
    r"full|zeros|ones|empty|rand|randn|randint|arange|linspace|logspace|eye|tile|repeat|expand|pad|constant_pad_nd|one_hot"
    r"|new_\w+|empty_\w+|as_strided|resize|resize_|range|tril_indices|triu_indices|repeat_interleave|upsample_\w+|kron|cumsum"
    r"|hann_window|hamming_window|blackman_window|bartlett_window|kaiser_window"
)
_LARGEST = 1 << 28
_NAMES = frozenset(("name", "as_name"))
_PATHS = frozenset(
    ("parameter_name", "buffer_name", "tensor_constant_name", "user_input_name", "custom_obj_name", "fqn")
)
_CONTAINERS = frozenset(
    "builtins.tuple builtins.list builtins.dict collections.OrderedDict collections.deque collections.namedtuple "
    "torch.Size torch.fx.immutable_collections.immutable_list torch.fx.immutable_collections.immutable_dict".split()
)


def check_program(title: str, program: Any) -> None:
    """Looks through the parsed JSON of an exported program; `title` names the file and the record.

    Raises:
        UntrustedFileError: something in it would be run as Python, or is an operator that does more than compute.
        InvalidModelError: it is no exported program.
    """
    module = program.get("graph_module") if isinstance(program, dict) else None
    if not isinstance(module, dict) or not isinstance(module.get("graph"), dict):
        raise damaged(title, "it holds no graph_module with a graph")
    guards = program.get("guards_code") or []
    for guard in guards if isinstance(guards, list) else [guards]:
        if not isinstance(guard, str) or not is_guard(guard):
            raise untrusted(title, f"the check of its inputs {_short(guard)} is more than a comparison of sizes")
    for entry in module.get("module_call_graph") or ():
        _check_signature(title, entry.get("signature") if isinstance(entry, dict) else None)
    for owner, key, value in _items(module):
        _check_item(title, owner, key, value)
    _check_texts(title, module)


def check_operator(title: str, target: str, where: str) -> None:
    """Refuses a call target that is no operator which only computes.

    Raises:
        UntrustedFileError: it is something else that Python can reach by this name.
    """
    operator = _OPERATOR.fullmatch(target)
    if operator is not None and operator["name"] not in _FILES:
        if operator["space"] != "aten":
            return
        overload = "" if operator["overload"] in (None, "default") else f".{operator['overload']}"
        full = f"aten::{operator['name']}{overload}"
        # TorchScript has more under this name, such as aten::save; they have no kernel.
        if full in _kernels():
            return
    elif operator is None and (_HIGHER.fullmatch(target) or _OF_SIZES.fullmatch(target)):
        return
    raise untrusted(title, f"the target {_short(target)} of node {_short(where)} is no operator that only computes")


@cache
def _kernels() -> frozenset[str]:
    return frozenset(torch._C._dispatch_get_all_op_names())


def _items(content: object) -> Iterator[tuple[Any, str, Any]]:
    """Every key and value of nested JSON, with the object it stands in."""
    waiting = [content]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            for key, value in item.items():
                yield item, key, value
                waiting.append(value)
        elif isinstance(item, list):
            waiting += item


def _check_item(title: str, owner: Mapping[str, Any], key: str, value: object) -> None:
    if key == "target" and "inputs" in owner:
        check_operator(title, str(value), str(owner.get("name")))
        _check_sizes(title, owner)
    elif key == "as_operator":
        check_operator(title, str(value), "an argument")
    elif key == "expr_str":
        if not isinstance(value, str) or not is_symbolic(value):
            raise untrusted(title, f"the size {_short(value)} is more than arithmetic on symbols")
    elif key in _NAMES:
        if value and not (isinstance(value, str) and is_identifier(value)):
            raise untrusted(title, f"the name {_short(value)} would be written into Python source")
    elif key in _PATHS:
        if value is not None and not (isinstance(value, str) and is_plain(value)):
            raise untrusted(title, f"the name {_short(value)} would be written into Python source")
    elif key in ("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values"):
        for name in value if isinstance(value, dict) else ():
            if not is_identifier(name):
                raise untrusted(title, f"the name {_short(name)} would be written into Python source")
    elif key == "as_custom_obj" or (key in ("custom_obj", "custom_obj_values") and value):
        raise untrusted(title, "it holds an object of a class of its own")


def _check_texts(title: str, module: Mapping[str, Any]) -> None:
    """Text among the inputs stands in the generated check of the inputs."""
    inputs = [*((module.get("signature") or {}).get("input_specs") or ()), *(module["graph"].get("inputs") or ())]
    for _, key, value in _items(inputs):
        if key == "as_string" and not (isinstance(value, str) and is_plain(value)):
            raise untrusted(title, f"the input {_short(value)} would be written into Python source")


def _check_signature(title: str, signature: object) -> None:
    if not isinstance(signature, dict):
        return
    for name in signature.get("forward_arg_names") or ():
        if not (isinstance(name, str) and is_identifier(name)):
            raise untrusted(title, f"the parameter {_short(name)} would be written into Python source")
    for key in ("in_spec", "out_spec"):
        text: Any = signature.get(key)
        try:
            _, tree = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise damaged(title, f"the structure {key} can't be read") from error
        _check_tree(title, tree)


def _check_tree(title: str, tree: object) -> None:
    waiting = [tree]
    while waiting:
        item = waiting.pop()
        if not isinstance(item, dict) or not isinstance(item.get("children_spec"), list):
            raise damaged(title, "a structure of its inputs or outputs can't be read")
        waiting += item["children_spec"]
        kind, context = item.get("type"), item.get("context")
        if "__enum__" in json.dumps(context):  # torch imports the module of an enumeration by name
            raise untrusted(title, f"the structure {_short(context)} imports a module by name")
        if kind is None:
            continue
        if kind not in _CONTAINERS and kind not in torch.utils._pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
            raise InvalidModelError(
                f"{title}: the structure {_short(kind)} of its inputs or outputs is not registered with torch's pytree in this "
                "process: import what registers it first"
            )
        if kind == "collections.defaultdict":
            raise untrusted(title, "a defaultdict among its inputs or outputs imports a function by name")
        keys = _keys(context)
        if any(isinstance(key, str) and not is_plain(key) for key in keys):
            raise untrusted(title, f"the key {_short(keys)} of its inputs would be written into Python source")


def _keys(context: object) -> list[Any]:
    try:
        keys = json.loads(context) if isinstance(context, str) else context
    except (ValueError, RecursionError):
        keys = context
    return keys if isinstance(keys, list) else [keys]


def _check_sizes(title: str, node: Mapping[str, Any]) -> None:
    """Sizes that stand in the graph ask for no more memory than a machine has."""
    name = str(node.get("target")).split(".")[3:4]
    if not name or _GROWING.fullmatch(name[0]) is None:
        return
    for _, key, value in _items(node.get("inputs")):
        sizes = value if key == "as_ints" and isinstance(value, list) else [value] if key == "as_int" else []
        # 2^63 - 1 means the end
        numbers = [abs(size) for size in sizes if isinstance(size, int) and abs(size) < (1 << 62)]
        if math.prod(max(size, 1) for size in numbers) > _LARGEST:
            raise hostile(title, f"node {_short(node.get('name'))} ({name[0]}) makes a tensor of {_short(sizes)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
