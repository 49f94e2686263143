"""The file by which a separate process gets its job, with the facts by which it finds the same code."""

from __future__ import annotations

import io
import pickle
import sys
from pathlib import Path
from typing import IO, Any

from ..errors import InputError
from ..job import Job

__all__ = ["read_job", "require_started", "write_job"]

#: The jobs that this process reads at present: while it does, the main program is imported.
_reading: list[bool] = []


def write_job(job: Job, **facts: Any) -> IO[bytes]:
    """Return an unnamed file with two parts: the facts that another process needs, and the job.

    The facts are those given here and those of `multiprocessing.spawn`. Raises `InputError` if a part of the job cannot
    be pickled.
    """
    import tempfile

    content = io.BytesIO()
    try:
        pickle.Pickler(content, protocol=5).dump(job)
    except MemoryError:
        raise
    except Exception as error:  # whatever the parts of a model say
        raise InputError(
            f"{job.label} cannot be sent to a process of its own ({type(error).__name__}: {error}); give it as text "
            "(package.module:name, path/to/file.py:name), or as a function of a module that builds it"
        ) from error
    needs_main = b"__main__" in content.getvalue()
    file = tempfile.TemporaryFile()  # noqa: SIM115 - whoever starts the process closes it
    pickle.dump({**facts, **_describe_surroundings(job, needs_main)}, file)
    file.write(content.getvalue())
    file.flush()
    file.seek(0)
    return file


def _describe_surroundings(job: Job, needs_main: bool) -> dict[str, Any]:
    """Return the facts by which another process finds the same code, as `multiprocessing` passes them on.

    Where the job ``needs_main``, the main program is among them; `InputError` if it cannot be imported.
    """
    facts = {"sys_path": list(sys.path), "dir": job.folder or str(Path.cwd())}
    if not needs_main:
        return facts
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if getattr(main, "__spec__", None) is None and (file is None or not Path(file).exists()):
        raise InputError(
            f"{job.label} is of a session or a notebook, which another process cannot import; put it into a module"
        )
    from multiprocessing.spawn import get_preparation_data

    data = get_preparation_data("profilerkit-isolated")
    names = ("sys_argv", "init_main_from_name", "init_main_from_path")
    return facts | {name: data[name] for name in names if name in data}


def read_job(file: IO[bytes], facts: dict[str, Any] | None = None) -> Job:
    """Read a file of `write_job`, or only its second part if the ``facts`` of the first are given.

    The main program is imported under another name if the job refers to it.
    """
    from multiprocessing.spawn import prepare

    _reading.append(True)
    try:
        prepare(pickle.load(file) if facts is None else facts)
        job = pickle.load(file)
    finally:
        _reading.pop()
    if not isinstance(job, Job):
        raise InputError(f"the job is a {type(job).__name__}")
    return job


def require_started() -> None:
    """Raise `InputError` if the main program, imported in a separate process, would start another process."""
    if _reading:
        raise InputError(
            "the main program profiles in processes of their own while it is imported in one of them; put the call "
            "behind: if __name__ == '__main__':"
        )
