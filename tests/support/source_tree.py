"""Where the sources of the project lie."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"


def packages() -> dict[str, Path]:
    """Return every import package of the project that lies in its source roots."""
    roots = [ROOT, ROOT / "metrics", ROOT / "backends"]
    found = {path.parent.name: path.parent for root in roots for path in root.glob("profilerkit*/__init__.py")}
    assert found
    return found
