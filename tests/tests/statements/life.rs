//! Random actions of users and operators, and failures, one after the other.

use std::thread;
use std::time::Duration;

use limo_tests::{Cluster, Dice, Person, Ran, Submitter, until};

use crate::looks::{Looks, now_ms};
use crate::site::{self, NODES};

/// Most jobs at a time.
const BACKLOG: usize = 25;

/// Options and commands of jobs. `LAST` is the number of the previous job, `SHORT` a time of up to four seconds.
const JOBS: [&[&str]; 20] = [
    &["sh", "-c", "sleep SHORT"],
    &["-c", "2", "sh", "-c", "sleep SHORT"],
    &["-c", "4", "-t", "6s", "sh", "-c", "sleep SHORT"],
    &["sh", "-c", "sleep SHORT; exit 3"],
    &["-t", "1s", "sleep", "5"],
    &["-a", "0-5%2", "sleep", "1"],
    &["-a", "0-3", "sh", "-c", "sleep SHORT; exit $LIMO_ARRAY_TASK_ID"],
    &["-d", "afterok:LAST", "sleep", "SHORT"],
    &["-d", "afternotok:LAST", "sleep", "SHORT"],
    &["-J", "one", "-d", "singleton", "sleep", "SHORT"],
    &["--begin", "now+3s", "sleep", "SHORT"],
    &["-H", "sleep", "SHORT"],
    &["-I", "sleep", "SHORT"],
    &["-t", "4s", "--deadline", "now+20s", "sleep", "SHORT"],
    &["-t", "4s", "--start-by", "now+10s", "sleep", "SHORT"],
    &["--requeue", "sleep", "SHORT"],
    &["-N", "2", "-c", "2", "sleep", "SHORT"],
    &["--filler", "-t", "5s", "sleep", "SHORT"],
    &["--energy-limit", "800J", "sleep", "6"],
    &["no-such-command"],
];

const POLICIES: [&str; 8] = ["limo", "limo", "limo-prototype", "fifo", "easy", "conservative", "powercap", "energybud"];

pub struct Life<'a> {
    cluster: Cluster,
    operator: Submitter,
    user: Person,
    dice: Dice,
    looks: &'a Looks,
    last: String,
    /// Times at which the master was killed.
    pub kills: Vec<i64>,
}

impl<'a> Life<'a> {
    pub fn new(cluster: Cluster, user: Person, dice: Dice, looks: &'a Looks) -> Self {
        let operator = cluster.submitter().clone();
        let mut life = Self { cluster, operator, user, dice, looks, last: "1".into(), kills: Vec::new() };
        life.submit();
        life
    }

    /// Does one action, then pauses.
    pub fn one(&mut self) {
        match self.dice.below(100) {
            0..60 => self.submit(),
            60..75 => self.control(),
            75..97 => self.operate(),
            _ => self.fail(),
        }
        thread::sleep(self.dice.up_to(Duration::from_millis(500)));
    }

    fn short(&mut self) -> String {
        format!("{:.1}", self.dice.up_to(Duration::from_secs(4)).as_secs_f64())
    }

    fn one_of<'o>(&mut self, options: &[&'o str]) -> &'o str {
        options[self.dice.below(options.len() as u64) as usize]
    }

    fn submit(&mut self) {
        if self.operator.jobs().len() >= BACKLOG {
            return;
        }
        let job = JOBS[self.dice.below(JOBS.len() as u64) as usize];
        let short = self.short();
        let words: Vec<String> =
            job.iter().map(|word| word.replace("SHORT", &short).replace("LAST", &self.last)).collect();
        let mut arguments = vec!["--detach", "--app", "steady"];
        arguments.extend(words.iter().map(String::as_str));
        let ran = match self.dice.below(2) {
            0 => self.operator.run("lrun", &arguments),
            _ => self.user.run("lrun", &arguments),
        };
        if let Some(0) = known(&ran) {
            self.last = ran.stdout.trim().to_owned();
        }
    }

    /// Controls a job, which may be over.
    fn control(&mut self) {
        let jobs = self.operator.jobs();
        if jobs.is_empty() {
            return;
        }
        let job = jobs[self.dice.below(jobs.len() as u64) as usize]["id"].to_string();
        let by_user = self.dice.below(3) == 0;
        let verb = self.one_of(&["cancel", "hold", "release", "release", "requeue", "priority"]);
        let mut arguments = vec![verb];
        if verb == "priority" {
            arguments.push("-5");
        }
        arguments.push(&job);
        known(&if by_user { self.user.run("lq", &arguments) } else { self.operator.lq(&arguments) });
    }

    fn operate(&mut self) {
        let (prices, limits) = (self.operator.path("prices.csv"), self.operator.path("limits.csv"));
        let (prices_name, limits_name) = (prices.display().to_string(), limits.display().to_string());
        let node = self.one_of(&NODES[1..]);
        let energy = format!("{}kJ", 50 + self.dice.below(400));
        let policy = self.one_of(&POLICIES);
        let mode = self.one_of(&["high", "low", "auto", "auto"]);
        let quota = self.one_of(&["jobs=3", "cores=5", "none", "none"]);
        let arguments: &[&str] = match self.dice.below(16) {
            0..3 => {
                site::prices(&mut self.dice, &prices);
                &["set", "price", &prices_name]
            }
            3..6 => {
                site::limits(&mut self.dice, &limits);
                &["set", "limits", "--curve", &limits_name]
            }
            6 => &["set", "price", "none"],
            7 => &["set", "limits", "none", "none"],
            8 => &["set", "mode", mode],
            9..11 => &["set", "policy", policy],
            11 => &["set", "budget", &energy, "--until", "now+20s", "--replace"],
            12 => &["quota", "daemon", quota],
            13 => &["drain", node, "--reason", "look"],
            14 => &["reservation", "add", "some", "--nodes", node, "--start", "now+2s", "--duration", "5s"],
            _ => &["undo"],
        };
        known(&self.operator.lconf(arguments));
        if arguments[0] != "drain" {
            known(&self.operator.lconf(&["resume", node]));
        }
    }

    fn fail(&mut self) {
        let node = NODES[2];
        let long = self.dice.up_to(Duration::from_secs(12));
        match self.dice.below(3) {
            0 => {
                println!("the master is killed");
                self.looks.change();
                self.kills.push(now_ms());
                self.cluster.kill_master();
                self.cluster.start_master();
                until("the master answers", || (self.operator.lq(&["--json"]).code == Some(0)).then_some(()));
                self.looks.change();
            }
            1 => {
                println!("{node} is killed");
                self.cluster.kill_node(node);
                thread::sleep(long);
                self.cluster.start_node(node);
            }
            _ => {
                println!("{node} stands still for {long:.0?}");
                self.cluster.stop_node(node);
                thread::sleep(long);
                self.cluster.continue_node(node);
            }
        }
    }

    /// Writes the journal to a file that stays.
    pub fn backup(&self) -> String {
        let file = format!("{}/statements-{}.tar", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        self.operator.lconf(&["backup", &file]).succeeded();
        file
    }

    /// Removes everything that could keep jobs from running, and waits until all are over.
    pub fn end(&mut self) {
        let ends: [&[&str]; 6] = [
            &["set", "policy", "fifo"],
            &["set", "limits", "none", "none"],
            &["set", "budget", "none"],
            &["quota", "daemon", "none"],
            &["resume", "n[1-3]"],
            &["set", "price", "none"],
        ];
        for arguments in ends {
            known(&self.operator.lconf(arguments));
        }
        for name in NODES {
            self.cluster.await_node(name);
        }
        until("every job is over", || {
            let jobs = self.operator.jobs();
            for held in jobs.iter().filter(|job| !job["held_by"].is_null()) {
                known(&self.operator.lq(&["release", &held["id"].to_string()]));
            }
            jobs.is_empty().then_some(())
        });
    }
}

/// Returns the exit code of a client that succeeded, or printed a reason.
#[track_caller]
fn known(ran: &Ran) -> Option<i32> {
    assert!(matches!(ran.code, Some(0 | 1 | 125)), "{ran:?}");
    ran.code
}
