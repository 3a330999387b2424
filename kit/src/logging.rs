//! Log lines as text or JSON, filtered by level and target.
