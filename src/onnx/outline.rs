//! What a model's outputs are like, as far as the file and an import without a run tell.
//!
//! Sizes that the file leaves open follow from those of the inputs: the model is imported for two sets of sizes that no dimension has in
//! common, and an output's size which is that of one name both times has the name. What comes out the same both times is known.

use super::bounds::Bounds;
use super::dimensions::{self, Dimension, Size};
use super::expression::Expression;
use super::importer::{Place, Source, import_part};
use super::loaded::{Loaded, OpenOutput};
use crate::error::Result;
use crate::graph::Limits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sizes for names, by their position: multiples of 16, since models divide them; no sum of them is another one both times.
const PROBES: [fn(usize) -> u32; 2] = [|position| 16 * (position as u32 + 2), |position| 16 * (2 * position as u32 + 3)];

/// More names than that, and their sizes grow beyond what models take.
const MOST_NAMES: usize = 64;

/// The outputs with all that can be told of them.
///
/// # Errors
/// As [`Loaded::outputs`].
pub fn outline(loaded: &Loaded, limits: &Arc<Limits>, bounds: &Bounds) -> Result<Vec<OpenOutput>> {
    if let Some(outline) = loaded.outline.get() {
        return Ok(outline.clone());
    }
    let graph = loaded.graph()?;
    let mut outputs = loaded.outputs()?;
    // With the names that no input has, too. Exporters write `[]` for what they do not know: it tells as little as nothing.
    let declared = graph.output.iter().map(|info| dimensions::value_type(info).ok().and_then(|(.., shape)| shape));
    let declared: Vec<Option<Vec<Dimension>>> = declared.map(|shape| shape.filter(|shape| !shape.is_empty())).collect();
    let names = open_names(loaded);
    let tells_all = |shape: &Option<Vec<Dimension>>| {
        let tells = |dimension: &Dimension| match dimension {
            Dimension::Size(_) => true,
            Dimension::Named(name) => names.contains(name) || Expression::of(name).is_some(),
            Dimension::Unknown | Dimension::AnyRank => false,
        };
        shape.as_ref().is_some_and(|shape| shape.iter().all(tells))
    };
    let are_tensors = outputs.iter().all(|output| output.form.is_tensor());
    let inferred = if !are_tensors || declared.iter().all(tells_all) { None } else { infer(loaded, limits, bounds, &names) };
    for (position, (output, declared)) in outputs.iter_mut().zip(declared).enumerate() {
        let inferred = inferred.as_ref().and_then(|inferred| inferred.get(position));
        let Some(rank) = declared.as_ref().map(Vec::len).or(inferred.map(|(_, sizes)| sizes.len())) else { continue };
        if let Some((data_type, _)) = inferred
            && output.data_type.is_none()
        {
            (output.data_type, output.element_type) = (Some(*data_type), Some(data_type.name()));
        }
        let size = |axis: usize| {
            let inferred = inferred.filter(|(_, sizes)| sizes.len() == rank).map_or(&Size::Unknown, |(_, sizes)| &sizes[axis]);
            match (declared.as_ref().map_or(&Dimension::Unknown, |dimensions| &dimensions[axis]), inferred) {
                (Dimension::Size(size), _) => Size::Known(*size),
                (_, Size::Known(size)) => Size::Known(*size),
                (Dimension::Named(name), _) => Size::Open(name.clone()),
                (_, inferred) => inferred.clone(),
            }
        };
        output.shape = Some((0..rank).map(size).collect());
    }
    Ok(loaded.outline.get_or_init(|| outputs).clone())
}

/// The names of open dimensions that are no arithmetic on others, each once.
fn open_names(loaded: &Loaded) -> Vec<String> {
    let mut names = Vec::new();
    for size in loaded.inputs().iter().flat_map(|input| &input.shape) {
        let Size::Open(name) = size else { continue };
        let parts = Expression::of(name).map(|expression| expression.names().into_iter().map(str::to_owned).collect());
        for name in parts.unwrap_or_else(|| vec![name.clone()]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The data types and sizes of the outputs; nothing where an import does not tell them.
fn infer(
    loaded: &Loaded,
    limits: &Arc<Limits>,
    bounds: &Bounds,
    names: &[String],
) -> Option<Vec<(crate::graph::DataType, Vec<Size>)>> {
    if names.len() > MOST_NAMES || loaded.inputs().iter().any(|input| input.is_of_any_rank() || !input.form.is_tensor()) {
        return None;
    }
    let mut probes = Vec::new();
    for size in PROBES {
        let sizes: BTreeMap<&str, u32> =
            names.iter().enumerate().map(|(position, name)| (name.as_str(), size(position))).collect();
        let of = |name: &str| sizes.get(name).copied();
        let size = |size: &Size| match size {
            Size::Known(size) => Some(*size),
            Size::Open(name) => of(name).or_else(|| Expression::of(name)?.value(&of)),
            Size::Unknown | Size::AnyRank => None,
        };
        let shapes: Option<Vec<Vec<u32>>> = loaded.inputs().iter().map(|input| input.shape.iter().map(size).collect()).collect();
        let given = loaded.given(&shapes?).ok()?;
        let part = import_part(&Source::of(loaded).ok()?, limits, bounds, &given, Place::First).ok()?;
        if part.next.is_some() {
            return None;
        }
        probes.push(part.outputs);
    }
    let [first, second] = &probes[..] else { return None };
    let places: Vec<String> =
        loaded.inputs().iter().flat_map(|input| (0..input.shape.len()).map(|axis| format!("{}:{axis}", input.name))).collect();
    let size = |(&first, &second): (&u32, &u32)| {
        if first == second {
            return Size::Known(first);
        }
        let position = (0..names.len()).find(|&position| PROBES[0](position) == first && PROBES[1](position) == second);
        // A place stands for what has no name.
        match position.map(|position| &names[position]).filter(|name| !places.contains(name)) {
            Some(name) => Size::Open(name.clone()),
            None => Size::Unknown,
        }
    };
    let both = first.iter().zip(second);
    Some(both.map(|(first, second)| (first.data_type, first.shape.iter().zip(&second.shape).map(size).collect())).collect())
}
