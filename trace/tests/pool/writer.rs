//! Writes records as HTCondor does, in each of its forms.

use std::fmt::Write as _;

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Int(i64),
    Real(f64),
    Text(String),
    Expression(&'static str),
}

/// A record: names and values.
pub type Ad = Vec<(&'static str, Value)>;

/// Form of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// History file of Condor 6.6.
    Old,
    /// History file since 6.7.19.
    New,
    Long,
    Xml,
    Json,
    JsonLines,
}

pub const FORMS: [Form; 6] = [Form::Old, Form::New, Form::Long, Form::Xml, Form::Json, Form::JsonLines];

/// Returns the text of a real number, as HTCondor writes it.
fn real(value: f64) -> String {
    let text = format!("{value:.15E}");
    let (mantissa, exponent) = text.split_once('E').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    format!("{mantissa}E{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn long(ad: &Ad) -> String {
    ad.iter().fold(String::new(), |mut text, (name, value)| {
        let value = match value {
            Value::Int(value) => value.to_string(),
            Value::Real(value) => real(*value),
            Value::Text(value) => format!("\"{}\"", value.replace('"', "\\\"")),
            Value::Expression(value) => (*value).to_owned(),
        };
        let _ = writeln!(text, "{name} = {value}");
        text
    })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn xml(ad: &Ad) -> String {
    let inner: String = ad
        .iter()
        .map(|(name, value)| {
            let value = match value {
                Value::Int(value) => format!("<i>{value}</i>"),
                Value::Real(value) => format!("<r>{}</r>", real(*value)),
                Value::Text(value) => format!("<s>{}</s>", escaped(value)),
                Value::Expression(value) => format!("<e>{}</e>", escaped(value)),
            };
            format!("    <a n=\"{name}\">{value}</a>\n")
        })
        .collect();
    format!("<c>\n{inner}</c>\n")
}

fn json(ad: &Ad, divider: &str) -> String {
    let pairs: Vec<String> = ad
        .iter()
        .map(|(name, value)| {
            let value = match value {
                Value::Int(value) => value.to_string(),
                Value::Real(value) => real(*value),
                Value::Text(value) => serde_json::to_string(value).expect("a text"),
                Value::Expression(value) => format!("\"\\/Expr({})\\/\"", value.replace('"', "\\\"")),
            };
            format!("\"{name}\": {value}")
        })
        .collect();
    format!("{{{divider}{}{divider}}}", pairs.join(&format!(",{divider}")))
}

/// Writes the records in a form.
pub fn write(ads: &[Ad], form: Form) -> String {
    let ended = |end: &dyn Fn(&Ad) -> String| ads.iter().map(|ad| long(ad) + &end(ad)).collect();
    match form {
        Form::Old => ended(&|_| "***\n".to_owned()),
        Form::New => {
            ended(&|_| "*** Offset = 0 ClusterId = 1 ProcId = 0 Owner = \"x\" CompletionDate = 1\n".to_owned())
        }
        Form::Long => ended(&|_| "\n".to_owned()),
        Form::Xml => {
            let head = "<?xml version=\"1.0\"?>\n<!DOCTYPE classads SYSTEM \"classads.dtd\">\n<classads>\n";
            format!("{head}{}</classads>\n", ads.iter().map(xml).collect::<String>())
        }
        Form::Json => {
            format!("[\n{}\n]\n", ads.iter().map(|ad| json(ad, "\n")).collect::<Vec<_>>().join(",\n"))
        }
        Form::JsonLines => ads.iter().map(|ad| json(ad, "") + "\n").collect(),
    }
}
