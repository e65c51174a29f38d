# make demo    the main job on the embedded Postgres, with the console; Ctrl-C ends it
# make test    everything but Kubernetes; installs what it needs
# make e2e     the same system on a real Kubernetes
# make check   lint, types, architecture, generated files
# make build   wheel, sdist and, where docker is, the images
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
DEMO_PORT ?= 8320
# ONCE=1 makes `make demo` exit when the report is there.
ONCE ?=

.PHONY: help demo test e2e check build format generate pins tools clean

help:
	@sed -n 's/^# //p' $(firstword $(MAKEFILE_LIST))

.venv/installed: requirements/dev.txt pyproject.toml
	@echo "setting up .venv (a minute the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

tools: .venv/installed
	@tools/install-test-tools

demo: .venv/installed
	@PYTHONPATH=examples $(BIN)/runnerq dev -f examples/docs_index/queue.yaml \
	  --console-port $(DEMO_PORT) $(if $(ONCE),--once,) --run "$(BIN)/python -m docs_index.run"

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m runnerq_operator.model.generate --check
	tools/check-generated

test: tools
	$(BIN)/pytest tests --ignore=tests/cluster

e2e: .venv/installed
	$(BIN)/python -m tests.cluster install-packages
	$(BIN)/pytest tests/cluster -m "cluster or not cluster"

build: .venv/installed
	$(BIN)/python -m build --no-isolation --outdir dist .
	@if docker info >/dev/null 2>&1; then \
	  docker build -f Dockerfile.worker -t runnerq/worker:dev . && \
	  docker build -f Dockerfile.operator -t runnerq/operator:dev . ; \
	else echo "no docker here: the images are left out (make e2e builds them with buildah)"; fi

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: .venv/installed
	$(BIN)/python -m runnerq_operator.model.generate

pins:
	PATH="$(CURDIR)/$(BIN):$$PATH" requirements/update.sh

clean:
	rm -rf .venv dist build .runnerq
