# cargo and the scripts do the work; this names the commands.
PROFILE ?= release

.PHONY: build demo test test-scripts bench fuzz fmt lint docker e2e e2e-up e2e-down help

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
test: lint build test-scripts ## format, lints, unit, property, structure and scenario tests
	cargo test --locked --workspace

test-scripts: ## the scripts of deploy/, with stand-ins for what they call
	@deploy/tests/images.sh
	@deploy/tests/deploy-all.sh

fuzz: ## what others send us, each target for SECONDS=30; TARGETS=
	@fuzz/run.sh

bench: ## programs beside their floors: BENCH=extender|device-plugin|exporter CHECK=1 PROFILE=e2e TARGET=
	cargo build --locked --profile $(PROFILE) $(if $(TARGET),--target $(TARGET)) -p scheduler -p device-plugin -p exporter -p bench
	@$(or $(CARGO_TARGET_DIR),target)/$(if $(TARGET),$(TARGET)/)$(PROFILE)/bench $(BENCH) $(if $(filter-out 0,$(CHECK)),--check)

docker: ## the images: COMPONENT= REGISTRY= VERSION= CLI=docker|podman|nerdctl|buildah|ctr|archive
	@deploy/images.sh $(if $(COMPONENT),--component=$(COMPONENT)) $(if $(REGISTRY),--registry=$(REGISTRY)) \
	  $(if $(VERSION),--version=$(VERSION)) $(if $(CLI),--cli=$(CLI))

e2e: ## the scenarios on a real cluster, from nothing to nothing; root; KUBE_VERSION= TESTS=
	@e2e/run.sh

e2e-up: ## the real cluster with the kit on it, for trying by hand
	@e2e/run.sh up

e2e-down: ## takes it down
	@e2e/run.sh down
