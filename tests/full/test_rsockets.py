"""The asynchronous server of udpong at wall pace. librdmacm can wake it up five seconds late, more than once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))


def test_the_asynchronous_server_of_udpong_answers(tmp_path: Path) -> None:
    done = tmp_path / "done"
    server = f"udpong -T a -b a & server=$!; while [ ! -e {done} ]; do sleep 0.1; done; kill $server"
    client = f"sleep 0.5; udpong -T a -s a -C 3000 -S 1500; touch {done}"
    words = [str(SOFTBAND), "run", "modern-pair", "--pace", "wall", "--timeout", "120", "--out", str(tmp_path / "out"), "--on", "a", server, "--on", "b", client]
    subprocess.run(words, timeout=150, check=True)
    assert (tmp_path / "out" / "b-0.out").read_text().splitlines()[-1].split()[:2] == ["custom", "1.4k"]
