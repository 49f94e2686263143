"""The versions of jax and of the libraries of modules that are installed; importing this imports none of them."""

from __future__ import annotations

from profilerkit.backend_kit.installed import installed_version, require_version

__all__ = ["MINIMUM", "TESTED", "installed"]

#: The oldest and the newest releases that the tests are run with.
TESTED = {"jax": ("0.10", "0.12"), "flax": ("0.12", "0.12"), "equinox": ("0.13", "0.13")}
#: The oldest release of jax that is supported.
MINIMUM = (0, 10)


def installed() -> dict[str, str]:
    """Return the versions of jax, and of Flax, Equinox and Keras where they are installed, without importing them.

    Raises ImportError where jax is missing or too old.
    """
    version = installed_version("jax")
    require_version("jax", version, MINIMUM)
    versions = {"jax": version}
    for name in ("flax", "equinox", "keras"):
        try:
            versions[name] = installed_version(name)
        except ImportError:
            continue
    return versions
