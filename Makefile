# `make run` sets everything up and does the main job; `make test` sets everything up and passes the default tests.
PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
TRITON ?= 3.9.0
PIP = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check
# where tensors have shapes, and types are checked at run time; elsewhere wrong types are part of the tests
SHAPED = posenc.positions,posenc.frequencies,posenc.scheme,posenc.schemes,posenc.kernels,posenc.attention,posenc.models,posenc.workbench.training,posenc.measure,posenc.contract
CPU_TORCH = $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX),)

PYTEST = $(VENV)/bin/pytest -n 2 --dist worksteal
PYRIGHT = $(VENV)/bin/pyright --pythonpath $(VENV)/bin/python
HOOK = --jaxtyping-packages=$(SHAPED),typechecker.beartype
SINCE ?= HEAD
# With COVERAGE=1 the default tests also count the lines of src that they execute, and at least 90 % must be.
COVERAGE ?=
COVERED = $(if $(COVERAGE),--cov --cov-report=term:skip-covered --cov-fail-under=90,)
# The tests start many processes, which would compile the whole package each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run quick fuzz test test-all test-shapes test-rest site-test cluster-test kernel-test checks lint bench docs dist clean

.DEFAULT_GOAL := run

help:  ## list these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /	/' | sort | expand -t 16

# Six of the eleven encodings of the preset quick, which show its large differences in three minutes on two cores.
run: $(VENV)/.run  ## set up, train six encodings on Latin squares, print the address of a live page
	$(VENV)/bin/posenc run latin-squares --panels accuracy --schemes 2d-fixed 1d-fixed learned-0.2 learned-2 rope nope

quick: $(VENV)/.test  ## check what a change touches: make quick, or make quick SINCE=main
	$(VENV)/bin/python tools/quick.py --since $(SINCE)

SECONDS ?= 60
fuzz: $(VENV)/.test  ## change bytes of files at random and read them: make fuzz SECONDS=1200 for each reader
	$(VENV)/bin/python tools/fuzz.py --seconds $(SECONDS)

# Types are checked on one core in the time that the tests need; what pyright says comes last, and counts.
test: lint  ## set up, pass the default tests: about 16 minutes on two cores
	@echo "$(PYRIGHT), beside the tests"; $(PYRIGHT) >$(VENV)/.pyright.txt 2>&1 & types=$$!; \
	status=0; echo '$(PYTEST) -m "not full" $(COVERED)'; $(PYTEST) -m "not full" $(COVERED) || status=$$?; \
	wait $$types || status=1; echo "pyright:"; cat $(VENV)/.pyright.txt; exit $$status

test-all: COVERAGE = 1
test-all: test test-shapes test-rest site-test  ## set up, pass every test of this machine: 75 to 90 minutes on two cores

# The shape hook and torch.compile do not go together; the tests marked `bare` gain nothing from it.
test-shapes: $(VENV)/.test  ## every test that the run-time check of shapes and types reaches, with that check
	$(PYTEST) -m "not compile and not bare" $(HOOK)

test-rest: $(VENV)/.test  ## the tests that neither of the two ran
	$(PYTEST) -m "full and (compile or bare) and not site"

site-test: $(VENV)/.test  ## build the site, follow its links, open it in a browser: a few minutes
	$(VENV)/bin/pytest -m site tests/website

# It starts munged, slurmctld, two slurmd and two nodes of Ray on loopback addresses, and stops what it started.
cluster-test: $(VENV)/.test  ## one study here, on two nodes of Ray and on two of SLURM: equal tables
	$(VENV)/bin/python tests/cluster/compare.py

# Triton lies beside the packages of the environment: where torch.compile finds it on a CPU, other tests compile
# other code. Kernels run interpreted, and are compiled for CUDA devices that need not be there.
kernel-test: $(VENV)/.triton  ## Triton's kernels against their torch forms, without a GPU: a minute or two
	TRITON_INTERPRET=1 PYTHONPATH=$(abspath $(VENV))/triton $(VENV)/bin/pytest -n 2 --dist loadfile tests/kernels/triton_forms

checks: lint  ## lint, types, generated files
	$(PYRIGHT)

lint: $(VENV)/.test  ## lint, generated files
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	@echo "pydoclint, tools/stub.py and tools/index.py"; $(VENV)/bin/python tools/index.py --check & index=$$!; status=0; \
	$(VENV)/bin/pydoclint --quiet src/posenc || status=1; $(VENV)/bin/python tools/stub.py --check || status=1; \
	wait $$index || status=1; exit $$status

bench: $(VENV)/.test  ## time the encoder against torch's layers
	$(VENV)/bin/python benchmarks/encoder.py

docs: $(VENV)/.test  ## build the site from documents, docstrings and results: build/site/index.html
	$(VENV)/bin/python tools/website

dist: $(VENV)/.test  ## build wheel and sdist, try the wheel in a clean environment
	$(VENV)/bin/python tools/dist.py

$(VENV)/.torch: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --constraint constraints.txt $(CPU_TORCH) torch
	touch $@

$(VENV)/.run: $(VENV)/.torch pyproject.toml
	$(PIP) --constraint constraints.txt --editable '.[analysis]'
	touch $@

$(VENV)/.test: $(VENV)/.torch pyproject.toml
	$(PIP) --constraint constraints.txt --editable '.[analysis,fields,vision,fmri,onnx,tb,text,places,ray,slurm]' 'pip>=25.1'
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --group dev --group oracles --group docs
	$(PIP) --constraint constraints.txt --no-deps timm torch-geometric fla-core  # torchvision, aiohttp, triton, which they ask for, are not needed
	touch $@ $(VENV)/.run

$(VENV)/.triton: $(VENV)/.test
	$(PIP) --no-deps --target $(VENV)/triton triton==$(TRITON)
	touch $@

clean:  ## remove the environment
	rm -rf $(VENV)
