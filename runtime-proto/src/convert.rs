//! Between wire messages and `model` types.
