//! What says how long each sequence of a batch is, where attention appends to each at its end (GroupQueryAttention): an input with the last
//! positions, or a mask whose numbers are summed. Only where nothing else of the model sees these inputs is a sequence of a batch what
//! it is alone.

use super::caches;
use super::file::Model;
use super::fixed_caches::{Filled, FixedCaches, same_elements, same_numbers};
use super::importer::normalized;
use super::loaded::Loaded;
use super::protobuf::{GraphProto, NodeProto};
use super::tensor::Tensor;
use crate::error::Result;
use std::collections::{HashMap, HashSet};

/// An input that says how long sequences are, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// [batch, positions]: the sum of a row is the length of its sequence.
    Mask(usize),
    /// The position of the last token of each sequence.
    Last(usize),
}

/// The input of a model whose caches are all appended to so.
///
/// # Errors
/// `TypeError` where the model has no graph, or has constants that are none.
pub fn find(loaded: &Loaded, fixed: &FixedCaches) -> Result<Option<Lengths>> {
    let graph = loaded.graph()?;
    let finder = Finder { graph, makers: caches::makers(graph), model: &loaded.model };
    let position = |name: &str| loaded.inputs().iter().position(|input| input.name == name);
    // Where each writes what is new is told to GroupQueryAttention alone.
    if fixed.keeps_rest.iter().any(|&keeps| keeps) {
        return Ok(None);
    }
    let mut sources: HashSet<&str> = HashSet::new();
    let mut found = None;
    for (name, filled) in &fixed.filled {
        let origin = same_numbers(name, graph, &finder.makers);
        if let Some(at) = position(origin) {
            sources.insert(origin);
            if *filled == Filled::Last && *found.get_or_insert(Lengths::Last(at)) != Lengths::Last(at) {
                return Ok(None);
            }
            continue;
        }
        let mask = match filled {
            Filled::Last => finder.summed(origin)?,
            Filled::After => finder.measured(origin),
            Filled::Before => None,
        };
        let Some((mask, at)) = mask.and_then(|name| Some((name, position(name)?))) else { return Ok(None) };
        sources.insert(mask);
        if *filled == Filled::Last && *found.get_or_insert(Lengths::Mask(at)) != Lengths::Mask(at) {
            return Ok(None);
        }
    }
    Ok(found.filter(|_| finder.are_unseen(&sources)))
}

struct Finder<'a> {
    graph: &'a GraphProto,
    makers: HashMap<&'a str, (usize, usize)>,
    model: &'a Model,
}

impl<'a> Finder<'a> {
    fn maker(&self, name: &str) -> Option<&'a NodeProto> {
        self.makers.get(name).map(|&(position, _)| &self.graph.node[position])
    }

    /// The mask of which a value has the sum of each row, and a constant beside it. That the constant is -1 a plan finds out.
    fn summed(&self, name: &'a str) -> Result<Option<&'a str>> {
        let Some(node) = self.maker(name).filter(|node| matches!(&node.op_type[..], "Sub" | "Add")) else { return Ok(None) };
        let (Some(sum), Some(constant)) = (node.input.first(), node.input.get(1)) else { return Ok(None) };
        let is_constant = self.maker(constant).is_none_or(|node| node.op_type == "Constant") && !self.is_input(constant);
        let Some(sum) = self.maker(same_numbers(sum, self.graph, &self.makers)) else { return Ok(None) };
        let is_sum = sum.op_type == "ReduceSum" && normalized(&sum.domain).is_empty();
        if !is_constant || !is_sum || !self.is_by_row(sum)? {
            return Ok(None);
        }
        // Of another shape it has other rows.
        Ok(sum.input.first().map(|mask| same_elements(mask, self.graph, &self.makers)).filter(|mask| self.is_input(mask)))
    }

    /// Whether a sum of a matrix is that of each row.
    fn is_by_row(&self, sum: &NodeProto) -> Result<bool> {
        let axes = sum.attribute.iter().find(|attribute| attribute.name == "axes").map(|attribute| attribute.ints.clone());
        let axes = match (axes, sum.input.get(1)) {
            (Some(axes), _) => axes,
            (None, Some(name)) => {
                let initializer = self.graph.initializer.iter().find(|tensor| tensor.name == *name);
                let value = self.maker(name).and_then(|node| node.attribute.iter().find(|attribute| attribute.name == "value"));
                let tensor = initializer.or(value.and_then(|value| value.t.as_deref()));
                tensor
                    .map(|tensor| Tensor::from_proto(tensor, self.model))
                    .transpose()?
                    .map_or(Vec::new(), |tensor| tensor.integers())
            }
            (None, None) => Vec::new(),
        };
        Ok(matches!(axes[..], [1] | [-1]))
    }

    /// The mask of which a value is a size. Which one it is a plan finds out.
    fn measured(&self, name: &'a str) -> Option<&'a str> {
        let node = self.maker(name).filter(|node| matches!(&node.op_type[..], "Gather" | "Slice"))?;
        let shape = self.maker(same_numbers(node.input.first()?, self.graph, &self.makers))?;
        let mask = shape.input.first().filter(|_| shape.op_type == "Shape")?;
        Some(same_numbers(mask, self.graph, &self.makers)).filter(|mask| self.is_input(mask))
    }

    fn is_input(&self, name: &str) -> bool {
        self.graph.input.iter().any(|info| info.name == name) && !self.graph.initializer.iter().any(|tensor| tensor.name == name)
    }

    /// Whether all that inputs lead to is told to attention, as how much of its caches is filled.
    fn are_unseen(&self, sources: &HashSet<&'a str>) -> bool {
        let mut reached: HashSet<&str> = sources.clone();
        // Nodes may stand before those that they need.
        let mut before = 0;
        while reached.len() > before {
            before = reached.len();
            for node in &self.graph.node {
                let is_grouped = normalized(&node.domain) == "com.microsoft" && node.op_type == "GroupQueryAttention";
                let is_told = |at: usize| is_grouped && matches!(at, 5 | 6);
                let sees = |(at, name): (usize, &String)| reached.contains(name.as_str()) && !is_told(at);
                if node.input.iter().enumerate().any(sees) {
                    if is_grouped {
                        return false;
                    }
                    reached.extend(node.output.iter().map(String::as_str));
                }
            }
        }
        !self.graph.output.iter().any(|info| reached.contains(info.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Sketch, info, int, ints, named_dimension, sketch};
    use super::super::{Bounds, Fixed, Model, fixed_caches};
    use super::*;

    /// What is found of a model whose nodes make `last` and `total` of its inputs.
    fn found(nodes: impl FnOnce(Sketch) -> Sketch) -> Option<Lengths> {
        let mut model = sketch(17).int64s("one", &[1]).int64s("zero", &[0]);
        let mut input = |name: &str, of: i32, dimensions: &[&str]| {
            model.graph.input.push(info(name, of, dimensions.iter().map(|name| named_dimension(name)).collect()));
        };
        input("inputs_embeds", 1, &["batch", "new", "width"]);
        input("mask", 7, &["batch", "all"]);
        input("seqlens", 6, &["batch"]);
        for past in ["past.key", "past.value"] {
            input(past, 1, &["batch", "heads", "past", "head"]);
        }
        let inputs = ["inputs_embeds", "inputs_embeds", "inputs_embeds", "past.key", "past.value", "last", "total"];
        let attributes = vec![int("num_heads", 2), int("kv_num_heads", 2)];
        let model = nodes(model).node(
            "com.microsoft::GroupQueryAttention",
            &inputs,
            &["result", "present.key", "present.value"],
            attributes,
        );
        let model = model.output("result").output("present.key").output("present.value");
        let loaded = Loaded::new(Model::from_bytes(model.bytes()), Fixed::default(), &Bounds::default()).unwrap();
        let fixed = fixed_caches::find(&loaded).unwrap().expect("caches of a fixed size");
        find(&loaded, &fixed).unwrap()
    }

    fn total(sketch: Sketch) -> Sketch {
        let sketch = sketch.node("Shape", &["mask"], &["shape"], vec![]);
        sketch.node("Gather", &["shape", "one"], &["size"], vec![]).node("Cast", &["size"], &["total"], vec![int("to", 6)])
    }

    fn last(sketch: Sketch, axis: i64) -> Sketch {
        let sketch = sketch.node("ReduceSum", &["mask", if axis == 1 { "one" } else { "zero" }], &["sum"], vec![]);
        sketch.node("Sub", &["sum", "one"], &["less"], vec![]).node("Cast", &["less"], &["last"], vec![int("to", 6)])
    }

    #[test]
    fn lengths_are_the_sums_of_a_mask_or_given() {
        assert_eq!(found(|sketch| total(last(sketch, 1))), Some(Lengths::Mask(1)));
        assert_eq!(found(|sketch| total(sketch).node("Identity", &["seqlens"], &["last"], vec![])), Some(Lengths::Last(2)));
        let with_axes = |sketch: Sketch| {
            let sketch = sketch.node("ReduceSum", &["mask"], &["sum"], vec![ints("axes", &[-1])]);
            total(sketch.node("Sub", &["sum", "one"], &["last"], vec![]))
        };
        assert_eq!(found(with_axes), Some(Lengths::Mask(1)));
    }

    #[test]
    fn what_others_see_and_other_sums_tell_no_lengths() {
        assert_eq!(found(|sketch| total(last(sketch, 0))), None, "a sum of all sequences");
        assert_eq!(found(|sketch| total(last(sketch, 1)).output("less")), None, "an output");
        let seen = |sketch| total(last(sketch, 1)).node("Abs", &["less"], &["other"], vec![]).output("other");
        assert_eq!(found(seen), None, "seen by a node");
        let twice = |sketch: Sketch| {
            let sketch = sketch.node("ReduceSum", &["mask", "one"], &["sum"], vec![]);
            total(sketch.node("Mul", &["sum", "one"], &["last"], vec![]))
        };
        assert_eq!(found(twice), None, "another operator");
        let given = |sketch: Sketch| {
            let sketch = sketch.node("ReduceSum", &["mask", "one"], &["sum"], vec![]);
            total(sketch.node("Sub", &["sum", "seqlens"], &["last"], vec![]))
        };
        assert_eq!(found(given), None, "less than something that is given");
        let of_shape = |sketch: Sketch| {
            let sketch = sketch.int64s("other", &[1, -1, 3]).node("Reshape", &["mask", "other"], &["folded"], vec![]);
            let sketch = sketch.node("ReduceSum", &["folded", "one"], &["sum"], vec![]);
            total(sketch.node("Sub", &["sum", "one"], &["last"], vec![]))
        };
        assert_eq!(found(of_shape), None, "sums of other rows");
        let cast = |sketch: Sketch, to: i64| {
            let sketch = sketch.node("ReduceSum", &["mask", "one"], &["sum"], vec![]);
            let sketch = sketch.node("Sub", &["sum", "one"], &["less"], vec![]);
            let sketch = sketch.node("Cast", &["less"], &["small"], vec![int("to", to)]);
            total(sketch.node("Cast", &["small"], &["last"], vec![int("to", 6)]))
        };
        assert_eq!(found(|sketch| cast(sketch, 10)), None, "float16 has not all numbers");
        assert_eq!(found(|sketch| cast(sketch, 1)), Some(Lengths::Mask(1)));
    }
}
