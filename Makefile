# Two commands to know: `make demo` and `make test`. Everything lives in .venv; set-up happens once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUPPLY := $(VENV)/supply
LOCK := deploy/requirements.lock
READY := $(VENV)/ready
DEV := $(VENV)/ready-dev

unexport PYTHONDONTWRITEBYTECODE  # the tests start hundreds of processes, and none compiles again

.PHONY: demo test lint check floors newest traces libraries mutants audit lock sbom docs pictures clean
.DEFAULT_GOAL := demo

demo: $(READY)  ## the whole loop on generated traffic: healthy, degraded, recovered
	@$(BIN)/groundwatch demo

test: $(DEV)  ## every test, against real servers on loopback
	@$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

lint: $(DEV)  ## format, lint, types, and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

check: lint test  ## what CI runs
	$(BIN)/groundwatch demo --quick

floors newest:  ## the declared lower bounds, or the newest of everything, in a folder of their own, run what they must
	@PYTHON=$(PYTHON) .ci/bounds $@ $(VENV)/$@

traces: $(DEV)  ## what tracing libraries write today, recorded from their newest versions and read
	$(BIN)/python tests/fixtures/traces/record.py --newest --into $(VENV)/traces
	TRACES_FOLDER=$(VENV)/traces $(BIN)/pytest -q tests/integration/integrations/test_recorded_traces.py

libraries:  ## the tests of DeepEval's and RAGAS' metrics, and of promtool, with the real ones beside ours
	@PYTHON=$(PYTHON) .ci/libraries $(VENV)/libraries

mutants: $(DEV)  ## the share of small breaks that the tests of one room notice: make mutants ROOM=hook
	@test -d $(VENV)/mutants || $(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(VENV)/mutants cosmic-ray coverage
	@nice -n 10 $(BIN)/python .ci/mutants.py $(or $(ROOM),hook) --draw 60 --seed $(or $(SEED),1)

audit: $(SUPPLY)  ## known weaknesses of what is pinned; asks pypi.org, and fails where it cannot be asked
	@$(SUPPLY)/bin/pip-audit -r constraints.txt --no-deps --disable-pip --strict --progress-spinner off

lock: $(SUPPLY)  ## what the server installs, pinned as in constraints.txt, with the hash of every file
	@$(SUPPLY)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes -c constraints.txt \
		--extra server --no-annotate --no-header pyproject.toml -o $(LOCK)

sbom: $(SUPPLY)  ## what the locked server consists of, with licences, as CycloneDX in sbom.json
	@$(PYTHON) -m venv --clear --without-pip $(VENV)/locked
	@$(BIN)/python -m pip --python $(VENV)/locked install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	@$(SUPPLY)/bin/cyclonedx-py environment $(VENV)/locked --pyproject pyproject.toml --output-reproducible -o sbom.json

$(SUPPLY): $(READY)
	@$(PYTHON) -m venv $@ && $@/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom pip-audit uv

docs: $(DEV)  ## the documentation as a site, in site/; fails on a dead link
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

pictures: $(DEV)  ## the pictures of the pages in docs/, from a week of made-up traffic
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/messages.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "groundwatch needs Python 3.11 or newer and found %d.%d; try: make PYTHON=python3.12" % v[:2])'
	@echo "Setting up $(VENV) (once, about half a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[server]'
	@touch $@

$(DEV): $(READY)
	@echo "Setting up what the tests need (once, about a minute) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[server,dev]'
	@.ci/chromium $(VENV)/chromium
	@touch $@
