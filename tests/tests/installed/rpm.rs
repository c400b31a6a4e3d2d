//! The RPM packages on one host: their scripts, an upgrade that keeps a job, and a removal. RPM works on any distribution
//! if no dependencies are asked for.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;

use limo_requirements::{Requirement, skip};
use limo_tests::{Host, Switch, finish, until};

use crate::site::package_directory;

/// The packages that `cargo xtask package rpm` has made, and that a cluster of one host needs.
fn packages() -> Vec<PathBuf> {
    let directory = package_directory().with_file_name("package-rpm");
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_needed = |path: &PathBuf| {
        let name = path.file_name().expect("a file").to_string_lossy();
        name.ends_with(".rpm")
            && ["limo-client-", "limo-master-", "limo-node-"].iter().any(|part| name.starts_with(part))
    };
    entries.filter(is_needed).collect()
}

fn main_pid(host: &Host) -> String {
    host.done("systemctl show --value --property=MainPID lslave")
}

#[test]
fn rpm_packages_are_installed_upgraded_under_a_job_and_removed() {
    let packages = packages();
    if packages.is_empty() {
        return skip(Requirement::Program, "no RPM packages: `cargo xtask package rpm --profile dev` makes them");
    }
    let Some(switch) = Switch::new() else { return };
    let host = Host::boot(&switch, "head", Ipv4Addr::new(10, 78, 0, 1));
    for package in &packages {
        fs::copy(package, host.file("/srv").join(package.file_name().expect("a file"))).expect("copied");
    }
    host.done("useradd -m -u 3001 alice && rpm --install --nodeps limo-*.rpm");
    assert_eq!(host.done("getent passwd limo | cut -d: -f1"), "limo\n");
    assert_eq!(host.run("systemctl is-active lmaster lslave").code, Some(3), "a service is not started by its package");
    host.done("systemctl enable --now lmaster lslave");
    until("the node", || {
        let nodes = host.run("lq nodes").stdout;
        nodes.lines().any(|line| line.starts_with("head ") && line.contains(" up ")).then_some(())
    });
    assert_eq!(host.done("su - alice -c 'lrun id -un'"), "alice\n");

    let job =
        host.command("su - alice -c 'lrun sh -c \"touch begun; until [ -e go ]; do sleep 0.02; done; echo done\"'");
    let job = { job }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("nsenter");
    until("the job", || host.file("/home/alice/begun").exists().then_some(()));
    let before = main_pid(&host);
    host.done("rpm --upgrade --nodeps --replacepkgs --replacefiles limo-*.rpm");
    until("the daemon of the upgrade", || {
        let pid = main_pid(&host);
        (pid != before && pid.trim() != "0").then_some(())
    });
    host.done("su - alice -c 'touch go'");
    let ran = finish(job);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "done\n"), "{ran:?}");

    host.done("rpm --erase limo-node limo-master limo-client");
    let left = "pgrep -l 'lmaster|lslave|lshepherd'; ls -d /etc/sysconfig/lslave /usr/sbin/lslave 2> /dev/null; \
                systemctl list-unit-files 'lslave*' 'lmaster*' 'limo*' --no-legend";
    until("nothing is left", || host.run(left).stdout.is_empty().then_some(()));
}
