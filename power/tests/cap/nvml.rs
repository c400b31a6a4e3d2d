//! NVIDIA GPUs through a real shared library that keeps its state in files.

use std::fs;
use std::path::Path;

use limo_power::{Cap, ClockCap, GpuId, Gpus, NvmlCap};

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
