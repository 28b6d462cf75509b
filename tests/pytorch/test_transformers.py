"""Models of transformers as its users write them: caches come and go by name, greedy decoding gives the tokens of `generate`."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
transformers = pytest.importorskip("transformers", reason="transformers is an extra")

import onnxport  # noqa: E402
from onnxport.errors import InvalidInputError  # noqa: E402
from onnxport.tracing import pytorch_caches  # noqa: E402
from tests.decoding import decoded  # noqa: E402

pytestmark = pytest.mark.pytorch

SIZES = {
    "vocab_size": 60,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
STEP = {
    "input_ids": {0: "batch", 1: "new"},
    "attention_mask": {0: "batch", 1: "total"},
    "position_ids": {0: "batch", 1: "new"},
    "past_key_values": {0: "batch", 2: "past"},
}


def built(name: str, **sizes: Any) -> Any:
    """A model of random weights by the name of its class, with the configuration that belongs to it."""
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    return kind(kind.config_class(**sizes)).eval()


def llama() -> Any:
    return built("LlamaForCausalLM", **SIZES)


def ids(rows: int, length: int) -> Any:
    return torch.randint(2, 60, (rows, length), generator=torch.Generator().manual_seed(rows + length))


def encoder_decoder(name: str, **sizes: Any) -> Callable[[], Any]:
    return lambda: built(name, vocab_size=60, pad_token_id=0, eos_token_id=None, decoder_start_token_id=1, **sizes)


T5 = encoder_decoder("T5ForConditionalGeneration", d_model=16, d_kv=4, d_ff=24, num_layers=2, num_heads=4)
WHISPER_SIZES = {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("layers", "attention_heads")}
WHISPER = encoder_decoder(
    "WhisperForConditionalGeneration",
    d_model=16,
    encoder_ffn_dim=24,
    decoder_ffn_dim=24,
    num_mel_bins=8,
    max_source_positions=10,
    bos_token_id=1,
    **WHISPER_SIZES,
)
GPT2 = {"vocab_size": 60, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1}


@pytest.mark.parametrize(
    ("model", "inputs", "last"),
    [
        (llama, (ids(2, 5),), "present.1.value"),
        (lambda: built("GPT2LMHeadModel", **GPT2, eos_token_id=None), (ids(2, 5),), "present.1.value"),
        (lambda: built("MixtralForCausalLM", **SIZES, num_local_experts=4), (ids(2, 5),), "present.1.value"),
        (lambda: built("BertModel", **SIZES), (ids(2, 5),), "pooler_output"),
        (T5, {"input_ids": ids(2, 5), "decoder_input_ids": ids(2, 3)}, "encoder_last_hidden_state"),
        (
            WHISPER,
            {"input_features": torch.zeros(2, 8, 20), "decoder_input_ids": ids(2, 3)},
            "encoder_last_hidden_state",
        ),
        (
            lambda: built("MambaForCausalLM", vocab_size=60, hidden_size=16, num_hidden_layers=2, state_size=4),
            (ids(2, 5),),
            "present.1.recurrent_state",
        ),
    ],
    ids="llama gpt2 mixtral bert t5 whisper mamba".split(),
)
def test_a_model_as_it_is_written_converts(model: Callable[[], Any], inputs: Any, last: str) -> None:
    made = onnxport.convert(model(), inputs=inputs)
    assert made.report.verdict == "passed", made.report
    assert made.output_names[-1] == last
    assert not any(name.endswith(("_1", ".updated")) for name in made.output_names)


def past_of(model: Any, rows: int, length: int) -> Any:
    """The cache that the model fills with a prompt; empty keys for a length of 0."""
    cache = transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids(rows, max(length, 1)), past_key_values=cache)
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[:, :, :length], layer.values[:, :, :length]
    return cache


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, onnxruntime.InferenceSession]:
    """A Llama, and the file of its step with a cache as onnxruntime runs it."""
    model = llama()
    step = {
        "input_ids": ids(2, 3),
        "attention_mask": torch.ones(2, 7, dtype=torch.int64),
        "position_ids": torch.arange(4, 7).repeat(2, 1),
        "past_key_values": past_of(model, 2, 4),
    }
    made = onnxport.convert(model, inputs=step, dynamic_shapes=STEP)
    assert made.report.verdict == "passed", made.report
    path = tmp_path_factory.mktemp("decoder") / "model.onnx"
    made.save(path)
    return model, onnxruntime.InferenceSession(path)


def generated(model: Any, prompt: Any, mask: Any, count: int) -> np.ndarray:
    return model.generate(prompt, attention_mask=mask, max_new_tokens=count, do_sample=False)[
        :, prompt.shape[1] :
    ].numpy()


@pytest.mark.parametrize("rows", [1, 3])
def test_greedy_decoding_gives_the_tokens_of_generate(decoder: Any, rows: int) -> None:
    model, session = decoder
    prompt, mask = ids(rows, 5), torch.ones(rows, 5, dtype=torch.int64)
    np.testing.assert_array_equal(decoded(session, prompt, mask, 8), generated(model, prompt, mask, 8))


def test_a_prompt_padded_at_the_left(decoder: Any) -> None:
    model, session = decoder
    prompt, mask = ids(2, 5), torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    prompt = torch.where(mask == 1, prompt, 0)
    np.testing.assert_array_equal(decoded(session, prompt, mask, 6), generated(model, prompt, mask, 6))


@pytest.mark.parametrize("length", [0, 1, 9])
def test_any_length_of_the_past_gives_the_models_own_numbers(decoder: Any, length: int) -> None:
    model, session = decoder
    cache = past_of(model, 2, length)
    feeds = {"input_ids": ids(2, 2).numpy(), "attention_mask": np.ones((2, length + 2), np.int64)}
    feeds["position_ids"] = np.arange(length, length + 2).reshape(1, 2).repeat(2, 0)
    for place, layer in enumerate(cache.layers):
        feeds[f"past_key_values.{place}.key"] = layer.keys.numpy()
        feeds[f"past_key_values.{place}.value"] = layer.values.numpy()
    with torch.no_grad():
        expected = model(ids(2, 2), past_key_values=cache).logits
    np.testing.assert_allclose(session.run(["logits"], feeds)[0], expected, atol=1e-5)


def mamba_state() -> tuple[Any, dict[str, Any]]:
    model = built("MambaForCausalLM", vocab_size=60, hidden_size=16, num_hidden_layers=2, state_size=4)
    with torch.no_grad():
        state = model(ids(2, 6)).cache_params
    return model, {"input_ids": ids(2, 1), "cache_params": state}


def static_cache() -> tuple[Any, dict[str, Any]]:
    model = llama()
    cache = transformers.StaticCache(config=model.config, max_cache_len=12)
    with torch.no_grad():
        model(ids(2, 5), past_key_values=cache)
    return model, {"input_ids": ids(2, 1), "past_key_values": cache}


def window(length: int) -> tuple[Any, dict[str, Any]]:
    model = built("MistralForCausalLM", **SIZES, sliding_window=6)
    cache = transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids(2, length), past_key_values=cache)
    return model, {"input_ids": ids(2, 2), "past_key_values": cache}


def seq2seq() -> tuple[Any, dict[str, Any]]:
    model = T5()
    with torch.no_grad():
        first = model(input_ids=ids(2, 5), decoder_input_ids=ids(2, 3))
    step = {"encoder_outputs": (first.encoder_last_hidden_state,), "decoder_input_ids": ids(2, 1)}
    return model, {**step, "past_key_values": first.past_key_values}


@pytest.mark.parametrize(
    ("case", "first"),
    [
        (mamba_state, "cache_params.0.conv_state"),
        (static_cache, "past_key_values.0.key"),
        (lambda: window(3), "past_key_values.0.key"),
        (seq2seq, "past_key_values.0.decoder.key"),
    ],
    ids="mamba static window t5".split(),
)
def test_a_cache_comes_in_and_goes_out_by_name(case: Callable[[], Any], first: str) -> None:
    model, inputs = case()
    before = [leaf.clone() for leaf in tensors(inputs)]
    made = onnxport.convert(model, inputs=inputs)
    assert made.report.verdict == "passed", made.report
    assert first in made.input_names
    past = [name.partition(".")[2] for name in made.input_names if name.startswith(first.split(".")[0] + ".")]
    assert [f"present.{name}" for name in past] == [name for name in made.output_names if name.startswith("present.")]
    assert not any(name.endswith(".updated") for name in made.output_names)
    after = tensors(inputs)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True)), "the user's cache was written to"


def tensors(item: Any) -> list[Any]:
    """Every tensor in nested containers and objects, in order."""
    if isinstance(item, torch.Tensor):
        return [item]
    if isinstance(item, dict):
        return [leaf for child in item.values() for leaf in tensors(child)]
    if isinstance(item, (list, tuple)):
        return [leaf for child in item for leaf in tensors(child)]
    own = vars(item) if type(item).__module__.startswith("transformers.") else {}
    return [leaf for child in own.values() for leaf in tensors(child)]


def test_a_window_that_is_full_is_refused_by_name() -> None:
    model, inputs = window(8)
    with pytest.raises(InvalidInputError, match=r"DynamicCache: cumulative_length is 8"):
        onnxport.convert(model, inputs=inputs)


@pytest.fixture
def registered() -> Iterator[None]:
    """As transformers' own help for torch.export leaves the process."""
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    register_dynamic_cache_export_support()
    yield
    torch.utils._pytree._deregister_pytree_node(transformers.DynamicCache)


@pytest.mark.usefixtures("registered")
def test_the_names_are_the_same_where_the_user_has_registered_the_class() -> None:
    model = llama()
    made = onnxport.convert(model, inputs={"input_ids": ids(2, 3), "past_key_values": past_of(model, 2, 4)})
    assert {name for name in made.input_names if "." in name} == {
        f"past_key_values.{layer}.{what}" for layer in (0, 1) for what in ("key", "value")
    }
    assert transformers.DynamicCache in torch.utils._pytree.SUPPORTED_NODES


def test_the_classes_are_known_only_while_a_conversion_runs() -> None:
    onnxport.convert(llama(), inputs=(ids(2, 3),), validate=False)
    assert pytorch_caches.kinds()
    assert not any(kind in torch.utils._pytree.SUPPORTED_NODES for kind in pytorch_caches.kinds())


def test_an_encoders_length_has_a_name_of_its_own() -> None:
    model, inputs = seq2seq()
    shapes = {
        "encoder_outputs": [{0: "batch", 1: "source"}],
        "decoder_input_ids": {0: "batch"},
        "past_key_values": {0: "batch", 2: "past"},
    }
    made = onnxport.convert(model, inputs=inputs, dynamic_shapes=shapes)
    assert made.report.verdict == "passed", made.report
    dims = {value.name: [str(dim) for dim in value.shape] for value in made.model.graph.inputs}
    assert dims["past_key_values.0.decoder.key"][2] == "past"
    assert dims["past_key_values.0.encoder.key"][2] == "source"


def test_the_keys_of_an_index_are_as_long_as_the_cache() -> None:
    axes = {0: "batch", 1: "heads", 2: "past"}
    assert pytorch_caches.of_cache("past_key_values.0.indexer_keys", axes, 3) == {0: "batch", 1: "past"}
    assert pytorch_caches.of_cache("past_key_values.0.conv_state", axes, 3) == {0: "batch"}


def test_what_a_model_gives_on_request_is_given() -> None:
    """By a keyword that its forward does not name."""
    sizes = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
    net = transformers.BertModel(transformers.BertConfig(**sizes, intermediate_size=24)).eval()
    inputs = {"input_ids": torch.randint(3, 60, (2, 5)), "output_hidden_states": True}
    model = onnxport.convert(net, inputs=inputs)
    assert model.report.verdict == "passed"
    assert model.output_names == ["last_hidden_state", "pooler_output", *(f"hidden_states.{i}" for i in range(3))]


def test_frequencies_that_go_by_the_length_are_no_state() -> None:
    """Phi-3's LongRoPE writes them to a buffer in each call, before it reads it."""
    rotary = {"rope_type": "longrope", "short_factor": [1.0] * 2, "long_factor": [2.0] * 2, "rope_theta": 1e4}
    sizes = SIZES | {"original_max_position_embeddings": 8}
    net = transformers.Phi3ForCausalLM(transformers.Phi3Config(**sizes, rope_parameters=rotary)).eval()
    inputs = {"input_ids": torch.randint(3, 60, (2, 5)), "use_cache": False}
    model = onnxport.convert(net, inputs=inputs, dynamic_shapes={"input_ids": {0: "batch", 1: "length"}})
    session = onnxruntime.InferenceSession(model.proto.SerializeToString())
    for length in (4, 8, 9, 20):
        tokens = torch.randint(3, 60, (1, length))
        with torch.no_grad():
            expected = net(tokens).logits.numpy()
        np.testing.assert_allclose(session.run(None, {"input_ids": tokens.numpy()})[0], expected, atol=1e-5)
