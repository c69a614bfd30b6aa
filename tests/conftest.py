"""What holds for every test: one thread for torch and Numba, and the same examples on every machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

# Before anything imports torch or Numba. A test that needs other counts starts a process of its own.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"
os.environ["HF_HUB_OFFLINE"] = "1"
# Where there is no GPU, Triton's kernels run in its interpreter. Triton reads this when it is imported, and
# transformers may import it.
if not any(Path("/dev", name).exists() for name in ("nvidiactl", "kfd", "dxg")):
    os.environ["TRITON_INTERPRET"] = "1"
# Nobody's own settings, themes and colours change what a test sees, and none changes them.
for _name in [name for name in os.environ if name.startswith("KVTOP_") or name == "NO_COLOR"]:
    del os.environ[_name]
os.environ["KVTOP_CONFIG_DIR"] = os.environ["KVTOP_STATE_DIR"] = tempfile.mkdtemp(prefix="kvtop-tests-")

_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
settings.register_profile("ci", derandomize=True, database=None, **_common)
settings.register_profile("random", **_common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
