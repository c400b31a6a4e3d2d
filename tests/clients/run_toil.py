"""toil: a job that ends, fails if the first argument is 0, or runs until it is cancelled if it is `endless`."""

import os
import sys
import time

from toil.common import Toil
from toil.job import Job


def divide(job, by):
    return 42 // by


def wait(job, directory):
    with open(f"{directory}/running.txt", "w") as file:
        file.write(os.environ["LIMO_JOB_ID"])
    time.sleep(1000)


if __name__ == "__main__":
    by = sys.argv.pop(1)
    parser = Job.Runner.getDefaultArgumentParser()
    options = parser.parse_args()
    with Toil(options) as toil:
        function, argument = (wait, os.getcwd()) if by == "endless" else (divide, int(by))
        print("success", toil.start(Job.wrapJobFn(function, argument, memory="128M", cores=1, disk="16M")))
