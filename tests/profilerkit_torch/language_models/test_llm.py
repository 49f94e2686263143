"""``llm`` over tiny models: what it refuses, what it leaves as it was, what it measures, and its forms."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny_language_models import tiny_config, tiny_llama
from toy_language_model import DEVICE

import profilerkit
from profilerkit import ArgumentError, InputError, WithoutValuesError, llm
from profilerkit_predict.language_models import LanguageModelComparison
from profilerkit_predict.language_models.report.notes import ASSUMPTIONS
from profilerkit_torch.backend import TorchBackend
from profilerkit_torch.language_models.calls import find_cache

transformers = pytest.importorskip("transformers")
#: Multiply-accumulates of a token, by hand: queries, keys and values, output, and three of the feed-forward part.
TOKEN, HEAD, PAIR = 2 * (32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 48), 32 * 40, 2 * 2 * 32


def count_passes(report: Any) -> tuple[int, int]:
    return report.facts.traced.prefill.macs, report.facts.traced.decode.macs


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_model_with_values_and_its_configuration_count_alike(attention: str) -> None:
    model = tiny_llama(attn_implementation=attention)
    expected = (10 * TOKEN + HEAD + 100 * PAIR, TOKEN + HEAD + 11 * PAIR)
    for subject in (model, tiny_config(attn_implementation=attention)):
        report: Any = llm(subject, prompt=10, new=4)
        assert count_passes(report) == expected
        assert report.facts.execution.attention == attention
        assert str(report.facts.execution).startswith(f"as written (transformers {transformers.__version__}")


def test_a_drafter_is_trusted_like_the_model(tmp_path: Path) -> None:
    path = tmp_path / "draft.pt"
    torch.save(tiny_llama(), path)
    options: Any = {"prompt": 10, "new": 4, "draft_tokens": 2, "acceptance": 0.5, "draft": str(path)}
    with pytest.raises(profilerkit.ProfilerKitError, match="trust"):
        llm(tiny_config(), **options)
    drafted: Any = llm(tiny_config(), trust=True, **options)
    assert drafted.speculation.drafter.facts.parameters == drafted.facts.parameters


def test_the_model_comes_back_as_it_was() -> None:
    model = tiny_llama()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    flags = [module.training for module in model.modules()]
    llm(model, prompt=10, new=4, measure=True, repetitions=1)
    assert [module.training for module in model.modules()] == flags
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.device.type == "cpu" for parameter in model.parameters())


def test_another_dtype_is_that_of_weights_and_cache() -> None:
    model = tiny_llama()
    full: Any = llm(model, prompt=10, new=4)
    half: Any = llm(model, prompt=10, new=4, dtype="bf16")
    assert (full.facts.dtype, half.facts.dtype) == ("float32", "bfloat16")
    assert full.kv_bytes(10).logical == 2 * half.kv_bytes(10).logical == 2 * 10 * 2 * 2 * 16 * 2
    assert full.kv_bytes_per_token(10) == 256


def test_what_it_was_traced_under_is_noted() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        under: Any = llm(tiny_llama(), prompt=10, new=4)
    assert "made under autocast of cpu to torch.bfloat16" in under.facts.notes


def test_measured_tokens_stand_beside_the_prediction() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        report: Any = llm(tiny_llama(), prompt=10, new=4, batch=2, measure=True, repetitions=2)
    finally:
        torch.set_num_threads(threads)
    tokens = report.measured
    assert [len(run) for run in tokens.runs] == [4, 4]
    assert all(seconds > 0 for run in tokens.runs for seconds in run)
    assert len(tokens.time_to_first_token.samples) == 2
    assert len(tokens.time_per_output_token.samples) == 6
    assert tokens.cache_bytes == report.kv_bytes(13, 2).logical  # the last token is not in the cache
    assert "measured on cpu in float32, batch 2, 2 repetitions of 4 tokens" in str(report)


def test_tokens_are_timed_one_by_one() -> None:
    from profilerkit_torch.language_models.generation import generate

    times = iter(range(1000))
    tokens = generate(tiny_llama(), 5, 3, 1, 2, clock=lambda: float(next(times)))
    assert tokens.runs == ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0))


def test_an_encoder_decoder_has_its_limit_for_the_prompt_and_for_the_new_tokens() -> None:
    """Of 32 positions the prompt takes 30; the decoder takes 9, the token that it begins with and eight new ones."""
    from profilerkit_torch.language_models.generation import generate

    sizes = {
        f"{part}_{name}": size for part in ("encoder", "decoder") for name, size in (("layers", 1), ("ffn_dim", 16))
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = transformers.BartConfig(vocab_size=64, d_model=16, max_position_embeddings=32, **sizes, **heads)
    model = transformers.BartForConditionalGeneration(config)
    assert [len(seconds) for seconds in generate(model, 30, 8, 1, 1).runs] == [8]
    with pytest.raises(InputError, match="prompt is 33 tokens: BartForConditionalGeneration takes 32"):
        generate(model, 33, 8, 1, 1)
    with pytest.raises(InputError, match="new is 33 tokens with the one that they begin with"):
        generate(model, 3, 32, 1, 1)


def test_the_time_of_a_token_is_without_the_search_for_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    from profilerkit_torch.language_models import generation

    now = [0.0]

    def search_long(model: Any, outputs: Any) -> Any:
        now[0] += 100
        return find_cache(model, outputs)

    monkeypatch.setattr(generation, "find_cache", search_long)
    assert generation.generate(tiny_llama(), 5, 3, 1, 1, clock=lambda: now[0]).runs == ((0.0, 0.0, 0.0),)


def test_an_encoder_decoder_generates() -> None:
    config = transformers.T5Config(num_layers=1, d_model=16, d_ff=16, d_kv=8, num_heads=2, vocab_size=30)
    report: Any = llm(transformers.T5ForConditionalGeneration(config), prompt=6, new=3, measure=True, repetitions=1)
    assert len(report.measured.runs[0]) == 3
    assert report.facts.is_encoder_decoder
    # Bytes of float32 for keys and values of one layer: six tokens of the prompt, and three of the decoder.
    assert report.measured.cache_bytes == 2 * 16 * 4 * (6 + 3)


def test_models_devices_and_formats_are_compared() -> None:
    result = llm(
        tiny_config(), tiny_config(num_hidden_layers=1), prompt=8, new=2, device=DEVICE, weights=("bf16", "int4")
    )
    assert isinstance(result, LanguageModelComparison)
    assert [report.weights for report in result.reports] == ["bfloat16", "int4"] * 2
    lines = str(result).splitlines()
    rows = [line.split() for line in lines if line.startswith("LlamaForCausalLM")]
    assert [row[1:3] for row in rows] == [["bfloat16,", "float32"], ["int4,", "float32"]] * 2
    assert f"{DEVICE.name}, batch 1" in lines[0], "what all rows share stands in the title"
    notes = [line for line in lines if line.startswith("- ")]
    assert len(notes) == len(ASSUMPTIONS) + 3, "notes that all have stand once: of bounds, of float32, and of no times"
    assert notes[-1] == "- toy has no peak for float32 or no bandwidth: no times follow"
    assert json.loads(json.dumps(result.to_dict()))["kind"] == "language models"


def test_the_dictionary_has_base_units(tmp_path: Any) -> None:
    report: Any = llm(tiny_config(), prompt=8, new=2, batch=(1, 4), device=DEVICE, dtype="bf16")
    path = tmp_path / "report.json"
    report.save(path)
    values = json.loads(path.read_text())
    assert values["as_written"]["prefill"]["macs"] == 8 * TOKEN + HEAD + 64 * PAIR
    rows = values["engine"]["serving"]
    assert [row["batch"] for row in rows] == [1, 4]
    assert rows[0]["prefill"]["macs"] == 8 * TOKEN + HEAD + 36 * PAIR
    assert rows[0]["time_to_first_token"] == rows[0]["prefill"]["seconds"]
    assert values["engine"]["fits"][0]["memory"]["capacity"] == 10**6


def test_weights_of_8_bits_are_bound_by_the_peak_of_8_bits() -> None:
    report: Any = llm(tiny_config(), prompt=8, new=2, device=DEVICE, dtype="bf16", weights="fp8")
    step = report.cost(1, 8)
    assert step.compute_seconds == 2 * step.macs / 2e12


def test_a_model_that_does_not_fit_says_so() -> None:
    config = tiny_config(vocab_size=40_000)
    text = str(llm(config, prompt=8, new=2, device=DEVICE, dtype="bf16"))
    assert "batch 1 does not fit on 1 device, and needs" in text


@pytest.mark.parametrize(("dtype", "is_noted"), [("fp32", True), ("bf16", False)])
def test_activations_of_float32_are_noted(dtype: str, is_noted: bool) -> None:
    text = str(llm(tiny_config(), prompt=8, new=2, device=DEVICE, dtype=dtype))
    assert ("- activations and cache count in float32; engines serve" in " ".join(text.split())) == is_noted


def test_a_cache_of_fp8_is_not_said_to_count_in_float32() -> None:
    text = " ".join(str(llm(tiny_config(), prompt=8, new=2, device=DEVICE, dtype="fp32", cache_dtype="fp8")).split())
    assert "- activations count in float32; engines serve" in text


def test_a_short_prompt_is_traced_with_more_tokens() -> None:
    report: Any = llm(tiny_config(), prompt=1, new=2)
    assert "traced with a prompt of 4 tokens" in report.facts.notes[0]
    assert report.serving[0].prefill.macs == TOKEN + HEAD + PAIR


NO_TEXT = "is not a model that generates text:"
ENCODER = f"{NO_TEXT} it is an encoder, which has no cache and generates no tokens"


def list_refused() -> list[tuple[str, Any, str]]:
    bert = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    bert_config = transformers.BertConfig(**bert, intermediate_size=32)
    return [
        ("configuration of an encoder", lambda: llm(bert_config, prompt=8, new=2), f"BertConfig {ENCODER}"),
        (
            "encoder",
            lambda: llm(transformers.BertForMaskedLM(bert_config), prompt=8, new=2),
            f"BertConfig {ENCODER}",
        ),
        (
            "a vision model",
            lambda: llm(transformers.ViTConfig(num_hidden_layers=1), prompt=8, new=2),
            f"ViTConfig {NO_TEXT} transformers has no language model for it. llm predicts causal language models",
        ),
        (
            "no head",
            lambda: llm(transformers.LlamaModel(tiny_config()), prompt=8, new=2),
            f"LlamaModel {NO_TEXT} it has no head for language, and generates no tokens",
        ),
        (
            "above the maximum",
            lambda: llm(tiny_config(), prompt=60, new=5),
            "prompt 60 + new 5 = 65 tokens are more than the 64 that LlamaConfig takes",
        ),
        (
            "a cache above the maximum",
            lambda: profilerkit.kv_bytes(tiny_config(), 65),
            "the context = 65 tokens are more than the 64 that LlamaConfig takes",
        ),
        ("no model of transformers", lambda: llm(torch.nn.Linear(2, 2)), "Linear is not a model of transformers"),
        ("values", lambda: llm(tiny_config(), prompt=8, new=2, measure=True), "a model of transformers with values"),
    ]


@pytest.mark.parametrize("index", range(8), ids=lambda index: list_refused()[index][0])
def test_what_is_refused_says_why(index: int) -> None:
    _, call, message = list_refused()[index]
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)


def test_a_model_that_returns_no_cache_is_an_error() -> None:
    class Forgetful(transformers.LlamaForCausalLM):  # type: ignore[misc,name-defined]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            outputs = super().forward(*args, **kwargs)
            outputs.past_key_values = None
            return outputs

    with pytest.raises(InputError, match="Forgetful returned no cache although use_cache=True was given"):
        llm(Forgetful(tiny_config()), prompt=8, new=2)


def test_the_usual_lengths_are_those_that_a_model_takes() -> None:
    """It takes 64 tokens: an eighth of them is new. What is given stays, and the rest follows."""
    config = tiny_config()
    chosen: list[tuple[int, int]] = []
    for prompt, new in ((None, None), (60, None), (None, 50)):
        report: Any = llm(config, prompt=prompt, new=new)
        chosen.append((report.prompt, report.new))
    assert chosen == [(56, 8), (60, 4), (14, 50)]
    with pytest.raises(InputError, match=r"give a shorter prompt \(prompt=, --prompt\) or fewer new tokens"):
        llm(config, prompt=64)
    rows = str(llm(config, tiny_config(max_position_embeddings=128)))
    assert "LlamaForCausalLM (56 + 8 tokens) " in rows
    assert "LlamaForCausalLM (112 + 16 tokens) " in rows


def test_a_folder_needs_no_prefix(tmp_path: Any) -> None:
    tiny_config().save_pretrained(tmp_path)
    report: Any = llm(str(tmp_path))
    assert report.facts.traced.prefill.macs == 56 * TOKEN + HEAD + 56 * 56 * PAIR
    (tmp_path / "config.json").unlink()
    with pytest.raises(InputError, match=r"the folder .* has no config.json; give a folder that has one, hf:NAME or a"):
        llm(str(tmp_path))


@pytest.mark.parametrize("name", ["past_key_values", "cache", "state", "a name of the next release"])
def test_a_cache_is_what_a_model_returns_and_takes_whatever_its_name(name: str) -> None:
    names = ["input_ids", "attention_mask", "image_hidden_states", name.replace(" ", "_")]

    def forward(**inputs: Any) -> None: ...

    parameters = [inspect.Parameter(parameter, inspect.Parameter.KEYWORD_ONLY) for parameter in names]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    mask, kept = torch.ones(1), [torch.ones(2)]
    outputs = {"logits": mask, "attention_mask": mask, "image_hidden_states": (mask,), "other": kept, names[-1]: kept}
    found = find_cache(SimpleNamespace(forward=forward), outputs)
    assert found == (names[-1], kept)


class Slotted:
    """A cache without ``__dict__``."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content

    def open(self) -> Any:
        return self.content


class Opaque(Slotted):
    """A cache of which nothing can be seen."""

    def __init__(self, content: Any) -> None:
        self.content = lambda: content

    def open(self) -> Any:
        return self.content()


@pytest.mark.parametrize("kind", [Slotted, Opaque])
def test_a_cache_is_never_nothing_because_it_is_not_seen(kind: Any) -> None:
    class Wrapping(transformers.LlamaForCausalLM):  # type: ignore[misc,name-defined]
        def forward(self, input_ids: Any = None, past_key_values: Any = None, **options: Any) -> Any:
            cache = None if past_key_values is None else past_key_values.open()
            outputs = super().forward(input_ids=input_ids, past_key_values=cache, **options)
            outputs.past_key_values = kind(outputs.past_key_values)
            return outputs

    if kind is Slotted:
        report: Any = llm(Wrapping(tiny_config()), prompt=10, new=4)
        assert report.kv_bytes(10).logical == 10 * 2 * 2 * 2 * 8 * 4  # two layers, keys and values, two heads of 8
    else:
        with pytest.raises(InputError, match="Wrapping returned a cache in which no tensor is found: Opaque"):
            llm(Wrapping(tiny_config()), prompt=10, new=4)


@pytest.mark.parametrize(
    ("kind", "options", "reductions"),
    [
        ("LlamaConfig", {"num_attention_heads": 4, "intermediate_size": 64}, 2),
        ("CohereConfig", {"num_attention_heads": 4, "intermediate_size": 64}, 1),  # both parts at once
        ("Mamba2Config", {"num_heads": 8, "head_dim": 8, "n_groups": 1, "state_size": 16}, 1),  # one part
    ],
)
def test_devices_add_up_what_each_part_of_a_layer_makes(kind: str, options: dict[str, Any], reductions: int) -> None:
    """Two layers of width 32 in bfloat16, by a matrix of columns and one of rows each."""
    config = getattr(transformers, kind)(vocab_size=40, hidden_size=32, num_hidden_layers=2, **options)
    report: Any = llm(config, prompt=8, new=2, device="h100", devices=2, dtype="bf16")
    (sent,) = [term.amount for term in report.cost(1, 1, 8).terms if term.name == "all-reduce"]
    assert sent == 2 * reductions * 32 * 2


def test_a_model_that_cannot_be_followed_says_what_it_raised() -> None:
    """XLM takes positions out of a tensor that has no values here; torch has two errors for it."""
    config = transformers.XLMConfig(emb_dim=32, n_layers=1, n_heads=2, vocab_size=100)
    with pytest.raises(InputError) as caught:
        llm(config, prompt=16, new=4)
    assert str(caught.value).startswith("XLMWithLMHeadModel cannot be followed through a prompt of 16 tokens and ")
    raised = str(caught.value).partition(": it raised ")[2]
    assert raised in {
        "NotImplementedError: Cannot copy out of meta tensor; no data!",
        "RuntimeError: Tensor.item() cannot be called on meta tensors",
    }


def test_a_model_on_the_meta_device_is_not_measured() -> None:
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(tiny_config())
    with pytest.raises(WithoutValuesError):
        llm(model, prompt=8, new=2, measure=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": "int3"}, "dtype='int3': give float32, bfloat16, float16"),
        ({"weights": "int5"}, "weights='int5' is no format of weights"),
        ({"reserve": 1}, "reserve=1: give the share of memory that is left free, from 0 to below 1"),
        ({"prompt": 0}, "prompt=0: give a whole number from 1"),
        ({"new": 1.5}, "new=1.5: give a whole number from 1"),
        ({"batch": 0}, "batch=0: give a whole number from 1"),
        ({"batch": (1, 0)}, "batch=0: give a whole number from 1"),
        *(({name: ()}, f"{name} is empty: give one value") for name in ("batch", "device", "dtype", "weights")),
        ({"shared_prefix": 8}, "shared_prefix=8 (--shared-prefix) of prompts of 8 tokens: give fewer"),
    ],
)
def test_wrong_arguments_are_errors(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        llm(tiny_config(), **{"prompt": 8, "new": 2, **arguments})
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["prompt", "new", "batch", "repetitions"])
def test_a_generation_of_nothing_is_an_error(name: str) -> None:
    """Without new tokens it would never end."""
    arguments = {"prompt": 8, "new": 2, "batch": 1, "repetitions": 1, name: 0}
    with pytest.raises(ArgumentError, match=f"{name}=0: give a whole number from 1"):
        TorchBackend().generate(tiny_llama(), **arguments)


def test_no_model_and_a_name_for_several_are_errors() -> None:
    with pytest.raises(ArgumentError, match="llm\\(\\) needs a model"):
        llm()
    with pytest.raises(ArgumentError, match="name='x' was given for 2 models"):
        llm(tiny_config(), tiny_config(), name="x")


@pytest.mark.parametrize(
    "kind",
    [
        *("CLIPConfig", "CLIPTextConfig", "SiglipConfig", "ViTConfig", "ResNetConfig", "Dinov2Config", "DetrConfig"),
        *("Wav2Vec2Config", "HubertConfig", "ClapConfig", "BertConfig", "ElectraConfig", "DistilBertConfig"),
        *("BlipConfig", "VitsConfig", "PatchTSTConfig", "VisionTextDualEncoderConfig"),
    ],
)
def test_a_configuration_of_no_language_model_says_what_to_do(kind: str) -> None:
    config = getattr(transformers, kind)()
    with pytest.raises(InputError) as caught:
        llm(config, prompt=8, new=2)
    message = str(caught.value)
    assert message.startswith(f"{kind} {NO_TEXT} ")
    assert message.endswith(f"use profile(), or 'profilerkit profile hf:{config.model_type}'")


def test_the_encoder_belongs_to_the_pass_over_the_prompt() -> None:
    """A trace of each pass has the calls that were made in it: a prompt goes through an encoder once, a step not."""
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 100}
    report: Any = llm(transformers.T5Config(**sizes), prompt=8, new=4, dtype="bf16")
    prefill, decode = ({layer.path: len(layer.calls) for layer in trace.layers} for trace in report.facts.traced.traces)
    assert (prefill["encoder.block.1"], decode["encoder.block.1"]) == (1, 0)
    assert (prefill["decoder.block.1"], decode["decoder.block.1"]) == (1, 1)
