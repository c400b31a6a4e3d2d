#!/bin/sh
# Fetches axe-core (MPL-2.0), which the end-to-end test `page_axe` runs in each view of the page, from a package of PyPI. Usage:
# tests/clients/axe.sh [DIRECTORY]; then LIMO_AXE=DIRECTORY cargo nextest run -p limo-tests --test e2e page_axe
set -eu
directory=${1:-target/axe}
mkdir -p "$directory"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$directory" axe-playwright-python==0.1.8
python3 - "$directory" <<'END'
import pathlib, sys, zipfile
directory = pathlib.Path(sys.argv[1])
for wheel in directory.glob("axe_playwright_python-*.whl"):
    script = zipfile.ZipFile(wheel).read("axe_playwright_python/axe.min.js")
    (directory / "axe.min.js").write_bytes(script)
    wheel.unlink()
END
echo "LIMO_AXE=$(cd "$directory" && pwd)"
