#!/usr/bin/env bash
# Pins every dependency with its hashes. No index address is written: pip uses whatever index
# the machine is configured for, and refuses anything whose hash differs.
#   dev.txt      what developing and testing need
#   worker.txt   what Dockerfile.worker installs
#   operator.txt what Dockerfile.operator installs (operator and console)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pin() {
  uv pip compile -q pyproject.toml --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-annotate --no-header "$@"
}
pin --extra all --group lint --group test --group build -o requirements/dev.txt
pin --extra postgres --extra metrics -o requirements/worker.txt
pin --extra operator --extra console --extra postgres -o requirements/operator.txt
