"""The command line."""

from __future__ import annotations

import click

from kvtop import __version__


@click.group(name="kvtop")
@click.version_option(__version__, prog_name="kvtop")
def main() -> None:
    """See and debug the memory of LLM inference."""
