//! The real `lrun` against a master that says what the test says, over real sockets and pipes.

mod away;
mod ends;
mod refusals;
mod signals;
mod stage;
mod stdio;
mod terminal;
