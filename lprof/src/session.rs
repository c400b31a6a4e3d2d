//! Sessions of limo-2018, section 3.2: a generator sends the packages of a workload to an executor, whose application
//! processes them. One session is one workload.

pub mod executor;
pub mod generator;
pub mod wire;
