//! job-agent

/// Arguments.
#[derive(Debug, clap::Parser)]
#[command(version)]
pub struct Args {
    /// Common.
    #[command(flatten)]
    pub common: kit::CommonArgs,
}

impl AsRef<kit::CommonArgs> for Args {
    fn as_ref(&self) -> &kit::CommonArgs {
        &self.common
    }
}

/// Runs it.
pub async fn run(args: Args, chassis: kit::Chassis) -> Result<(), kit::Failure> {
    let _ = (args, chassis);
    todo!("helper")
}
