"""Which exceptions are the user's to mend: told in one line, without a traceback."""

from __future__ import annotations

import sys


def describe(error: BaseException) -> str | None:
    """The line to show for wrong options, input or models; None for an error of the program itself.

    Changes nothing, and imports nothing: an error whose module was never loaded is not this one.
    """
    known = (
        ("kvtop.options", "UsageError"),
        ("kvtop.workload.spec", "ScenarioError"),
        ("kvtop.engine.hf.errors", "ModelError"),
    )
    for module, name in known:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(error, kind):
            title = getattr(error, "title", "")
            return f"{title}: {error}" if title else str(error)
    return None
