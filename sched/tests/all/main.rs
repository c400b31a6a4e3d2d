//! External tests of the scheduling core: stories, properties over random clusters, broken plans, and EASY by its
//! definition.

mod arrays;
mod backfill;
mod brute;
mod budgets;
mod checker;
mod checker_caps;
mod checker_power;
mod delays;
mod easy;
mod ends;
mod golden;
mod gres;
mod lists;
mod overshoot;
mod packed;
mod planned;
mod predicted;
mod properties;
mod random;
mod readings;
mod scenarios;
mod steps;
mod story;
mod time_limits;
mod world;
