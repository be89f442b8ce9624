//! A case as the files write it.

use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use webnn_node::graph::operator::Operator;
use webnn_node::graph::{DataType, Descriptor, Number, ops};

/// Expected elements that are further from the exact values than their cases allow, each with the reason.
static CORRECTIONS: LazyLock<Json> =
    LazyLock::new(|| serde_json::from_str(include_str!("corrections.json")).expect("the corrections are JSON"));

#[derive(Clone)]
pub struct Case {
    pub name: String,
    pub inputs: BTreeMap<String, Input>,
    pub operators: Vec<Call>,
    pub expected_outputs: BTreeMap<String, Tensor>,
    pub tolerance: Tolerance,
    /// The specification refuses it.
    pub contradicts: bool,
}

#[derive(Clone)]
pub struct Input {
    pub tensor: Tensor,
    pub constant: bool,
}

/// Elements and what they are. A single number fills the shape.
#[derive(Clone)]
pub struct Tensor {
    pub descriptor: Descriptor,
    pub data: Json,
}

/// One call of a method of the builder.
#[derive(Clone)]
pub struct Call {
    pub name: String,
    /// The positional arguments, each with its label.
    pub arguments: Vec<(String, Json)>,
    pub options: BTreeMap<String, Json>,
    pub outputs: Vec<String>,
}

#[derive(Clone)]
pub struct Tolerance {
    pub metric: Metric,
    pub value: f64,
}

#[derive(Clone)]
pub enum Metric {
    /// Representable numbers between two values.
    Ulp,
    /// The absolute difference.
    Atol,
}

/// The files of a folder, by their names.
pub fn load(folder: &Path) -> BTreeMap<String, Vec<Case>> {
    let files = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut loaded = BTreeMap::new();
    for file in files {
        let path = file.expect("the folder can be read").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let json: Json = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = path.file_stem().expect("it has an extension").to_string_lossy().into_owned();
            loaded.insert(name, list(&json).iter().map(Case::parse).collect());
        }
    }
    loaded
}

impl Case {
    fn parse(json: &Json) -> Case {
        let graph = &json["graph"];
        let input = |json: &Json| Input { tensor: Tensor::parse(json), constant: json["constant"].as_bool().unwrap_or(false) };
        let metric = match text(&json["tolerance"]["metric"]).as_str() {
            "ULP" => Metric::Ulp,
            "ATOL" => Metric::Atol,
            other => panic!("the metric {other} is unknown"),
        };
        let name = text(&json["name"]);
        let mut expected_outputs = members(&graph["expectedOutputs"], Tensor::parse);
        for correction in list(&CORRECTIONS).iter().filter(|correction| correction["case"] == name.as_str()) {
            let output = expected_outputs.get_mut(&text(&correction["output"])).expect("an output that is to be corrected");
            output.data[correction["index"].as_u64().expect("an index") as usize] = correction["value"].clone();
        }
        Case {
            name,
            inputs: members(&graph["inputs"], input),
            operators: list(&graph["operators"]).iter().map(Call::parse).collect(),
            expected_outputs,
            tolerance: Tolerance { metric, value: json["tolerance"]["value"].as_f64().expect("a tolerance is a number") },
            contradicts: json.get("contradicts").is_some(),
        }
    }
}

impl Call {
    fn parse(json: &Json) -> Call {
        let mut call = Call {
            name: text(&json["name"]),
            arguments: Vec::new(),
            options: BTreeMap::new(),
            outputs: match &json["outputs"] {
                Json::Array(names) => names.iter().map(text).collect(),
                name => vec![text(name)],
            },
        };
        let row = call.row();
        for argument in list(&json["arguments"]) {
            let argument = argument.as_object().expect("an argument is an object");
            let mut labelled: Vec<(String, Json)> = Vec::new();
            for (label, value) in argument {
                match label.as_str() {
                    "options" => call.options = members(value, Json::clone),
                    _ => labelled.push((label.clone(), value.clone())),
                }
            }
            // Most objects have one member; where there are more, our parser has lost their order and the row knows it.
            let position = |label: &str| row?.arguments.iter().position(|member| member.name() == label);
            labelled.sort_by_key(|(label, _)| position(label));
            call.arguments.extend(labelled);
        }
        call
    }

    /// The row of the table, if it has one.
    pub fn row(&self) -> Option<&'static Operator> {
        ops::operator(&self.name)
    }
}

impl Tensor {
    fn parse(json: &Json) -> Tensor {
        let name = text(&json["descriptor"]["dataType"]);
        let data_type = DataType::ALL.into_iter().find(|data_type| data_type.name() == name);
        let shape = list(&json["descriptor"]["shape"]).iter().map(|size| size.as_u64().expect("a size is a number") as u32);
        Tensor { descriptor: Descriptor::new(data_type.expect("a data type"), shape), data: json["data"].clone() }
    }

    /// The elements that are written down: all of them, or one for all.
    pub fn elements(&self) -> Vec<Number> {
        match &self.data {
            Json::Array(elements) => elements.iter().map(number).collect(),
            element => vec![number(element)],
        }
    }

    /// The bytes of all elements.
    pub fn bytes(&self) -> Vec<u8> {
        let data_type = self.descriptor.data_type;
        let elements = self.elements();
        let count = self.descriptor.element_count();
        let of = |i: usize| if self.is_filled() { elements[0] } else { elements[i] };
        if data_type.bits() == 4 {
            // Some elements are out of range; as in a typed array, their lowest bits count.
            let half = |i: usize| if i < count { of(i).to_bytes(DataType::Int8)[0] & 15 } else { 0 };
            return (0..count.div_ceil(2)).map(|i| half(2 * i) | half(2 * i + 1) << 4).collect();
        }
        (0..count).flat_map(|i| of(i).to_bytes(data_type)).collect()
    }

    /// Whether one number fills the shape.
    pub fn is_filled(&self) -> bool {
        !self.data.is_array()
    }
}

/// A number, or the string that stands for one that JSON cannot carry.
pub fn number(json: &Json) -> Number {
    let parsed = match json {
        Json::Number(number) => {
            let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
            integer.map(Number::Integer).or_else(|| number.as_f64().map(Number::Double))
        }
        // As an integer, "-0" would lose its sign.
        Json::String(text) if text == "-0" => Some(Number::Double(-0.0)),
        Json::String(text) => text.parse().map(Number::Integer).ok().or_else(|| text.parse().map(Number::Double).ok()),
        _ => None,
    };
    parsed.unwrap_or_else(|| panic!("{json} is not a number"))
}

pub fn list(json: &Json) -> &[Json] {
    json.as_array().unwrap_or_else(|| panic!("{json} is not a list"))
}

pub fn text(json: &Json) -> String {
    json.as_str().unwrap_or_else(|| panic!("{json} is not a string")).to_owned()
}

fn members<T>(json: &Json, parse: impl Fn(&Json) -> T) -> BTreeMap<String, T> {
    json.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), parse(value))).collect()
}
