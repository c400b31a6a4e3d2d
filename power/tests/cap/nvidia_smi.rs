//! Power limits through `nvidia-smi`: a script that stores them in files.

use limo_power::{Cap, GpuId, SmiCap};

use crate::script::Script;
use crate::tree::watts;

const UUID: &str = "GPU-11111111-2222-3333-4444-555555555555";

/// Makes a script that knows the GPU 0 with this UUID.
fn smi() -> Script {
    let script = Script::new(
        "[ -e $dir/fails ] && { cat $dir/fails; exit 4; }\n\
         case $2 in 0|GPU-11111111-*) ;; *) echo 'No devices were found'; exit 6;; esac\n\
         case $3 in\n\
         -pl) [ -e $dir/deaf ] || echo $4 > $dir/limit; echo 'Power limit for GPU 00000000:01:00.0 was set.';;\n\
         --query-gpu=uuid,power.limit,enforced.power.limit,power.min_limit,power.max_limit)\n\
         [ \"$4\" = --format=csv,noheader,nounits ] || exit 2\n\
         echo \"$(cat $dir/uuid), $(cat $dir/limit), $(cat $dir/enforced 2>/dev/null || cat $dir/limit), $(cat $dir/range)\";;\n\
         esac",
    );
    script.set("uuid", UUID);
    script.set("limit", "250.00");
    script.set("range", "100.00, 300.00");
    script
}

fn cap(script: &Script) -> SmiCap {
    SmiCap::new(&script.program(), GpuId::Index(0), None)
}

#[test]
fn a_limit_is_set_and_put_back() {
    let script = smi();
    let mut cap = cap(&script);
    assert_eq!(cap.range().expect("it can be capped"), (watts(100), watts(300)));
    let originals = cap.capture().expect("readable");
    let control = format!("{UUID}/power_limit_mw");
    assert_eq!(originals.into_iter().collect::<Vec<_>>(), [(control.clone(), "250000".into())], "as nvml has it");
    cap.set(limo_model::Power::from_mw(150_250)).expect("set");
    assert_eq!(script.read("limit"), "150.250");
    assert!(script.read("asked").contains("-i 0 -pl 150.250"));
    cap.restore(&control, "250000").expect("put back");
    assert!(script.read("asked").contains(&format!("-i {UUID} -pl 250.000")), "by its UUID");
    let mut narrow = SmiCap::new(&script.program(), GpuId::Index(0), Some((watts(50), watts(200))));
    assert_eq!(narrow.range().expect("what the GPU takes of it"), (watts(100), watts(200)));
}

#[test]
fn failures_of_nvidia_smi_are_reported() {
    let script = smi();
    let mut cap = cap(&script);
    let mut set = |expected: &str| {
        let error = script.shown(cap.set(watts(150)).expect_err("not set"));
        assert!(error.starts_with(expected), "`{expected}` begins\n`{error}`");
    };
    script.set("deaf", "");
    set("GPU 0 holds 250.0 W after 150.0 W was written: ");
    script.unset("deaf");
    script.set("enforced", "250.00");
    set("GPU 0 holds 250.0 W after 150.0 W was written: ");
    script.unset("enforced");
    script.set("range", "100.00");
    let query = "--query-gpu=uuid,power.limit,enforced.power.limit,power.min_limit,power.max_limit";
    let command = format!("PROGRAM -i 0 {query} --format=csv,noheader,nounits");
    set(&format!("`{command}` printed `{UUID}, 150.000, 150.000, 100.00`: one line with a UUID and four numbers"));
    script.set("range", "100.00, lots");
    set(&format!("`{command}` printed `{UUID}, 150.000, 150.000, 100.00, lots`: one line"));
    script.set("range", "100.00, 300.00");
    script.set("uuid", "0");
    set(&format!("`{command}` printed `0, 150.000"));
    script.set("fails", "Insufficient Permissions");
    set("`PROGRAM -i 0 -pl 150.000` failed with exit status: 4; it printed `Insufficient Permissions`");
    let missing = SmiCap::new("/no/such/program".as_ref(), GpuId::Index(0), None).range().expect_err("no program");
    assert_eq!(missing.to_string(), "cannot find `/no/such/program`: install NVIDIA's driver, which it comes with");
}

/// Output as for GPUs without a power limit.
#[test]
fn missing_values_are_not_numbers() {
    let script = smi();
    for absent in ["[N/A]", "N/A", "[Not Supported]"] {
        script.set("limit", absent);
        script.set("range", &format!("{absent}, {absent}"));
        assert_eq!(cap(&script).range().expect_err("no limit").to_string(), "GPU 0 has no power limit");
        script.set("limit", "250.00");
        let error = cap(&script).range().expect_err("no range").to_string();
        assert!(error.starts_with("GPU 0 does not report the range of its caps: add it"), "{error}");
    }
    let mut configured = SmiCap::new(&script.program(), GpuId::Index(0), Some((watts(120), watts(200))));
    assert_eq!(configured.range().expect("as configured"), (watts(120), watts(200)));
}
