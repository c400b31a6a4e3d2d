"""PSI/J: a job that ends, one that fails, and one that is cancelled."""

from datetime import timedelta
from pathlib import Path

import psij
from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig

config = BatchSchedulerExecutorConfig(
    work_directory=Path.cwd() / "psij", initial_queue_polling_delay=1, queue_polling_interval=1
)
executor = psij.JobExecutor.get_instance("slurm", config=config)


def submit(script):
    spec = psij.JobSpec(executable="/bin/sh", arguments=["-c", script])
    spec.attributes = psij.JobAttributes(duration=timedelta(minutes=10))
    job = psij.Job(spec)
    executor.submit(job)
    return job


good, bad, endless = submit("exit 0"), submit("exit 3"), submit("sleep 1000")
print("success", good.wait(timedelta(minutes=1)).state.name)
print("failure", bad.wait(timedelta(minutes=1)).state.name, bad.status.exit_code)
endless.wait(timedelta(minutes=1), [psij.JobState.ACTIVE])
endless.cancel()
print("cancelled", endless.wait(timedelta(minutes=1)).state.name)
