"""executorlib with pysqa: functions that end and fail."""

from executorlib import SlurmClusterExecutor


def divide(by):
    return 42 // by


if __name__ == "__main__":
    with SlurmClusterExecutor(cache_directory="executorlib-cache", resource_dict={"cores": 1}) as executor:
        print("success", executor.submit(divide, 2).result(timeout=100))
        print("failure", type(executor.submit(divide, 0).exception(timeout=100)).__name__)
