"""PyTorch's and TensorFlow's entries name the same lowerings: what only one of them uses stands here with its reason."""

import ast
import re

from tests.test_package import ROOT

ROOM = "onnxport.opset_maps.lowerings"
FOLDER = ROOT / "onnxport" / "opset_maps"

# By framework, a row for a file of `lowerings/`: what it uses alone, and why the other one does not. The lists only shrink.
ALONE = {
    "pytorch": """
        arithmetic: floor_div is_negative isinf -- TensorFlow reaches them through the elementwise table
        complex_functions: scaled silu sinc -- TensorFlow has no such operator of complex numbers
        complex_numbers: from_polar is_complex mark_complex total -- ATen's entries take numbers of both kinds
        dtypes: to_dtype -- TensorFlow's operands have one type
        dynamic_quantization: linear prepared recurrent -- FBGEMM's steps, which TensorFlow's kernels do not take
        eigen: singular -- TensorFlow refuses singular vectors
        indefinite: factors solution -- TensorFlow has no such operator
        linear_algebra: exponential first_on_diagonal reflected reflectors swapped_rows -- TensorFlow has no such operator
        loops: running slice_like -- running extremes, which TensorFlow has no operator for
        normalization: affine ones_and_zeros -- layer and group norm, which TensorFlow composes
        order: quantiles run_lengths runs top -- unique in order of value, quantiles and modes, which TensorFlow lacks
        polynomials: orthogonal -- TensorFlow has no such operator
        random: gumbel is_drawn -- draws without replacement, which TensorFlow lacks, and random truths
        recurrence: ProjectedLstm ordered_gates stacked -- TensorFlow's recurrent layers are loops
        reductions: cut_to_zero first_extreme mean -- NaN is kept, which TensorFlow's ArgMax and scatters pass over
        regions: aligned max_pooled own_channels own_means without_samples -- torchvision's, which TensorFlow lacks
        scatter: require_reduction -- index_put, which TensorFlow lacks
        special: multigammaln ndtr -- TensorFlow has no such operator, or composes it
        suppression: corner_overlap_of selected selected_by_class -- corners in order, which TensorFlow's operators ignore
        windows: average_pool global_max_pool max_pool max_pool_with_places -- ceil_mode and counted padding
    """,
    "tensorflow": """
        arithmetic: of_quotient -- PyTorch's quotients of float16 are cut before they are rounded
        arithmetic: logaddexp -- PyTorch's is a row of the elementwise table
        characters: Bytes bytes_of bytes_of_codes characters codes digits of_codes sizes -- PyTorch has no strings
        characters: in_groups out_of_groups -- PyTorch has no strings
        bits: bitcast next_double -- PyTorch's view has an entry of its own, and nextafter in float32
        complex_functions: inverse of_pairs -- Inv and Xdivy, which PyTorch lacks
        complex_numbers: paired quotient -- parts of operands that are real to TensorFlow, and its gradients
        groups: ascending combined gathered_rows greatest numbers places ranked -- ragged tensors, which PyTorch's map has not
        groups: ranks_within row_ids splits_of starts_and_lengths with_empty_rows -- ragged and sparse tensors likewise
        ctc_beam: beams -- PyTorch has no such operator
        cutting: Cells blank encoded -- PyTorch has no strings
        hashes: fingerprint joined murmur64 remainder shifted signed siphash -- PyTorch has no strings
        incomplete_beta: betainc -- PyTorch has no such operator
        isotonic: decreasing -- PyTorch has no such operator
        linear_algebra: counted -- the diagonal of complex factors, which PyTorch has as real pairs
        matrix_functions: logarithm square_root -- PyTorch has no such operator
        order: distinct_by_appearance -- Unique keeps the order of appearance
        origins: behind is_successor number -- loops are read back as recurrent layers
        patterns: pattern_of -- PyTorch has no strings
        random: binomial bits gamma poisson -- torch's distributions other than uniform and normal have no entry
        random: truncated truncated_normal -- torch truncates by clamping uniform numbers
        recurrence_matching: as_recurrence -- loops are read back as recurrent layers
        reductions: without_nan -- ArgMax passes over NaN
        strings: all_joined around each joined parts substituted without_ends words -- PyTorch has no strings
        suppression: Kept overlap_of -- scores that are lessened, corners in any order
        special: digamma lgamma zeta -- rows of the elementwise table in PyTorch
        windows: greatest_and_place greatest_of_windows -- MaxPool of whole numbers, which PyTorch's map has as one of floats
    """,
}


def public():
    """File and name of every function of the room."""
    for path in (FOLDER / "lowerings").glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                yield path.stem, node.name


def used(framework):
    """File and name of the lowerings that a framework's entries name."""
    known = set(public())
    for path in (FOLDER / "to_onnx" / framework).rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(ROOM)]
        files = {item.asname or item.name: item.name for node in imports if node.module == ROOM for item in node.names}
        for node in imports:
            yield from {(node.module.rpartition(".")[2], item.name) for item in node.names} & known
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in files:
                yield from {(files[node.value.id], node.attr)} & known


def listed(framework):
    """File, name and reason of what stands in a framework's list."""
    for row in ALONE[framework].strip().splitlines():
        file, names, reason = re.fullmatch(r"\s*(\w+): ([\w ]+) -- (.+)", row).groups()
        yield from ((file, name, reason) for name in names.split())


def test_lowerings_of_one_framework_alone_have_a_reason():
    both = {framework: set(used(framework)) for framework in ALONE}
    for framework, other in (("pytorch", "tensorflow"), ("tensorflow", "pytorch")):
        assert both[framework] - both[other] == {(file, name) for file, name, _ in listed(framework)}


def test_most_lowerings_are_shared():
    assert len(set(used("pytorch")) & set(used("tensorflow"))) >= 70
