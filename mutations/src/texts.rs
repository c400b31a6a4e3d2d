//! Single values, as in configurations and on command lines, and certificates.

pub mod values {
    //! Values with a text form: what is shown can be read again. The first byte chooses the type.

    use std::fmt::Display;
    use std::str::FromStr;

    use limo_identity::{CertifiedRole, Fingerprint, Identity, JoinToken, SecretHash, Serial, TokenId};
    use limo_model::{
        CarbonCharge, CarbonIntensity, CheckpointEvery, Cores, CostRatio, CpuBind, Currency, DayWindow, Energy, JobId,
        JobShare, LicenceCount, Mac, MailEvents, Measure, Memory, ModeSetting, Money, NodeRange, PartRule, Power,
        Preset, Price, QuotaLimit, Release, SleepAfter, Slowdown, Span, Tasks, WhenUsed, Window, host_list,
        parse_hosts, parse_licences, parse_step,
    };
    use limo_owner::OwnerChoice;
    use limo_power::{CapChoice, GpuId, MeterChoice, Percent};
    use limo_proto::Endpoint;

    use crate::input::{choice, chosen, text};

    pub const WORDS: &[&str] =
        &["min", " W", " kWh", " EUR/MWh", " GiB", "unix:", "tls://", "[1-9]", "%", "+", "..", "mon-fri"];

    /// A reader, and texts that it accepts.
    type Kind = (fn(&str) -> bool, &'static [&'static str]);

    const KINDS: &[Kind] = &[
        (back::<Span>, &["1h30min", "2.5 s", "1ms"]),
        (back::<Power>, &["41.5 W", "2 kW", "100 mW"]),
        (back::<Energy>, &["5 kWh", "1.5 J"]),
        (back::<Price>, &["60 EUR/MWh"]),
        (back::<Money>, &["1.25 EUR"]),
        (back::<Memory>, &["1 GiB", "512 MiB"]),
        (back::<JobId>, &["17"]),
        (back::<JobShare>, &["50%", "12.5%"]),
        (back::<LicenceCount>, &["solver:2"]),
        (back::<ModeSetting>, &["auto"]),
        (back::<DayWindow>, &["03:00-05:00"]),
        (back::<Window>, &["day"]),
        (back::<SleepAfter>, &["5min", "never"]),
        (back::<CostRatio>, &["1.3"]),
        (back::<CarbonIntensity>, &["300 g/kWh"]),
        (back::<CarbonCharge>, &["80 EUR/t"]),
        (back::<Slowdown>, &["F=0.75", "CPI=2.5"]),
        (back::<Cores>, &["4"]),
        (back::<Preset>, &["limo"]),
        (back::<PartRule>, &["idle=power-off"]),
        (back::<Tasks>, &["1-9:2%3", "1,5"]),
        (back::<CpuBind>, &["cores"]),
        (back::<Measure>, &["energy"]),
        (back::<Currency>, &["EUR"]),
        (back::<Release>, &["even"]),
        (back::<CheckpointEvery>, &["15min", "auto"]),
        (back::<Mac>, &["00:11:22:33:44:55"]),
        (back::<Endpoint>, &["unix:/run/limo/master.sock", "127.0.0.1:6817", "tls://a:1,b:2"]),
        (back::<Percent>, &["0.1%"]),
        (back::<GpuId>, &["0", "GPU-12345678-1234-1234-1234-123456789abc"]),
        (back::<Serial>, &[]),
        (back::<Fingerprint>, &[]),
        (back::<JoinToken>, &[]),
        (back::<TokenId>, &[]),
        (back::<SecretHash>, &[]),
        (back::<CertifiedRole>, &["node"]),
        (back::<Identity>, &[]),
        (parsed::<NodeRange>, &["1-4", "8"]),
        (parsed::<QuotaLimit>, &["energy=20kWh/day", "jobs=4"]),
        (parsed::<WhenUsed>, &["stop"]),
        (parsed::<MailEvents>, &["END,FAIL"]),
        (
            parsed::<MeterChoice>,
            &["powercap+nvml", "shelly:http://plug7#1", "ipmi:-I lanplus -H bmc1", "command:cat /a"],
        ),
        (parsed::<CapChoice>, &["rapl,8 W..60 W"]),
        (parsed::<OwnerChoice>, &["logind"]),
        (|text| parse_step(text).is_some(), &["17.2"]),
        (|text| parse_licences(text).is_ok(), &["a:1,b:2"]),
        (hosts, &["n[1-3,07],m", "a[01-20]b"]),
    ];

    pub fn read(bytes: &[u8]) -> bool {
        let (kind, bytes) = choice(bytes, KINDS.len());
        KINDS[kind].0(&text(bytes))
    }

    fn parsed<T: FromStr>(text: &str) -> bool {
        text.parse::<T>().is_ok()
    }

    fn back<T: FromStr + Display>(text: &str) -> bool {
        let Ok(value) = text.parse::<T>() else { return false };
        let shown = value.to_string();
        let again = shown.parse::<T>().map(|again| again.to_string()).ok();
        assert_eq!(again, Some(shown), "another value comes back");
        true
    }

    fn hosts(text: &str) -> bool {
        let Ok(mut names) = parse_hosts(text) else { return false };
        let list = host_list(names.iter().map(String::as_str));
        let mut again = parse_hosts(&list).unwrap_or_default();
        names.sort_unstable();
        again.sort_unstable();
        names.dedup();
        again.dedup();
        assert_eq!(again, names, "{list} has other names");
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        let of = |(kind, (_, texts)): (u8, &Kind)| texts.iter().map(move |text| chosen(kind, text)).collect::<Vec<_>>();
        (0..).zip(KINDS).flat_map(of).collect()
    }
}

pub mod certificates {
    //! Certificates and keys in PEM, and the contents of a certificate.

    use std::time::SystemTime;

    use limo_identity::{Authority, Certificate, Fingerprint, certificate_pem, certificates, private_key};
    use limo_model::ClusterId;

    pub const WORDS: &[&str] = &["-----BEGIN CERTIFICATE-----\n", "-----END PRIVATE KEY-----\n"];

    pub fn read(bytes: &[u8]) -> bool {
        let is_key = private_key(bytes).is_ok();
        let Ok(found) = certificates(bytes) else { return is_key };
        for certificate in &found {
            // Refusals are fine: a PEM file may have any bytes.
            let _ = (Certificate::read(certificate), Fingerprint::of(certificate));
        }
        let pem: String = found.iter().map(certificate_pem).collect();
        assert_eq!(certificates(pem.as_bytes()).ok(), Some(found), "other certificates come back");
        true
    }

    pub fn seeds() -> Vec<Vec<u8>> {
        // The key is made by this process, which has randomness, or the test ends.
        let authority = Authority::new(ClusterId::default(), SystemTime::UNIX_EPOCH).expect("an authority");
        vec![certificate_pem(authority.certificate()).into_bytes(), authority.key_pem().into_bytes()]
    }
}
