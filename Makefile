# The two commands of the README are `make campaign` and `make test`. Every target sets up what it needs first.

PYTHON = .venv/bin/python
JOBS ?= 2
TIER = "not slow and not browser and not live"

KILLS ?= 3
SEED ?= 1
CLOUD ?= local
FROM ?= 0
SLICE = $(if $(SLICE_S),--slice-s $(SLICE_S)) $(if $(STATE),--state $(STATE))

.PHONY: setup setup-dev campaign test check bench kill chaos faults clean
.DEFAULT_GOAL := campaign

setup:
	@tools/setup

setup-dev:
	@tools/setup --dev

campaign: setup
	.venv/bin/megatok run recipes/campaigns/local.yaml

test: setup-dev
	@# Real servers, engines and kills share the processors: what failed side by side must pass alone, or it is red.
	$(PYTHON) -m pytest -n $(JOBS) --dist loadgroup -m $(TIER) $(ARGS) || \
		$(PYTHON) -m pytest -n 0 --last-failed --last-failed-no-failures none -m $(TIER) $(ARGS)

check: setup-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy .
	.venv/bin/lint-imports --no-logo
	$(PYTHON) -m pytest -q -p no:xdist tests/test_style.py
	tools/lock --check

bench: bench-fanout bench-up bench-stop

bench-%: setup-dev
	@$(PYTHON) tools/bench_$*.py

kill: setup-dev
	@$(PYTHON) -m tools.kill_anywhere --kills $(KILLS) --seed $(SEED)

chaos: setup-dev
	@$(PYTHON) -m tools.chaos --kills $(KILLS) --seed $(SEED) --jobs $(JOBS) --cloud $(CLOUD) --from $(FROM) $(SLICE)

faults: setup-dev
	@$(PYTHON) -m tools.faults --jobs $(JOBS) $(SLICE)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
