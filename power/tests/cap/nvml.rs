//! NVIDIA GPUs through a real shared library that keeps its state in files.

use std::fs;
use std::path::Path;

use limo_power::{Cap, ClockCap, ClockPair, GpuId, Gpus, NvmlCap};

use crate::fake::FakeGpus;
use crate::tree::watts;

const FIRST: &str = "GPU-11111111-2222-3333-4444-555555555555";

fn text<T: std::fmt::Debug>(result: Result<T, limo_power::CapError>) -> String {
    result.expect_err("a failure").to_string()
}

fn limits(fake: &FakeGpus) -> NvmlCap {
    NvmlCap::new(&fake.library(), GpuId::Index(0), None)
}

/// Swaps the GPUs, as a boot may do.
fn swap(fake: &FakeGpus) {
    let [first, second, aside] = ["gpu0", "gpu1", "aside"].map(|name| fake.library().with_file_name(name));
    for (from, to) in [(&first, &aside), (&second, &first), (&aside, &second)] {
        fs::rename(from, to).expect("renamed");
    }
}

#[test]
fn a_power_limit_is_set_and_put_back() {
    let Some(fake) = FakeGpus::new() else { return };
    let mut cap = limits(&fake);
    assert_eq!(cap.range().expect("it can be capped"), (watts(200), watts(700)));
    fake.set(0, "limit_mw", "650000");
    let originals = cap.capture().expect("readable");
    assert_eq!(
        originals.clone().into_iter().collect::<Vec<_>>(),
        [(format!("{FIRST}/power_limit_mw"), "650000".into())]
    );
    cap.set(watts(310)).expect("set");
    assert_eq!(fake.read(0, "limit_mw"), "310000");
    // A lower limit of a management controller is accepted.
    fake.set(0, "beside_mw", "250000");
    cap.set(watts(300)).expect("held");
    // Another GPU has the index now; the capped GPU is restored.
    swap(&fake);
    cap.restore(&format!("{FIRST}/power_limit_mw"), "650000").expect("put back");
    assert_eq!(fake.read(1, "limit_mw"), "650000");
    let wrong = text(cap.restore(&format!("{FIRST}/locked_clocks"), "650000"));
    assert!(wrong.ends_with("which is not a valid value: set it by hand"), "{wrong}");
    let gone = text(cap.restore("GPU-0/power_limit_mw", "650000"));
    assert!(gone.starts_with("there is no GPU GPU-0: "), "{gone}");
}

#[test]
fn by_uuid_and_within_a_range() {
    let Some(fake) = FakeGpus::new() else { return };
    swap(&fake);
    let id: GpuId = FIRST.parse().expect("a UUID");
    let mut cap = NvmlCap::new(&fake.library(), id.clone(), Some((watts(150), watts(400))));
    assert_eq!(cap.range().expect("a range"), (watts(200), watts(400)), "what the GPU takes of it");
    cap.set(watts(400)).expect("set");
    assert_eq!(fake.read(1, "limit_mw"), "400000");
    let mut outside = NvmlCap::new(&fake.library(), id, Some((watts(20), watts(90))));
    assert!(text(outside.range()).contains("cannot be capped: its lowest cap is 200.0 W and its highest 90.0 W"));
}

#[test]
fn refusals_of_the_library_are_reported() {
    let Some(fake) = FakeGpus::new() else { return };
    let mut cap = limits(&fake);
    cap.range().expect("it can be capped");
    fake.set(0, "error_nvmlDeviceSetPowerManagementLimit", "4");
    let denied = "cannot limit the power of GPU 0: the current user does not have permission to perform this operation: \
                  run lslave as root; a container needs the capability SYS_ADMIN";
    assert_eq!(text(cap.range()), denied);
    assert_eq!(text(cap.set(watts(300))), denied);
    fake.unset(0, "error_nvmlDeviceSetPowerManagementLimit");
    // The enforced limit counts, not the set one.
    fake.set(0, "enforced_mw", "700000");
    let held = text(cap.set(watts(300)));
    assert!(held.starts_with("GPU 0 holds 700.0 W after 300.0 W was written: "), "{held}");
    fake.unset(0, "enforced_mw");
    // A GPU falls off the bus, then returns with the driver.
    fake.set(0, "error", "15");
    let lost = text(cap.set(watts(300)));
    assert!(lost.starts_with("cannot limit the power of GPU 0: device fell off the bus"), "{lost}");
    assert!(lost.ends_with("reset it with `nvidia-smi --gpu-reset`, or restart the machine"), "{lost}");
    let loading = fake.library().with_file_name("error_nvmlInit_v2");
    fs::write(&loading, "9").expect("written");
    let unloaded = text(cap.set(watts(300)));
    assert!(
        unloaded.ends_with("NVIDIA driver is not loaded: load it with `modprobe nvidia`"),
        "it is loaded anew: {unloaded}"
    );
    fs::remove_file(loading).expect("removed");
    fake.unset(0, "error");
    cap.set(watts(300)).expect("it works again");

    let none = text(NvmlCap::new(&fake.library(), GpuId::Index(1), None).range());
    assert!(
        none.ends_with("this GPU cannot; one without a power limit may be capped by `nvml-clocks:INDEX`"),
        "{none}"
    );
    let none = text(NvmlCap::new(&fake.library(), GpuId::Index(2), None).range());
    assert!(
        none.starts_with("there is no GPU 2: ") && none.ends_with("`lslave --probe` lists those that there are"),
        "{none}"
    );
    let missing = text(NvmlCap::new(Path::new("/no/such/library.so"), GpuId::Index(0), None).range());
    assert!(
        missing.starts_with("cannot use the NVIDIA library /no/such/library.so: ")
            && missing.ends_with("install NVIDIA's driver, or say where its library is with `--nvml FILE`"),
        "{missing}"
    );
}

#[test]
fn clocks_stand_in_for_a_power_limit() {
    let Some(fake) = FakeGpus::new() else { return };
    let clocks = |range| ClockCap::new(&fake.library(), GpuId::Index(1), range);
    assert_eq!(
        text(clocks(None).range()),
        "GPU 1 does not report the range of its caps: add it, for example `,20W..90W`"
    );
    let mut cap = clocks(Some((watts(20), watts(75))));
    assert_eq!(cap.range().expect("it can be capped"), (watts(20), watts(75)));
    assert_eq!(fake.read(1, "persistence"), "1", "nothing is changed by looking");
    let originals = cap.capture().expect("readable");
    // From 139 MHz at 20 W to 1720 MHz at 75 W, the line is at 52.8 W for 1081 MHz.
    cap.set(watts(53)).expect("set");
    assert_eq!((fake.read(1, "locked_mhz"), fake.read(1, "clock_mhz")), ("139 1075".into(), "1075".into()));
    for (control, value) in &originals {
        cap.restore(control, value).expect("put back");
    }
    assert_eq!(fake.read(1, "locked_mhz"), "unlocked");
    fake.set(1, "clock_mhz", "1720");
    fake.set(1, "stuck", "1");
    assert_eq!(text(cap.set(watts(20))), "GPU 1 runs at 1720 MHz although its clocks are locked to at most 139 MHz");
    fake.set(1, "error_nvmlDeviceSetPersistenceMode", "4");
    assert!(text(cap.range()).contains("cannot set the persistence mode of GPU 1: the current user does not have"));
    let mut first = ClockCap::new(&fake.library(), GpuId::Index(0), Some((watts(20), watts(75))));
    assert!(
        text(first.range()).starts_with("cannot read the clocks of GPU 0: the requested operation is not available")
    );
    fake.set(1, "graphics_mhz", "0");
    assert_eq!(
        text(cap.set(watts(30))),
        "GPU 1 reports no clocks to lock: cap it with `nvml:` if it has a power limit"
    );
}

#[test]
fn the_gpus_of_a_machine() {
    let Some(fake) = FakeGpus::new() else { return };
    let all = Gpus::new(&fake.library()).list().expect("two");
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].index, all[0].name.as_str(), all[0].uuid.as_str()), (0, "NVIDIA H200", FIRST));
    assert_eq!((all[0].limits, all[0].default_limit), (Some((watts(200), watts(700))), Some(watts(700))));
    assert_eq!((all[0].enforced, all[0].persistent), (Some(watts(700)), Some(false)));
    assert_eq!((all[1].limits, all[1].enforced, all[1].persistent), (None, None, Some(true)));
    assert_eq!(all[1].draw.map(limo_model::Power::mw), Some(17_250));
}

#[test]
fn pairs_of_clocks_are_set_and_put_back() {
    let Some(fake) = FakeGpus::new() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let mut site = limo_power::Site::new(dir.path());
    site.nvml = fake.library();
    let open = || {
        let choice = "nvml-clocks:1,20W..75W".parse().expect("a cap");
        limo_power::Keeper::open(&dir.path().join("caps.json"), &site, vec![("gpu1".to_owned(), choice)])
    };
    let pair = |graphics_mhz, memory_mhz| ClockPair { graphics_mhz, memory_mhz };
    let held = || fake.read(1, "applications_mhz");
    let (mut keeper, failures) = open().expect("a keeper");
    assert!(failures.is_empty(), "{failures:?}");
    // 139 MHz at all three memory clocks, four others at two of them.
    let pairs = keeper.clock_pairs("gpu1").expect("pairs");
    assert_eq!((pairs.len(), pairs[0], pairs[10]), (11, pair(139, 405), pair(1720, 3504)));
    assert!(!fake.library().with_file_name("gpu1/set_mhz").exists(), "nothing is set by looking");
    keeper.set_clocks("gpu1", pair(139, 405)).expect("set");
    keeper.set_clocks("gpu1", pair(810, 810)).expect("set");
    assert_eq!(held(), "810 810");
    let refused = text(keeper.set_clocks("gpu1", pair(810, 405)));
    assert!(refused.starts_with("cannot set the clocks of GPU 1: "), "{refused}");
    keeper.set("gpu1", None).expect("restored");
    assert_eq!(held(), "1075 3504");
    // A killed process leaves a pair and a lock behind; the next one restores both.
    keeper.set_clocks("gpu1", pair(1240, 810)).expect("set");
    keeper.set("gpu1", Some(watts(20))).expect("set");
    drop(keeper);
    assert_eq!((held(), fake.read(1, "locked_mhz")), ("1240 810".to_owned(), "139 139".to_owned()));
    let (mut keeper, failures) = open().expect("a keeper");
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!((held(), fake.read(1, "locked_mhz")), ("1075 3504".to_owned(), "unlocked".to_owned()));
    fake.set(1, "stuck", "1");
    let stuck = text(keeper.set_clocks("gpu1", pair(139, 405)));
    let expected =
        "GPU 1 holds 1075 MHz, memory 3504 MHz after 139 MHz, memory 405 MHz was set: another program sets its clocks";
    assert_eq!(stuck, expected);
    let none = text(keeper.set_clocks("cpu", pair(139, 405)));
    assert!(none.starts_with("unit `cpu` has no pairs of clocks: they need `--unit cpu=nvml:GPU`"), "{none}");
}

#[test]
fn clock_limits_have_their_reasons() {
    let Some(fake) = FakeGpus::new() else { return };
    let mut gpus = Gpus::new(&fake.library());
    let mut limits = |bits: &str| {
        fake.set(0, "limits", bits);
        let found = gpus.clock_limits(&GpuId::Index(0)).expect("reasons");
        (found.power, found.heat)
    };
    // Bits of nvml.h: 0x4 is the power cap, 0x20 and 0x40 are heat, 0x1 is idle and 0x2 the clocks for applications.
    assert_eq!(
        ["0", "3", "4", "32", "64", "68"].map(&mut limits),
        [(false, false), (false, false), (true, false), (false, true), (false, true), (true, true),]
    );
    let none = gpus.clock_limits(&GpuId::Index(1)).expect_err("it reports none").to_string();
    assert!(none.starts_with("cannot read the clock limits of GPU 1: "), "{none}");
}
