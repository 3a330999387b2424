#!/bin/sh
# Runs the fuzz targets one after the other. SECONDS= for each (30), TARGETS= some of them.
# Installs nothing. What was found new stays in fuzz/found, what failed in fuzz/artifacts.
set -eu

# Of make, not the count that some shells keep under this name.
seconds=$(printenv SECONDS || echo 30)
cd "$(dirname "$0")"

missing=
cargo +nightly --version >/dev/null 2>&1 || missing="$missing
  rustup toolchain install nightly --profile minimal"
cargo fuzz --version >/dev/null 2>&1 || missing="$missing
  cargo install --locked cargo-fuzz"
if [ -n "$missing" ]; then
  echo "fuzzing needs what is not installed here:$missing" >&2
  exit 1
fi

# Without a sanitizer: the kit has no unsafe code, and the targets count allocations themselves.
for target in ${TARGETS:-$(cargo fuzz list)}; do
  echo "$target for ${seconds} s"
  mkdir -p "found/$target"
  cargo +nightly fuzz run --sanitizer none "$target" "found/$target" "seeds/$target" -- \
    -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=1024 -print_final_stats=1
done
