"""kvtop: see and debug the memory of LLM inference."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"

# `kernels/` and `themes/` live at the top of the repository and are installed as `kvtop/kernels` and
# `kvtop/themes`. In a checkout or an editable install they are not inside this folder, so the search
# path of the package is widened by the repository root, where they are found as `kvtop.kernels`.
_root = Path(__file__).resolve().parent.parent
if not (Path(__file__).parent / "kernels").exists() and (_root / "pyproject.toml").exists():
    __path__.append(str(_root))
