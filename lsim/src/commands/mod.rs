//! The subcommands, each in a file of its own.

mod bench;
mod compare;
mod generate;
mod import;
mod policies;
mod replay;
mod reproduce;
mod run;
mod sweep;
mod what_if;

use std::process::ExitCode;

use anyhow::Result;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Simulate one workload under one policy
    Run(Box<run::Arguments>),
    /// Simulate all combinations of policies, budgets and workloads that a file names
    Sweep(sweep::Arguments),
    /// Set two results side by side
    Compare(compare::Arguments),
    /// Make a synthetic workload
    Generate(generate::Arguments),
    /// Clean a workload and write it in the Standard Workload Format
    Import(import::Arguments),
    /// Run the campaign of a paper again, beside its figures
    Reproduce(reproduce::Arguments),
    /// Measure speed and memory, beside limits and other simulators
    Bench(bench::Arguments),
    /// The policies, each with its source and options
    Policies(policies::Arguments),
    /// Run a master's journal again: every round must be the recorded one
    Replay(replay::Arguments),
    /// Simulate a cluster's own history under something else
    WhatIf(what_if::Arguments),
}

impl Command {
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::Run(arguments) => run::run(&arguments),
            Self::Sweep(arguments) => sweep::run(&arguments),
            Self::Compare(arguments) => compare::run(&arguments),
            Self::Generate(arguments) => generate::run(&arguments),
            Self::Import(arguments) => import::run(&arguments),
            Self::Reproduce(arguments) => reproduce::run_command(&arguments),
            Self::Bench(arguments) => bench::run(&arguments),
            Self::Policies(arguments) => policies::run(&arguments),
            Self::Replay(arguments) => replay::run(&arguments),
            Self::WhatIf(arguments) => what_if::run(&arguments),
        }
    }
}
