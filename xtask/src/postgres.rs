//! `cargo xtask postgres DIR`: starts a private PostgreSQL server for tests, of the packages of Debian, and prints its
//! address.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use limo_requirements::{POSTGRES, PostgresServer};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory of the server; created if missing. Its path must be shorter than 90 bytes
    dir: PathBuf,
    /// Stop the server
    #[arg(long)]
    stop: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let dir = std::path::absolute(&arguments.dir).context("there is no current directory")?;
    let server = PostgresServer::of(&dir).context("cannot find PostgreSQL")?;
    if arguments.stop {
        return server.stop().with_context(|| format!("cannot stop the server in {}", dir.display()));
    }
    server.start().with_context(|| format!("cannot start a server: see {}", dir.join("log").display()))?;
    println!("{POSTGRES}='{}'", server.address("postgres"));
    Ok(())
}
