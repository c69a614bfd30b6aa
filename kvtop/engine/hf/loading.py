"""Load a model and make sure that it really runs on the paged cache.

While a model loads, transformers' progress bars and warnings are off: the screen is not theirs. Both are
put back afterwards.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from kvtop.engine.hf import Progress, convert, linears, sources
from kvtop.engine.hf.errors import DeviceUnavailable, KernelsNotAvailable, ModelNotFound, UnsupportedModel
from kvtop.engine.hf.memory import available_bytes
from kvtop.engine.hf.probe import probe
from kvtop.engine.hf.runner import HFRunner
from kvtop.kernels.choice import AUTO, KernelsUnavailable, choose_kind
from kvtop.kernels.cpu.compile import compiled_marker
from kvtop.kernels.dispatch import DTYPE_NAMES, machine

DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}

_DECODER_CLASSES = ("ForCausalLM", "LMHeadModel")


def load(model: str, *, device: str, dtype: str | None, kernels: str, progress: Progress) -> HFRunner:
    """See `kvtop.engine.hf.load_runner`."""
    target = choose_device(device)
    kind = choose_dtype(dtype, target)
    with unavailable_as_error():  # before the weights are read
        choose_kind(machine(target, kind), kernels)
    with quiet():
        progress(f"looking for {model}", None)
        source = sources.find(model)
        folder = source.folder or convert.unpacked(source, progress)
        progress(f"loading {source.name}", None)
        network = _load_model(folder, source.name, kind)
        tokenizer = _load_tokenizer(folder, source.name)
        progress(f"moving {source.name} to {target.type}", 0.6)
        return prepare(network, tokenizer, source.name, target, progress, kernels)


def prepare(
    network: PreTrainedModel,
    tokenizer: Any,
    name: str,
    device: torch.device,
    progress: Progress,
    kernels: str = AUTO,
) -> HFRunner:
    """A runner for a model that is in memory; changes the model: its device, attention and linear layers.

    Raises UnsupportedModel when the model does not run on the paged cache, in words for `name`, and
    KernelsNotAvailable when the `kernels` that are wanted cannot run.
    """
    network = network.eval().to(device)
    weight_bytes = sum(tensor.nbytes for tensor in network.parameters())
    weight_bytes += sum(tensor.nbytes for tensor in network.buffers())
    with unavailable_as_error():
        kind = choose_kind(machine(device, network.dtype), kernels).kind
    if kind == "numba":
        progress("compiling the attention kernel", 0.65)
        _compile_in_a_child(network)
    progress("checking the attention", 0.7)
    try:
        with unavailable_as_error():
            shape, chosen = probe(network, device, kernels)
    except UnsupportedModel as error:
        raise UnsupportedModel(f"{name}: {error}") from error
    # The copies must leave room for K/V: a model that fills half of the memory goes without.
    roomy = device.type == "cpu" and 2 * weight_bytes < available_bytes(device)
    if roomy and linears.available(network.dtype):
        progress("packing the weights", 0.85)
        weight_bytes += linears.pack(network)
    progress("ready", 1.0)
    return HFRunner(network, tokenizer, name, shape, device, weight_bytes, chosen)


def _compile_in_a_child(network: PreTrainedModel) -> None:
    """Fill Numba's cache before this process looks at it.

    Compiling takes some seconds and holds Python's lock: done here, the start screen would stand still. If
    the child fails, this process compiles, and says what is wrong.
    """
    marker = compiled_marker(str(network.dtype))
    if marker is None or marker.exists():
        return
    code = (
        f"import torch; from kvtop.kernels.cpu.compile import compile_kernel; compile_kernel({network.dtype})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode == 0:
        marker.touch()


def choose_device(device: str) -> torch.device:
    """The device by name. Raises DeviceUnavailable."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device not in ("cpu", "cuda"):
        raise DeviceUnavailable(f"no device {device!r}; there are auto, cuda and cpu")
    if device == "cuda" and not torch.cuda.is_available():
        built = "" if torch.version.cuda else " (this torch is built without CUDA)"
        raise DeviceUnavailable(f"torch sees no GPU{built}; run with --device cpu")
    return torch.device(device)


def choose_dtype(dtype: str | None, device: torch.device) -> torch.dtype:
    """The number type by name, or the one that the device computes fastest in. Raises DeviceUnavailable."""
    if dtype is not None:
        try:
            return DTYPES[dtype]
        except KeyError:
            raise DeviceUnavailable(f"no number type {dtype!r}; there are {', '.join(DTYPES)}") from None
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    try:
        fast = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    except AttributeError:
        fast = False
    return torch.bfloat16 if fast else torch.float32


@contextlib.contextmanager
def unavailable_as_error() -> Iterator[None]:
    """Kernels that cannot run are a ModelError like any other."""
    try:
        yield
    except KernelsUnavailable as error:
        raise KernelsNotAvailable(str(error)) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """transformers writes neither warnings nor progress bars within."""
    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()


def _load_model(folder: Path, name: str, dtype: torch.dtype) -> PreTrainedModel:
    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise ModelNotFound(f"{name}: config.json is not one that transformers knows: {error}") from error
    _check_decoder(config, name)
    try:
        network: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=dtype, low_cpu_mem_usage=True
        )
    except (ValueError, KeyError, RuntimeError, ImportError) as error:
        raise UnsupportedModel(f"{name}: {error}") from error
    except (OSError, SafetensorError) as error:
        raise ModelNotFound(f"{name}: its weights cannot be read: {error}") from error
    return network


def _check_decoder(config: Any, name: str) -> None:
    """Raises UnsupportedModel when the configuration says that this is something else."""
    classes = config.architectures or []
    if config.is_encoder_decoder:
        raise UnsupportedModel(f"{name} is an encoder-decoder, not a decoder")
    if classes and not any(word in known for known in classes for word in _DECODER_CLASSES):
        raise UnsupportedModel(f"{name} is not a decoder: it is a {', '.join(classes)}")


def _load_tokenizer(folder: Path, name: str) -> Any:
    try:
        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelNotFound(f"{name}: its tokenizer cannot be read: {error}") from error
