//! Compares each structure with a simple, obviously correct one, step by step.

mod bits;
mod jobs;
mod levels;
mod waiting;
