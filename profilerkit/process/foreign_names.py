"""Names that people import from other profilers, and what stands for each here."""

from __future__ import annotations

__all__ = ["INSTEAD"]

_PROFILE = "profile(model, inputs) returns a report: report[key] is a number, and print(report) shows all"
_TEXT = "report.status(key).shown is a value as text, and report[key] the number"
_TIMES = (
    "profiler.layer_times() of a Profiler times the layers of any code; .table has the times, .table.to_tree() as dicts"
)

#: What to use for a name, by the name in DeepSpeed, nnprofiler, moduleprofiler, ptflops, thop, fvcore and torchinfo.
INSTEAD = {
    **dict.fromkeys(("get_model_profile", "FlopsProfiler", "add_profile_methods", "ModuleProfiler"), _PROFILE),
    **dict.fromkeys(("get_model_complexity_info", "FlopCountAnalysis", "summary"), _PROFILE),
    **dict.fromkeys(("flops_to_string", "macs_to_string", "params_to_string", "duration_to_string"), _TEXT),
    **dict.fromkeys(("number_to_string", "bytes_to_string", "clever_format"), _TEXT),
    "LayerProf": _TIMES,
    "visulize_the_profile_dict": "report.plot('icicle', by=...) returns a figure: fig, ax = report.plot(...)",
    "print_namespace_tree": "report.to_text(form='tree') is the model with its numbers",
}
