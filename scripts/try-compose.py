"""Runs the services of a compose file by bubblewrap: try-compose.py COMPOSE IMAGE VOLUME.

Each service has user, process, network, mount and IPC namespaces of its own, the image as its
read-only root, and the folder VOLUME in the place of the file's volume. The order is that of the file.
The services before the last two must be healthy before these start. The last service decides.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

PATIENCE_SECONDS = 30


def main(compose: Path, image: Path, volume: Path) -> int:
    services: dict[str, dict[str, Any]] = yaml.safe_load(compose.read_text())["services"]
    shutil.rmtree(volume, ignore_errors=True)
    volume.mkdir(parents=True)
    # A new volume has the owner and the rights of the folder in the image.
    place = image / next(iter(services.values()))["volumes"][0].split(":")[1].lstrip("/")
    os.chown(volume, place.stat().st_uid, place.stat().st_gid)
    volume.chmod(place.stat().st_mode & 0o7777)
    started = {}
    try:
        for name, service in services.items():
            print(f"try-compose: {name} as user {service['user']}: {' '.join(service['command'])}", flush=True)
            started[name] = subprocess.Popen(contained(service, service["command"], image, volume))
            if "healthcheck" in service:
                await_health(service, image, volume)
        last = list(started)[-1]
        status = started.pop(last).wait(timeout=PATIENCE_SECONDS)
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait(timeout=PATIENCE_SECONDS)
    print(f"try-compose: {last} ended with status {status}")
    return status


def await_health(service: dict[str, Any], image: Path, volume: Path) -> None:
    _, *probe = service["healthcheck"]["test"]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while subprocess.run(contained(service, probe, image, volume), capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            sys.exit("try-compose: the service is not healthy")
        time.sleep(0.2)


def contained(service: dict[str, Any], command: list[str], image: Path, volume: Path) -> list[str]:
    user, group = service["user"].split(":")
    place = service["volumes"][0].split(":")[1]
    words = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "bwrap", "--unshare-all", "--die-with-parent"]
    # The command becomes the first process, as in a container.
    words += ["--as-pid-1", "--cap-drop", "ALL", "--ro-bind", str(image), "/", "--proc", "/proc", "--dev", "/dev"]
    words += ["--bind", str(volume), place, "--clearenv", "--setenv", "PATH", "/usr/bin"]
    for name, value in service["environment"].items():
        words += ["--setenv", name, value]
    return [*words, "--chdir", "/", "--", *command]


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(*(Path(word) for word in sys.argv[1:])))
