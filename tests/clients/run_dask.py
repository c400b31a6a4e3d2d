"""dask-jobqueue: workers that compute and raise an error, and the cancellation of their jobs."""

import subprocess
import sys

from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def divide(by):
    return 42 // by


if __name__ == "__main__":
    cluster = SLURMCluster(
        cores=1, memory="256MB", walltime="00:10:00", python=sys.executable, log_directory="dask-logs",
        scheduler_options={"host": "127.0.0.1"}, worker_extra_args=["--host", "127.0.0.1"],
    )
    with Client(cluster) as client:
        cluster.scale(jobs=1)
        print("success", client.submit(divide, 2).result(timeout=60))
        print("failure", type(client.submit(divide, 0).exception(timeout=60)).__name__)
        jobs = [worker.job_id for worker in cluster.workers.values()]
    cluster.close()
    for job in jobs:
        ended = ["lslurm", "sacct", "-nXP", "-j", job, "-o", "State"]
        while (state := subprocess.run(ended, capture_output=True, text=True).stdout.split(" ")[0].strip()) == "RUNNING":
            pass
        print("cancelled", state)
