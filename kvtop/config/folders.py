"""Where settings and state lie, and how files are written there so that a crash leaves the old one whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

CONFIG_DIR = "KVTOP_CONFIG_DIR"
"""Environment variable that names the folder of settings and themes instead of the platform's."""
STATE_DIR = "KVTOP_STATE_DIR"
"""The same for what survives a restart."""


def config_folder(environ: Mapping[str, str]) -> Path:
    """The folder of `config.toml` and of `themes/`. It need not exist."""
    if given := environ.get(CONFIG_DIR):
        return Path(given)
    import platformdirs  # only where a dashboard needs it

    return Path(platformdirs.user_config_dir("kvtop", appauthor=False))


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder of `state.toml`. It need not exist."""
    if given := environ.get(STATE_DIR):
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_state_dir("kvtop", appauthor=False))


def config_file(environ: Mapping[str, str]) -> Path:
    """The file of settings. It need not exist."""
    return config_folder(environ) / "config.toml"


def write_whole(path: Path, text: str) -> None:
    """Replace a file's content in one step: whoever reads it, and whatever fails, there is the old text or
    the new one. A symbolic link goes on pointing at the file that is replaced, permissions are kept, and
    missing folders are made. Raises OSError, with the file as it was.
    """
    target = path.resolve() if path.is_symlink() else path
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            os.fchmod(file.fileno(), _mode(target))
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _mode(path: Path) -> int:
    """Permissions of a file, or those that a new one gets."""
    try:
        return path.stat().st_mode & 0o7777
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def describe_oserror(error: OSError) -> str:
    """What went wrong, without Python's number and quotes."""
    return (error.strerror or str(error)).lower()
