"""``profilerkit llm MODEL...``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from profilerkit.cli import MODEL_FAILED, USAGE, emit, fail
from profilerkit.cli.options import console_or_json, output_option, parse_batch_sizes, require_writable, trust_option
from profilerkit.cli.output import cannot_write
from profilerkit.errors import ArgumentError, DeviceNotKnownError, InputError, NotOfferedError, ProfilerKitError
from profilerkit.process.files import write_text

if TYPE_CHECKING:
    from ..language_models import LanguageModelComparison, LanguageModelReport

__all__ = ["command"]

#: The form of a file by the end of its name.
_FORMS = {".json": "json", ".txt": "console", ".html": "html"}
_COUNT = click.IntRange(min=1)


def _several(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Any:
    """Return one text for ``h100``, several for ``h100,a100-80`` or for an option that is repeated; None for none."""
    names = [item.strip() for value in values for item in value.split(",") if item.strip()]
    return names if len(names) > 1 else next(iter(names), None)


def _writable(context: click.Context, parameter: click.Parameter, path: str | None) -> Path | None:
    target: Path | None = require_writable(context, parameter, path)
    if target is not None and target.suffix not in _FORMS:
        raise click.BadParameter(f"{target.name!r}: give a name that ends in .json, .txt or .html")
    return target


@click.command("llm")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option("--prompt", type=_COUNT, help="Tokens of each prompt.  [default: 2048, or what the model takes]")
@click.option("--new", type=_COUNT, help="Tokens to generate for each.  [default: 256, or what the model takes]")
@click.option(
    "--batch", default="1", show_default=True, callback=parse_batch_sizes, help="Sequences at once; several: 1,8,32."
)
@click.option(
    "--device", multiple=True, callback=_several, help="A device of 'profilerkit devices', or several: h100,a100-80."
)
@click.option(
    "--dtype",
    multiple=True,
    callback=_several,
    help="The dtype of activations and cache: bf16, fp16, fp32; or several.",
)
@click.option(
    "--weights",
    multiple=True,
    callback=_several,
    help="The format of the matrices: bf16, fp8, mxfp8, int8, int4, mxfp4, nf4, nvfp4; or several.",
)
@click.option("--cache-dtype", help="The format of keys and values in the cache: bf16, fp8, int8, nvfp4.")
@click.option("--draft-tokens", type=_COUNT, help="Tokens that are drafted for each step, with --acceptance.")
@click.option("--acceptance", type=click.FloatRange(0, 1), help="Share of drafted tokens that is accepted.")
@click.option("--draft", help="What drafts: a model, mtp for own layers, or a number of parameters.")
@click.option("--images", type=_COUNT, help="Images that each prompt has besides text.")
@click.option("--image-size", help="Their width and height: 1024x768.  [default: that of the configuration]")
@click.option("--audio", type=_COUNT, help="Clips of sound that each prompt has besides text.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Requests that arrive in a second, at random.")
@click.option(
    "--devices", type=_COUNT, default=1, show_default=True, help="Devices that share the model, by default as tp."
)
@click.option("--parallel", help="How devices share the model: tp8, or 'tp4,pp2', or 'dp8,ep8'.")
@click.option("--shared-prefix", type=_COUNT, help="Tokens at the start of all prompts that are the same.")
@click.option("--lora-rank", type=_COUNT, help="The rank of adapters (LoRA) beside the weights.")
@click.option("--lora-adapters", type=_COUNT, help="How many different adapters are resident.  [default: 1]")
@click.option("--lora-targets", help="Matrices that adapters change: q_proj,v_proj.  [default: all but the head]")
@click.option("--engine", help="Whose rules of the cache hold, and defaults: vllm, sglang, tensorrt-llm.")
@click.option("--block-size", type=_COUNT, help="Tokens in a block of the paged cache.  [default: 16, or the engine's]")
@click.option(
    "--prefill-tokens",
    type=_COUNT,
    default=8192,
    show_default=True,
    help="Most tokens in one pass over prompts; sets the memory of activations.",
)
@click.option(
    "--reserve",
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of a device's memory that is left free.  [default: 0.1, or the engine's]",
)
@click.option("--measure", is_flag=True, help="Also generate with the model, and measure the time of each token.")
@trust_option
@console_or_json
@output_option("Also write a file: .json, .txt or .html.", _writable)
def command(models: tuple[str, ...], form: str, output: Path | None, **options: Any) -> None:
    """Predict the memory and time that serving a language model needs.

    MODEL names a language model, such as hf:llama, or a folder with its configuration, or a GGUF file, whose header
    alone is read; weights are not needed. Several models, devices, dtypes or formats are compared.
    """
    result = _result(models, options)
    if output is not None:
        try:
            write_text(output, _text(result, _FORMS[output.suffix]) + "\n")
        except OSError as error:
            emit(_text(result, form))
            cannot_write(error)
    emit(_text(result, form))


def _text(result: LanguageModelReport | LanguageModelComparison, form: str) -> str:
    from ..language_models.text import json_text

    if form == "html":
        return result.to_html()
    return json_text(result.to_dict()) if form == "json" else result.to_text()


def _result(models: tuple[str, ...], options: dict[str, Any]) -> LanguageModelReport | LanguageModelComparison:
    from ..language_models import llm

    try:
        return llm(*models, **options)
    except (ArgumentError, DeviceNotKnownError, InputError, NotOfferedError) as error:
        fail(str(error), USAGE, error)
    except ProfilerKitError as error:
        fail(str(error), MODEL_FAILED, error)
