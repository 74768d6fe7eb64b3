"""Moves processes from core to core, so that a launch's figures are means over cores: rotate.py MS SUFFIX PARENT.

Every MS milliseconds each descendant of process PARENT whose program ends with SUFFIX gets a core at random for all
its threads: of n such processes the k-th (by process id) one of the k-th n-th of the cores. The last core is left to
this program."""

import contextlib
import os
import pathlib
import random
import sys
import time

LOOK_EVERY_S = 0.1


def found(suffix, parent):
    parents, named = {}, set()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(folder.name)
            # The name before it is in brackets, and may hold anything.
            parents[pid] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            # Not `comm`, which is cut after 15 letters.
            if (folder / "cmdline").read_bytes().split(b"\0")[0].endswith(suffix.encode()):
                named.add(pid)
    return sorted(pid for pid in named if descends(pid, parent, parents))


def descends(pid, parent, parents):
    while pid > 1 and pid != parent:
        pid = parents.get(pid, 0)
    return pid == parent


def move(pid, cores):
    core = random.choice(cores)
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {core})


def main():
    pause_s, suffix, parent = float(sys.argv[1]) / 1e3, sys.argv[2], int(sys.argv[3])
    *cores, own = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {own})
    random.seed(1)
    pids, looked = [], 0.0
    while True:
        now = time.monotonic()
        if now - looked > LOOK_EVERY_S:
            pids, looked = found(suffix, parent), now
        for k, pid in enumerate(pids):
            share = cores[k * len(cores) // len(pids) : (k + 1) * len(cores) // len(pids)]
            move(pid, share or cores)
        time.sleep(pause_s)


main()
