# `make` lists the targets. Extra arguments: make run ARGS="--port 0", make test ARGS="-k hooks".
ARGS ?=
BIN := .venv/bin
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help run install install-dev test test-deep test-lowest check format docs bench soak release lock clean git

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

run: install ## start the server on 127.0.0.1:8000 with its data in ./data (ARGS="--port 0" …)
	@exec $(BIN)/workhook serve --data "$${WORKHOOK_DATA:-./data}" $(ARGS)

install: ## make the environment in .venv; the command is then .venv/bin/workhook (PYTHON=… chooses the interpreter)
	@scripts/environment runtime

install-dev: ## make the environment in .venv with everything that tests and checks need
	@scripts/environment dev

# Many processes import the same modules: without compiled ones that would be most of what they do.
test: export PYTHONDONTWRITEBYTECODE =
test: git install-dev ## run every test, each file on one of the two databases (TESTS=whole: on both; ARGS="-k hooks" …)
	@exec $(BIN)/pytest -n auto --dist loadfile $(ARGS)

# In a clone of its own, so that .venv here stays as it is. Only this target needs another interpreter.
LOWEST ?= /usr/bin/python3.11
test-lowest: git ## run the tests with the lowest supported Python, of Debian 12 (LOWEST=… names another interpreter)
	@rm -rf build/lowest && git clone --quiet . build/lowest
	@$(MAKE) --no-print-directory -C build/lowest test PYTHON=$(LOWEST)

test-deep: ## run every test with ten times the examples, rounds and crashes where there is no end of them
	@TESTS=deep $(MAKE) --no-print-directory test

check: git install-dev ## format, lint, types and the rules of the repository; changes nothing
	@failed=; \
	$(BIN)/ruff format --check . || failed="$$failed format"; \
	$(BIN)/ruff check . || failed="$$failed lint"; \
	$(BIN)/mypy $(wildcard src scripts tests bench) || failed="$$failed types"; \
	$(BIN)/python -m scripts.check_repository || failed="$$failed repository"; \
	if [ -n "$$failed" ]; then echo "check: failed:$$failed" >&2; exit 1; fi

format: install-dev ## format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: install-dev ## build the documentation as a static site in build/docs; a dead link is an error
	@$(BIN)/python -m sphinx -q -W -n --keep-going -b html -d build/doctrees docs build/docs
	@echo "docs: open build/docs/index.html"

bench: install-dev ## measure, print the table and write JSON (ARGS=…)
	@exec $(BIN)/python -m bench $(ARGS)

soak: install-dev ## run for an hour at half rate, watch memory and descriptors (ARGS=--postgresql)
	@exec $(BIN)/python -m bench soak $(ARGS)

release: git install-dev ## build wheel, source distribution, SBOM and SHA256SUMS of the commit into dist/VERSION
	@$(BIN)/python -m scripts.release $(ARGS)

lock: ## write requirements/*.txt anew from pyproject.toml (ARGS=--upgrade takes newer versions)
	@scripts/lock $(ARGS)

clean: ## remove the environment, caches and builds; ./data stays
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name node_modules -type d -prune -exec rm -rf {} +

git:
	@command -v git >/dev/null 2>&1 || { \
		echo "git is missing: checks and tests need it (Debian and Ubuntu: apt-get install git; macOS: xcode-select --install)" >&2; \
		exit 1; }
