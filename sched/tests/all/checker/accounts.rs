//! Limits of accounts and QOS.

use limo_model::{Accounts, QosClasses};

use super::*;

#[test]
fn limits_of_accounts_and_qos() {
    let mut core = core();
    let accounts = r#"{"physics": {"max_cores": 2}, "optics": {"parent": "physics", "max_running_jobs": 1}}"#;
    let accounts = Accounts::of_tables(serde_json::from_str(accounts).expect("tables")).expect("accounts");
    core.apply(NOW, &Event::AccountsSet { accounts, by: "root".into() }).expect("possible");
    let qos = serde_json::from_str(r#"{"long": {"max_running_jobs_per_user": 1}}"#).expect("tables");
    let qos = QosClasses::of_tables(qos).expect("QOS");
    core.apply(NOW, &Event::QosSet { qos, by: "root".into() }).expect("possible");
    let (account, qos) = (Some("optics".to_owned()), Some("long".to_owned()));
    let request = Request { account, qos, user: "ada".into(), ..request(false) };
    for job in [4, 5].map(JobId) {
        core.apply(NOW, &Event::Submitted { job, request: Box::new(request.clone()) }).expect("a job");
    }
    let mut plan = sound();
    plan.starts = vec![start(4, part(0, 2)), start(5, part(1, 1))];
    let found = core.check(NOW, &plan);
    for (of, what, held, most) in
        [("account physics", "cores", 3, 2), ("account optics", "jobs", 2, 1), ("user ada in QOS long", "jobs", 2, 1)]
    {
        let violation = Violation::OverQuota { of: of.into(), what: what.into(), held, most };
        assert!(found.contains(&violation), "{violation:?} in {found:?}");
    }
    plan.starts.truncate(1);
    let is_about_quotas = |violation: &Violation| matches!(violation, Violation::OverQuota { .. });
    assert!(!core.check(NOW, &plan).iter().any(is_about_quotas));
}
