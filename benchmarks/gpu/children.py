"""Parts of the check in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = Path(__file__).resolve().parents[1] / "gpu_check.py"
START_S = 60
"""What a process may take beyond its time: its start, and the variant under way at the end."""


class Child:
    """One process, started at once."""

    def __init__(self, check: Any, parts: list[str], seconds: float, share: str = "0/1") -> None:
        self._session = check.session
        self._what = f"{', '.join(parts)} in a process of its own ({share})"
        name = f"child-{parts[0]}-{share.replace('/', '-of-')}.json"
        self._json = check.session.temporary / name
        self._log = self._json.with_suffix(".log").open("w+", encoding="utf-8")
        self._limit = seconds + START_S
        command = [sys.executable, str(COMMAND), "--only", ",".join(parts), "--child", "--share", share]
        command += ["--device", check.session.device.type, "--minutes", str(seconds / 60)]
        command += ["--json", str(self._json), "--processes", "1"]
        if check.session.quick:
            command.append("--quick")
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
        )
        self._session.processes.append(self._process)

    def collect(self) -> None:
        """Wait, print what it said, and take over what it found."""
        try:
            self._process.wait(self._limit)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.seek(0)
        said = self._log.read()
        self._log.close()
        wanted = ("== ", "no GPU", "figures: ", "figures in")
        lines = [line for line in said.splitlines() if line.strip() and not line.startswith(wanted)]
        print("\n".join(lines[-200:]) if lines else "", end="\n" if lines else "", flush=True)
        if not self._json.exists():
            self._session.fail(f"{self._what}: ended with {self._process.returncode} and no result")
            return
        found = json.loads(self._json.read_text(encoding="utf-8"))
        self._session.findings.merge(found)
        if self._process.returncode not in (0, 1):
            self._session.fail(f"{self._what}: ended with {self._process.returncode}")
