//! What the targets share: that reading takes memory in proportion to what is read.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// For tables that are made once and small inputs.
const AT_LEAST: usize = 256 << 10;

/// Runs `read` on an input of `length` bytes, and fails where it allocates more than `each`
/// bytes for each of them. All that it allocates counts, given back or not, so that the bound is
/// one on its work too.
pub fn within<T>(length: usize, each: usize, read: impl FnOnce() -> T) -> T {
    let region = Region::new(ALLOCATOR);
    let value = read();
    let allocated = region.change().bytes_allocated;
    let most = AT_LEAST + each * length;
    assert!(
        allocated <= most,
        "{allocated} bytes allocated for an input of {length}, more than {most}"
    );
    value
}
