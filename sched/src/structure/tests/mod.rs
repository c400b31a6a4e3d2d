//! Each structure against a naive one that is plainly right, step by step.

mod bits;
mod levels;
mod waiting;
