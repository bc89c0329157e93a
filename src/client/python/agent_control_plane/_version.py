"""The version of this package."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("agent-control-plane")
except PackageNotFoundError:  # Imported from its sources.
    VERSION = "0"
