//! Random requests.

use std::num::NonZeroU32;

use limo_model::{
    Allowance, Arrange, CheckpointEvery, Condition, Conditions, Cores, Dependency, Energy, JobId, Labels, LicenceCount,
    Mail, Memory, Power, Predicted, Request, Restart, Span, Spread, Step, Time, Warning, WhenUsed, Widths,
};
use proptest::{collection::vec, prelude::*};

use super::{MANY, text, time};

fn conditions(hold: bool, begin: Option<Time>) -> Option<Box<Conditions>> {
    let dependency = |condition| Dependency { condition, job: JobId(7) };
    let dependencies = Condition::ALL.map(dependency).to_vec();
    begin.map(|_| Box::new(Conditions { hold, begin, dependencies, singleton: !hold }))
}

pub fn request() -> impl Strategy<Value = Request> {
    let cores = prop_oneof![Just(Cores::All), any::<NonZeroU32>().prop_map(Cores::Count)];
    (text(), cores, any::<bool>(), proptest::option::of(time()), vec(text(), 0..3)).prop_map(
        |(name, cores, immediate, deadline, names)| Request {
            user: name.clone(),
            name: name.clone(),
            application: name.clone(),
            size: name,
            nodes: NonZeroU32::MIN,
            cores,
            memory: Memory::from_bytes(7),
            time_limit: deadline.map(|at| Span::from_ms(at.unix_ms())),
            immediate,
            deadline,
            start_by: deadline,
            include: names.clone(),
            exclude: names.clone(),
            hardware: names.clone(),
            variants: names,
            may_suspend: immediate,
            may_requeue: !immediate,
            filler: immediate,
            conditions: conditions(immediate, deadline),
            warning: deadline.map(|at| Warning { signal: 10, before: Span::from_ms(at.unix_ms()) }),
            kill_grace: deadline.map(|at| Span::from_ms(at.unix_ms())),
            allowance: deadline.map(|at| {
                let energy = immediate.then(|| Energy::from_mj(at.unix_ms()));
                Allowance { energy, cost: None, when_used: WhenUsed::Warn }
            }),
            spread: deadline.map(|_| Spread { tasks: MANY, cores: Cores::All, nodes: None, per_node: Some(MANY) }),
            reservation: deadline.map(|at| format!("r{}", at.unix_ms())),
            priority: if immediate { 10_000 } else { -7 },
            exclusive: immediate,
            accelerators: immediate.then_some(NonZeroU32::MAX),
            with_cores: immediate,
            arrange: if immediate { Arrange::Pack } else { Arrange::Spread },
            cap: deadline.map(|at| Power::from_mw(at.unix_ms())),
            explore: immediate,
            queue: deadline.map(|at| format!("q{}", at.unix_ms())),
            malleable: immediate,
            widths: deadline.map(|_| Widths { least: MANY, most: MANY, tasks_per_node: immediate.then_some(MANY) }),
            predicted: deadline.into_iter().map(predicted).collect(),
            mail: deadline.map(|_| {
                Box::new(Mail { events: "BEGIN,FAIL".parse().expect("events"), user: "ada@example.org".into() })
            }),
            licences: deadline.into_iter().map(|_| LicenceCount { name: "matlab".into(), count: MANY }).collect(),
            account: deadline.map(|at| format!("a{}", at.unix_ms())),
            qos: immediate.then(|| "long".to_owned()),
            labels: deadline
                .map(|_| Box::new(Labels { comment: Some("a b".into()), wckey: immediate.then(|| "w".into()) })),
            queue_group: immediate.then(|| "physics".to_owned()),
            step: immediate.then_some(Step { of: JobId(3), number: 1, overlap: true }),
            restart: Restart {
                most: immediate.then_some(3),
                checkpoint: deadline.map(|at| CheckpointEvery::Span(Span::from_ms(at.unix_ms()))),
                signal: deadline.map(|_| 12),
                command: None,
            },
        },
    )
}

fn predicted(at: Time) -> Predicted {
    let (mean, duration) = (Power::from_mw(at.unix_ms()), Span::from_ms(at.unix_ms()));
    Predicted { hardware: "xeon".to_owned(), cores: 4, model: 3, mean, deviation: mean, high: mean, duration }
}
