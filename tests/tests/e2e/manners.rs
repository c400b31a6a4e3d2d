//! Conventions of each client: completions, a manual page, help that fits a screen, hints.

use std::process::Stdio;

use limo_requirements::{Requirement, skip};
use limo_tests::{Ran, Submitter, finish};

const PROGRAMS: [&str; 3] = ["lrun", "lq", "lconf"];

/// Lines of a typical terminal window.
const LINES: usize = 50;
const COLUMNS: usize = 100;

fn nobody() -> Submitter {
    Submitter { address: "127.0.0.1:1".into(), directory: std::env::temp_dir(), mark: String::new() }
}

fn run(program: &str, arguments: &[&str]) -> Ran {
    let mut command = nobody().command(program, arguments);
    command.env("COLUMNS", COLUMNS.to_string());
    finish(command.spawn().expect("a program that is built"))
}

/// Checks that a shell accepts a script; `None` if the machine does not have the shell.
fn shell_takes(shell: &str, script: &str) -> Option<Ran> {
    let mut command = std::process::Command::new(shell);
    command.args(["-n", "-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => Some(finish(child)),
        Err(error) => {
            skip(Requirement::Program, &format!("cannot run {shell}: {error}"));
            None
        }
    }
}

#[test]
fn completions_are_what_shells_understand() {
    for program in PROGRAMS {
        for shell in ["bash", "zsh", "fish"] {
            let script = run(program, &["--generate", shell]).succeeded();
            assert!(script.contains(program) && script.contains("json"), "{program} {shell}: {script}");
            if let Some(ran) = shell_takes(shell, &script) {
                assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{program} {shell}");
            }
        }
        run(program, &["--generate", "tcsh"]).failed("possible values: bash, zsh, fish, man");
        run(program, &["--generate"]).failed("a value is required for '--generate <FORM>'");
    }
}

#[test]
fn bash_completes_a_command() {
    let script = run("lq", &["--generate=bash"]).succeeded();
    let ask = format!("{script}\nCOMP_WORDS=(lq hi); COMP_CWORD=1; _lq lq hi lq; echo \"${{COMPREPLY[@]}}\"");
    let ran = nobody().command_of("bash".as_ref(), &["-c", &ask]).spawn().expect("bash is there");
    assert_eq!(finish(ran).succeeded().trim(), "history");
}

#[test]
fn a_manual_page_has_every_command() {
    let page = run("lq", &["--generate", "man"]).succeeded();
    assert!(page.contains(".TH lq 1"), "{page}");
    for command in ["SHOW", "CANCEL", "HISTORY", "ENERGY", "TOP"] {
        assert!(page.contains(&format!(".SH \"LQ {command}\"")), "{command}: {page}");
    }
    assert!(run("lconf", &["--generate", "man"]).succeeded().contains(".SH \"LCONF SET LIMITS\""));
    assert!(!run("lq", &["--help"]).succeeded().contains("generate"), "it is not for people");
}

#[test]
fn each_daemon_and_tool_has_a_manual_page() {
    for (program, heading) in
        [("lmaster", ".TH lmaster 8"), ("lslave", ".TH lslave 8"), ("lsim", ".TH lsim 1"), ("lprof", ".TH lprof 1")]
    {
        let page = run(program, &["--generate", "man"]).succeeded();
        assert!(page.contains(heading) && page.contains(".SH OPTIONS"), "{program}: {page}");
        run(program, &["--generate", "tcsh"]).failed("possible values: bash, zsh, fish, man");
    }
}

#[test]
fn help_fits_a_screen() {
    for program in PROGRAMS {
        // `lrun -h` omits these options, which would not fit on a screen.
        let options: &[&str] = if program == "lrun" { &["-h"] } else { &["-h", "--help"] };
        for option in options {
            let help = run(program, &[option]).succeeded();
            let lines = help.lines().count();
            assert!(lines <= LINES, "{program} {option} has {lines} lines:\n{help}");
            let widest = help.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(COLUMNS), "{program} {option}: {widest:?} columns:\n{help}");
        }
    }
}

#[test]
fn a_typing_error_is_answered_by_a_suggestion() {
    run("lq", &["--stats", "R"]).failed("lq: hint: a similar argument exists: '--states'");
    run("lq", &["histroy"]).failed("lq: hint: a similar subcommand exists: 'history'");
    run("lrun", &["--core", "2", "true"]).failed("lrun: hint: a similar argument exists: '--cores'");
    run("lconf", &["stauts"]).failed("lconf: hint: some similar subcommands exist: 'audit', 'status'");
    run("lq", &["--sort", "naem"]).failed("`naem` is not a column: jobid, name");
    run("lq", &["show"]).failed("lq: hint: try `lq --help`");
}
