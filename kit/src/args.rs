//! Arguments that every program has.

use std::{net::SocketAddr, path::PathBuf};

/// Flattened into each program's own arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct CommonArgs {
    /// Configuration file (YAML): node label, annotation keys, resource names, placement
    #[arg(long, value_name = "FILE", env = "LJ_RUNTIMEKIT_CONFIG")]
    pub config: Option<PathBuf>,

    /// Where /healthz, /readyz and /metrics are served; "none" serves them nowhere
    #[arg(
        long,
        value_name = "ADDR",
        env = "LJ_RUNTIMEKIT_ADMIN_LISTEN",
        default_value = "none"
    )]
    pub admin_listen: AdminListen,

    /// The least that is logged: error, warn, info, debug, trace, or target=level pairs
    #[arg(
        long,
        value_name = "LEVEL",
        env = "LJ_RUNTIMEKIT_LOG",
        default_value = "info"
    )]
    pub log_level: String,

    /// How a log line is written
    #[arg(
        long,
        value_name = "FORMAT",
        env = "LJ_RUNTIMEKIT_LOG_FORMAT",
        default_value = "text"
    )]
    pub log_format: LogFormat,
}

/// How a log line is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// An address to serve on, or nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminListen {
    /// Serve nothing.
    Nowhere,
    /// Serve here; port 0 takes any free one and logs it.
    At(SocketAddr),
}

impl std::str::FromStr for AdminListen {
    type Err = std::net::AddrParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            Ok(Self::Nowhere)
        } else {
            text.parse().map(Self::At)
        }
    }
}
