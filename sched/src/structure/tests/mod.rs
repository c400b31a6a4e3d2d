//! Each structure against a naive one that is plainly right, step by step.

mod bits;
mod jobs;
mod levels;
mod waiting;
