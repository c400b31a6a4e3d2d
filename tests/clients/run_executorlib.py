"""executorlib with pysqa: functions that end and fail, and one whose job is cancelled."""

import subprocess
import time

from executorlib import SlurmClusterExecutor


def divide(by):
    return 42 // by


def wait():
    time.sleep(1000)


def running():
    listing = ["lslurm", "squeue", "-h", "-t", "R", "-o", "%i"]
    return subprocess.run(listing, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    with SlurmClusterExecutor(cache_directory="executorlib-cache", resource_dict={"cores": 1}) as executor:
        print("success", executor.submit(divide, 2).result(timeout=100))
        print("failure", type(executor.submit(divide, 0).exception(timeout=100)).__name__)
        # The job of a function ends a little later than the function.
        while running():
            time.sleep(0.1)
        endless = executor.submit(wait)
        while not (job := running()):
            time.sleep(0.1)
        endless.cancel()
        ended = ["lslurm", "sacct", "-nXP", "-j", job, "-o", "State"]
        while (state := subprocess.run(ended, capture_output=True, text=True).stdout.split(" ")[0].strip()) == "RUNNING":
            time.sleep(0.1)
        print("cancelled", state)
