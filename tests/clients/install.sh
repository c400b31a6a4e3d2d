#!/bin/sh
# Installs the clients of Slurm that the end-to-end tests `clients` run on Limo, from PyPI into a virtual environment. Usage:
# tests/clients/install.sh [DIRECTORY]; then LIMO_CLIENTS=DIRECTORY cargo test -p limo-tests --test e2e -- clients
# A client that cannot be installed is named, and its test is skipped.
set -u
directory=${1:-target/clients}
python3 -m venv "$directory" || exit 1
for client in psij-python dask-jobqueue parsl 'executorlib[cluster]' toil \
    submitit 'snakemake snakemake-executor-plugin-cluster-generic snakemake-executor-plugin-slurm'; do
    # One line may have several packages.
    # shellcheck disable=SC2086
    "$directory/bin/pip" install --quiet --disable-pip-version-check $client || echo "not installed: $client" >&2
done
echo "LIMO_CLIENTS=$(cd "$directory" && pwd)"
