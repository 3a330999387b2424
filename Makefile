# cargo does the work; this names the two commands and what they need.
.PHONY: build demo test fmt lint help

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort

build: ## all programs, debug
	cargo build --locked --workspace

demo: build ## all five programs at work on a simulated node; KEEP=1 leaves it running
	@$(or $(CARGO_TARGET_DIR),target)/debug/testbed demo --log-level warn $(if $(filter-out 0,$(KEEP)),--keep)

fmt: ## format the code
	cargo fmt --all

lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

# The scenarios start the programs as processes, so these are built first.
test: lint build ## format, lints, unit, property, structure and scenario tests
	cargo test --locked --workspace
