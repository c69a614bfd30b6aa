"""What can be wrong with a model, each with a title; messages are one line and name the remedy."""

from __future__ import annotations


class ModelError(Exception):
    """The model cannot be loaded or run. `title` says what kind of trouble it is."""

    title = "Model error"

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class ModelNotFound(ModelError):
    """No such folder, file or hub id."""

    title = "Model not found"


class NetworkUnavailable(ModelError):
    """The model is not on this machine and the hub cannot be reached."""

    title = "No network"


class UnsupportedModel(ModelError):
    """The model loads but cannot run on a paged cache as it stands."""

    title = "Model not supported"


class MissingDependency(ModelError):
    """A package is needed for this kind of file."""

    title = "Package missing"


class DeviceUnavailable(ModelError):
    """The device or number type that was asked for is not there."""

    title = "Device not available"


class KernelsNotAvailable(ModelError):
    """The kernels that were asked for cannot run here."""

    title = "Kernels not available"


class TooLong(ModelError):
    """A row reaches beyond the model's last position, or holds a token that it does not know."""

    title = "Beyond the model's limits"
