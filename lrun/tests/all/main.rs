//! The real `lrun` against a fake master, over real sockets and pipes.

mod away;
mod ends;
mod refusals;
mod signals;
mod stage;
mod stdio;
mod terminal;
