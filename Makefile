# `make ask` and `make test` do all the set-up they need; a second run re-does nothing.
# Needs Python 3.11 or later, a C/C++ compiler, make and a package registry; no model hub, no GPU.

PYTHON ?= python3
export RAGQ_HOME ?= $(CURDIR)/.ragq
export QUESTION ?= interaction with anticoagulant?
export PATIENT ?= 42

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
LLAMA := $(shell sed -n 's/^llama[_-]cpp[_-]python==//p' constraints.txt)
# A stamp belongs to the home it was made for, and is worth nothing without what it stands for.
HOME_KEY := $(shell printf %s "$(RAGQ_HOME)" | cksum | cut -d' ' -f1)
$(if $(wildcard $(BIN)/python),,$(shell rm -rf .setup))
$(if $(wildcard $(RAGQ_HOME)/models),,$(shell rm -f .setup/*-$(HOME_KEY)))
$(if $(wildcard $(RAGQ_HOME)/index),,$(shell rm -f .setup/clinic-$(HOME_KEY)))

STEP = @printf '%s\n' "$(1)"
DONE = @touch $@
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup ask test lint types contracts bench eval peers clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

setup: .setup/clinic-$(HOME_KEY) ## .venv/bin/ragq with models and the sample index

ask: setup ## ask the sample patient: QUESTION="…" PATIENT=42
	@$(BIN)/ragq ask "$$QUESTION" --patient "$$PATIENT"

test: .setup/install .setup/test-models-$(HOME_KEY) ## run the tests; PYTEST_ARGS="-k name"
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: .setup/install ## ruff
	@$(BIN)/ruff check .

types: .setup/install .tree/ragq ## mypy --strict over the mapped package
	@MYPYPATH=.tree $(BIN)/mypy -p ragq

contracts: .setup/install .tree/ragq ## each folder imports only those below it
	@PYTHONPATH=.tree $(BIN)/lint-imports

bench: setup ## time one question: nothing kept, KV state kept, answer kept
	@$(BIN)/ragq cache clear --patient "$$PATIENT"
	$(call STEP,nothing kept:)
	@$(BIN)/ragq ask "$$QUESTION" --patient "$$PATIENT" --no-cache > /dev/null
	@$(BIN)/ragq cache warm --patient "$$PATIENT"
	$(call STEP,KV state of the patient summary kept:)
	@$(BIN)/ragq ask "$$QUESTION" --patient "$$PATIENT" > /dev/null
	$(call STEP,answer kept:)
	@$(BIN)/ragq ask "$$QUESTION" --patient "$$PATIENT" > /dev/null

eval: setup ## score the gold questions
	@$(BIN)/ragq eval qa

peers: .setup/peers ## the RAG stacks that `ragq eval peers` compares with, in .peers; prints their versions
	@.peers/bin/python -m pip freeze | grep -iE '^(llama|langchain|txtai|torch|transformers)'

clean: ## remove what the tools leave behind
	@rm -rf .tree .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## also remove the environments, models and indexes (.venv, .peers, .setup, .ragq)
	@rm -rf .venv .peers .setup .ragq *.egg-info

.setup/venv:
	$(call STEP,making .venv)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "expected Python 3.11 or later, found $$($(PYTHON) --version); run make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv
	@mkdir -p .setup
	$(DONE)

# llama.cpp goes first and alone, built from source on this machine. GCC 12 at -O3 takes the stores of the AMX tile
# configuration for dead and drops them, and the first batch then dies of SIGILL; the two flags keep the stores.
# A cached wheel may have been built without them, hence --no-cache-dir.
.setup/llama-$(LLAMA): .setup/venv
	$(call STEP,building llama.cpp: about 5 minutes on two cores)
	@CFLAGS='-fno-tree-dse -fno-dse' CXXFLAGS='-fno-tree-dse -fno-dse' \
	  $(PIP) install --no-cache-dir -c constraints.txt llama-cpp-python==$(LLAMA)
	$(DONE)

# The peers get the llama.cpp that was built above: the same code answers behind every stack, and nothing is built twice.
.setup/peers: eval/peers/constraints.txt .setup/llama-$(LLAMA)
	$(call STEP,making .peers: LlamaIndex; LangChain; txtai; LLMLingua)
	@$(PYTHON) -m venv .peers
	@cp -r $(BIN)/../lib/python*/site-packages/llama_cpp $(BIN)/../lib/python*/site-packages/llama_cpp_python-*.dist-info \
	  .peers/lib/python*/site-packages/
	@.peers/bin/python -m pip --disable-pip-version-check -qq install -r eval/peers/constraints.txt
	$(DONE)

.setup/install: pyproject.toml constraints.txt .setup/llama-$(LLAMA)
	$(call STEP,installing ragq and its tools)
	@$(PIP) install -c constraints.txt -e '.[dev]'
	$(DONE)

# The stamps below need an installed ragq, but a reinstall makes neither models nor the index wrong.
.setup/models-$(HOME_KEY): engine/catalogue.py | .setup/install
	$(call STEP,bringing the models to $(RAGQ_HOME): 1.2 GB, and as much again for the copy that suits this CPU)
	@$(BIN)/ragq models pull qwen2.5-coder-1.5b minilm-l6 minilm-l6-int8 > /dev/null
	@$(BIN)/ragq models optimise qwen2.5-coder-1.5b > /dev/null || [ $$? -eq 1 ]
	$(DONE)

.setup/test-models-$(HOME_KEY): engine/catalogue.py | .setup/install
	$(call STEP,bringing the models of the tests to $(RAGQ_HOME): 0.2 GB)
	@$(BIN)/ragq models pull smollm2-135m minilm-l6 minilm-l6-int8 > /dev/null
	$(DONE)

.setup/clinic-$(HOME_KEY): $(shell find corpora/clinic -type f) | .setup/models-$(HOME_KEY)
	$(call STEP,indexing the sample clinic)
	@$(BIN)/ragq demo > /dev/null
	$(DONE)

# The folders stand at the root and are mapped under one name on install, which type checkers cannot follow.
.tree/ragq: $(wildcard app app/*)
	@rm -rf $@ && mkdir -p $@
	@for path in app/*; do ln -s "../../$$path" "$@/"; done
	@for folder in eval pipeline tools cache compress index engine corpora; do ln -s "../../$$folder" "$@/"; done
