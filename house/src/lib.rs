//! The rules of the house: who may depend on whom, how files are named and how long they are.
//! See `tests/`; docs/ARCHITECTURE.md says why each rule is there.
