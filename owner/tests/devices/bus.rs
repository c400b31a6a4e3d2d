//! A bus of its own, and a program that answers there like logind.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::io::{BufRead, BufReader};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use limo_requirements::{Requirement, skip};
use tokio::runtime::{Builder, Runtime};
use zbus::export::futures_core::Stream;
use zbus::message::Type;
use zbus::{Connection, MessageStream, OwnedObjectPath, Variant};

const NAME: &str = "org.freedesktop.login1";
const PATH: &str = "/org/freedesktop/login1";

/// A running `dbus-daemon`.
pub struct Bus {
    daemon: Child,
    pub address: String,
}

impl Bus {
    /// Starts it; skips the rest of the test without the program.
    pub fn start() -> Option<Self> {
        let mut command = Command::new("dbus-daemon");
        command.args(["--session", "--nofork", "--print-address=1"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut daemon = match command.spawn() {
            Ok(daemon) => daemon,
            Err(error) => {
                skip(Requirement::Program, &format!("dbus-daemon does not run: {error}"));
                return None;
            }
        };
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().expect("a pipe")).read_line(&mut address).expect("its address");
        Some(Self { daemon, address: address.trim().to_owned() })
    }

    /// Starts the login manager without sessions.
    pub fn logind(&self) -> FakeLogind {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let sessions = Arc::new(Mutex::new(BTreeMap::new()));
        let connection = runtime.block_on(async {
            let connection =
                zbus::connection::Builder::address(self.address.as_str()).build().await.expect("a connection");
            let calls = MessageStream::from(&connection);
            connection.request_name(NAME).await.expect("the name");
            tokio::spawn(serve(connection.clone(), calls, Arc::clone(&sessions)));
            connection
        });
        FakeLogind { runtime, connection, sessions }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

#[derive(Clone)]
struct Session {
    class: String,
    state: String,
    is_idle: bool,
}

type Sessions = Arc<Mutex<BTreeMap<String, Session>>>;

pub struct FakeLogind {
    runtime: Runtime,
    connection: Connection,
    sessions: Sessions,
}

impl FakeLogind {
    /// Sets a session, and tells about it like logind.
    pub fn set(&self, id: &str, class: &str, state: &str, is_idle: bool) {
        let session = Session { class: class.to_owned(), state: state.to_owned(), is_idle };
        let before = self.sessions.lock().expect("the sessions").insert(id.to_owned(), session);
        match before {
            None => self.signal(PATH, "org.freedesktop.login1.Manager", "SessionNew"),
            Some(_) => self.signal(&path(id), "org.freedesktop.DBus.Properties", "PropertiesChanged"),
        }
    }

    pub fn remove(&self, id: &str) {
        self.sessions.lock().expect("the sessions").remove(id);
        self.signal(PATH, "org.freedesktop.login1.Manager", "SessionRemoved");
    }

    fn signal(&self, path: &str, interface: &str, name: &str) {
        let sent = self.connection.emit_signal(None::<&str>, path, interface, name, &());
        self.runtime.block_on(sent).expect("a signal");
    }
}

fn path(id: &str) -> String {
    format!("{PATH}/session/_3{id}")
}

/// Answers calls.
async fn serve(connection: Connection, mut calls: MessageStream, sessions: Sessions) {
    while let Some(Ok(call)) = poll_fn(|context| Pin::new(&mut calls).poll_next(context)).await {
        let header = call.header();
        if header.message_type() != Type::MethodCall {
            continue;
        }
        let known = sessions.lock().expect("the sessions").clone();
        let asked = header.path().map(ToString::to_string).unwrap_or_default();
        let answered = match header.member().map(ToString::to_string).as_deref() {
            Some("ListSessions") => {
                let row = |id: &String| {
                    let object = OwnedObjectPath::try_from(path(id)).expect("a path");
                    (id.clone(), 1000_u32, "ada".to_owned(), "seat0".to_owned(), object)
                };
                let rows: Vec<_> = known.keys().map(row).collect();
                connection.reply(&header, &rows).await
            }
            Some("GetAll") => match known.iter().find(|(id, _)| path(id) == asked) {
                Some((id, session)) => {
                    let properties = HashMap::from([
                        ("Id", Variant::from(id.as_str())),
                        ("Class", Variant::from(session.class.as_str())),
                        ("State", Variant::from(session.state.as_str())),
                        ("IdleHint", Variant::from(session.is_idle)),
                    ]);
                    connection.reply(&header, &properties).await
                }
                None => {
                    let error = "org.freedesktop.DBus.Error.UnknownObject";
                    connection.reply_error(&header, error, &"no such session").await
                }
            },
            other => panic!("an unexpected call: {other:?}"),
        };
        answered.expect("an answer");
    }
}
