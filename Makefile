# `make` lists what there is. Every target sets up what it needs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest
SOURCES := operator trainer-image tests
export PYTHONPATH := $(CURDIR)/operator:$(CURDIR)/trainer-image:$(CURDIR)

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Main
.PHONY: demo test
demo: setup cluster-with-images ## Train the example that goes bad, watch it being rolled back
	$(BIN)/python -m tests.demo

test: check verify-generated setup cluster-with-images ## All tests but the slow ones, on a real cluster that is brought up first
	$(PYTEST) --durations=15 -m "not slow" tests/chart tests/rules tests/integration tests/e2e

##@ Daily
.PHONY: check lint format type layering unit golden generate verify verify-generated
check: setup lint type layering unit ## Lint, types, layering, quick tests (under a minute)

lint: setup ## Ruff
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: setup ## Reformat and mend what can be mended
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

type: setup ## Mypy, strict
	$(BIN)/mypy operator/ppojob_contract operator/ppojob_operator trainer-image/ppojob_trainer tests/cluster tests/support tests/demo tests/bench tests/faults

layering: setup ## Who may import whom (.importlinter)
	$(BIN)/lint-imports

unit: setup ## Tests that need nothing but Python
	$(PYTEST) -q tests/unit tests/properties tests/golden tests/contract

golden: setup ## Rewrite the golden files from what is rendered now
	$(PYTEST) -q tests/golden --update-golden

generate: setup ## Rewrite what is generated: CRD, chart's copy of it, reference pages, alerts, dashboards
	$(BIN)/python -m ppojob_operator.codegen

verify-generated: setup ## Are generated files current?
	$(BIN)/python -m ppojob_operator.codegen --check

verify: check verify-generated ## Generated files are current; lint, types, layering, quick tests pass

##@ Longer
.PHONY: test-pipeline test-long test-trainer bench-scale bench-rollback test-faults test-smollm2 test-release
bench-rollback: setup cluster-with-images ## Seconds of a rollback: in place, by a new start, by KubeRay (12 minutes)
	$(BIN)/python -m tests.bench.rollback

bench-scale: setup cluster-build ## What the operator costs with 1,000 jobs (JOBS=n for another number)
	$(BIN)/python -m tests.bench.scale --jobs $(or $(JOBS),1000)

test-faults: setup cluster-with-images ## What is killed or damaged in a rollback: docs/faults.md (an hour; ONLY=word, REST=1 what is not well yet)
	code=0; $(BIN)/python -m tests.faults --only "$(ONLY)" $(if $(REST),--rest) || code=$$?; $(BIN)/python -m tests.faults --report; exit $$code

test-long: setup cluster-with-images ## Operator killed four times in a run, silence, a slow stop, a head pod deleted, a judge that is down (16 minutes)
	$(PYTEST) -s -m slow tests/e2e/test_mended.py tests/e2e/test_operator_killed.py tests/e2e/test_silence.py tests/e2e/test_slow_stop.py tests/e2e/test_told.py

test-trainer: setup cluster-with-images ## The trainer alone on real verl: stops, deaths, hot rollbacks killed at each point
	$(PYTEST) -s tests/e2e/test_trainer.py

test-pipeline: setup cluster-up images ## Raw files to exported model, a stage killed in between; a trial; gates (11 minutes)
	$(PYTEST) -s tests/e2e/test_pipeline.py

test-smollm2: setup cluster-with-images ## SmolLM2-135M on CPU: GRPO on GSM8K rows; the whole pipeline (35 minutes)
	$(PYTEST) -s -m slow tests/e2e/test_smollm2.py

.PHONY: curves test-rules
curves: setup ## Draw docs/pictures from the recorded run
	$(BIN)/python -m tests.bench.curves

test-release: setup cluster-with-images ## The packaged chart: fresh install, upgrade in a training, failover, uninstall (10 minutes)
	$(PYTEST) -s -m slow tests/chart/test_release.py

test-rules: setup cluster-build ## Alerts and their exact firing times, with promtool (a minute once it is built)
	$(PYTEST) -q tests/rules

.PHONY: explore mutants
explore: setup ## New examples for the property tests and the state machine
	HYPOTHESIS_PROFILE=explore $(PYTEST) -q tests/properties

mutants: setup ## Mutation tests of the domain (MODULES="hot targets" for some of it, TESTS for other tests): docs/mutation.md
	tests/mutants.sh $(MODULES)

##@ Set-up
.PHONY: setup lock images image-cuda clean
setup: $(VENV)/.ready ## Python environment in .venv

$(VENV)/.ready: tests/requirements.txt tests/setup.sh
	tests/setup.sh $(PYTHON) $(VENV)
	touch $@

lock: setup ## Lock the development environment anew
	$(BIN)/pip install -q uv
	$(BIN)/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
		tests/requirements.in -o tests/requirements.txt

images: ## Operator and trainer image, into the cluster
	$(PYTHON) -m tests.cluster image operator
	$(PYTHON) -m tests.cluster image trainer-cpu

image-cuda: ## The trainer image for NVIDIA GPUs, in buildah's store only (7 minutes; 11 GB, twice that on the way)
	$(PYTHON) -m tests.cluster image trainer-cuda --no-load

clean: cluster-down ## Stop the cluster, remove the environment; builds stay cached
	rm -rf $(VENV)

include tests/cluster/cluster.mk
