//! The admin server: `/healthz`, `/readyz`, `/metrics`.
