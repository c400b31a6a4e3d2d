//! Meters of GPUs, and sums of meters. They are with the caps because they use the same fakes.

use std::time::Duration;

use limo_model::Power;
use limo_power::{Meter, MeterChoice, NvidiaSmi, Nvml, Reading, Site};

use crate::fake::FakeGpus;
use crate::script::Script;
use crate::tree::{Tree, watts};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn mean(draw: Power, over: Duration) -> Reading {
    Reading::Mean { draw, over }
}

fn text(result: Result<Reading, limo_power::MeterError>) -> String {
    result.expect_err("no reading").to_string()
}

#[test]
fn draw_and_energy_of_gpus() {
    let Some(fake) = FakeGpus::new() else { return };
    let mut meter = Nvml::new(&fake.library());
    let shown = Reading::Draw(Power::from_mw(137_750));
    assert_eq!(meter.read(ms(0)).expect("120.5 W and 17.25 W"), shown);
    // The second GPU has no energy counter, so the draws of both count.
    assert_eq!(meter.read(ms(1000)).expect("a reading"), shown);
    fake.set(1, "energy_mj", "5000");
    assert_eq!(meter.read(ms(2000)).expect("a reading"), shown, "it has just begun to count");
    // 300 J and 30 J in two seconds are 165 W.
    fake.set(0, "energy_mj", "1300000");
    fake.set(1, "energy_mj", "35000");
    assert_eq!(meter.read(ms(2400)).expect("too soon for the counters"), shown);
    assert_eq!(meter.read(ms(4000)).expect("a mean"), mean(watts(165), ms(2000)));
    assert_eq!(meter.shown(), Some(Power::from_mw(137_750)), "the driver still shows its own draw");
    // The counter was reset by another driver, and then the last sample was too long ago.
    fake.set(0, "energy_mj", "0");
    fake.set(1, "energy_mj", "36000");
    assert_eq!(meter.read(ms(5000)).expect("a reading"), shown);
    fake.set(0, "energy_mj", "100000");
    fake.set(1, "energy_mj", "37000");
    assert_eq!(meter.read(ms(6000)).expect("a mean"), mean(watts(101), ms(1000)));
    fake.set(0, "energy_mj", "200000");
    assert_eq!(meter.read(ms(6000 + 120_001)).expect("a reading"), shown);
}

#[test]
fn values_that_the_driver_recorded_stand_in_for_a_counter() {
    let Some(fake) = FakeGpus::new() else { return };
    let mut meter = Nvml::new(&fake.library());
    fake.set(1, "recorded", "100000 90000");
    meter.read(ms(0)).expect("a reading");
    // 100 W of the first GPU. The values of the second one since then are 20, 40 and 60 W: 40 W in the mean.
    fake.set(0, "energy_mj", "1100000");
    fake.set(1, "recorded", "100000 90000 400000 20000 700000 40000 1000000 60000");
    assert_eq!(meter.read(ms(1000)).expect("a mean"), mean(watts(140), ms(1000)));
    fake.set(0, "energy_mj", "1200000");
    assert_eq!(meter.read(ms(2000)).expect("nothing new"), Reading::Draw(Power::from_mw(137_750)));
}

#[test]
fn a_gpu_without_a_reading_fails_the_meter() {
    let Some(fake) = FakeGpus::new() else { return };
    let mut meter = Nvml::new(&fake.library());
    meter.read(ms(0)).expect("a reading");
    fake.set(1, "error", "15");
    let lost = text(meter.read(ms(1000)));
    assert!(lost.starts_with("cannot read the draw of GPU 1: device fell off the bus"), "{lost}");
    fake.unset(1, "error");
    assert_eq!(meter.read(ms(2000)).expect("it is back"), Reading::Draw(Power::from_mw(137_750)));
    fake.unset(1, "power_mw");
    let none = text(meter.read(ms(3000)));
    assert!(none.starts_with("cannot read the draw of GPU 1: the requested operation is not available"), "{none}");
    fake.set(0, "power_mw", "0");
    fake.set(1, "power_mw", "0");
    assert!(text(meter.read(ms(3400))).starts_with("the NVIDIA library shows 0.0 W: the draw of a running machine"));
    fake.unset(0, "name");
    assert!(text(meter.read(ms(4000))).starts_with("the NVIDIA library knows no GPU: "));
    fake.set(0, "name", "NVIDIA H200");
    fake.set(0, "power_mw", "120500");
    fake.unset(1, "name");
    let gone = text(meter.read(ms(5000)));
    assert_eq!(gone, "1 of 2 NVIDIA GPUs are left: restart lslave to measure without the others");
    let missing = text(Nvml::new("/no/such/library".as_ref()).read(ms(0)));
    assert!(missing.starts_with("cannot use the NVIDIA library /no/such/library: "), "{missing}");
}

#[test]
fn a_sum_is_complete_or_none() {
    let Some(fake) = FakeGpus::new() else { return };
    let tree = Tree::new();
    tree.zone("intel-rapl:0", "package-0", 95_000_000);
    let counter = "class/powercap/intel-rapl:0/energy_uj";
    let site = Site { nvml: fake.library(), ..Site::new(tree.path()) };
    let choice: MeterChoice = "powercap+nvml".parse().expect("a sum");
    assert_eq!(choice.kind(), limo_model::Meter::Powercap);
    let mut meter = choice.meter(&site);
    assert_eq!(meter.read(ms(0)).expect("no error"), Reading::NotYet);
    tree.write(counter, "40000001");
    let expected = mean(Power::from_mw(40_000 + 137_750), ms(1000));
    assert_eq!(meter.read(ms(1000)).expect("both"), expected);
    fake.set(0, "error", "15");
    tree.write(counter, "80000001");
    assert!(text(meter.read(ms(2000))).starts_with("cannot read the draw of GPU 0: "));
    fake.unset(0, "error");
    tree.write(counter, "120000001");
    assert_eq!(meter.read(ms(3000)).expect("the counter was in view"), expected);
    std::fs::remove_dir_all(tree.path().join("class/powercap/intel-rapl:0")).expect("removed");
    assert!(text(meter.read(ms(4000))).contains("has no zone `intel-rapl:N`"));
}

#[test]
fn draws_by_the_program() {
    let script = Script::new("cat $dir/draws; exit $(cat $dir/code)");
    script.set("code", "0");
    let read = |draws: &str| {
        script.set("draws", draws);
        NvidiaSmi::new(&script.program()).read(ms(0)).map_err(|error| script.shown(error))
    };
    assert_eq!(read("120.50\n17.25\n"), Ok(Reading::Draw(Power::from_mw(137_750))));
    assert_eq!(script.read("asked"), "--query-gpu=power.draw --format=csv,noheader,nounits");
    let command = "`PROGRAM --query-gpu=power.draw --format=csv,noheader,nounits`";
    for (draws, shown) in [("120.50\n[N/A]\n", "`120.50 [N/A]`"), ("", "nothing"), ("12 W", "`12 W`")] {
        let error = read(draws).expect_err("not all tell");
        assert!(error.starts_with(&format!("{command} printed {shown}: the draw of each GPU in watts")), "{error}");
    }
    let mut meter = NvidiaSmi::new(&script.program());
    script.set("draws", "120.50\n17.25\n");
    meter.read(ms(0)).expect("two GPUs");
    script.set("draws", "120.50\n");
    assert_eq!(text(meter.read(ms(1))), "1 of 2 NVIDIA GPUs are left: restart lslave to measure without the others");
    script.set("draws", "120.50\n17.25\n");
    meter.read(ms(2)).expect("it is back");
    script.set("code", "9");
    assert!(read("").expect_err("it failed").contains("failed with exit status: 9; it printed nothing"));
}
