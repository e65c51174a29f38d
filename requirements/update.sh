#!/usr/bin/env bash
# Pins every dependency with its hashes. No index address is written: pip uses whatever index
# the machine is configured for, and refuses anything whose hash differs.
#   dev.txt      what developing and testing need
#   worker.txt   what Dockerfile.worker installs
#   operator.txt what Dockerfile.operator installs (operator and console)
#   build.txt    what both need to make the wheel
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pin() {
  uv pip compile -q --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-annotate --no-header "$@"
}
pin pyproject.toml --extra all --group lint --group test --group build -o requirements/dev.txt
pin pyproject.toml --extra postgres --extra metrics -o requirements/worker.txt
pin pyproject.toml --extra operator --extra console --extra postgres -o requirements/operator.txt
pin --group build -o requirements/build.txt
