//! A session of PAM, by the machine's libpam (`pam(3)`). It is opened by this process itself, because modules such as
//! `pam_limits` and `pam_loginuid` change the calling process, from which the job inherits.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use libloading::{Library, Symbol};
use limo_shepherd::PamSession;
use nix::libc;

const LIBRARY: &str = "libpam.so.0";

/// Longest environment of a session, in bytes.
const ENVIRONMENT: usize = 64 << 10;

/// Constants of Linux-PAM, from `_pam_types.h`.
const SUCCESS: c_int = 0;
const CONVERSATION_ERROR: c_int = 19;
const ESTABLISH_CREDENTIALS: c_int = 0x2;
const DELETE_CREDENTIALS: c_int = 0x4;
const SILENT: c_int = 0x8000;

type Transaction = *mut c_void;
/// A function of a transaction that takes flags or a status.
type Call = unsafe extern "C" fn(Transaction, c_int) -> c_int;
type Converse = extern "C" fn(c_int, *const *const c_void, *mut *mut c_void, *mut c_void) -> c_int;

/// `struct pam_conv`.
#[repr(C)]
struct Conversation {
    converse: Converse,
    data: *mut c_void,
}

type Start = unsafe extern "C" fn(*const c_char, *const c_char, *const Conversation, *mut Transaction) -> c_int;

/// Refuses every question of a module: there is nobody to ask.
extern "C" fn refuse(_: c_int, _: *const *const c_void, _: *mut *mut c_void, _: *mut c_void) -> c_int {
    CONVERSATION_ERROR
}

/// Steps that the end of a transaction must undo.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Started,
    /// The user has credentials.
    Established,
    Opened,
}

/// A transaction of PAM, and its session once that is open. Both end on drop.
pub struct Session {
    library: Library,
    transaction: Transaction,
    stage: Stage,
    status: c_int,
}

impl Session {
    /// Opens a session, with its environment as `NAME=VALUE`. A module may block without a limit.
    ///
    /// # Errors
    /// The reason for the user, if the library is missing or a module refuses.
    pub fn open(PamSession { service, user }: &PamSession) -> Result<(Self, Vec<Vec<u8>>), String> {
        let mut session = Self::start(service, user)?;
        session
            .step(c"pam_acct_mgmt", SILENT)
            .map_err(|why| format!("PAM service `{service}` refuses user `{user}`: {why}"))?;
        let no_session = |why| format!("PAM service `{service}` opens no session for user `{user}`: {why}");
        session.step(c"pam_setcred", ESTABLISH_CREDENTIALS | SILENT).map_err(no_session)?;
        session.stage = Stage::Established;
        session.step(c"pam_open_session", SILENT).map_err(no_session)?;
        session.stage = Stage::Opened;
        let environment = session.environment().map_err(no_session)?;
        Ok((session, environment))
    }

    fn start(service: &str, user: &str) -> Result<Self, String> {
        let text = |text: &str| CString::new(text).map_err(|_| "the PAM service or the user has a NUL byte".to_owned());
        let (service_text, user_text) = (text(service)?, text(user)?);
        // SAFETY: libpam has no initialization that depends on this process, and the operator chooses the libraries of
        // the machine.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|error| format!("cannot load {LIBRARY}: {error}"))?;
        let conversation = Conversation { converse: refuse, data: ptr::null_mut() };
        let mut transaction = ptr::null_mut();
        // SAFETY: the type is that of the function in `security/pam_appl.h`. Its arguments live until the call returns;
        // libpam copies them.
        let status = unsafe {
            let start: Symbol<'_, Start> =
                library.get(c"pam_start".to_bytes_with_nul()).map_err(|error| lacks(&error))?;
            start(service_text.as_ptr(), user_text.as_ptr(), &raw const conversation, &raw mut transaction)
        };
        if status != SUCCESS || transaction.is_null() {
            return Err(format!("cannot start PAM service `{service}`: error {status} of {LIBRARY}"));
        }
        Ok(Self { library, transaction, stage: Stage::Started, status })
    }

    /// Takes a step that the modules of the service can refuse.
    fn step(&mut self, name: &CStr, flags: c_int) -> Result<(), String> {
        self.status = self.call(name, flags)?;
        if self.status == SUCCESS { Ok(()) } else { Err(self.explain(self.status)) }
    }

    fn call(&self, name: &CStr, argument: c_int) -> Result<c_int, String> {
        // SAFETY: the named functions have this type in `security/pam_appl.h`, and the transaction has not ended.
        unsafe {
            let call: Symbol<'_, Call> = self.library.get(name.to_bytes_with_nul()).map_err(|error| lacks(&error))?;
            Ok(call(self.transaction, argument))
        }
    }

    fn explain(&self, status: c_int) -> String {
        type Explain = unsafe extern "C" fn(Transaction, c_int) -> *const c_char;
        // SAFETY: the type is that of the function in `security/pam_appl.h`, and the transaction has not ended. The
        // text is static and ends in a NUL byte.
        let text = unsafe {
            match self.library.get::<Explain>(c"pam_strerror".to_bytes_with_nul()) {
                Ok(explain) => explain(self.transaction, status),
                Err(_) => ptr::null(),
            }
        };
        if text.is_null() {
            return format!("error {status} of {LIBRARY}");
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    fn environment(&self) -> Result<Vec<Vec<u8>>, String> {
        type List = unsafe extern "C" fn(Transaction) -> *mut *mut c_char;
        // SAFETY: the type is that of the function in `security/pam_appl.h`, and the transaction has not ended.
        let list = unsafe {
            let list: Symbol<'_, List> =
                self.library.get(c"pam_getenvlist".to_bytes_with_nul()).map_err(|error| lacks(&error))?;
            list(self.transaction)
        };
        let (mut all, mut size) = (Vec::new(), 0_usize);
        let mut next = list;
        // SAFETY: the list is null or ends in a null. Its texts and the list itself are of malloc, and belong to the
        // caller; each is freed once, after its last use.
        unsafe {
            while !next.is_null() && !(*next).is_null() {
                let text = CStr::from_ptr(*next).to_bytes();
                size = size.saturating_add(text.len() + 1);
                if size <= ENVIRONMENT {
                    all.push(text.to_vec());
                }
                libc::free((*next).cast());
                next = next.add(1);
            }
            libc::free(list.cast());
        }
        if size > ENVIRONMENT {
            return Err(format!("its environment has {size} bytes; the limit is {ENVIRONMENT}"));
        }
        Ok(all)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A module that fails here has logged the reason, and the next step must follow in any case.
        if self.stage >= Stage::Opened {
            let _ = self.step(c"pam_close_session", SILENT);
        }
        if self.stage >= Stage::Established {
            let _ = self.step(c"pam_setcred", DELETE_CREDENTIALS | SILENT);
        }
        // The status of the last call, by which modules clean up.
        let _ = self.call(c"pam_end", self.status);
    }
}

fn lacks(error: &libloading::Error) -> String {
    format!("{LIBRARY} is not the library of PAM: {error}")
}
