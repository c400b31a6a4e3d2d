//! A relay between a master and its database that can be cut: nothing passes then, and no connection ends, as if a
//! network between them had failed.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Name of the socket of PostgreSQL in its directory.
const SOCKET: &str = ".s.PGSQL.5432";

#[derive(Clone, Default)]
pub struct Proxy {
    is_cut: Arc<(Mutex<bool>, Condvar)>,
}

impl Proxy {
    /// Relays from a socket in the directory `from` to one in the directory `to`, until the process ends.
    pub fn start(from: &Path, to: &Path) -> Self {
        fs::create_dir(from).expect("made");
        let listener = UnixListener::bind(from.join(SOCKET)).expect("bound");
        let (proxy, to) = (Self::default(), to.join(SOCKET));
        let relay = proxy.clone();
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let (relay, to) = (relay.clone(), to.clone());
                thread::spawn(move || {
                    relay.wait();
                    // The server may be down: then the caller is disconnected.
                    let Ok(server) = UnixStream::connect(&to) else { return };
                    let clone = |stream: &UnixStream| stream.try_clone().expect("a descriptor");
                    let back = (clone(&server), clone(&caller));
                    let other = relay.clone();
                    thread::spawn(move || other.copy(back.0, back.1));
                    relay.copy(caller, server);
                });
            }
        });
        proxy
    }

    /// Lets nothing pass from now on.
    pub fn cut(&self) {
        self.set(true);
    }

    pub fn mend(&self) {
        self.set(false);
    }

    fn set(&self, is_cut: bool) {
        *self.is_cut.0.lock().expect("no panic") = is_cut;
        self.is_cut.1.notify_all();
    }

    fn wait(&self) {
        let is_cut = self.is_cut.0.lock().expect("no panic");
        drop(self.is_cut.1.wait_while(is_cut, |is_cut| *is_cut).expect("no panic"));
    }

    fn copy(&self, mut from: UnixStream, mut to: UnixStream) {
        let mut bytes = [0; 16 << 10];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            self.wait();
            if to.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    }
}
