//! The units of `deploy/` under a real systemd: jobs and their control groups survive each service.

use limo_tests::{Booted, until};

/// A job that hides a process, writes its number, and ends with 6 when it finds the file `go`.
const JOB: &str = "env -i setsid sh -c 'sleep 1000 & echo $! > hidden' & until [ -e go ]; do sleep 0.05; done; exit 6";

#[test]
fn jobs_outlive_lslave_and_the_holder_of_their_control_groups() {
    let Some(machine) = Booted::start() else { return };
    machine.run("systemd-sysusers && systemctl start lmaster lslave").succeeded();
    let is_active = |unit: &str| machine.run(&format!("systemctl is-active {unit}")).stdout;
    assert_eq!(is_active("limo-jobs"), "active\n", "lslave.service starts it");
    until("the node is up", || machine.run("lq nodes").stdout.contains(" up ").then_some(()));
    let job = format!("lrun --detach sh -c \"$(cat <<'END'\n{JOB}\nEND\n)\"");
    assert_eq!(machine.run(&job).succeeded(), "1\n");
    until("the job hides a process", || machine.run("cat hidden").stdout.trim().parse::<u32>().ok());
    let place = machine.run("cat /proc/$(cat hidden)/cgroup").succeeded();
    assert!(place.contains("0::/system.slice/limo-jobs.service/") && place.contains("/1.1\n"), "{place}");
    let runs = || machine.run("kill -0 $(cat hidden) && lq show 1").stdout.contains("running");

    machine.run("systemctl restart lslave").succeeded();
    until("the node is up again", || machine.run("lq nodes").stdout.contains(" up ").then_some(()));
    assert!(runs());
    machine.run("systemctl kill --kill-who=main --signal=KILL lslave").succeeded();
    until("it is started again", || (is_active("lslave") == "active\n").then_some(()));
    assert!(runs());

    assert!(machine.run("systemctl restart limo-jobs").stderr.contains("refuse"));
    assert_eq!(is_active("limo-jobs"), "active\n");
    machine.run("systemctl kill --kill-who=main --signal=KILL limo-jobs").succeeded();
    until("the holder has ended", || (is_active("limo-jobs") != "active\n").then_some(()));
    assert!(runs());

    assert_eq!(machine.run("touch go; lq wait 1").code, Some(6));
    assert_ne!(machine.run("kill -0 $(cat hidden)").code, Some(0), "the hidden process is left");
    machine.run("lrun true").succeeded();
}
