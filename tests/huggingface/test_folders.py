"""Folders of transformers to folders of ONNX: each part is proved, greedy decoding writes the tokens of `generate`."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import onnxruntime
import pytest

import onnxport
from onnxport.converters.to_onnx import huggingface_proof
from onnxport.errors import InvalidInputError, ValidationError
from onnxport.graph import pieces
from onnxport.graph.pieces import run_in_pieces
from onnxport.request import Request
from onnxport.tracing.huggingface.folder import Choice, load
from onnxport.tracing.pytorch_state import unchanged
from onnxport.validation.parties import Tolerance
from tests.decoding import decoded
from tests.huggingface.models import folder, torch, transformers

pytestmark = pytest.mark.huggingface

GREEDY = ["greedy decoding, batch 1", "greedy decoding, batch 3"]
PADDED = [*GREEDY, "greedy decoding, padded at the left"]
CLASSES = [
    ("LlamaForCausalLM", "text-generation-with-past", ["model"], PADDED),
    ("MixtralForCausalLM", "text-generation-with-past", ["model"], PADDED),
    ("BertForSequenceClassification", "text-classification", ["model"], []),
    (
        "T5ForConditionalGeneration",
        "text2text-generation-with-past",
        ["encoder_model", "decoder_model", "decoder_with_past_model"],
        GREEDY,
    ),
    (
        "BartForConditionalGeneration",
        "text2text-generation-with-past",
        ["encoder_model", "decoder_model", "decoder_with_past_model"],
        GREEDY,
    ),
    (
        "WhisperForConditionalGeneration",
        "automatic-speech-recognition-with-past",
        ["encoder_model", "decoder_model", "decoder_with_past_model"],
        GREEDY,
    ),
    ("MambaForCausalLM", "text-generation-with-past", ["model"], GREEDY),
    ("Wav2Vec2ForCTC", "automatic-speech-recognition", ["model"], []),
]


@pytest.mark.parametrize(("name", "task", "parts", "decoded"), CLASSES, ids=[row[0] for row in CLASSES])
def test_a_folder_becomes_a_folder(tmp_path: Path, name: str, task: str, parts: list[str], decoded: list[str]) -> None:
    made = onnxport.convert(folder(tmp_path, name), output=tmp_path / "out")
    assert made.report.verdict == "passed", made.report
    assert [item.name for item in made.report.sets if item.name.startswith("greedy")] == decoded
    assert list(made.parts) == parts
    assert f"{name} for {task}, weights in float32" in made.notes
    written = {item.name for item in (tmp_path / "out").iterdir()}
    assert written >= {"config.json", "onnxport_report.json", *(f"{part}.onnx" for part in parts)}
    assert (tmp_path / "out/config.json").read_bytes() == (tmp_path / name / "config.json").read_bytes()
    assert json.loads((tmp_path / "out/onnxport_report.json").read_text())["verdict"] == "passed"


def dims(model: Any) -> dict[str, list[Any]]:
    return {value.name: [getattr(dim, "value", dim) for dim in value.shape] for value in model.model.graph.inputs}


def test_a_decoder_takes_any_past_also_beyond_the_window_of_its_layers(tmp_path: Path) -> None:
    """Mistral's layers look at 4 tokens; the cache keeps all of them, so that any number of steps can follow."""
    source = folder(tmp_path, "MistralForCausalLM")
    onnxport.convert(source, output=tmp_path / "out", validate=False)
    session = onnxruntime.InferenceSession(tmp_path / "out/model.onnx")
    model = transformers.AutoModelForCausalLM.from_pretrained(source)
    prompt = torch.randint(3, 60, (2, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [1] * 7])
    wanted = model.generate(prompt, attention_mask=mask, max_new_tokens=9, do_sample=False, eos_token_id=-1)[:, 7:]
    np.testing.assert_array_equal(decoded(session, prompt, mask, 9), wanted.numpy())


def test_names_and_dimensions_of_a_decoder(tmp_path: Path) -> None:
    made = onnxport.convert(folder(tmp_path, "LlamaForCausalLM"), validate=False)
    assert dims(made)["input_ids"] == ["batch_size", "sequence_length"]
    assert dims(made)["attention_mask"] == ["batch_size", "total_sequence_length"]
    assert dims(made)["past_key_values.1.value"] == ["batch_size", 2, "past_sequence_length", 4]
    assert made.output_names == ["logits", *(f"present.{i}.{what}" for i in (0, 1) for what in ("key", "value"))]


def test_keys_and_values_that_heads_share_are_not_repeated(tmp_path: Path) -> None:
    (model,) = onnxport.convert(folder(tmp_path, "LlamaForCausalLM"), validate=False).parts.values()
    wide = [node.name for node in model.model.graph if node.op_type == "Expand" and node.outputs[0].shape.rank() > 4]
    assert wide == []
    assert sum(node.op_type == "Div" for node in model.model.graph) == 5  # its norms, in the form that runtimes fuse


def test_without_a_cache_wanted_none_comes_out(tmp_path: Path) -> None:
    made = onnxport.convert(folder(tmp_path, "LlamaForCausalLM"), task="text-generation")
    assert made.report.verdict == "passed", made.report
    assert made.output_names == ["logits"]
    assert made.input_names == ["input_ids", "attention_mask", "position_ids"]
    assert [item.name for item in made.report.sets if item.name.startswith("greedy")] == PADDED


def logits(made: Any, model: Any) -> tuple[np.ndarray, np.ndarray]:
    """The last logits of a prompt, ours and the model's."""
    prompt = torch.tensor([[5, 9, 17, 33]])
    feeds = {"input_ids": prompt.numpy(), "attention_mask": np.ones((1, 4), np.int64)}
    feeds["position_ids"] = np.arange(4)[None]
    with torch.no_grad():
        expected = model(prompt).logits.float().numpy()
    return np.asarray(made(**feeds), np.float32), expected


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"shard": "4KB"},
        {"dtype": torch.bfloat16},
        {"tie_word_embeddings": True},
    ],
    ids="whole sharded bfloat16 tied".split(),
)
def test_weights_are_read_as_they_are_kept(tmp_path: Path, kept: dict[str, Any]) -> None:
    source = folder(tmp_path, "LlamaForCausalLM", **kept)
    made = onnxport.convert(source, task="text-generation", dtype="float32", validate=False)
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    np.testing.assert_allclose(*logits(made, model), atol=1e-6)
    tables = [value for value in made.model.graph.initializers.values() if sorted(value.shape.numpy()) == [16, 60]]
    assert len(tables) == (1 if "tie_word_embeddings" in kept else 2)


def test_the_type_of_the_weights_is_the_folders_own_or_the_users(tmp_path: Path) -> None:
    source = folder(tmp_path, "BertForSequenceClassification", dtype=torch.bfloat16)
    for dtype, name in ((None, "BFLOAT16"), ("float32", "FLOAT"), ("float16", "FLOAT16")):
        made = onnxport.convert(source, dtype=dtype, validate=dtype is None)
        weight = made.model.graph.initializers["bert.embeddings.word_embeddings.weight"]
        assert weight.dtype.name == name


def test_pickled_weights_and_a_file_of_weights_beside(tmp_path: Path) -> None:
    source = Path(folder(tmp_path, "LlamaForCausalLM"))
    model = transformers.AutoModelForCausalLM.from_pretrained(source)
    torch.save(model.state_dict(), source / "pytorch_model.bin")
    (source / "model.safetensors").unlink()
    made = onnxport.convert(source, task="text-generation", validate=False)
    np.testing.assert_allclose(*logits(made, model), atol=1e-6)
    other = transformers.LlamaForCausalLM(model.config).eval()
    torch.save(other.state_dict(), tmp_path / "other.pt")
    made = onnxport.convert(source, task="text-generation", weights=tmp_path / "other.pt", validate=False)
    np.testing.assert_allclose(*logits(made, other), atol=1e-6)


def test_features_of_a_model_saved_without_its_pooler(tmp_path: Path) -> None:
    made = onnxport.convert(folder(tmp_path, "BertForMaskedLM"), task="feature-extraction")
    assert made.report.verdict == "passed", made.report
    assert made.output_names == ["last_hidden_state"]


def test_the_command_writes_a_folder(run: Any, tmp_path: Path) -> None:
    source = folder(tmp_path, "ViTForImageClassification")
    done = run("convert", source, "--from", "huggingface", "-o", "out/")
    assert done.code == 0, done.err
    assert {"model.onnx", "config.json"} <= {item.name for item in Path("out").iterdir()}
    assert run("convert", source, "-o", "out/", "--no-validate").code == 0  # a folder of ours is replaced
    assert run("convert", source, "-o", "vit-0.5B", "--no-validate").code == 0  # what follows a dot is part of the name
    assert (Path("vit-0.5B") / "model.onnx").exists()
    assert run("convert", source, "--from", "keras").code == 2
    done = run("convert", source, "-o", source)
    assert done.code == 2
    assert "holds other things" in done.err


def test_more_layers_that_decode_than_that_encode(tmp_path: Path) -> None:
    """transformers' own loop makes a cache of as many layers as there are encoders, and fails on it."""
    made = onnxport.convert(folder(tmp_path, "T5ForConditionalGeneration", num_decoder_layers=3))
    assert made.report.verdict == "passed", made.report
    assert [item.name for item in made.report.sets[-2:]] == GREEDY


def test_a_loop_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **options: Any) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr(transformers.GenerationMixin, "generate", fails)
    with pytest.raises(InvalidInputError, match=r"LlamaForCausalLM itself fails \(IndexError: out of range\)"):
        onnxport.convert(folder(tmp_path, "LlamaForCausalLM"))


@pytest.mark.parametrize("name", ["MixtralForCausalLM", "T5ForConditionalGeneration"])
def test_weights_that_do_not_fit_are_proved_layer_by_layer(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_proof, "WHOLE_LIMIT", 0)
    source = folder(tmp_path, name, dtype=torch.bfloat16)
    made = onnxport.convert(source)
    assert made.report.verdict == "passed", made.report
    assert all(item.name.endswith("layer by layer") for item in made.report.sets)
    assert "layer by layer with all of them" in made.report.notes[-1]
    for part in made.parts.values():  # one wrong weight among them
        weights = part.model.graph.initializers
        last = next(name for name in reversed(list(weights)) if len(weights[name].shape) == 2)
        weights[last].const_value = onnx_ir.tensor(-weights[last].const_value.numpy(), name=last)
    live = load(source)
    live.chosen(Choice())
    with unchanged(), pytest.raises(ValidationError):
        huggingface_proof.prove_folder(live, made, Request(), Tolerance())


def test_weights_in_few_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides have the rounded weights, layer by layer too; one that is put back wrongly is refused."""
    monkeypatch.setattr(huggingface_proof, "WHOLE_LIMIT", 0)
    source = folder(tmp_path, "LlamaForCausalLM", hidden_size=32, intermediate_size=48, num_hidden_layers=1)
    small = onnxport.convert(source, dtype="int4", options={"block_size": 16})
    assert small.report.verdict == "passed", small.report
    assert [node.op_type for node in small.model.graph].count("MatMulNBits") == 6
    assert pickle.loads(pickle.dumps(small)).output_names == small.output_names
    name = "model.layers.0.mlp.up_proj.weight.scales"
    weight = small.parts["model"].model.graph.initializers[name]
    weight.const_value = onnx_ir.tensor(weight.const_value.numpy() * np.float32(1.01), name=name)
    live = load(source)
    live.chosen(Choice(dtype="float32"))
    with unchanged(), pytest.raises(ValidationError):
        huggingface_proof.prove_folder(live, small, Request(dtype="int4"), Tolerance())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_model_runs_in_pieces_as_it_does_whole(tmp_path: Path, dtype: Any) -> None:
    made = onnxport.convert(folder(tmp_path, "BertModel", dtype=dtype), validate=False)
    feeds = {name: np.ones((2, 3), np.int64) for name in made.input_names}
    for bound in (0, 2000, 1 << 30):
        results = run_in_pieces(made.model, feeds, bound=bound)
        for name, whole in zip(made.output_names, made(**feeds), strict=True):
            assert results[name].dtype == whole.dtype
            np.testing.assert_allclose(np.float32(results[name]), np.float32(whole), atol=1e-6)


def test_what_a_piece_makes_of_its_weights_alone_is_made_without_its_runtime(tmp_path: Path) -> None:
    """Beside the weight in bfloat16 its cast and its transpose would stand in memory."""
    made = onnxport.convert(folder(tmp_path, "LlamaForCausalLM", dtype=torch.bfloat16), validate=False)
    graph = made.parts["model"].model.graph
    weight = graph.initializers["lm_head.weight"]
    (piece,) = [item for item in pieces._pieces(graph, 0) if weight in item.weights]
    prepared = pieces._prepared(piece, [weight])
    assert [item.node.op_type for item in prepared] == ["Cast", "Transpose"]
    np.testing.assert_array_equal(prepared[-1].array(), np.float32(weight.const_value.numpy()).T)
