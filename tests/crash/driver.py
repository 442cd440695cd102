"""Processes to be killed, all forked off one that has imported everything: a start-up costs milliseconds.

Each line read is `RUN ROUNDS CALL SECONDS`: carry out a run in that folder, or go on with it, and die at the disk's
call of that number or after that time, whichever is not negative. The answer is the exit code; every round that was
acknowledged is a line in RUN.said.
"""

import os
import signal
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from crash_lab import carry_out
from fedparity.store import checkpoints
from fedparity.testing import FaultyDisk

checkpoints.LARGE, checkpoints.SMALL_STATE, checkpoints.SNAPSHOT_EVERY = 64, 0, 3


def child(run, rounds, call):
    said = os.open(f"{run}.said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    disk = nullcontext() if call < 0 else FaultyDisk(run.parent, fail_at=call, fault="kill", keep=False)
    with disk:
        carry_out(
            run, rounds, resume=run.exists(), acknowledged=lambda _, name, __: os.write(said, f"{name}\n".encode())
        )
    os._exit(0)


def end_of(pid, seconds):
    """Wait for a process, which is killed when its time is over."""
    deadline = time.monotonic() + seconds if seconds >= 0 else float("inf")
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            os.kill(pid, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(0.0002)


def tell(answer):
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()


def main():
    carry_out(Path(sys.argv[1]), 2)
    tell("ready")
    for line in sys.stdin:
        run, rounds, call, seconds = line.split()
        pid = os.fork()
        if pid == 0:
            try:
                child(Path(run), int(rounds), int(call))
            finally:
                os._exit(1)
        tell(end_of(pid, float(seconds)))


if __name__ == "__main__":
    main()
