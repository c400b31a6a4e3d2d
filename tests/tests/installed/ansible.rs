//! The role of `deploy/ansible` installs a cluster, and changes nothing when it runs again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use limo_requirements::{Requirement, skip};
use limo_tests::{Ran, finish_within, until};

use crate::site::{Site, package_directory};

/// A connection of Ansible in place of `ssh`: enters the namespaces of a host.
const CONNECTION: &str = "#!/bin/bash\nexec nsenter --target \"$(cat \"${0%/*}/${*: -2:1}\")\" --mount --uts --ipc --net --pid \
                          --cgroup --wdns=/ env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -c \"${*: -1}\"\n";

/// Longest time of a play. Ansible starts a process for each step.
const PLAY: Duration = Duration::from_secs(300);

#[test]
fn the_role_of_ansible_installs_a_cluster() {
    if Command::new("ansible-playbook").arg("--version").output().is_err() {
        return skip(Requirement::Program, "ansible-playbook is not installed");
    }
    let Some(site) = Site::of(&["head", "n1"], 1) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    for (name, host) in [("head", &site.head), ("n1", &site.nodes[0])] {
        fs::write(dir.path().join(name), host.init().to_string()).expect("written");
    }
    let connection = dir.path().join("connection");
    fs::write(&connection, CONNECTION).expect("written");
    fs::set_permissions(&connection, fs::Permissions::from_mode(0o755)).expect("set");
    let inventory = dir.path().join("inventory");
    let options = format!(
        "ansible_ssh_executable={}\nansible_ssh_transfer_method=piped\nansible_python_interpreter=/usr/bin/python3\nansible_become=false",
        connection.display()
    );
    let hosts = format!("[limo_master]\nhead\n[limo_nodes]\nn1\n[all:vars]\n{options}\n");
    fs::write(&inventory, hosts).expect("written");
    let play = || -> Ran {
        let mut command = Command::new("ansible-playbook");
        command
            .arg("--inventory")
            .arg(&inventory)
            .args(["--extra-vars", &format!("limo_packages={}", package_directory().display())]);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/ansible/site.yml"));
        command.env("ANSIBLE_LOCAL_TEMP", dir.path()).env("ANSIBLE_SSH_ARGS", "");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish_within(PLAY, command.spawn().expect("it is there"))
    };
    let first = play().succeeded();
    assert!(first.contains("failed=0"), "{first}");
    until("the node is up", || {
        site.head
            .run("lq nodes")
            .stdout
            .lines()
            .any(|line| line.starts_with("n1 ") && line.contains(" up "))
            .then_some(())
    });
    assert_eq!(site.head.done("su - alice -c 'lrun hostname'"), "n1\n");
    let again = play().succeeded();
    assert_eq!(again.matches("changed=0").count(), 2, "{again}");
}
