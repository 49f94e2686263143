"""What one module alone may do, held by machine: write files, make locks, and wait in tests for programs."""

import ast
from collections.abc import Iterator
from pathlib import Path

from source_tree import ROOT, packages, read_tree, walk

#: Functions and methods that write or move a file, by their last name.
WRITERS = {
    *("write_text", "write_bytes", "touch", "mkstemp", "mktemp", "NamedTemporaryFile", "TemporaryFile", "fdopen"),
    *("savefig", "imsave", "to_csv", "to_excel", "to_parquet", "to_pickle", "to_feather", "to_hdf", "tofile"),
    *("savetxt", "savez", "savez_compressed", "export_chrome_trace", "export_stacks", "copyfile", "copy2", "copytree"),
    *("rename", "renames", "umask", "symlink", "symlink_to", "hardlink_to", "mknod", "mkfifo", "truncate"),
}
#: The same, of modules alone: their names are those of harmless methods too.
OF_MODULES = {"os": {"open", "replace", "link"}, "shutil": {"copy", "move"}, "json": {"dump"}, "pickle": {"dump"}}
OPENERS = {"open", "ZipFile", "TarFile", "GzipFile", "BZ2File", "LZMAFile", "FileIO"}
WAITING = {
    *("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore", "Event", "Barrier", "allocate_lock"),
    *("Queue", "SimpleQueue", "LifoQueue", "PriorityQueue", "ThreadPool", "ThreadPoolExecutor"),
}
HAVE_LOCKS = {"threading", "_thread", "multiprocessing", "queue", "concurrent", "asyncio"}

#: What is written besides, and why that is no file of the user's.
EXCEPTIONS = {
    # A script that runs where profilerkit is not installed.
    *(("profilerkit_torch/joining/script.py", called) for called in ("copyfile", "export_chrome_trace", "open")),
    # The profiler of torch opens names alone: it writes to a scratch file, whose content goes the one way.
    ("profilerkit_torch/operator_timing/passes.py", "export_chrome_trace"),
    # Descriptors: standard output, the null device, pipes of a process.
    ("profilerkit/process/clean_output.py", "fdopen"),
    ("profilerkit/process/clean_output.py", "open"),
    ("profilerkit/isolation/forkserver.py", "open"),
    ("profilerkit/isolation/starting.py", "fdopen"),
    ("profilerkit/isolation/supervisor.py", "fdopen"),
    ("profilerkit_litert/running/native_passes.py", "fdopen"),
    # What a process of its own is to do, in a file without a name.
    ("profilerkit/isolation/job_file.py", "TemporaryFile"),
    ("profilerkit/isolation/job_file.py", "dump"),
    # The lock of a store: the file exists for its lock alone, and says which process has it.
    ("profilerkit_audits/database.py", "open"),
    ("profilerkit_audits/database.py", "truncate"),
    # A figure as a notebook shows it: into memory.
    ("profilerkit_pages/figures/shown.py", "savefig"),
}


def calls(tree: ast.Module) -> Iterator[tuple[str, str, ast.Call]]:
    """Yield each call with the name before the last dot, if there is one, and the one after it."""
    for node in walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                owner = node.func.value
                yield owner.id if isinstance(owner, ast.Name) else "", node.func.attr, node
            elif isinstance(node.func, ast.Name):
                yield "", node.func.id, node


def writes(owner: str, name: str, call: ast.Call) -> bool:
    if name in WRITERS:
        return True
    if name in OF_MODULES.get(owner, ()):
        return True
    if name not in OPENERS:
        return False
    modes = [
        node.value for node in (*call.args, *(word.value for word in call.keywords)) if isinstance(node, ast.Constant)
    ]
    return any(
        isinstance(mode, str) and len(mode) < 5 and set(mode) & set("wax+") and set(mode) <= set("wax+rbt")
        for mode in modes
    )


def sources() -> list[tuple[str, Path]]:
    found = [(package, path) for package, folder in packages().items() for path in folder.rglob("*.py")]
    return [(f"{package}/{path.relative_to(packages()[package]).as_posix()}", path) for package, path in found]


def test_one_module_writes_files() -> None:
    """Every other one that opened a file for writing would replace devices and links, and change modes, again."""
    found = set()
    for name, path in sources():
        if name != "profilerkit/process/files.py":
            for owner, called, call in calls(read_tree(path)):
                if writes(owner, called, call) and not (not owner and called in from_files(path)):
                    found.add((name, called))
    assert found == EXCEPTIONS


def from_files(path: Path) -> set[str]:
    """Return the names that a module imports from the one that writes."""
    return {
        alias.name
        for node in walk(read_tree(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2] == "files"
        for alias in node.names
    }


def test_what_writes_is_seen_and_what_reads_is_not() -> None:
    for code in ("open('f', mode='ab')", "Path('f').write_text('')", "os.replace('a', 'b')", "json.dump(value, file)"):
        assert any(writes(*call) for call in calls(ast.parse(code))), code
    for code in ("path.open('rb')", "text.replace('a', 'w')", "json.dumps(value)"):
        assert not any(writes(*call) for call in calls(ast.parse(code))), code


def locks_made(tree: ast.Module) -> set[str]:
    """Return what waits for other threads, of those that a module makes: from the modules that have such things."""
    from_there = {
        alias.asname or alias.name
        for node in walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in HAVE_LOCKS
        for alias in node.names
    }
    made = {name for owner, name, _ in calls(tree) if name in WAITING and (owner in HAVE_LOCKS or not owner)}
    return {
        name for name in made if name in from_there or any(owner for owner, called, _ in calls(tree) if called == name)
    }


def test_warnings_are_of_the_callers_line() -> None:
    """A fixed number of frames is that of some callers alone: the line that is shown is then one of profilerkit's."""
    fixed = {
        name
        for name, path in sources()
        for owner, called, call in calls(read_tree(path))
        if (owner, called) == ("warnings", "warn")
        if "find_stack_level()" not in [ast.unparse(word.value) for word in call.keywords if word.arg == "stacklevel"]
    }
    assert fixed == {
        "profilerkit/process/restoring.py",  # in a child that has forked: no caller is at fault
        "profilerkit_torch/joining/script.py",  # runs without profilerkit, and warns in the function that users call
    }


def test_no_module_makes_locks_of_pythons() -> None:
    """One that another thread holds while the process forks is held in the child for ever."""
    for name, path in sources():
        made = locks_made(read_tree(path))
        assert not made, (
            f"{name} makes {sorted(made)}; profilerkit.process.locks has locks that a forked child finds free"
        )


def test_what_makes_a_lock_is_seen() -> None:
    assert locks_made(ast.parse("from threading import RLock\nx = RLock()"))
    assert locks_made(ast.parse("import queue\nqueue.Queue()"))


def test_no_property_has_a_lock() -> None:
    """Before Python 3.12 `functools.cached_property` has one, for all instances of its class."""
    for name, path in sources():
        text = path.read_text(encoding="utf-8")
        assert (
            "cached_property" not in text
            or "cached import cached_property" in text
            or name == "profilerkit/process/cached.py"
        )


#: What is remembered for good, and why it does not grow with what a user profiles.
REMEMBERED = {
    "profilerkit_audits/hiding.py": {"_read_secrets", "_compile_names"},  # takes nothing
    "profilerkit_audits/listing.py": {"_list_library"},  # names of loaders
    "profilerkit_audits/series.py": {"_is_run_for"},  # names of metrics, at most 1000
    "profilerkit_audits/modules.py": {"_find_distributions", "has_version", "find_versions"},  # names, at most 1000
    "profilerkit_audits/source_code.py": {"_find_imports"},  # names and paths, at most 1000
    "profilerkit/times/conditions.py": {"_name_process"},  # the number of this process
    "profilerkit/times/median.py": {"find_median_interval"},  # samples, 32 of them
    "profilerkit_openvino/runs.py": {"open_runtime"},  # takes nothing
    "profilerkit_metrics/discovery.py": {"_list_candidates", "_read_modules"},  # the folders of the package
    "profilerkit/piping/quantity.py": {"_factor"},  # numbers, at most 1024
    "profilerkit/process/environment.py": {"_cpu_model", "_memory_bytes"},  # takes nothing
    "profilerkit_torch/compat/autograd.py": {"count_references_in_sum"},  # takes nothing
    "profilerkit_torch/trace/higher_order.py": {"_count_steps_for_shapes"},  # takes nothing
    "profilerkit_pages/html.py": {"assets"},  # the same
    "profilerkit_pages/page_parts.py": {"source", "templates"},  # the files of pages
    "profilerkit_jax/model/marked_classes.py": {"make_marked_class"},  # classes of layers, which JAX itself keeps
    "profilerkit_onnx/model/types.py": {"dtype_name", "_bits"},  # of the numbers that stand for dtypes
    "profilerkit_onnx/trace/definitions.py": {
        "_read_definition"
    },  # operators of the standard and of onnxruntime, by version
    "profilerkit_tensorflow/untouched/users_code.py": {"is_users_own"},  # names of modules, at most 1000
    "profilerkit_torch/trace/meta_outputs.py": {"_find_maker"},
    "profilerkit_torch/trace/operator_facts.py": {
        "depends_on_values",
        "find_nature",
        "may_return_arguments",
    },  # operators, which torch itself keeps
    "profilerkit_torch/compat/operators.py": {"has_nested_kernel"},  # the same
    "profilerkit_torch/operator_timing/passes.py": {"is_free"},  # their names
    "profilerkit_torch/costs/pricing.py": {"_find_kind"},  # operators, at most 4096
    "profilerkit_torch/costs/elementwise.py": {"_find_constant"},  # their names
    "profilerkit_torch/trace/records.py": {"_info"},  # shapes and dtypes, at most 4096
}


def test_what_is_remembered_for_good_does_not_grow() -> None:
    """A cache by class, model or tensor keeps the user's alive; `profilerkit.process.cached.once_for_each` does not."""
    found: dict[str, set[str]] = {}
    for name, path in sources():
        for node in walk(read_tree(path)):
            if isinstance(node, ast.FunctionDef):
                marks = [ast.unparse(mark).partition("(")[0] for mark in node.decorator_list]
                if any(mark.endswith("cache") for mark in marks):
                    found.setdefault(name, set()).add(node.name)
    assert found == REMEMBERED


def test_tests_wait_for_programs_within_a_limit() -> None:
    """One that hangs would end nothing but the whole run: `time_limits.run_program` ends it, and says which it was."""
    found = {
        path.name
        for path in (ROOT / "tests").rglob("*.py")
        for owner, called, call in calls(read_tree(path))
        if owner == "subprocess" and called in ("run", "call", "check_call", "check_output")
        if all(word.arg != "timeout" for word in call.keywords)
    }
    assert found == {"attack_in_parts.py", "releases.py"}, "these are commands of the Makefile"
