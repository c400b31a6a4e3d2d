//! Subcommands, each in its own file.

mod compare;
mod generate;
mod import;
mod policies;
mod pool;
mod replay;
pub mod run;
mod solve;
mod sweep;
mod what_if;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Simulate one workload under one policy
    Run(Box<run::Arguments>),
    /// Simulate all combinations of the policies, budgets and workloads in a file
    Sweep(sweep::Arguments),
    /// Compare two results
    Compare(compare::Arguments),
    /// Make a synthetic workload
    Generate(generate::Arguments),
    /// Clean a workload and write it in the Standard Workload Format; import the files of a pool
    Import(import::Arguments),
    /// Remove from histories and event logs of HTCondor what only their owners may know
    Sanitise(pool::Sanitising),
    /// List the policies with their sources and options
    Policies(policies::Arguments),
    /// Replay a master's journal and compare each round with the recorded one
    Replay(replay::Arguments),
    /// Simulate a cluster's history with other settings
    WhatIf(what_if::Arguments),
    /// Solve one problem of a policy, to compare a solver with others
    #[command(subcommand)]
    Solve(solve::Solve),
    #[command(hide = true, disable_help_flag = true)]
    Reproduce(Moved),
    #[command(hide = true, disable_help_flag = true)]
    Bench(Moved),
}

/// Arguments of a command that moved to `lab`.
#[derive(Debug, clap::Args)]
pub struct Moved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Command {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::Run(arguments) => run::run(&arguments),
            Self::Sweep(arguments) => sweep::run(&arguments),
            Self::Compare(arguments) => compare::run(&arguments),
            Self::Generate(arguments) => generate::run(&arguments),
            Self::Import(arguments) => import::run(&arguments),
            Self::Sanitise(arguments) => pool::sanitise(&arguments),
            Self::Policies(arguments) => policies::run(&arguments),
            Self::Replay(arguments) => replay::run(&arguments),
            Self::WhatIf(arguments) => what_if::run(&arguments),
            Self::Solve(arguments) => solve::run(&arguments),
            Self::Reproduce(_) | Self::Bench(_) => bail!(self.moved().unwrap_or_default()),
        }
    }

    /// Returns what to type instead, if the command moved to `lab`.
    pub fn moved(&self) -> Option<String> {
        let (name, Moved { arguments }) = match self {
            Self::Reproduce(moved) => ("reproduce", moved),
            Self::Bench(moved) => ("bench", moved),
            _ => return None,
        };
        let given: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
        let typed = ["cargo lab", name].into_iter().chain(given.iter().map(|argument| &**argument)).collect::<Vec<_>>();
        Some(format!(
            "`lsim {name}` is now `lab {name}`, which is not installed: in Limo's sources, type `{}`\n",
            typed.join(" ")
        ))
    }
}
