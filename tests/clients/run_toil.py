"""toil: a job that ends, or fails if the first argument says so."""

import sys

from toil.common import Toil
from toil.job import Job


def divide(job, by):
    return 42 // by


if __name__ == "__main__":
    by = int(sys.argv.pop(1))
    parser = Job.Runner.getDefaultArgumentParser()
    options = parser.parse_args()
    with Toil(options) as toil:
        print("success", toil.start(Job.wrapJobFn(divide, by, memory="128M", cores=1, disk="16M")))
