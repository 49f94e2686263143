"""The plugin of the core: it offers its renderers, loaders and status keys through the same hooks as any plugin.

Every command imports this file, so each hook imports by itself what only it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .hooks.infos import CommandInfo, LoaderInfo, RendererInfo, import_later
from .hookspecs import hookimpl

if TYPE_CHECKING:
    from .devices.info import DeviceInfo
    from .piping.status import StatusKey
    from .protocols import Capability


@hookimpl
def profilerkit_status_keys() -> list[type[StatusKey]]:
    """Return the status keys that every profiler computes on demand."""
    from .piping.intrinsic import INTRINSIC

    return [type(key) for function in INTRINSIC for key in function.list_keys()]


@hookimpl
def profilerkit_renderers() -> list[RendererInfo]:
    """Return the output forms of reports, each in a module of `profilerkit.render`."""
    texts = {
        "summary": ("render.summary:render", "what a model costs, and where"),
        "table": ("render.console:render", "a table of all values"),
        "json": ("results.saving:to_json", "all results, for other programs and for 'show'"),
        "markdown": ("render.markdown:render", "tables for a pull request"),
        "latex": ("render.latex:render", "booktabs tables for a paper"),
        "csv": ("render.csv:render", "a row for each metric, in base units"),
        "layers-csv": ("render.csv:render_layers", "a row for each layer, in base units"),
        "speedscope": ("render.speedscope:render", "times of layers for speedscope"),
        "chrome-trace": ("render.chrome_trace:render", "times of layers for Perfetto"),
        "model-explorer": (
            "render.model_explorer:render",
            "the work of each node of a file, for Google's Model Explorer",
        ),
        "tree": ("render.tree:render", "the layers as a tree, with their shares"),
        "depths": ("render.aggregates:by_depth", "the costliest types of layers at each depth"),
        "operators": ("render.aggregates:by_operator", "operators summed by name"),
    }
    objects = {
        "values": ("results.saving:to_dict", "values that JSON can hold"),
        "loaded": ("results.saving:load_as", "a result read from a file"),
        "rich": ("render.summary:summarize", "a summary that rich prints"),
        "tracker": ("render.trackers:log", "numbers and tables in an experiment tracker"),
    }
    return [
        RendererInfo(name, import_later(f"profilerkit.{path}"), description, is_text=name in texts)
        for name, (path, description) in {**texts, **objects}.items()
    ]


@hookimpl
def profilerkit_protocols() -> Sequence[Capability]:
    """Return the capabilities that the core and its metrics ask backends for."""
    protocols: Sequence[Capability] = import_later("profilerkit.protocols:CAPABILITIES")()
    return protocols


@hookimpl
def profilerkit_model_loaders() -> list[LoaderInfo]:
    """Return the loaders of models in modules and in Python files."""
    from .models.python_loaders import is_in_file, is_in_module, load_from_python

    return [
        LoaderInfo("module", is_in_module, load_from_python, "package.module:name"),
        LoaderInfo("file", is_in_file, load_from_python, "path/to/file.py:name"),
    ]


@hookimpl
def profilerkit_devices() -> list[DeviceInfo]:
    """Return the devices of `profilerkit.devices`, each in a TOML file."""
    # By name: that room finds its devices through plugins, so this one imports nothing of it.
    packaged: Callable[[], list[DeviceInfo]] = import_later("profilerkit.devices.catalog:list_packaged")()
    return packaged()


@hookimpl
def profilerkit_commands() -> list[CommandInfo]:
    """Return the commands of `profilerkit.cli`."""
    return [
        CommandInfo(
            "profile",
            import_later("profilerkit.cli.profile_command:command"),
            "Profile a model and print its report.",
            (
                "profilerkit profile torchvision:resnet18 --input-shape 3,224,224",
                "profilerkit profile net.py:build --input-shape 3,32,32 --static --top 5",
                "profilerkit profile hf:bert-base-uncased --metric macs,params,memory --batch-size 8",
                "profilerkit profile net.py:build --input-shape 3,32,32 --metric layer_times --layers",
            ),
        ),
        CommandInfo(
            "compare",
            import_later("profilerkit.cli.compare_command:compare"),
            "Compare models side by side; the first is the reference.",
            (
                "profilerkit compare net.py:teacher net.py:student --input-shape 3,32,32",
                "profilerkit compare old.json net.py:build --input-shape 3,32,32 --name before --name now",
            ),
        ),
        CommandInfo(
            "show",
            import_later("profilerkit.cli.show_command:command"),
            "Print a saved report or comparison, in any format.",
            ("profilerkit show report.json --format tree --depth 2",),
        ),
        CommandInfo(
            "diff",
            import_later("profilerkit.cli.compare_command:diff"),
            "Show what changed between two reports or models, layer by layer.",
            ("profilerkit diff old.json net.py:build --input-shape 3,32,32",),
        ),
        CommandInfo(
            "devices",
            import_later("profilerkit.cli.devices_command:command"),
            "List the devices that times can be predicted for, or show one.",
            ("profilerkit devices h100",),
        ),
        CommandInfo(
            "list",
            import_later("profilerkit.cli.list_command:command"),
            "List what plugins offer, and the package each comes from.",
            ("profilerkit list --verbose",),
        ),
        CommandInfo(
            "doctor",
            import_later("profilerkit.cli.doctor_command:command"),
            "Show what is installed, and what each backend can do here.",
            ("profilerkit doctor",),
        ),
    ]
