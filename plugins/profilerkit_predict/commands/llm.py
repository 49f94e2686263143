"""``profilerkit llm MODEL...``: the command line of `profilerkit.llm`.

Each option has the name of a parameter of `llm`, which gets its value: ``--cache-dtype`` is ``cache_dtype``. Two
options belong to the command itself: ``--format`` and ``--output``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from profilerkit.cli import USAGE, fail
from profilerkit.cli.option_values import check_batch_sizes, make_callback, require_suffix
from profilerkit.cli.options import console_or_json, output_option, trust_option
from profilerkit.errors import ArgumentError, DeviceNotKnownError, InputError, NotOfferedError

from .results import save_and_print

_count = partial(click.option, type=click.IntRange(min=1), show_default=True)


def _read_several(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> str | list[str] | None:
    """Return the values of an option that may be repeated, or hold several: ``h100,a100-80``.

    As `llm` takes them: several are a list, a single one is a text, and None stands for an option that was not given.
    """
    names = [item.strip() for value in values for item in value.split(",") if item.strip()]
    if not names:
        return None
    return names if len(names) > 1 else names[0]


_several = partial(click.option, multiple=True, callback=_read_several)


@click.command("llm")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
# The served requests.
@_count("--prompt", help="Tokens of each prompt.  [default: 2048, or what the model takes]")
@_count("--new", help="Tokens to generate for each.  [default: 256, or what the model takes]")
@click.option(
    "--batch",
    default="1",
    show_default=True,
    callback=make_callback(check_batch_sizes),
    help="Sequences at once; several: 1,8,32.",
)
# Devices and formats.
@_several("--device", help="A device of 'profilerkit devices', or several: h100,a100-80.")
@_several("--dtype", help="The dtype of activations and cache: bf16, fp16, fp32; or several.")
@_several("--weights", help="The format of the matrices: bf16, fp8, mxfp8, int8, int4, mxfp4, nf4, nvfp4; or several.")
@click.option("--cache-dtype", help="The format of keys and values in the cache: bf16, fp8, int8, nvfp4.")
# Tokens that are drafted for each step.
@_count("--draft-tokens", help="Tokens that are drafted for each step, with --acceptance.")
@click.option("--acceptance", type=click.FloatRange(0, 1), help="Share of drafted tokens that is accepted.")
@click.option("--draft", help="What drafts: a model, mtp for own layers, or a number of parameters.")
# Inputs besides text, and arrivals.
@_count("--images", help="Images that each prompt has besides text.")
@click.option("--image-size", help="Their width and height: 1024x768.  [default: that of the configuration]")
@_count("--audio", help="Clips of sound that each prompt has besides text.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Requests that arrive in a second, at random.")
# Several devices, and the engine that serves.
@_count("--devices", default=1, help="Devices that share the model, by default as tp.")
@click.option("--parallel", help="How devices share the model: tp8, or 'tp4,pp2', or 'dp8,ep8'.")
@_count("--shared-prefix", help="Tokens at the start of all prompts that are the same.")
@_count("--lora-rank", help="The rank of adapters (LoRA) beside the weights.")
@_count("--lora-adapters", help="How many different adapters are resident.  [default: 1]")
@click.option("--lora-targets", help="Matrices that adapters change: q_proj,v_proj.  [default: all but the head]")
@click.option("--engine", help="Whose rules of the cache hold, and defaults: vllm, sglang, tensorrt-llm.")
@_count("--block-size", help="Tokens in a block of the paged cache.  [default: 16, or the engine's]")
@_count("--prefill-tokens", default=8192, help="Most tokens in one pass over prompts; sets the memory of activations.")
@click.option(
    "--reserve",
    type=click.FloatRange(0, 1, max_open=True),
    help="Share of a device's memory that is left free.  [default: 0.1, or the engine's]",
)
# Real runs, and the command itself.
@click.option("--measure", is_flag=True, help="Also generate with the model, and measure the time of each token.")
@trust_option
@console_or_json
@output_option("Also write a file: .json, .txt or .html.", require_suffix(".json", ".txt", ".html"))
def command(models: tuple[str, ...], form: str, output: Path | None, **options: Any) -> None:
    """Predict the memory and time that serving a language model needs.

    MODEL names a language model, such as hf:llama, or a folder with its configuration, or a GGUF file, whose header
    alone is read; weights are not needed. Several models, devices, dtypes or formats are compared.
    """
    from ..language_models import llm

    try:
        result = llm(*models, **options)
    except (ArgumentError, DeviceNotKnownError, InputError, NotOfferedError) as error:
        fail(str(error), USAGE, error)
    save_and_print(result, output, form)
