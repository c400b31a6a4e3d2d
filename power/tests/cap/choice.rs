//! An operator's choice of a cap.

use limo_power::{CapChoice, CapChoiceError};

fn check(text: &str, expected: Result<(), &str>) {
    let found: Result<CapChoice, CapChoiceError> = text.parse();
    assert_eq!(found.map(drop).map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{text}");
}

#[test]
fn choices() {
    for good in [
        "rapl",
        "rapl,8W..60W",
        " rapl , 8 W..0.06 kW",
        "cpufreq,20W..90W",
        "hsmp",
        "hwmon:amdgpu",
        "hwmon:amdgpu@0000:03:00.0,40W..100W",
        "nvml:0",
        "nvml:GPU-2f7d6f10-1c3e-7d52-2a2f-1b0b2c9b8a11,100W..300W",
        "nvml-clocks:1,20W..75W",
        "nvidia-smi:0",
        "ipmi,80W..400W",
        "ipmi:-I lanplus -H bmc1 -f '/etc/limo/a,b',80W..400W",
        "redfish:https://bmc1/redfish/v1/Chassis/1/",
        "redfish:http://bmc1/Chassis/1,80W..400W",
    ] {
        check(good, Ok(()));
        let choice: CapChoice = good.parse().expect("a cap");
        assert_eq!(choice.as_str().parse::<CapChoice>().expect("as it is saved"), choice);
    }
    let known = "write `rapl`, `cpufreq`, `hsmp`, `hwmon:CHIP[@DEVICE]`, `nvml:GPU`, `nvml-clocks:GPU`, \
                 `nvidia-smi:GPU`, `ipmi[:ARGUMENTS]` or `redfish:URL`";
    check("powercap", Err(&format!("there is no cap `powercap`: {known}")));
    check("rapl:0", Err(&format!("there is no cap `rapl:0`: {known}")));
    check("rapl,8W", Err(&format!("there is no cap `rapl,8W`: {known}")));
    let chips = "write for example `hwmon:amdgpu` or `hwmon:amdgpu@0000:03:00.0`";
    check("hwmon:", Err(&format!("the cap `hwmon:` names no chip: {chips}")));
    check("hwmon:a@", Err(&format!("the cap `hwmon:a@` names no chip: {chips}")));
    let gpus = "write its index or its UUID, for example `nvml:0`; `nvidia-smi -L` lists them";
    check("nvml:", Err(&format!("the cap `nvml:` names no GPU: {gpus}")));
    check("nvml:-1", Err(&format!("the cap `nvml:-1` names no GPU: {gpus}")));
    check(
        "nvml-clocks:0",
        Err("the cap `nvml-clocks:0` needs a range: the GPU's draw at its lowest and highest clock, for example \
             `,20W..75W`"),
    );
    check(
        "cpufreq",
        Err(
            "the cap `cpufreq` needs a range: the processor's draw under load at its lowest and highest frequency, for \
             example `,20W..90W`",
        ),
    );
    check(
        "rapl,60W..8W",
        Err("the range of the cap `rapl,60W..8W` is 60.0 W to 8.0 W: it must begin above zero with the lower value"),
    );
    let limits = "needs a range, because the controller does not report its limits: for example `,80W..400W`";
    check("ipmi", Err(&format!("the cap `ipmi` {limits}")));
    check("ipmi:-H b,c", Err(&format!("the cap `ipmi:-H b,c` {limits}")));
    check("ipmi:-H 'b,80W..400W", Err("the cap `ipmi:-H 'b` has a quote that is not closed"));
    check(
        "ipmi:-H b -P secret,80W..400W",
        Err(
            "all users can see a password in the arguments of ipmitool: write it into a file and `-f FILE` instead of `ipmi:-H b`",
        ),
    );
    check(
        "redfish:bmc1",
        Err("`bmc1` is not an address of a device: it must begin `http://` or `https://`; write for example \
             `https://bmc1/redfish/v1/Chassis/1`"),
    );
    let range: Result<CapChoice, CapChoiceError> = "rapl,8..60".parse();
    let error = range.expect_err("no unit").to_string();
    assert!(error.starts_with("the cap `rapl,8..60` has the range `8..60`: `8` has no unit"), "{error}");
}
