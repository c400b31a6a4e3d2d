//! Real programs under faults: of processes, networks, disks and the database. Nothing that was accepted is lost, and
//! nothing happens twice.

mod cuts;
mod fault;
mod random;
mod relay;
mod site;
mod takeover;
mod work;
