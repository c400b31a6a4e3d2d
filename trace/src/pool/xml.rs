//! Records of `condor_history -xml` and of event logs in XML: `<c><a n="QDate"><i>5</i></a></c>`.

use std::borrow::Cow;

use roxmltree::{Document, Node};

use super::ATTRIBUTE_LIMIT;
use super::attribute::Attribute;
use super::record::{Literal, PoolRecord};

/// Reads one element `c`.
///
/// # Errors
/// The reason, if it is not one.
pub(super) fn read(element: &[u8], record: &mut PoolRecord) -> Result<(), String> {
    let text = std::str::from_utf8(element).map_err(|error| error.to_string())?;
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let attributes = document.root_element().children().filter(|node| node.has_tag_name("a"));
    for (index, node) in attributes.enumerate() {
        if index >= ATTRIBUTE_LIMIT {
            return Err(format!("it has more than {ATTRIBUTE_LIMIT} attributes"));
        }
        let name = node.attribute("n").ok_or("an element `a` has no name `n`")?;
        if let Some(attribute) = Attribute::of(name.as_bytes()) {
            record.set(attribute, &literal(node));
        }
    }
    Ok(())
}

/// Returns the value of an element `a`.
fn literal<'d>(attribute: Node<'d, '_>) -> Literal<'d> {
    let Some(value) = attribute.first_element_child() else { return Literal::Other };
    let text = value.text().unwrap_or_default();
    match value.tag_name().name() {
        "i" | "r" => Literal::number(text.trim().as_bytes()),
        "s" => Literal::Text(Cow::Borrowed(text.as_bytes())),
        _ => Literal::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Slot;
    use super::*;

    #[test]
    fn values() {
        let mut record = PoolRecord::default();
        record.begin(1);
        let text = "<c>\n<a n=\"QDate\"><i>5</i></a><a n=\"BytesSent\"><r>2.500000000000000E+00</r></a>\
            <a n=\"Owner\"><s>a&lt;b&quot;</s></a><a n=\"Cmd\"><s></s></a><a n=\"ProcId\"><e>1 + 1</e></a>\
            <a n=\"JobStatus\"><b v=\"t\"/></a><a n=\"ClusterId\"></a><a n=\"Other\"><c></c></a></c>";
        assert_eq!(read(text.as_bytes(), &mut record), Ok(()));
        assert_eq!(record.number(Attribute::QDate), Some(5));
        assert_eq!(record.number(Attribute::BytesSent), Some(3));
        assert_eq!(record.text(Attribute::Owner), Some(b"a<b\"".as_slice()));
        assert_eq!(record.text(Attribute::Cmd), Some(b"".as_slice()));
        for wrong in [Attribute::ProcId, Attribute::JobStatus, Attribute::ClusterId] {
            assert_eq!(record.slot(wrong), Slot::Mistyped, "{wrong:?}");
        }
    }

    #[test]
    fn wrong_elements_are_refused() {
        let mut record = PoolRecord::default();
        assert!(read(b"<c><a></c>", &mut record).is_err());
        assert!(read(b"<c>\xff</c>", &mut record).is_err());
        assert_eq!(read(b"<c><a/></c>", &mut record), Err("an element `a` has no name `n`".to_owned()));
        // Nested elements do not use up the stack.
        let deep = format!("<c>{}{}</c>", "<a n=\"x\">".repeat(20_000), "</a>".repeat(20_000));
        let _ = read(deep.as_bytes(), &mut record);
    }
}
