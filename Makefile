# Every target works from a fresh clone: `setup` is run first and does nothing when it is current.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.tiltyard-ready

.PHONY: setup demo test chaos bench bench-quick bench-docker lint types contracts check lock proto clean help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(STAMP)  ## make .venv with the pinned packages and the tiltyard command

$(STAMP): requirements/dev.txt pyproject.toml
	@command -v "$(PYTHON)" >/dev/null && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "tiltyard needs Python 3.11 or later; set PYTHON=/path/to/python3.11"; exit 2; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || \
	  { echo "making a virtual environment in $(VENV)"; "$(PYTHON)" -m venv --clear $(VENV); } || \
	  { rm -rf $(VENV); echo "python3 cannot make a virtual environment: install the package python3-venv"; exit 2; }
	@echo "installing the pinned packages into $(VENV): a minute or two, once"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@echo "installing the tiltyard command: $(BIN)/tiltyard"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: setup  ## run the main job: episodes that lose replies and workers, and lose nothing
	@$(BIN)/tiltyard demo

test: setup  ## pass the tests
	$(BIN)/pytest -m 'not chaos' -n 3 --dist loadfile --no-loadscope-reorder

chaos: setup  ## the long run under random kills and losses
	$(BIN)/pytest -m chaos -s --timeout 3600

bench: setup  ## medians and ratios: Temporal, commands, namespaces, whole episodes, memory
	@$(BIN)/python -m ops.bench

bench-quick: setup  ## the same in a minute or two, with too few of anything for a verdict
	@$(BIN)/python -m ops.bench --episodes 20

bench-docker: setup  ## the same of Docker's sandboxes, against the bare engine
	@$(BIN)/python -m ops.bench --only docker --only docker-episodes

lint: setup  ## ruff: style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup  ## mypy, strict
	$(BIN)/mypy

contracts: setup  ## imports point one way; the gRPC stubs are current
	$(BIN)/lint-imports
	$(BIN)/python -m infra.rpc.generate --check

check: lint types contracts test  ## all that CI runs

proto: setup  ## make the gRPC stubs again
	$(BIN)/python -m infra.rpc.generate

lock: setup  ## pin the packages again, with hashes and without addresses
	$(BIN)/python -m pip install --quiet uv
	cd requirements && for set in run dev; do \
	  ../$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    ../pyproject.toml $$([ $$set = dev ] && echo --group ../pyproject.toml:dev) -o $$set.txt; done

clean:  ## remove what setup and the tools made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
