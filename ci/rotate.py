"""Moves processes from core to core, so that a launch's figures are means over cores: rotate.py MS SUFFIX.

Every MS milliseconds each process whose name ends with SUFFIX gets another core, at random, for all its threads: of n
processes the k-th (by process id) one of the k-th n-th of the cores. The last core is left to this program."""

import contextlib
import os
import pathlib
import random
import sys
import time

LOOK_EVERY_S = 0.1


def found(suffix):
    pids = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text().rstrip().endswith(suffix):
                pids.append(int(folder.name))
    return sorted(pids)


def move(pid, cores):
    core = random.choice(cores)
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {core})


def main():
    pause_s, suffix = float(sys.argv[1]) / 1e3, sys.argv[2]
    *cores, own = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {own})
    random.seed(1)
    pids, looked = [], 0.0
    while True:
        now = time.monotonic()
        if now - looked > LOOK_EVERY_S:
            pids, looked = found(suffix), now
        for k, pid in enumerate(pids):
            share = cores[k * len(cores) // len(pids) : (k + 1) * len(cores) // len(pids)]
            move(pid, share or cores)
        time.sleep(pause_s)


main()
