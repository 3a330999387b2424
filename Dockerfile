# The programs are static: an image is one file. A target a program; two ways to the same result:
#   make docker      builds with cargo here and copies the program
#   docker build --build-arg FROM=builder --target exporter .
#                    builds inside the container, for machines without Rust
ARG FROM=prebuilt

FROM scratch AS prebuilt
COPY lj-runtimekit-* /out/

FROM docker.io/library/rust:1.95-slim AS builder
RUN apt-get update && apt-get install -y --no-install-recommends musl-tools && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    triple=$(uname -m)-unknown-linux-musl && rustup target add "$triple" \
    && RUSTFLAGS="--remap-path-prefix=/usr/local/cargo=/cargo" cargo build --release --locked --target "$triple" \
       --package device-plugin --package scheduler --package exporter --package controller --package job-agent \
    && mkdir /out && find "target/$triple/release" -maxdepth 1 -name 'lj-runtimekit-*' -executable -exec cp {} /out/ \;

FROM ${FROM} AS programs

# Root, where the sockets that a program opens belong to root.
FROM scratch AS device-plugin
COPY --from=programs /out/lj-runtimekit-device-plugin /
USER 0
ENTRYPOINT ["/lj-runtimekit-device-plugin"]

FROM scratch AS exporter
COPY --from=programs /out/lj-runtimekit-exporter /
USER 0
ENTRYPOINT ["/lj-runtimekit-exporter"]

FROM scratch AS job-agent
COPY --from=programs /out/lj-runtimekit-controller-job-agent /
USER 0
ENTRYPOINT ["/lj-runtimekit-controller-job-agent"]

FROM scratch AS controller
COPY --from=programs /out/lj-runtimekit-controller /
USER 65532
ENTRYPOINT ["/lj-runtimekit-controller"]

FROM scratch AS scheduler
COPY --from=programs /out/lj-runtimekit-scheduler /
USER 65532
ENTRYPOINT ["/lj-runtimekit-scheduler"]
