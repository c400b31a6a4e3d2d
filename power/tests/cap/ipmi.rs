//! Power limits of a management controller: a script that stores a limit replaces `ipmitool`.

use limo_power::{Cap, IpmiCap};

use crate::script::Script;
use crate::tree::watts;

fn controller() -> Script {
    Script::new(
        "while [ \"$1\" != raw ]; do shift; done\n\
         refuse() { echo \"Unable to send RAW command (channel=0x0 netfn=0x2c lun=0x0 cmd=$1 rsp=0x$2): $3\" >&2; exit 1; }\n\
         [ \"$2 $4\" = '0x2c 0xdc' ] || exit 9\n\
         [ -e $dir/broken ] && { cat $dir/broken >&2; exit 1; }\n\
         [ -e $dir/refuse$3 ] && refuse $3 $(cat $dir/refuse$3) Unknown\n\
         [ -e $dir/says ] && { cat $dir/says; exit; }\n\
         case $3 in\n\
         0x03) [ -e $dir/active ] || refuse 0x3 80 Unknown; echo \" dc 00 00 $(cat $dir/settings)\";;\n\
         0x04) shift 7; [ -e $dir/deaf ] || echo $* | sed s/0x//g > $dir/settings; echo ' dc';;\n\
         0x05) case $5 in 0x01) [ -e $dir/idle ] || touch $dir/active;; 0x00) rm -f $dir/active;; esac; echo ' dc';;\n\
         esac",
    )
}

fn cap(script: &Script) -> IpmiCap {
    IpmiCap::new(&script.program(), Vec::new(), Some((watts(80), watts(400))))
}

#[test]
fn a_limit_is_set_made_active_and_lifted() {
    let script = controller();
    let mut cap = IpmiCap::new(&script.program(), vec!["-H".into(), "bmc1".into()], Some((watts(80), watts(400))));
    assert_eq!(cap.range().expect("as configured"), (watts(80), watts(400)));
    assert_eq!(script.read("asked"), "-H bmc1 raw 0x2c 0x03 0xdc 0x00 0x00");
    let originals = cap.capture().expect("readable");
    assert_eq!(originals.into_iter().collect::<Vec<_>>(), [("ipmi -H bmc1/power_limit".into(), "inactive".into())]);
    cap.set(limo_model::Power::from_mw(313_900)).expect("set");
    // The settings: no action, 0x0139 W, 10 000 ms, two reserved bytes, 5 s.
    assert_eq!(script.read("settings"), "00 39 01 10 27 00 00 00 00 05 00");
    let asked = script.read("asked");
    let set = "-H bmc1 raw 0x2c 0x04 0xdc 0x00 0x00 0x00 0x00 0x39 0x01 0x10 0x27 0x00 0x00 0x00 0x00 0x05 0x00";
    assert!(asked.contains(&format!("{set}\n-H bmc1 raw 0x2c 0x05 0xdc 0x01 0x00 0x00\n")), "{asked}");
    cap.restore("ipmi -H bmc1/power_limit", "inactive").expect("lifted");
    assert!(!script.has("active"));
}

#[test]
fn a_limit_that_was_active_is_put_back_as_it_was() {
    let script = controller();
    script.set("active", "");
    script.set("settings", "11 2c 01 e8 03 00 00 00 00 1e 00");
    let mut cap = cap(&script);
    let originals = cap.capture().expect("readable");
    assert_eq!(originals["ipmi/power_limit"], "active 11 2c 01 e8 03 00 00 00 00 1e 00");
    cap.set(watts(100)).expect("set");
    assert_eq!(script.read("settings"), "00 64 00 e8 03 00 00 00 00 1e 00", "it is never switched off for it");
    script.unset("active");
    cap.restore("ipmi/power_limit", &originals["ipmi/power_limit"]).expect("put back");
    assert_eq!((script.read("settings").as_str(), script.has("active")), ("11 2c 01 e8 03 00 00 00 00 1e 00", true));
    for (control, value) in [("ipmi/power_limit", "active 11 2c"), ("ipmi/power_limit", "on"), ("x", "inactive")] {
        let error = cap.restore(control, value).expect_err("no such value").to_string();
        assert_eq!(error, format!("{control} held `{value}`, which is not a valid value: set it by hand"));
    }
}

#[test]
fn a_refusal_of_the_controller_is_reported() {
    let script = controller();
    let mut cap = cap(&script);
    let mut set = |expected: &str| {
        let error = script.shown(cap.set(watts(100)).expect_err("not set"));
        assert!(error.contains(expected), "`{expected}` is in\n`{error}`");
    };
    script.set("refuse0x04", "84");
    set("refuses `PROGRAM raw 0x2c 0x04 0xdc 0x00");
    set("with the completion code 0x84: it does not obey such a limit; set another range");
    script.unset("refuse0x04");
    script.set("refuse0x05", "d4");
    set("with the completion code 0xd4: the user may not do that; give it the right OPERATOR or ADMINISTRATOR");
    script.unset("refuse0x05");
    script.set("idle", "");
    set("ipmi holds no active limit after 100.0 W was set");
    script.unset("idle");
    script.set("active", "");
    script.set("settings", "00 2c 01 e8 03 00 00 00 00 1e 00");
    script.set("deaf", "");
    set("ipmi holds 300.0 W after 100.0 W was written");
    script.set("settings", "00 2c 01");
    set("`ipmi raw 0x2c 0x03` printed 6 bytes: the 14 bytes of a power limit were expected");
    script.set("says", "57 Watts");
    set("printed `57 Watts`: bytes such as `dc 00 00`, of which the first is `dc`, were expected");
    script.set("says", " dd 00 00");
    set("printed `dd 00 00`: bytes such as");
    script.unset("says");
    script.set("refuse0x03", "c1");
    set("0xc1: it does not know the command, so it has no power limit; try `redfish`");
    assert!(cap.range().is_err());
    script.set("broken", "Could not open device at /dev/ipmi0 or /dev/ipmi/0: No such file or directory");
    let error = script.shown(cap.capture().expect_err("no controller"));
    assert!(
        error.starts_with("`PROGRAM raw 0x2c 0x03 0xdc 0x00 0x00` finds no controller: load its modules"),
        "{error}"
    );
    let mut open = IpmiCap::new(&script.program(), Vec::new(), None);
    let error = open.range().expect_err("no range").to_string();
    assert_eq!(error, "ipmi does not report the range of its caps: add it, for example `,20W..90W`");
    let missing = IpmiCap::new("/no/such/ipmitool".as_ref(), Vec::new(), None).capture().expect_err("no program");
    assert_eq!(missing.to_string(), "cannot find `/no/such/ipmitool`: install ipmitool");
}

#[test]
fn a_limit_that_stays_active_is_reported() {
    let script = controller();
    script.set("active", "");
    script.set("settings", "00 2c 01 e8 03 00 00 00 00 1e 00");
    // The controller confirms the request but does not act.
    script.set("deaf", "");
    std::fs::remove_file(script.program()).expect("removed");
    let body = "#!/bin/sh\necho ' dc 00 00 00 2c 01 e8 03 00 00 00 00 1e 00'\n";
    std::fs::write(script.program(), body).expect("written");
    std::fs::set_permissions(script.program(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("own file");
    let error = cap(&script).restore("ipmi/power_limit", "inactive").expect_err("still there").to_string();
    assert_eq!(error, "ipmi is still capped to 300.0 W after its cap was lifted");
}
