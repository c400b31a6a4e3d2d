"""parsl with SlurmProvider: applications that end and fail, a block that fails, and the cancellation of the block of the applications.
The argument names the launcher."""

import subprocess
import sys
import time

import parsl
from parsl.executors import HighThroughputExecutor
from parsl import launchers
from parsl.providers import SlurmProvider


@parsl.python_app
def divide(by):
    return 42 // by


provider = SlurmProvider(
    "main", nodes_per_block=1, init_blocks=1, max_blocks=1, walltime="00:10:00", launcher=getattr(launchers, sys.argv[1])(),
    exclusive=False, mem_per_node=None, cores_per_node=1,
)
executor = HighThroughputExecutor(
    label="limo", address="127.0.0.1", max_workers_per_node=1, provider=provider, encrypted=False,
)

if __name__ == "__main__":
    with parsl.load(parsl.Config(executors=[executor], strategy="none")):
        print("success", divide(2).result(timeout=100))
        print("failure", type(divide(0).exception(timeout=60)).__name__)
        broken = provider.submit("exit 3", 1)
        while not (status := provider.status([broken])[0]).terminal:
            time.sleep(0.1)
        print("broken", status.state.name)
        blocks = list(executor.blocks_to_job_id.values())
    for job in blocks:
        ended = ["lslurm", "sacct", "-nXP", "-j", job, "-o", "State"]
        while (state := subprocess.run(ended, capture_output=True, text=True).stdout.split(" ")[0].strip()) == "RUNNING":
            pass
        print("cancelled", state)
