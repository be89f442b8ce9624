//! The inputs of a model, and the sizes of their dimensions that a file leaves open.

use super::element::ElementType;
use super::expression::Expression;
use super::protobuf::{ContentTypeProto, GraphProto, TensorTypeProto, TypeProto, ValueInfoProto};
use super::structure::{check_content, malformed};
use super::tensor;
use crate::error::{Error, Kind, Result};
use crate::graph::DataType;
use prost::Message;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Sizes for dimensions that the file leaves open, by their name in the file, or as `input:axis`,
/// which they may need because they have no name or share it.
pub type FreeDimensions = BTreeMap<String, u32>;

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    pub name: String,
    pub data_type: DataType,
    /// The element type of the file, by the name that onnxruntime gives it.
    pub element_type: &'static str,
    pub shape: Vec<u32>,
}

/// A dimension as the file has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Dimension {
    Size(u32),
    Named(String),
    Unknown,
    /// Instead of all dimensions: not even their number is known.
    AnyRank,
}

/// What an input or output is, beside a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Tensors of one type, of which only a run tells how many there are.
    pub is_sequence: bool,
    /// Whether it may have no content.
    pub is_optional: bool,
}

impl Form {
    pub const TENSOR: Form = Form { is_sequence: false, is_optional: false };

    /// Whether it is always one tensor.
    pub fn is_tensor(self) -> bool {
        self == Form::TENSOR
    }
}

/// The inputs of a graph as the file has them: type and dimensions, of sequences those of their elements. Those that have an initializer are constants.
///
/// # Errors
/// `TypeError` or `NotSupportedError` for an input that is of no type which is taken, or impossible sizes.
pub fn inputs(graph: &GraphProto, is_constant: &dyn Fn(&str) -> bool) -> Result<Vec<(String, DataType, Vec<Dimension>)>> {
    let mut inputs: Vec<(String, DataType, Vec<Dimension>)> = Vec::new();
    let mut names = BTreeSet::new();
    for info in graph.input.iter().filter(|info| !is_constant(&info.name)) {
        if info.name.is_empty() || !names.insert(&info.name) {
            return Err(malformed(format!("two inputs, or none, with the name {:?}", info.name)));
        }
        let (_, data_type, dimensions) = value_type(info)?;
        inputs.push((info.name.clone(), data_type, dimensions.unwrap_or_else(|| vec![Dimension::AnyRank])));
    }
    Ok(inputs)
}

/// What an input or output is, with its innermost type.
fn contents(info: &ValueInfoProto) -> Result<(Form, Cow<'_, TensorTypeProto>)> {
    let name = &info.name;
    let unsupported = |what: &str| Error::new(Kind::NotSupported, format!("{name:?} is {what}, which is not supported"));
    let Some(outer) = &info.r#type else { return Err(malformed(format!("{name:?} has no type"))) };
    let mut form = Form::TENSOR;
    let mut r#type = Cow::Borrowed(outer);
    if let Some(content) = &r#type.optional_type {
        form.is_optional = true;
        r#type = Cow::Owned(content_type(name, content)?);
    }
    if let Some(content) = &r#type.sequence_type {
        form.is_sequence = true;
        r#type = Cow::Owned(content_type(name, content)?);
    }
    let tensor = match &r#type {
        Cow::Borrowed(r#type) => r#type.tensor_type.as_ref().map(Cow::Borrowed),
        Cow::Owned(r#type) => r#type.tensor_type.clone().map(Cow::Owned),
    };
    if let Some(tensor) = tensor {
        return Ok((form, tensor));
    }
    let present = |field: &Option<bytes::Bytes>| field.is_some();
    Err(match () {
        () if present(&r#type.map_type) && form.is_sequence => unsupported("a sequence of maps"),
        () if present(&r#type.map_type) => unsupported("a map"),
        () if present(&r#type.sparse_tensor_type) => unsupported("a sparse tensor"),
        () if present(&r#type.sequence_type) => unsupported("a sequence of sequences"),
        () if present(&r#type.optional_type) => unsupported("a container of optional values"),
        () => malformed(format!("{name:?} is no tensor")),
    })
}

fn content_type(name: &str, content: &bytes::Bytes) -> Result<TypeProto> {
    check_content(content)?;
    let content = ContentTypeProto::decode(content.clone()).map_err(malformed)?;
    content.elem_type.ok_or_else(|| malformed(format!("{name:?} contains no type")))
}

/// The data type and the dimensions of an input or output, of a sequence those of its elements; no dimensions where the file does not
/// tell the rank.
pub fn value_type(info: &ValueInfoProto) -> Result<(Form, DataType, Option<Vec<Dimension>>)> {
    let name = &info.name;
    let (form, tensor) = contents(info)?;
    let data_type =
        tensor::data_type(tensor.elem_type).map_err(|found| Error::new(Kind::NotSupported, format!("{name:?}: {found}")))?;
    let Some(shape) = &tensor.shape else { return Ok((form, data_type, None)) };
    let dimensions = shape.dim.iter().map(|dimension| match (dimension.dim_value, &dimension.dim_param) {
        (Some(size), _) if size >= 0 => match u32::try_from(size) {
            Ok(size) => Ok(Dimension::Size(size)),
            Err(_) => Err(malformed(format!("a dimension of {size} in {name:?}"))),
        },
        // Some writers say "unknown" with -1.
        (Some(_), _) => Ok(Dimension::Unknown),
        (None, Some(param)) if !param.is_empty() => Ok(Dimension::Named(param.clone())),
        (None, _) => Ok(Dimension::Unknown),
    });
    Ok((form, data_type, Some(dimensions.collect::<Result<_>>()?)))
}

/// The element type of an input or output, as far as the file tells it.
pub fn element(info: &ValueInfoProto) -> Option<ElementType> {
    ElementType::from_number(contents(info).ok()?.1.elem_type.into()).ok()
}

/// The name that onnxruntime gives to the element type of an input or output which becomes this data type.
pub fn element_type(info: &ValueInfoProto, data_type: DataType) -> Option<&'static str> {
    let element = element(info)?;
    (element.held_by() == Some(data_type)).then(|| element.name())
}

/// Sizes of names that were not passed, but follow from what was passed for a dimension: for its place, if it has that name, or for
/// arithmetic on it.
fn implied(inputs: &[(String, DataType, Vec<Dimension>)], free: &FreeDimensions) -> FreeDimensions {
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for (input, _, dimensions) in inputs {
        for (axis, dimension) in dimensions.iter().enumerate() {
            let Dimension::Named(key) = dimension else { continue };
            let Some(&size) = free.get(&format!("{input}:{axis}")).or_else(|| free.get(key)) else { continue };
            // Some writers call every dimension "?", which is no name.
            if key.starts_with(|first: char| first.is_alphabetic() || first == '_') {
                found.entry(key.clone()).or_default().insert(size);
            }
            let Some(expression) = Expression::of(key) else { continue };
            let names = expression.names();
            let mut open = names.iter().filter(|name| !free.contains_key(**name));
            if let (Some(name), None) = (open.next(), open.next())
                && let Some(size) = expression.solved(name, size, &|name| free.get(name).copied())
            {
                found.entry((*name).to_owned()).or_default().insert(size);
            }
        }
    }
    // Where they contradict each other, the name has no size.
    let single = |(name, sizes): (String, BTreeSet<u32>)| Some((name, sizes.first().copied().filter(|_| sizes.len() == 1)?));
    found.into_iter().filter_map(single).collect()
}

/// The size of a dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    Known(u32),
    /// By its name in the file, or as `input:axis`.
    Open(String),
    /// What only a run can tell.
    Unknown,
    /// Instead of all sizes: not even their number is known.
    AnyRank,
}

/// An input with the sizes that are decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Shaped {
    pub name: String,
    pub data_type: DataType,
    pub shape: Vec<Size>,
}

/// Gives the open dimensions their sizes, of which all must be decided.
///
/// # Errors
/// `TypeError` that lists all dimensions without a size, or the sizes that belong to no dimension.
pub fn fix(inputs: Vec<(String, DataType, Vec<Dimension>)>, free: &FreeDimensions) -> Result<Vec<Signature>> {
    let (shaped, missing, unknown) = decide(inputs, free);
    if !missing.is_empty() {
        let with_place = |(key, places): (String, Vec<String>)| match places.len() {
            1 => format!("{key:?} ({})", places[0]),
            count => format!("{key:?} ({} and {} more)", places[0], count - 1),
        };
        let missing: Vec<String> = missing.into_iter().map(with_place).collect();
        return Err(Error::new(Kind::Type, format!("freeDimensions: pass sizes for {}", missing.join(", "))));
    }
    unknown?;
    let signature = |Shaped { name, data_type, shape }| {
        let known = shape.into_iter().filter_map(|size| if let Size::Known(size) = size { Some(size) } else { None });
        Signature { name, data_type, element_type: data_type.name(), shape: known.collect() }
    };
    Ok(shaped.into_iter().map(signature).collect())
}

/// Gives the open dimensions the sizes that are passed, and those that follow from them by their names; others stay open.
///
/// # Errors
/// `TypeError` that lists the sizes which belong to no dimension.
pub fn open(inputs: Vec<(String, DataType, Vec<Dimension>)>, free: &FreeDimensions) -> Result<Vec<Shaped>> {
    let (shaped, _, unknown) = decide(inputs, free);
    unknown.map(|()| shaped)
}

/// The inputs; where each name is that has no size; and the error for sizes that belong to no dimension.
#[allow(clippy::type_complexity, reason = "three things that are taken apart at once")]
fn decide(
    inputs: Vec<(String, DataType, Vec<Dimension>)>,
    free: &FreeDimensions,
) -> (Vec<Shaped>, BTreeMap<String, Vec<String>>, Result<()>) {
    let (mut open, mut places) = (BTreeSet::new(), BTreeSet::new());
    let mut missing: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut fixed = Vec::with_capacity(inputs.len());
    let implied = implied(&inputs, free);
    let size_of = |name: &str| free.get(name).or_else(|| implied.get(name)).copied();
    for (name, data_type, dimensions) in inputs {
        let mut shape = Vec::with_capacity(dimensions.len());
        for (axis, dimension) in dimensions.into_iter().enumerate() {
            let key = match dimension {
                Dimension::Size(size) => {
                    shape.push(Size::Known(size));
                    continue;
                }
                Dimension::Named(key) => key,
                Dimension::Unknown => format!("{name}:{axis}"),
                Dimension::AnyRank => {
                    shape.push(Size::AnyRank);
                    missing.entry(name.clone()).or_default().push(format!("the rank of input {name:?}"));
                    continue;
                }
            };
            // By its place, a dimension can differ from others of its name: some writers call every one "?".
            let place = format!("{name}:{axis}");
            let expression = Expression::of(&key);
            let names = expression.iter().flat_map(|expression| expression.names());
            open.extend(names.clone().map(str::to_owned));
            let follows = || expression.as_ref()?.value(&size_of);
            match free.get(&place).copied().or_else(|| size_of(&key)).or_else(follows) {
                Some(size) => shape.push(Size::Known(size)),
                None => {
                    shape.push(Size::Open(key.clone()));
                    // What it follows from is less to pass. Where all of that is there, it gives no size.
                    let mut needed: Vec<&str> = names.filter(|name| size_of(name).is_none()).collect();
                    if needed.is_empty() {
                        needed.push(&key);
                    }
                    for needed in needed {
                        let places = missing.entry(needed.to_owned()).or_default();
                        places.push(format!("dimension {axis} of input {name:?}"));
                    }
                }
            }
            places.insert(place);
            open.insert(key);
        }
        fixed.push(Shaped { name, data_type, shape });
    }
    let unknown: Vec<String> =
        free.keys().filter(|key| !open.contains(*key) && !places.contains(*key)).map(|key| format!("{key:?}")).collect();
    let result = match unknown.is_empty() {
        true => Ok(()),
        false => {
            let open: Vec<String> = open.iter().map(|key| format!("{key:?}")).collect();
            let open = if open.is_empty() { "no open dimension".into() } else { open.join(", ") };
            let allowed = format!("the dimensions that the model leaves open: {open}");
            Err(Error::argument("freeDimensions", unknown.join(", "), allowed))
        }
    };
    (fixed, missing, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> Vec<(String, DataType, Vec<Dimension>)> {
        let dimensions = vec![Dimension::Named("batch".into()), Dimension::Size(3), Dimension::Unknown];
        vec![("x".into(), DataType::Float32, dimensions)]
    }

    fn free(sizes: &[(&str, u32)]) -> FreeDimensions {
        sizes.iter().map(|(name, size)| (name.to_string(), *size)).collect()
    }

    #[test]
    fn sizes_by_name_and_by_place() {
        assert_eq!(fix(open(), &free(&[("batch", 2), ("x:2", 5)])).unwrap()[0].shape, [2, 3, 5]);
        // The place counts more than the name.
        assert_eq!(fix(open(), &free(&[("batch", 2), ("x:0", 4), ("x:2", 5)])).unwrap()[0].shape, [4, 3, 5]);
        assert_eq!(fix(open(), &free(&[("x:0", 4), ("x:2", 5)])).unwrap()[0].shape, [4, 3, 5]);
    }

    #[test]
    fn what_follows_need_not_be_passed() {
        let named = |name: &str| vec![Dimension::Named(name.into())];
        let inputs = || {
            let names = [("ids", "length"), ("mask", "past + length"), ("half", "length//2"), ("past", "past")];
            names.map(|(input, name)| (input.to_owned(), DataType::Float32, named(name))).to_vec()
        };
        let sizes = |free: &[(&str, u32)]| -> Result<Vec<u32>> {
            Ok(fix(inputs(), &self::free(free))?.into_iter().map(|signature| signature.shape[0]).collect())
        };
        assert_eq!(sizes(&[("length", 5), ("past", 2)]).unwrap(), [5, 7, 2, 2]);
        // What is passed counts more.
        assert_eq!(sizes(&[("length", 5), ("past", 2), ("past + length", 9)]).unwrap(), [5, 9, 2, 2]);
        let error = sizes(&[("past", 2)]).unwrap_err();
        let expected = "freeDimensions: pass sizes for \"length\" (dimension 0 of input \"ids\" and 2 more)";
        assert_eq!(error.message(), expected);
        // A name that only others are made of can be passed.
        let alone = vec![("mask".to_owned(), DataType::Float32, named("past + length"))];
        assert_eq!(fix(alone, &free(&[("length", 5), ("past", 2)])).unwrap()[0].shape, [7]);
        let alone = vec![("mask".to_owned(), DataType::Float32, named("past - length"))];
        let error = fix(alone, &free(&[("length", 5), ("past", 2)])).unwrap_err();
        assert!(error.message().contains("\"past - length\""), "{error}");
    }

    #[test]
    fn names_follow_from_places_and_from_arithmetic() {
        let inputs = || {
            let names = [("ids", "length"), ("mask", "past + length"), ("past", "past"), ("other", "?"), ("another", "?")];
            names.map(|(input, name)| (input.to_owned(), DataType::Float32, vec![Dimension::Named(name.into())])).to_vec()
        };
        let sizes = |free: &[(&str, u32)]| -> Result<Vec<u32>> {
            Ok(fix(inputs(), &self::free(free))?.into_iter().map(|signature| signature.shape[0]).collect())
        };
        let others = [("other:0", 8), ("another:0", 9)];
        let with = |free: &[(&'static str, u32)]| sizes(&[free, &others].concat());
        // By its place, where another input has the name.
        assert_eq!(with(&[("ids:0", 5), ("past", 2)]).unwrap(), [5, 7, 2, 8, 9]);
        // The whole and a part of it.
        assert_eq!(with(&[("past + length", 7), ("past", 2)]).unwrap(), [5, 7, 2, 8, 9]);
        assert_eq!(with(&[("mask:0", 7), ("length", 5)]).unwrap(), [5, 7, 2, 8, 9]);
        // What is passed counts more.
        assert_eq!(with(&[("ids:0", 5), ("length", 4), ("past", 2)]).unwrap(), [5, 6, 2, 8, 9]);
        let contradiction = with(&[("ids:0", 5), ("mask:0", 9), ("past", 2)]).unwrap();
        assert_eq!(contradiction, [5, 9, 2, 8, 9]);
        assert!(with(&[("mask:0", 1), ("past", 2)]).unwrap_err().message().contains("\"length\""));
        assert!(sizes(&[("length", 5), ("past", 2), ("other:0", 8)]).unwrap_err().message().contains("\"?\""));
    }

    #[test]
    fn what_is_missing_or_unknown_is_listed() {
        let error = fix(open(), &free(&[])).unwrap_err();
        assert!(error.message().contains("\"batch\"") && error.message().contains("\"x:2\""), "{error}");
        let error = fix(open(), &free(&[("batch", 2), ("x:2", 5), ("bach", 1)])).unwrap_err();
        assert!(error.message().contains("\"bach\""), "{error}");
    }
}
