//! The applications that an executor has: limo-2018, section 3.2.4. Each is in a list, with its number on the wire.
//!
//! An application that cannot run on this machine is refused when a session asks for it, and the program goes on.

mod dummy;
pub mod lud;

use thiserror::Error;

/// An application in one session: `process` and `fini` of Listing 3.2.
pub trait Application {
    /// Processes the input of one job, and may replace it with the result.
    ///
    /// # Errors
    /// If the input is wrong or the device fails; the session ends with that.
    fn process(&mut self, input: &mut [u8]) -> Result<(), ApplicationError>;

    /// Waits until all jobs are done and releases the device.
    ///
    /// # Errors
    /// If the device fails.
    fn fini(self: Box<Self>) -> Result<(), ApplicationError>;
}

/// Reason why an application cannot be used, or a job fails.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApplicationError {
    /// An option in the name of the session is unknown or has a wrong value.
    #[error("the option {word:?} in the session name is unknown or wrong; possible here: {known}")]
    Option {
        /// The option as it is written.
        word: String,
        /// The options of the application.
        known: &'static str,
    },
    /// Something is not installed.
    #[error("{what}: install {get}")]
    Missing {
        /// The obstacle, such as a library that cannot be loaded.
        what: &'static str,
        /// Packages that have it.
        get: &'static str,
    },
    /// A session asks for a device that is not there.
    #[error("device={wanted} is not one of the {known} devices, which `lprof apps` lists from 0")]
    NoDevice {
        /// Number of the device.
        wanted: usize,
        /// Number of devices.
        known: usize,
    },
    /// The device has too little memory for an input.
    #[error("the matrix of {size} bytes is larger than the {limit} bytes that the device has for it")]
    Memory {
        /// Size of the matrix, in bytes.
        size: u64,
        /// The largest possible size, in bytes.
        limit: u64,
    },
    /// A device or its driver fails.
    #[error("{message}")]
    Device {
        /// Message of the driver.
        message: String,
    },
    /// An input is not a matrix that can be decomposed.
    #[error("the input of {size} bytes is not a square matrix of f32 whose dimension is a multiple of 16")]
    Dimension {
        /// Size of the input.
        size: u64,
    },
    /// A decomposition is wrong.
    #[error("the result is wrong: its residual is {residual}, not below {:e}", lud::RESIDUAL)]
    Wrong {
        /// The relative residual.
        residual: String,
    },
}

/// An application by name.
#[derive(Debug)]
pub struct Entry {
    /// Number in a `StreamInit`.
    pub id: u16,
    /// Name in commands.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Prepares a session (`init` of Listing 3.2). The argument is the name of the session.
    pub init: fn(&str) -> Result<Box<dyn Application>, ApplicationError>,
    /// Lists the devices that it can use here; fails if something is missing.
    pub devices: fn() -> Result<Vec<String>, ApplicationError>,
    /// Runs a job and checks its result.
    pub check: fn(&mut dyn Application) -> Result<(), ApplicationError>,
}

/// All applications.
pub const ALL: &[Entry] = &[
    Entry {
        id: 0,
        name: "dummy",
        about: "discards any job",
        init: dummy::init,
        devices: || Ok(vec!["none needed".to_owned()]),
        check: |application| application.process(&mut [0]),
    },
    Entry {
        id: 1,
        name: "lud-cpu",
        about: "LU decomposition on tiles of 16 by 16",
        init: lud::cpu::init,
        devices: processors,
        check: lud::check,
    },
    Entry {
        id: 2,
        name: "lud-blas",
        about: "LU decomposition on products of large matrices",
        init: lud::blas::init,
        devices: processors,
        check: lud::check,
    },
    Entry {
        id: 3,
        name: "lud-opencl",
        about: "LU decomposition on a device of OpenCL",
        init: lud::opencl::init,
        devices: lud::opencl::devices,
        check: lud::check,
    },
    Entry {
        id: 4,
        name: "lud-cuda",
        about: "LU decomposition on a GPU of NVIDIA",
        init: lud::cuda::init,
        devices: lud::cuda::devices,
        check: lud::check,
    },
];

/// Names the processors of this machine as a device.
fn processors() -> Result<Vec<String>, ApplicationError> {
    Ok(vec![format!("CPU, {} threads", rayon::current_num_threads())])
}

/// Returns the application with a name.
pub fn named(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// Refuses all options: the words `KEY=VALUE` in the name of a session.
fn no_options(session: &str) -> Result<(), ApplicationError> {
    read_options(session, "none", |_, _| false)
}

/// Returns the number of the device in the name of a session, from `device=N`; the first is 0.
fn device_option(session: &str) -> Result<usize, ApplicationError> {
    let mut device = 0;
    read_options(session, "device=N", |key, value| {
        key == "device" && value.parse().map(|number| device = number).is_ok()
    })?;
    Ok(device)
}

/// Passes each option in the name of a session to `take`, which returns false if it is unknown or wrong. `known` tells the
/// possible ones.
fn read_options(
    session: &str,
    known: &'static str,
    mut take: impl FnMut(&str, &str) -> bool,
) -> Result<(), ApplicationError> {
    let mut options = session.split_whitespace().filter_map(|word| Some((word, word.split_once('=')?)));
    match options.find(|(_, (key, value))| !take(key, value)) {
        Some((word, _)) => Err(ApplicationError::Option { word: word.to_owned(), known }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        for (index, entry) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.id != entry.id && other.name != entry.name));
            assert_eq!(named(entry.name).unwrap().id, entry.id);
        }
        assert!(named("Dummy").is_none());
    }

    #[test]
    fn the_name_of_a_session_chooses_the_device() {
        assert_eq!(device_option("m16_i0"), Ok(0));
        assert_eq!(device_option("m16_i0 device=12"), Ok(12));
        for word in ["device=", "device=-1", "device=x", "devices=1", "a=b"] {
            let error = device_option(word).expect_err(word).to_string();
            let expected =
                format!("the option {word:?} in the session name is unknown or wrong; possible here: device=N");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn unknown_options_are_refused() {
        assert_eq!(no_options("m16_i0, the first"), Ok(()));
        let error = no_options("m16_i0 device=1").expect_err("an option").to_string();
        assert_eq!(error, "the option \"device=1\" in the session name is unknown or wrong; possible here: none");
    }
}
