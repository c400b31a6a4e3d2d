//! Packages on hosts with systemd: a cluster is installed as docs/install.md says, and keeps its jobs while its services
//! are restarted, killed and upgraded. `cargo xtask package deb --profile dev` makes the packages.

mod ansible;
mod rpm;
mod site;

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;

use limo_tests::{finish, until};
use site::Site;

/// Restarts and kills of a node's service under load; `LIMO_NODE_KILLS` sets another number.
fn kills() -> usize {
    std::env::var("LIMO_NODE_KILLS").ok().map_or(10, |number| number.parse().expect("a number"))
}

#[test]
fn a_cluster_is_installed_restarted_upgraded_and_removed() {
    let Some(site) = Site::new() else { return };
    site.install();
    jobs_run_as_their_users(&site);
    commands_of_others_are_hidden(&site);
    users_of_a_submit_host_run_jobs(&site);
    services_are_confined(&site);
    jobs_keep_their_control_groups(&site);
    services_restart_under_load(&site);
    packages_are_upgraded_under_load(&site);
    packages_are_removed(&site);
}

fn jobs_run_as_their_users(site: &Site) {
    let names = site.head.done("su - alice -c \'lrun -N 3 hostname\'");
    let mut names: Vec<&str> = names.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["n1", "n2", "n3"]);
    let id = site.head.done("su - alice -c \'lrun id\'");
    assert!(id.starts_with("uid=3001(alice) ") && id.contains("(project)"), "{id}");
    assert_eq!(site.head.done("su - bob -c \'lrun id -un\'"), "bob\n");
    for secret in ["cat /etc/limo/tls/identity.pem", "ls /var/lib/limo/lslave"] {
        site.nodes[0].done(secret);
        let ran = site.head.run(&format!("su - alice -c 'lrun -w n1 {secret}'"));
        assert!(ran.code != Some(0) && ran.stdout.is_empty() && ran.stderr.contains("Permission denied"), "{ran:?}");
    }
}

fn commands_of_others_are_hidden(site: &Site) {
    let job = site.head.done("su - alice -c 'lrun --detach -w n2 sleep 98765'");
    let look = format!("lq --long; lq --json; lq show {job}");
    let seen = |user: &str| site.head.done(&format!("su - {user} -c '{}'", look.trim()));
    assert_eq!((seen("alice").contains("98765"), seen("bob").contains("98765")), (true, false));
    site.head.done(&format!("su - alice -c 'lq cancel {}'", job.trim()));
}

fn users_of_a_submit_host_run_jobs(site: &Site) {
    let host = site.install_submit_host();
    let id = host.done("su - alice -c 'lrun id'");
    assert!(id.starts_with("uid=3001(alice) "), "{id}");
    let root = host.run("lq nodes");
    assert!(root.code != Some(0) && root.stderr.contains("may not act for root"), "{root:?}");
    host.done("systemctl restart limo-relay");
    until("the relay listens", || (host.run("su - bob -c 'lq nodes'").code == Some(0)).then_some(()));
}

fn services_are_confined(site: &Site) {
    let login = site.others.first().expect("a submit host");
    for (host, unit) in [(&site.head, "lmaster"), (&site.nodes[0], "lslave"), (login, "limo-relay")] {
        host.done(&format!("systemd-analyze verify --recursive-errors=no /usr/lib/systemd/system/{unit}.service"));
    }
    for (host, unit) in [(&site.head, "lmaster"), (login, "limo-relay")] {
        let exposure = host.done(&format!("systemd-analyze security --no-pager {unit}.service | tail -1"));
        let level: f64 = exposure.split_whitespace().find_map(|word| word.parse().ok()).expect("a level");
        assert!(level < 3.0, "{exposure}");
    }
}

/// Starts a stream of bytes through a job of n1, and jobs with their own exit codes; disturbs n1, and expects each byte
/// and code.
fn undisturbed(site: &Site, disturb: impl FnOnce()) {
    let script = "su - alice -c \'lrun -w n1 cat\'";
    let mut stream = site.head.command(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("nsenter");
    let mut stdin = stream.stdin.take().expect("piped");
    let wait = "while [ ! -e /tmp/go ]; do sleep 0.1; done";
    let submit = format!("su - bob -c 'for code in 3 4 5; do lrun --detach -w n1 --wrap \"{wait}; exit $code\"; done'");
    let jobs = site.head.done(&submit);
    let piece: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    let expected = piece.repeat(2);
    let (over, is_over) = channel();
    let writer = thread::spawn(move || {
        stdin.write_all(piece.as_bytes()).expect("lrun reads");
        is_over.recv().expect("sent");
        stdin.write_all(piece.as_bytes()).expect("lrun reads");
    });
    disturb();
    over.send(()).expect("a thread waits");
    let ran = finish(stream);
    writer.join().expect("written");
    assert!(
        ran.code == Some(0) && ran.stdout == expected,
        "{:?}, {} of {} B",
        ran.code,
        ran.stdout.len(),
        expected.len()
    );
    site.nodes[0].done("touch /tmp/go");
    for (job, code) in jobs.lines().zip([3, 4, 5]) {
        let ran = site.head.run(&format!("su - bob -c \'lq wait {job}\'"));
        assert_eq!(ran.code, Some(code), "{ran:?}");
    }
    site.nodes[0].done("rm /tmp/go");
}

/// A job that hides a process, writes its number, and ends with 6 when it finds the file `go`.
const HIDING: &str = "#!/bin/sh\nenv -i setsid sh -c 'sleep 1000 & echo $! > hidden' &\n\
                      until [ -e go ]; do sleep 0.05; done\nexit 6\n";

fn jobs_keep_their_control_groups(site: &Site) {
    let node = &site.nodes[0];
    fs::write(site.head.file("/home/alice/hiding"), HIDING).expect("written");
    let job = site.head.done("su - alice -c 'lrun --detach -w n1 --script hiding'");
    let hidden = "$(cat /home/alice/hidden)";
    until("the job hides a process", || (node.run(&format!("kill -0 {hidden}")).code == Some(0)).then_some(()));
    let place = node.done(&format!("cat /proc/{hidden}/cgroup"));
    let group = format!("/{}.1/script\n", job.trim());
    assert!(place.contains("0::/system.slice/limo-jobs.service/") && place.contains(&group), "{place}");
    assert!(node.run("systemctl restart limo-jobs").stderr.contains("refuse"));
    node.done("systemctl is-active limo-jobs");
    for unit in ["lslave", "limo-jobs"] {
        node.done(&format!("systemctl kill --kill-who=main --signal=KILL {unit}"));
        until("the unit failed", || (node.run(&format!("systemctl is-active {unit}")).code != Some(0)).then_some(()));
        node.done(&format!("kill -0 {hidden}"));
    }
    node.done("touch /home/alice/go");
    let ended = site.head.run(&format!("su - alice -c 'lq wait {job}'"));
    assert_eq!(ended.code, Some(6), "{ended:?}");
    assert_ne!(node.run(&format!("kill -0 {hidden}")).code, Some(0), "the hidden process is left");
    node.done("rm /home/alice/go /home/alice/hidden");
}

fn main_pid(site: &Site) -> String {
    site.nodes[0].done("systemctl show --property MainPID --value lslave")
}

fn services_restart_under_load(site: &Site) {
    undisturbed(site, || {
        for number in 0..kills() {
            let before = main_pid(site);
            let disturb = ["systemctl restart lslave", "systemctl kill --kill-who=main --signal=KILL lslave"];
            site.nodes[0].done(disturb[number % 2]);
            until("another daemon", || {
                let pid = main_pid(site);
                let is_active = site.nodes[0].run("systemctl is-active lslave").code == Some(0);
                (is_active && pid != before && pid.trim() != "0").then_some(())
            });
        }
        site.head.done("systemctl restart lmaster");
    });
}

fn packages_are_upgraded_under_load(site: &Site) {
    undisturbed(site, || {
        let before = main_pid(site);
        site.nodes[0].done("dpkg --install limo-node_*.deb limo-client_*.deb");
        until("the daemon of the upgrade", || (main_pid(site) != before).then_some(()));
        site.head.done("dpkg --install limo-master_*.deb limo-client_*.deb");
        until("the node", || {
            site.head
                .done("lq nodes")
                .lines()
                .any(|line| line.starts_with("n1 ") && line.contains(" up "))
                .then_some(())
        });
    });
}

fn packages_are_removed(site: &Site) {
    let node = &site.nodes[1];
    let job =
        site.head.command("su - alice -c \'lrun -w n2 sleep 1000\'").stderr(Stdio::piped()).spawn().expect("nsenter");
    until("the job", || (node.run("pgrep -x sleep").code == Some(0)).then_some(()));
    node.done("dpkg --purge limo-node");
    assert_ne!(finish(job).code, Some(0));
    let left = "pgrep -l 'lslave|lshepherd|sleep'; ls -d /var/lib/limo /etc/limo /etc/default/lslave \
                /usr/sbin/lslave 2> /dev/null; systemctl list-unit-files 'lslave*' 'limo-jobs*' --no-legend";
    // Units that were killed end soon.
    let mut last = String::new();
    until("nothing is left", || {
        let now = node.run(left).stdout;
        if now != last {
            eprintln!("left: {now}");
            last = now;
        }
        last.is_empty().then_some(())
    });
}
