# The programs are static: an image is one file. Two ways to it:
#   make docker      builds with cargo here; each target copies its program from the context
#   docker build --target built --build-arg PACKAGE=exporter --build-arg COMPONENT=exporter --build-arg USER=0 .
#                    builds inside the container, for machines without Rust. The job agent is PACKAGE=job-agent
#                    COMPONENT=controller-job-agent; USER as of the program's own target below.

FROM docker.io/library/rust:1.95-slim AS builder
RUN apt-get update && apt-get install -y --no-install-recommends musl-tools && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
ARG PACKAGE
ARG COMPONENT
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    triple=$(uname -m)-unknown-linux-musl && rustup target add "$triple" \
    && RUSTFLAGS="--remap-path-prefix=/usr/local/cargo=/cargo" \
       cargo build --release --locked --target "$triple" --package "$PACKAGE" \
    && install -D -m 0755 "target/$triple/release/lj-runtimekit-$COMPONENT" /out/program

FROM scratch AS built
ARG USER=65532
COPY --from=builder /out/program /program
USER $USER
ENTRYPOINT ["/program"]

# Root, where the sockets that a program opens belong to root.
FROM scratch AS device-plugin
COPY lj-runtimekit-device-plugin /
USER 0
ENTRYPOINT ["/lj-runtimekit-device-plugin"]

FROM scratch AS exporter
COPY lj-runtimekit-exporter /
USER 0
ENTRYPOINT ["/lj-runtimekit-exporter"]

FROM scratch AS job-agent
COPY lj-runtimekit-controller-job-agent /
USER 0
ENTRYPOINT ["/lj-runtimekit-controller-job-agent"]

FROM scratch AS controller
COPY lj-runtimekit-controller /
USER 65532
ENTRYPOINT ["/lj-runtimekit-controller"]

FROM scratch AS scheduler
COPY lj-runtimekit-scheduler /
USER 65532
ENTRYPOINT ["/lj-runtimekit-scheduler"]
