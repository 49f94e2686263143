"""The command line: ``profilerkit``, with the commands that plugins offer."""

from __future__ import annotations

import io
import sys
from typing import Any

import click

from ..errors import ProfilerKitError
from ..hooks.manager import limit_to_own_plugins
from ..process.containment import collect_notes, describe_origin
from .group import CommandGroup
from .printing import INTERRUPTED, MODEL_FAILED, NOT_KEPT, USAGE, emit, fail, print_warnings_in_a_line, say
from .quiet_imports import keep_frameworks_quiet

__all__ = ["INTERRUPTED", "MODEL_FAILED", "NOT_KEPT", "USAGE", "cli", "emit", "fail", "main", "say"]

#: How a shell learns to complete commands, options, metrics, formats and the names of models.
_COMPLETION = """\b
Completion in bash; zsh_source and fish_source for the other shells:
  eval "$(_PROFILERKIT_COMPLETE=bash_source profilerkit)"
"""


def _use_own_plugins(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.with_resource(limit_to_own_plugins())


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_COMPLETION)
@click.version_option(package_name="profilerkit", prog_name="profilerkit")
@click.option(
    "--no-plugins",
    is_flag=True,
    is_eager=True,  # before a command is looked up
    expose_value=False,
    callback=_use_own_plugins,
    help="Ignore the plugins of other packages.",
)
@click.option("--traceback", "traced", is_flag=True, help="Show the Python traceback of an error.")
def cli(traced: bool) -> None:
    """Report the cost of a neural network: parameters, size, MACs, FLOPs, memory, time."""


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; results go to standard output; errors, progress and models' output to standard error.

    Without ``arguments`` it uses the arguments of the process, and keeps standard output for results until the process
    ends.

    Exit codes: 0 fine, 1 a budget or ``--strict`` is not kept, 2 usage, 3 the model could not be profiled, 130
    interrupted.
    """
    if sys.stderr is None:  # pythonw, or a closed descriptor
        sys.stderr = io.StringIO()
    has_own_process = arguments is None
    try:
        with print_warnings_in_a_line():
            if has_own_process:
                keep_frameworks_quiet()
            result = cli(args=arguments, standalone_mode=False, obj=has_own_process)
            sys.exit(result if isinstance(result, int) else 0)
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)
        say(message.getvalue().rstrip("\n"))
        sys.exit(error.exit_code)
    except ProfilerKitError as error:
        fail(str(error), MODEL_FAILED, error)
    except (click.Abort, KeyboardInterrupt) as error:
        say("\nInterrupted: nothing was written.")
        for note in collect_notes(error):  # whose code it was that was waited for
            say(f"{note[:1].upper()}{note[1:]}.")
        sys.exit(INTERRUPTED)
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        fail(f"{where}{error.strerror or str(error) or type(error).__name__}", MODEL_FAILED, error)
    except MemoryError as error:
        fail(f"this process is out of memory{f': {error}' if str(error) else ''}", MODEL_FAILED, error)
    except Exception as error:
        origin = describe_origin(error) or "this is a mistake of profilerkit or a plugin"
        fail(f"{type(error).__name__}: {error}; {origin}; --traceback shows where", MODEL_FAILED, error)
