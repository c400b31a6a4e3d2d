//! Parts that Limo's clients share: calls to a master, reading of arguments, display of answers.
//!
//! Makes no decision about jobs. Prints only failures; each program has its own texts.

#![warn(missing_docs)]

mod backoff;
mod beside;
mod candidates;
mod curve_file;
mod enrol;
mod failure;
mod gauge;
mod hosts;
mod in_place;
mod label;
mod location;
mod master;
mod nodes;
mod progress;
mod screen;
mod selectors;
mod session;
mod slurm;
mod table;
mod usage;
mod waiting;
mod warning;

pub mod exit;

pub use backoff::{Patience, ReconnectArg, Retries};
pub use beside::{lrun, program};
pub use candidates::candidate_table;
pub use curve_file::{CurveFileError, band_of, parse_limit, read_budgets, read_limits, read_prices};
pub use enrol::NewKey;
pub use failure::{Failure, answer, answer_json, answer_screen, finish, in_runtime, tell};
pub use gauge::{band_in_words, gauge, limits_to_come, mode_in_words, price_in_words};
pub use in_place::InPlace;
pub use label::job_label;
pub use limo_json as json;
pub use limo_json::{Clock, TimeError, Used, dependencies, elapsed, end_in_words, parse_signal, signal_name};
pub use location::{AddressError, Master, MasterArg};
pub use master::{AskError, ClientConnection};
pub use nodes::node_table;
pub use screen::{Screen, Tint};
pub use selectors::{JobsArg, Named, SelectorError, Selectors, resolve, selectors};
pub use session::Session;
pub use slurm::slurm_words;
pub use table::{Align, Room, Table, marked, or_dash, plain, plain_lines};
pub use usage::{complaint_of, parse};
pub use waiting::until_over;
pub use warning::{may_be_user, warn};
