//! A real browser without a screen: Chromium, driven by its `chromedriver` over the protocol WebDriver. It fails a test
//! whose page writes an error to the console, which violations of a content policy do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use limo_requirements::{Requirement, skip};
use serde_json::{Value, json};

use crate::until::{LIMIT, until};

/// Keys as WebDriver names them.
pub const ARROW_DOWN: &str = "\u{e015}";
pub const SHIFT: &str = "\u{e008}";

/// Size of the window in pixels.
const SCREEN: (u32, u32) = (1280, 900);

/// A window of a browser; closed when dropped.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
}

impl Browser {
    /// Opens a window. If Chromium or its driver is missing, prints the reason and returns `None`.
    pub fn open() -> Option<Self> {
        for program in ["chromium", "chromedriver"] {
            if Command::new(program).arg("--version").output().is_err() {
                skip(Requirement::Program, &format!("{program} is missing (`apt install chromium chromium-driver`)"));
                return None;
            }
        }
        let mut command = Command::new("chromedriver");
        let mut driver = command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs");
        let lines = BufReader::new(driver.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let port = lines
            .filter_map(|line| Some(line.split_once("successfully on port ")?.1.trim_end_matches('.').to_owned()))
            .next();
        let address = format!("127.0.0.1:{}", port.expect("the driver names its port"));
        let mut browser = Self { driver, address, session: String::new() };
        let (width, height) = SCREEN;
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--force-device-scale-factor=1",
        ];
        let arguments = arguments.map(str::to_owned).into_iter().chain([format!("--window-size={width},{height}")]);
        let options = json!({ "args": arguments.collect::<Vec<_>>(), "binary": "/usr/bin/chromium" });
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } });
        let opened = browser.call("POST", "/session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session = format!("/session/{}", opened["sessionId"].as_str().expect("a session"));
        Some(browser)
    }

    /// Sends a command to the driver; returns its value.
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let text = if method == "POST" { body.to_string() } else { String::new() };
        let mut stream = TcpStream::connect(&self.address).expect("the driver listens");
        let (host, length) = (&self.address, text.len());
        // The driver reads the head of a request at once.
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{text}"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        stream.set_read_timeout(Some(LIMIT)).expect("a time above zero");
        let body = read(stream);
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        assert!(answer["value"]["error"].is_null(), "{method} {path}: {}", answer["value"]);
        answer["value"].clone()
    }

    fn command(&self, name: &str, body: &Value) -> Value {
        self.call("POST", &format!("{}/{name}", self.session), body)
    }

    /// Goes to an address.
    pub fn go(&self, url: &str) {
        self.command("url", &json!({ "url": url }));
    }

    /// Runs a script in the page; returns what it returns.
    pub fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Runs a script in the page that calls `done` with its result, within the time that the driver allows; returns it.
    pub fn run_until_done(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1]; {script}");
        self.command("execute/async", &json!({ "script": script, "args": [] }))
    }

    /// Presses keys in the element that has the focus; a modifier holds until the end of the text.
    pub fn keys(&self, text: &str) {
        let active = self.call("GET", &format!("{}/element/active", self.session), &Value::Null);
        let element = active.as_object().and_then(|names| names.values().next()?.as_str()).expect("an element");
        self.command(&format!("element/{element}/value"), &json!({ "text": text }));
    }

    /// Lets the page see that its reader prefers dark or light colours.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.command("goog/cdp/execute", &command);
    }

    /// Runs an expression until it is not null or false; returns its value.
    pub fn until(&self, what: &str, expression: &str) -> Value {
        until(what, || {
            let found = self.run(&format!("return {expression};"));
            (found != Value::Null && found != Value::Bool(false)).then_some(found)
        })
    }

    /// Returns the text that a person sees.
    pub fn text(&self) -> String {
        self.run("return document.body.innerText;").as_str().unwrap_or_default().to_owned()
    }

    /// Sets the size of the window.
    pub fn resize(&self, width: u32, height: u32) {
        self.command("window/rect", &json!({ "width": width, "height": height }));
    }

    /// Returns a picture of the window as PNG in base64.
    pub fn picture(&self) -> String {
        let picture = self.call("GET", &format!("{}/screenshot", self.session), &Value::Null);
        picture.as_str().expect("base64").to_owned()
    }

    /// Returns the errors and warnings of the console since the last call.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.command("se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().into_iter().flatten();
        let loud = entries.filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING");
        loud.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Reads an answer; returns its body. The driver may keep the connection open.
fn read(stream: TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line of the head");
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().expect("a length");
            }
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    String::from_utf8(body).expect("UTF-8")
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.call("DELETE", &self.session, &Value::Null);
        }
        // The driver ends its browser.
        if let Ok(id) = i32::try_from(self.driver.id()) {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.driver.wait();
    }
}
