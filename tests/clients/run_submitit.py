"""submitit: a function that returns, an array, a function that fails, and a job that is cancelled."""

import time

import submitit


def divide(by):
    return 42 // by


executor = submitit.AutoExecutor(folder="log/%j", cluster="slurm")
executor.update_parameters(timeout_min=5, slurm_partition="main", mem_gb=0.2, cpus_per_task=1)

if __name__ == "__main__":
    print("success", executor.submit(divide, 2).result())
    print("array", [job.result() for job in executor.map_array(divide, [1, 2, 3])])
    failed = executor.submit(divide, 0)
    error = "ZeroDivisionError" in str(failed.exception())
    # The error is in a file before the job has ended.
    while not failed.watcher.is_done(failed.job_id, mode="force"):
        time.sleep(0.1)
    print("failure", error, failed.state)
    endless = executor.submit(time.sleep, 1000)
    while endless.state != "RUNNING":
        time.sleep(0.1)
    endless.cancel()
    while not endless.done(force_check=True):
        time.sleep(0.1)
    print("cancelled", endless.state.split(" ")[0])
