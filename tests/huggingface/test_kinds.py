"""Folders of models whose inputs or weights are of a kind of their own: no option is needed for any of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidInputError
from tests.huggingface.models import folder, torch, transformers

pytestmark = pytest.mark.huggingface


def test_weights_that_a_model_computes_are_missing_in_its_files(tmp_path: Path) -> None:
    """Marian's tables of sines are not saved; what would be random stays refused (test_refusals)."""
    source = folder(tmp_path, "MarianMTModel")
    with (Path(source) / "model.safetensors").open("rb") as file:
        assert b"embed_positions" not in file.read()
    done = onnxport.convert(source)
    assert done.report.verdict == "passed", done.report
    table = transformers.MarianMTModel.from_pretrained(source).get_encoder().embed_positions.weight.detach()
    weights = done["encoder_model"].model.graph.initializers
    name = next(item for item in weights if item.endswith("embed_positions.weight"))
    np.testing.assert_array_equal(weights[name].const_value.numpy(), table.numpy())


def test_pictures_and_texts_come_in_different_numbers(tmp_path: Path) -> None:
    source = folder(tmp_path, "CLIPModel")
    done = onnxport.convert(source)
    assert done.report.verdict == "passed", done.report
    model = transformers.CLIPModel.from_pretrained(source)
    draws = torch.Generator().manual_seed(0)
    for texts, pictures in ((1, 4), (5, 1), (3, 3)):
        given: dict[str, Any] = {
            "input_ids": torch.randint(3, 60, (texts, 6), generator=draws),
            "pixel_values": torch.randn(pictures, 3, 16, 16, generator=draws),
            "attention_mask": torch.ones(texts, 6, dtype=torch.int64),
        }
        with torch.no_grad():
            expected = model(**given).logits_per_image.numpy()
        results = done(**{name: item.numpy() for name, item in given.items()})
        np.testing.assert_allclose(results[done.output_names.index("logits_per_image")], expected, atol=1e-5)


def test_a_classifier_that_reads_up_to_a_mark(tmp_path: Path) -> None:
    done = onnxport.convert(folder(tmp_path, "BartForSequenceClassification"))
    assert done.report.verdict == "passed", done.report


def test_pictures_among_tokens(tmp_path: Path) -> None:
    """The prompt has as many marks as the model puts numbers of the picture in their places."""
    done = onnxport.convert(folder(tmp_path, "LlavaForConditionalGeneration"), task="image-text-to-text")
    assert done.report.verdict == "passed", done.report
    assert {"input_ids", "pixel_values", "attention_mask"} == set(done.input_names)


def test_without_a_cache_that_it_takes_a_model_is_converted_without_one(tmp_path: Path) -> None:
    source = folder(tmp_path, "RwkvForCausalLM")
    done = onnxport.convert(source)
    assert done.report.verdict == "passed", done.report
    assert done.notes[0].startswith("RwkvForCausalLM for text-generation,")
    assert "the trace needs a fixed sequence_length" in done.notes
    with pytest.raises(InvalidInputError, match="gives no cache that it takes"):
        onnxport.convert(source, task="text-generation-with-past")


def test_a_configuration_with_which_its_model_does_not_run(tmp_path: Path) -> None:
    """A matrix product of torch takes rows of 16 bytes alone."""
    with pytest.raises(InvalidInputError, match="MixtralForCausalLM of this configuration does not run .*16 bytes"):
        onnxport.convert(folder(tmp_path, "MixtralForCausalLM", intermediate_size=37))


def test_what_onnxruntime_genai_reads(tmp_path: Path) -> None:
    """Names of the file's own inputs and outputs; a file of that name in the source folder stays as it is."""
    source = folder(tmp_path, "LlamaForCausalLM")
    done = onnxport.convert(source, output=tmp_path / "out", validate=False)
    content = json.loads((tmp_path / "out/genai_config.json").read_text())["model"]
    decoder = content["decoder"]
    assert (tmp_path / "out" / decoder["filename"]).is_file()
    for side, names in (("inputs", done.input_names), ("outputs", done.output_names)):
        given = [
            name % i if "%d" in name else name
            for i in range(decoder["num_hidden_layers"])
            for name in decoder[side].values()
        ]
        assert set(given) == set(names)
    config = transformers.AutoConfig.from_pretrained(source)
    assert (decoder["num_key_value_heads"], decoder["head_size"]) == (config.num_key_value_heads, config.head_dim)
    assert (content["eos_token_id"], content["vocab_size"]) == (config.eos_token_id, config.vocab_size)
    (Path(source) / "genai_config.json").write_text("{}")
    onnxport.convert(source, output=tmp_path / "out", validate=False)
    assert (tmp_path / "out/genai_config.json").read_text() == "{}"
    onnxport.convert(folder(tmp_path, "MambaForCausalLM"), output=tmp_path / "mamba", validate=False)
    assert not (tmp_path / "mamba/genai_config.json").exists()


@pytest.mark.parametrize("rows", [1, 3])
def test_onnxruntime_genai_writes_the_tokens_of_generate(tmp_path: Path, rows: int) -> None:
    genai = pytest.importorskip("onnxruntime_genai", reason="not among the requirements of the tests")
    source = folder(tmp_path, "LlamaForCausalLM")
    onnxport.convert(source, output=tmp_path / "out", validate=False)
    model = transformers.AutoModelForCausalLM.from_pretrained(source)
    prompt = torch.randint(3, 60, (rows, 5), generator=torch.Generator().manual_seed(1))
    wanted = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8, do_sample=False)
    reader = genai.Model(str(tmp_path / "out"))
    settings = genai.GeneratorParams(reader)
    settings.set_search_options(max_length=13, batch_size=rows)
    generator = genai.Generator(reader, settings)
    generator.append_tokens(prompt.numpy().astype(np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    for row in range(rows):
        tokens = generator.get_sequence(row)
        np.testing.assert_array_equal(wanted[row, : len(tokens)].numpy(), tokens[: wanted.shape[1]])


KINDS = {
    "RobertaForCausalLM": "greedy decoding, batch 1",  # takes kinds of tokens that `generate` leaves out
    "ConvBertForMaskedLM": "given",  # windows over a dynamic length
    "DetrForObjectDetection": "given",  # a decoder whose configuration has no last token
    "DacModel": "given",  # sounds with an axis of channels
    "Lfm2ForCausalLM": "decoder_model: many rows, shorter",  # prompts shorter than a convolution's kernel
    "MoonshineForConditionalGeneration": "greedy decoding, batch 1",  # an output of the encoder's own
    "VideoMAEModel": "one row, longer",  # videos
    "PatchTSTForPrediction": "one row, longer",  # time series
    "TimeSeriesTransformerModel": "given",  # time series, with what tells their time
    "SEWForCTC": "one row, longer",  # fills up where the number of frames is odd
    "XLNetLMHeadModel": "given",  # puts a token of its own behind the prompt
    "Pix2StructForConditionalGeneration": "greedy decoding, batch 3",  # patches of a picture in a row
}


@pytest.mark.parametrize(("name", "tried"), KINDS.items())
def test_models_of_many_kinds(tmp_path: Path, name: str, tried: str) -> None:
    done = onnxport.convert(folder(tmp_path, name))
    assert done.report.verdict == "passed", done.report
    assert any(item.name.startswith(tried) for item in done.report.sets), done.report


def test_states_beside_keys_and_values(tmp_path: Path) -> None:
    """The proof draws masks as long as what was read and what is new: Jamba's code decides on that."""
    done = onnxport.convert(folder(tmp_path, "JambaForCausalLM"))
    assert done.report.verdict == "passed", done.report


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "WhisperForConditionalGeneration", "ViTForImageClassification"])
@pytest.mark.parametrize("keep", [True, False])
def test_weights_in_float16_with_inputs_and_outputs_in_either_type(tmp_path: Path, name: str, keep: bool) -> None:
    done = onnxport.convert(folder(tmp_path, name), dtype="float16", keep_io_types=keep)
    assert done.report.verdict == "passed", done.report
    for part in done.parts.values():
        graph = part.model.graph
        kinds = {value.dtype.name for value in (*graph.inputs, *graph.outputs)}
        assert kinds - {"INT64"} == {"FLOAT" if keep else "FLOAT16"}
        matrices = [item for item in graph.initializers.values() if len(item.shape) == 2 and item.dtype.name != "INT64"]
        assert {item.dtype.name for item in matrices} == {"FLOAT16"}


def test_parameters_of_torch_layers_never_have_memory() -> None:
    from onnxport.tracing.huggingface import building

    nn, seen = torch.nn, list[tuple[str, str]]()

    def note(module: Any, name: str, parameter: Any) -> None:
        if parameter is not None:
            seen.append((f"{type(module).__name__}.{name}", parameter.device.type))

    handle = nn.modules.module.register_module_parameter_registration_hook(note)
    try:
        with building._on_meta():
            layers = [nn.Linear(2, 3), nn.Embedding(4, 2), nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3), nn.LSTM(2, 3)]
    finally:
        handle.remove()
    assert {name for name, device in seen if device != "meta"} == set()
    assert {name.partition(".")[0] for name, _ in seen} == {type(layer).__name__ for layer in layers}
    assert layers[3].running_var.tolist() == [1.0, 1.0, 1.0]
    assert torch.empty(2).device.type == "cpu"
