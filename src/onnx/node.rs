//! A node as mapping functions see it: its inputs as values, its attributes by name.

use super::ops::options::Options;
use super::protobuf::{AttributeProto, NodeProto, attribute_type};
use super::refusal::{Mapped, Reason, Wants};
use super::tensor::Tensor;
use super::value::Value;
use super::{Model, element::ElementType};
use crate::graph::DataType;
use bytes::Bytes;
use std::collections::HashSet;

/// A node whose inputs are known.
pub struct Node<'a> {
    pub proto: &'a NodeProto,
    /// The version of its operator set.
    pub version: i64,
    /// Absent optional inputs are nothing.
    pub inputs: Vec<Option<Value>>,
    /// What its mapping reads.
    pub options: Option<&'static Options>,
    /// The values that something needs: other nodes, or the graph.
    pub needed: &'a HashSet<&'a str>,
    pub model: &'a Model,
}

impl Node<'_> {
    pub fn operator(&self) -> &str {
        &self.proto.op_type
    }

    /// A required input.
    pub fn input(&self, position: usize) -> Mapped<&Value> {
        self.optional(position).ok_or_else(|| format!("input {position} is missing").into())
    }

    pub fn optional(&self, position: usize) -> Option<&Value> {
        debug_assert!(
            self.options.is_none_or(|options| options.reads_input(position)),
            "options.txt does not say that {} reads the input {position}",
            self.operator()
        );
        #[cfg(test)]
        self.options.inspect(|options| options.record(self, Some(position), ""));
        self.inputs.get(position)?.as_ref()
    }

    /// A required input that must be known at import.
    pub fn constant(&self, position: usize, meaning: &str) -> Mapped<&Tensor> {
        self.input(position)?.constant().ok_or_else(|| not_constant(position, meaning))
    }

    /// An optional input that must be known at import.
    pub fn optional_constant(&self, position: usize, meaning: &str) -> Mapped<Option<&Tensor>> {
        match self.optional(position) {
            None => Ok(None),
            Some(value) => value.constant().map(Some).ok_or_else(|| not_constant(position, meaning)),
        }
    }

    /// Whether somebody may use that output.
    pub fn has_output(&self, position: usize) -> bool {
        self.proto.output.get(position).is_some_and(|name| !name.is_empty() && self.needed.contains(name.as_str()))
    }

    /// Refuses outputs from that position on.
    pub fn no_outputs_from(&self, position: usize, what: &str) -> Mapped<()> {
        match (position..self.proto.output.len()).any(|position| self.has_output(position)) {
            true => Err(format!("the output {what} is not supported").into()),
            false => Ok(()),
        }
    }

    pub fn attribute(&self, name: &str) -> Option<&AttributeProto> {
        debug_assert!(
            self.options.is_none_or(|options| options.reads_attribute(name)),
            "options.txt does not say that {} reads the attribute {name}",
            self.operator()
        );
        #[cfg(test)]
        self.options.inspect(|options| options.record(self, None, name));
        self.proto.attribute.iter().find(|attribute| attribute.name == name)
    }

    fn typed<'n, T>(&'n self, name: &str, kind: i32, value: impl Fn(&'n AttributeProto) -> Option<T>) -> Mapped<Option<T>> {
        let Some(attribute) = self.attribute(name) else { return Ok(None) };
        // Early files leave the type out.
        if attribute.r#type != 0 && attribute.r#type != kind {
            return Err(format!("attribute {name} has the wrong type").into());
        }
        Ok(value(attribute))
    }

    pub fn optional_int(&self, name: &str) -> Mapped<Option<i64>> {
        self.typed(name, attribute_type::INT, |attribute| Some(attribute.i.unwrap_or(0)))
    }

    pub fn int(&self, name: &str, default: i64) -> Mapped<i64> {
        Ok(self.optional_int(name)?.unwrap_or(default))
    }

    /// An integer that is a truth value.
    pub fn flag(&self, name: &str, default: bool) -> Mapped<bool> {
        Ok(self.optional_int(name)?.map_or(default, |number| number != 0))
    }

    pub fn optional_float(&self, name: &str) -> Mapped<Option<f64>> {
        self.typed(name, attribute_type::FLOAT, |attribute| Some(attribute.f.unwrap_or(0.0).into()))
    }

    pub fn float(&self, name: &str, default: f32) -> Mapped<f64> {
        Ok(self.optional_float(name)?.unwrap_or(default.into()))
    }

    pub fn ints(&self, name: &str) -> Mapped<Option<Vec<i64>>> {
        self.typed(name, attribute_type::INTS, |attribute| Some(attribute.ints.clone()))
    }

    pub fn floats(&self, name: &str) -> Mapped<Option<Vec<f32>>> {
        self.typed(name, attribute_type::FLOATS, |attribute| Some(attribute.floats.clone()))
    }

    /// The integers of an attribute where they lie; none where it is missing.
    pub fn int_list(&self, name: &str) -> Mapped<&[i64]> {
        Ok(self.typed(name, attribute_type::INTS, |attribute| Some(&attribute.ints[..]))?.unwrap_or_default())
    }

    pub fn float_list(&self, name: &str) -> Mapped<&[f32]> {
        Ok(self.typed(name, attribute_type::FLOATS, |attribute| Some(&attribute.floats[..]))?.unwrap_or_default())
    }

    pub fn string_list(&self, name: &str) -> Mapped<&[Bytes]> {
        Ok(self.typed(name, attribute_type::STRINGS, |attribute| Some(&attribute.strings[..]))?.unwrap_or_default())
    }

    pub fn string(&self, name: &str, default: &str) -> Mapped<String> {
        let found = self.typed(name, attribute_type::STRING, |attribute| {
            Some(String::from_utf8_lossy(attribute.s.as_deref().unwrap_or_default()).into_owned())
        })?;
        Ok(found.unwrap_or_else(|| default.into()))
    }

    pub fn strings(&self, name: &str) -> Mapped<Option<Vec<String>>> {
        self.typed(name, attribute_type::STRINGS, |attribute| {
            Some(attribute.strings.iter().map(|s| String::from_utf8_lossy(s).into_owned()).collect())
        })
    }

    pub fn tensor(&self, name: &str) -> Mapped<Option<Tensor>> {
        let tensor = self.typed(name, attribute_type::TENSOR, |attribute| attribute.t.clone())?;
        Ok(tensor.map(|tensor| Tensor::from_proto(&tensor, self.model)).transpose()?)
    }

    pub fn sparse_tensor(&self, name: &str, affords: impl FnOnce(usize) -> bool) -> Mapped<Option<Tensor>> {
        let tensor = self.typed(name, attribute_type::SPARSE_TENSOR, |attribute| attribute.sparse_tensor.clone())?;
        Ok(tensor.map(|tensor| Tensor::from_sparse(&tensor, self.model, affords)).transpose()?)
    }

    /// An attribute that names an element type.
    pub fn element(&self, name: &str) -> Mapped<Option<ElementType>> {
        let number = self.optional_int(name)?;
        let element = number.map(ElementType::from_number).transpose();
        Ok(element.map_err(|found| format!("attribute {name}: {found} are not supported"))?)
    }

    /// Integers that are an input from some version on and an attribute before.
    pub fn ints_at(&self, position: usize, attribute: &str) -> Mapped<Option<Vec<i64>>> {
        match self.optional_constant(position, attribute)? {
            Some(tensor) => Ok(Some(tensor.integers())),
            None => self.ints(attribute),
        }
    }
}

fn not_constant(position: usize, meaning: &str) -> Reason {
    let text = format!("{meaning} is computed when the graph runs, but must be known when it is built");
    Reason { text, wants: Some(Wants::Elements(position)) }
}

/// An axis that may count from the end, of a value of that rank.
pub fn axis(axis: i64, rank: usize) -> Mapped<usize> {
    let counted = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    usize::try_from(counted).ok().filter(|&axis| axis < rank).ok_or_else(|| format!("axis {axis} of rank {rank}").into())
}

/// Several axes, each once.
pub fn axes(list: &[i64], rank: usize) -> Mapped<Vec<usize>> {
    let axes = list.iter().map(|&number| axis(number, rank)).collect::<Mapped<Vec<usize>>>()?;
    match axes.iter().enumerate().any(|(i, axis)| axes[..i].contains(axis)) {
        true => Err(format!("axes {list:?} name one twice").into()),
        false => Ok(axes),
    }
}

/// A size as WebNN takes it.
pub fn size(number: impl TryInto<u32> + Copy + std::fmt::Display) -> Mapped<u32> {
    number.try_into().map_err(|_| format!("{number}, allowed a size").into())
}

/// Sizes as WebNN takes them.
pub fn sizes(list: &[usize]) -> Mapped<Vec<u32>> {
    list.iter().map(|&number| size(number)).collect()
}

/// The WebNN data type of elements.
pub fn data_type(element: ElementType) -> Mapped<DataType> {
    element.data_type().ok_or_else(|| format!("{element} elements, a type that WebNN does not have").into())
}
