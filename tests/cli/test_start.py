"""Commands before they have begun: Ctrl-C ends them without a word, whatever is being imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from easerve.builtin import model_path
from easerve.cli.profiling import profile
from easerve.errors import StartupError

COMMANDS = {"script": [str(Path(sys.executable).with_name("easerve"))], "module": [sys.executable, "-m", "easerve"]}
CTRL_C_AT_IMPORT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPTED_IMPORT"]:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # the test may run where it is ignored
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("module", ["numpy", "easerve.cli.configuring"])
@pytest.mark.parametrize("way", COMMANDS)
def test_ctrl_c_during_imports_ends_quietly(way: str, module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(CTRL_C_AT_IMPORT)
    (tmp_path / "file.yaml").touch()
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "INTERRUPTED_IMPORT": module}
    command = [*COMMANDS[way], "config", "check", "file.yaml"]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_a_hub_model_is_profiled_at_the_revision_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def snapshot(model: str, revision: str | None, **_: object) -> str:
        asked.append((model, revision))
        return str(model_path())

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    with pytest.raises(StartupError, match="--shares"):  # before anything is loaded
        profile("some/model", revision="abc", shares=True)
    assert asked == [("some/model", "abc")]
    with pytest.raises(StartupError, match="only models of the hub have revisions"):
        profile("builtin", revision="abc")
