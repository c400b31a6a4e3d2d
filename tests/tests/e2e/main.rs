//! End to end: the real programs on loopback, real jobs, real signals.

mod budget;
mod digest;
mod full_disk;
mod gibibyte;
mod history;
mod ledger;
mod listing;
mod load;
mod master_crash;
mod meters;
mod node_crash;
mod node_show;
mod refusals;
mod replay;
mod run;
mod selectors;
mod settings;
mod signals;
mod silent_node;
mod steer;
mod stop;
mod surroundings;
mod torrent;
mod users;
mod what_if;
