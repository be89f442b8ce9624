//! Which inputs and attributes of a node the mapping of its operator reads: `options.txt` has a line for each row of the table.
//! What a node has besides would change what it computes, so that such a node is refused, by the name of what it has.

use crate::onnx::node::Node;
use crate::onnx::protobuf::{AttributeProto, attribute_type};
use crate::onnx::refusal::Mapped;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What becomes of an input or attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    Read,
    /// It changes nothing here.
    Hint,
    /// The node is refused, unless it has this value.
    Refused(Option<&'static str>),
}

/// An input or attribute, by its name in the schema.
#[derive(Debug)]
struct Named {
    name: &'static str,
    usage: Use,
}

/// What is known of the inputs and attributes of an operator.
#[derive(Debug)]
pub struct Options {
    /// In their order.
    inputs: Vec<Named>,
    /// Whether there may be any number of the last input.
    variadic: bool,
    attributes: Vec<Named>,
}

type Key = (&'static str, &'static str);

static OPTIONS: LazyLock<HashMap<Key, Options>> = LazyLock::new(|| parse(include_str!("options.txt")));

fn parse(text: &'static str) -> HashMap<Key, Options> {
    let mut all = HashMap::new();
    let mut domain = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            domain = crate::onnx::importer::normalized(name);
        } else if let Some((operator, lists)) = line.split_once(':') {
            let (inputs, attributes) = lists.split_once('|').unwrap_or((lists, ""));
            let names = |list: &'static str| list.split_whitespace().map(named).collect::<Vec<Named>>();
            let mut inputs = names(inputs);
            let last = inputs.last_mut().and_then(|last| Some((last.name.strip_suffix('*')?, last)));
            let variadic = last.map(|(name, last)| last.name = name).is_some();
            all.insert((domain, operator), Options { inputs, variadic, attributes: names(attributes) });
        }
    }
    all
}

fn named(word: &'static str) -> Named {
    if let Some(name) = word.strip_prefix('~') {
        return Named { name, usage: Use::Hint };
    }
    let Some(word) = word.strip_prefix('!') else { return Named { name: word, usage: Use::Read } };
    match word.split_once('=') {
        Some((name, value)) => Named { name, usage: Use::Refused(Some(value)) },
        None => Named { name: word, usage: Use::Refused(None) },
    }
}

/// What is known of an operator, by its normalized domain.
pub fn of(domain: &'static str, operator: &'static str) -> Option<&'static Options> {
    OPTIONS.get(&(domain, operator))
}

impl Options {
    fn input(&self, position: usize) -> Option<&Named> {
        self.inputs.get(position).or_else(|| self.inputs.last().filter(|_| self.variadic))
    }

    fn attribute(&self, name: &str) -> Option<&Named> {
        self.attributes.iter().find(|named| named.name == name)
    }

    /// Whether a mapping may read an input. One that the operator does not have is never there.
    pub fn reads_input(&self, position: usize) -> bool {
        self.input(position).is_none_or(|named| named.usage == Use::Read)
    }

    /// Whether a mapping may read an attribute. One that the operator does not have is never there.
    pub fn reads_attribute(&self, name: &str) -> bool {
        self.attribute(name).is_none_or(|named| named.usage == Use::Read)
    }

    /// Refuses a node with inputs or attributes that its mapping does not read.
    pub fn check(&self, node: &Node<'_>) -> Mapped<()> {
        for attribute in &node.proto.attribute {
            let name = &attribute.name;
            match self.attribute(name).map(|named| named.usage) {
                Some(Use::Read | Use::Hint) => {}
                Some(Use::Refused(None)) => return Err(format!("the attribute {name} is not supported").into()),
                Some(Use::Refused(Some(value))) if is_equal(attribute, value) => {}
                Some(Use::Refused(Some(value))) => {
                    return Err(format!("the attribute {name} is not supported, but for the value {value}").into());
                }
                None => return Err(format!("the attribute {name} is not one that the operator has").into()),
            }
        }
        for position in (0..node.inputs.len()).filter(|&position| node.inputs[position].is_some()) {
            match self.input(position) {
                Some(Named { usage: Use::Read | Use::Hint, .. }) => {}
                Some(Named { name, .. }) => return Err(format!("the input {name} is not supported").into()),
                None => {
                    let most = self.inputs.len();
                    return Err(format!("an input {position}, where the operator has {most} of them").into());
                }
            }
        }
        Ok(())
    }
}

fn is_equal(attribute: &AttributeProto, text: &str) -> bool {
    match attribute.r#type {
        attribute_type::INT => text.parse() == Ok(attribute.i.unwrap_or(0)),
        attribute_type::FLOAT => text.parse() == Ok(attribute.f.unwrap_or(0.0)),
        attribute_type::STRING => attribute.s.as_deref().unwrap_or_default() == text.as_bytes(),
        _ => false,
    }
}

/// An input or an attribute, and its name.
#[cfg(test)]
pub type Name = (&'static str, &'static str);

/// What mappings have read in this thread: for each operator, by its domain and name, the names of inputs and attributes.
#[cfg(test)]
type Recorded = HashMap<(String, String), std::collections::BTreeSet<Name>>;

#[cfg(test)]
thread_local! {
    static RECORDED: std::cell::RefCell<Recorded> = std::cell::RefCell::default();
}

#[cfg(test)]
pub fn recorded(domain: &str, operator: &str) -> std::collections::BTreeSet<Name> {
    RECORDED.with_borrow(|recorded| recorded.get(&(domain.to_owned(), operator.to_owned())).cloned().unwrap_or_default())
}

#[cfg(test)]
impl Options {
    /// Remembers that a mapping has read an input or attribute.
    pub fn record(&self, node: &Node<'_>, position: Option<usize>, attribute: &str) {
        let (kind, named) = match position {
            Some(position) => ("input", self.input(position)),
            None => ("attribute", self.attribute(attribute)),
        };
        let Some(name) = named.map(|named| (kind, named.name)) else { return };
        let domain = crate::onnx::importer::normalized(&node.proto.domain).to_owned();
        RECORDED.with_borrow_mut(|recorded| recorded.entry((domain, node.operator().to_owned())).or_default().insert(name));
    }

    /// The names of what the mapping reads.
    pub fn read_names(&self) -> impl Iterator<Item = Name> {
        let inputs = self.inputs.iter().map(|named| ("input", named));
        let all = inputs.chain(self.attributes.iter().map(|named| ("attribute", named)));
        all.filter(|(_, named)| named.usage == Use::Read).map(|(kind, named)| (kind, named.name))
    }

    pub fn most_inputs(&self) -> usize {
        self.inputs.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::OPSETS;
    use crate::onnx::ops::TABLE;
    use crate::onnx::testing::{float, int, sketch};
    use serde_json::Value;
    use std::collections::BTreeMap;

    /// The schemas are not in the package, so they are read when the test runs.
    #[test]
    fn every_row_names_what_its_schemas_have() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onnx/schemas.json");
        let facts: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(OPTIONS.len(), TABLE.len());
        for entry in TABLE {
            let name = format!("{}::{}", entry.domain, entry.operator);
            let options = of(entry.domain, entry.operator).unwrap_or_else(|| panic!("{name} has no line in options.txt"));
            let all = facts["operators"][&name].as_array().unwrap_or_else(|| panic!("{name} is not in {path}"));
            // What onnxruntime has in this domain too has no schema of its own there.
            assert_eq!(all.is_empty(), name == "com.microsoft::SimplifiedLayerNormalization", "{name}");
            let first = if entry.domain.is_empty() { entry.versions.0.max(*OPSETS.start()) } else { 1 };
            let is_met = |i: usize| all.get(i + 1).is_none_or(|next| next["since"].as_i64().unwrap() > first);
            let versions: Vec<&Value> = (0..all.len()).filter(|&i| is_met(i)).map(|i| &all[i]).collect();
            let mut attributes: BTreeMap<&str, Option<&str>> = BTreeMap::new();
            for (name, default) in versions.iter().flat_map(|version| version["attributes"].as_object().unwrap()) {
                attributes.insert(name, default.as_str());
            }
            let Some(longest) = versions.iter().max_by_key(|version| version["inputs"].as_array().unwrap().len()) else {
                continue;
            };
            let mut listed: Vec<&str> = options.attributes.iter().map(|named| named.name).collect();
            listed.sort_unstable();
            assert_eq!(listed, attributes.keys().copied().collect::<Vec<_>>(), "the attributes of {name}");
            for Named { name: attribute, usage } in &options.attributes {
                if let (Use::Refused(value), Some(default)) = (usage, attributes[attribute]) {
                    assert_eq!(*value, Some(default), "the default of {name}'s {attribute}");
                }
            }
            let inputs: Vec<&str> = longest["inputs"].as_array().unwrap().iter().map(|input| input.as_str().unwrap()).collect();
            assert_eq!(options.variadic, inputs.last().is_some_and(|last| last.ends_with('*')), "{name}");
            let inputs: Vec<&str> = inputs.iter().map(|input| input.trim_end_matches(['?', '*'])).collect();
            let listed: Vec<&str> = options.inputs.iter().map(|named| named.name).collect();
            assert_eq!(listed, inputs, "the inputs of {name}");
        }
    }

    #[test]
    fn what_is_not_read_is_refused_by_name() {
        let of_operator = |operator: &str, attributes, inputs: &[&str]| {
            let model = sketch(21).input("a", 1, &[2, 32]).input("b", 1, &[2, 32]);
            let model = model.node(&format!("com.microsoft::{operator}"), inputs, &["y"], attributes).output("y");
            model.import().unwrap_err().to_string()
        };
        let refusal = |attributes, inputs: &[&str]| of_operator("MultiHeadAttention", attributes, inputs);
        let gated = of_operator("GatedAdd", vec![], &["a", "a", "a", "b"]);
        assert!(gated.contains("the input gate_weight is not supported"));
        let eleven = ["a", "a", "a", "", "", "", "", "", "", "", "b"];
        assert!(refusal(vec![], &eleven).contains("an input 10, where the operator has 10 of them"));
        assert!(refusal(vec![float("scalee", 1.0)], &["a"]).contains("the attribute scalee is not one that the operator has"));
        let quantize = |value| {
            let model = sketch(23).input("x", 1, &[2]).floats("s", &[], &[0.5]);
            model
                .node("QuantizeLinear", &["x", "s"], &["y"], vec![int("precision", value), int("saturate", 0)])
                .output("y")
                .import()
        };
        assert!(quantize(0).is_ok());
        assert!(quantize(10).unwrap_err().to_string().contains("the attribute precision is not supported, but for the value 0"));
    }
}
