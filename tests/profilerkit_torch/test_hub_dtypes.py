"""The dtype of ``hf:FOLDER`` is the one that its config.json names, for all parts of the model and its inputs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from profilerkit import Completeness, InputError, llm, profile
from profilerkit.models.loaders import load_model
from profilerkit_torch.language_models.models import unify_dtype

transformers: Any = pytest.importorskip("transformers")

WIDTH, WORDS = 8, 20
SIZES = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": WIDTH}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": WORDS, **SIZES}
#: Words and head; queries, keys, values, their output, and three products of the MLP; three norms.
LLAMA_ELEMENTS = 2 * WORDS * WIDTH + 7 * WIDTH * WIDTH + 3 * WIDTH
VISION = {"model_type": "clip_vision_model", "image_size": 16, "patch_size": 8, "projection_dim": WIDTH, **SIZES}


def write(folder: Path, content: dict[str, Any]) -> str:
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return f"hf:{folder}"


def dtypes_in(model: torch.nn.Module) -> set[torch.dtype]:
    return {parameter.dtype for parameter in model.parameters()}


@pytest.mark.parametrize(
    ("named", "dtype"),
    [
        ({}, torch.float32),
        ({"dtype": None}, torch.float32),
        ({"dtype": "bfloat16"}, torch.bfloat16),
        ({"torch_dtype": "bfloat16"}, torch.bfloat16),
        ({"torch_dtype": "float16"}, torch.float16),
        ({"dtype": "float16", "torch_dtype": "bfloat16"}, torch.float16),
        ({"dtype": "float64"}, torch.float64),
    ],
)
def test_size_and_dtype_by_the_configuration(tmp_path: Path, named: dict[str, Any], dtype: torch.dtype) -> None:
    spec = write(tmp_path, {**LLAMA, **named})
    model = load_model(spec).model
    assert dtypes_in(model) == {dtype}
    tokens = torch.ones(1, 4, dtype=torch.int64)
    assert profile(model, tokens, metrics=["model_size"])["model_size"] == LLAMA_ELEMENTS * dtype.itemsize
    report: Any = llm(spec, prompt=4, new=2)
    assert report.facts.dtype == str(dtype).removeprefix("torch.")
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(
    ("whole", "text", "vision", "dtype"),
    [
        ("float16", "bfloat16", None, torch.float16),  # transformers loads a model in one dtype: that of the whole
        (None, "bfloat16", None, torch.bfloat16),
        (None, "bfloat16", "float16", torch.bfloat16),
        (None, None, "float16", torch.float16),
        (None, None, None, torch.float32),
        ({"": "bfloat16", "text_config": "float16"}, None, None, torch.bfloat16),
    ],
)
def test_all_parts_have_one_dtype(tmp_path: Path, whole: Any, text: Any, vision: Any, dtype: torch.dtype) -> None:
    parts = {"text_config": {**LLAMA, "dtype": text}, "vision_config": {**VISION, "dtype": vision}}
    content = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "image_token_index": 1}
    spec = write(tmp_path, {**content, **parts, "dtype": whole})
    assert dtypes_in(load_model(spec).model) == {dtype}


def test_the_configuration_of_the_caller_stays() -> None:
    config = transformers.LlamaConfig(**{**SIZES, "vocab_size": WORDS})
    before = copy.deepcopy(config.to_dict())
    assert unify_dtype(config, torch.bfloat16)[1] == torch.bfloat16
    llm(config, prompt=4, new=2, dtype="bf16")
    assert config.to_dict() == before


@pytest.mark.parametrize("name", ["auto", "torch.bfloat16", "bf16"])
def test_names_that_torch_does_not_have_are_said(tmp_path: Path, name: str) -> None:
    spec = write(tmp_path, {**LLAMA, "torch_dtype": name})
    with pytest.raises(InputError, match=f"cannot be read: AttributeError: module 'torch' has no attribute '{name}'"):
        load_model(spec)


@pytest.mark.parametrize("name", ["int8", "float8_e4m3fn"])
def test_dtypes_that_no_model_is_built_in_are_said(tmp_path: Path, name: str) -> None:
    spec = write(tmp_path, {**LLAMA, "dtype": name})
    with pytest.raises(InputError, match=rf"names the dtype '{name}', and models are built in float32, bfloat16, flo"):
        load_model(spec)
    with pytest.raises(InputError, match=f"names the dtype '{name}'"):
        llm(spec, prompt=4, new=2)


def test_inputs_have_the_dtype_of_the_model(tmp_path: Path) -> None:
    """A convolution over a spectrogram refuses one of another dtype than its weights."""
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    words = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    sizes = {"d_model": WIDTH, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "num_mel_bins": 4}
    places = {"max_source_positions": 10, "max_target_positions": 128}
    facts = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "torch_dtype": "float16"}
    loaded = load_model(write(tmp_path, {**facts, **heads, **words, **sizes, **places}))
    assert loaded.input_shape == {"input_features": ((4, 20), "float16"), "decoder_input_ids": ((128,), "int64")}
    report = profile(loaded.model, input_shape=loaded.input_shape, metrics=["macs"])
    assert report.status("macs").completeness is Completeness.COMPLETE


def test_weights_that_are_stored_quantized_are_noted(tmp_path: Path) -> None:
    stored = {"quant_method": "gptq", "bits": 4, "group_size": 8}
    spec = write(tmp_path, {**LLAMA, "dtype": "float16", "quantization_config": stored})
    report = profile(load_model(spec).model, torch.ones(1, 4, dtype=torch.int64), metrics=["model_size"])
    assert report["model_size"] == LLAMA_ELEMENTS * 2
    assert any("stored quantized (gptq); this model has them unquantized" in note for note in report.notes)
    of_language: Any = llm(spec, prompt=4, new=2)
    assert of_language.weights == "int4"
    assert not any("unquantized" in note for note in of_language.facts.notes), "llm counts the bytes that are stored"


class Configured(torch.nn.Linear):
    """A layer of the user's that has a configuration of the user's own."""

    def __init__(self, config: Any) -> None:
        super().__init__(4, 2)
        self._config = config

    @property
    def config(self) -> Any:
        if self._config is None:
            raise ValueError("it has no configuration yet")
        return self._config


@pytest.mark.parametrize(
    "config",
    [None, *(SimpleNamespace(quantization_config=value) for value in ("int8", 8, ["int8"], object(), {"bits": 4}))],
    ids=["raises", "a text", "a number", "a list", "an object", "no method"],
)
def test_a_configuration_of_the_user_s_own_is_not_taken_for_that_of_transformers(config: Any) -> None:
    report = profile(Configured(config), torch.ones(1, 4), metrics=["macs"], strict=True)
    assert report["macs"] == 4 * 2
    assert not any("quantized" in note for note in report.notes)
