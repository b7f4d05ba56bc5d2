"""`zonkey evaluate` imports what it needs."""

import subprocess
import sys

from model_files import files

__all__ = ["files"]

PROGRAM = """
import sys
from zonkey import app
app.evaluate(sys.argv[1], sys.argv[2], baselines=["nearest-mean", "ridge", "logistic", "paper"],
             training=sys.argv[3])
assert not [name for name in sys.modules if name.startswith("zonkey_lab")]
"""


def test_baselines_need_no_laboratory(files):
    paths = [files / name for name in ("model.zonkey", "test.csv", "features.parquet")]
    command = [sys.executable, "-c", PROGRAM, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
