"""The same static models under two releases of a package: what moved, in which layers.

Makes an environment for the other release, which takes all else from the environment that runs this; audits the plan
in both, into one store; prints the difference of the two runs.

    python benchmarks/two_releases.py transformers==5.5.4 releases.toml --store releases.db
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
from pathlib import Path

from profilerkit.render.console import grid_text
from profilerkit_audits import Store, diff_runs
from profilerkit_audits.changes import draw_changes

AUDIT = "import sys; from profilerkit.cli import main; main(sys.argv[1:])"


def environment(folder: Path, requirement: str) -> Path:
    """Return the interpreter of an environment with another release of a package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
    site = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    base = sysconfig.get_paths()["purelib"]
    (site / "base.pth").write_text(f"import site; site.addsitedir({base!r})\n", encoding="utf-8")
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", requirement], check=True)
    return python


def main() -> None:
    """Audit under both releases and print the difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requirement", help="the other release: transformers==5.5.4")
    parser.add_argument("plan", type=Path)
    parser.add_argument("--store", type=Path, default=Path("releases.db"))
    parser.add_argument("--environment", type=Path, default=Path("other-release"))
    arguments = parser.parse_args()
    other = environment(arguments.environment, arguments.requirement)
    for python in (str(other), sys.executable):
        audit = ["audit", str(arguments.plan), "--store", str(arguments.store), "--quiet"]
        subprocess.run([python, "-c", AUDIT, *audit], check=True)
    with Store.open(arguments.store, create=False) as store:
        result = diff_runs(store, "last~1", "last")
    if result.changes:
        print(grid_text(draw_changes(result.changes, f"{arguments.requirement} and the release of this environment")))
    print(result.summary())


if __name__ == "__main__":
    main()
