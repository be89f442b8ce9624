//! Loop and Scan: the parts of a body again and again.

use super::plans::Plans;
use super::run::Run;
use super::values::{Held, Key, Values, find};
use crate::error::{Error, Kind, Result};
use crate::onnx::{Body, ElementType, Givens, Repetition, Step, Tensor, join, slice_along};
use std::sync::Arc;

/// A loop that runs longer than this is taken for one that does not end.
const MOST_RUNS: i64 = 1 << 20;

/// A body that runs for each place of what is gone through.
struct Scan<'a> {
    body: &'a Body,
    plans: &'a Plans,
    around: &'a Values,
    /// The number of its last outputs, which are collected.
    collects: usize,
}

/// What a Scan goes through along an axis.
struct Line {
    tensor: Tensor,
    axis: usize,
    is_backwards: bool,
}

/// What scan outputs collect.
#[derive(Default)]
struct Collected {
    parts: Vec<Tensor>,
    bytes: usize,
}

impl Run {
    /// The outputs of a step that is a loop.
    pub fn repeat(
        &mut self,
        step: &Step,
        repetition: &Repetition,
        body: &Arc<Body>,
        plans: &Plans,
        values: &Values,
    ) -> Result<Vec<Held>> {
        let named = |error: Error| {
            Error::new(error.kind(), format!("node {:?} ({}): {}", step.node.name, step.node.operator, error.message()))
        };
        let mut inputs = Vec::with_capacity(step.inputs.len());
        for name in &step.inputs {
            inputs.push(match name {
                Some(name) => Some(find(values, name)?.clone()),
                None => None,
            });
        }
        let mut around = Values::new();
        for (name, qualified) in &body.captured {
            around.insert(name.clone(), find(values, qualified)?.clone());
        }
        match repetition {
            Repetition::Loop => self.run_loop(body, plans, &inputs, &around).map_err(named),
            Repetition::Scan { .. } => self.run_scan(repetition, body, plans, &inputs, &around).map_err(named),
        }
    }

    /// One run of a body on its inputs, in their order; its outputs.
    fn run_body(&mut self, body: &Body, plans: &Plans, around: &Values, inputs: Vec<Held>) -> Result<Vec<Held>> {
        self.is_wanted()?;
        self.repeats()?;
        let mut values = around.clone();
        let mut key = Key::default();
        for (info, value) in body.graph.input.iter().zip(inputs) {
            key.shape(&value);
            values.insert(info.name.clone(), value);
        }
        let given: Givens = values.iter().map(|(name, value)| (name.clone(), value.given())).collect();
        let part = plans.get(key, || self.make(Some(body), &given))?;
        let results = self.run_from(Some(body), part, values)?;
        body.graph.output.iter().map(|info| Ok(find(&results, &info.name)?.clone())).collect()
    }

    fn scalar(&self, value: &Option<Held>) -> Result<Option<i64>> {
        let Some(value) = value.as_ref().filter(|value| !matches!(value, Held::Nothing)) else { return Ok(None) };
        match self.tensor(value)?.integers()[..] {
            [number] => Ok(Some(number)),
            ref other => Err(Error::new(Kind::Operation, format!("found {} elements, allowed a scalar", other.len()))),
        }
    }

    fn run_loop(&mut self, body: &Body, plans: &Plans, inputs: &[Option<Held>], around: &Values) -> Result<Vec<Held>> {
        let input = |position: usize| inputs.get(position).cloned().flatten();
        let trips = self.scalar(&input(0))?;
        let mut goes_on = self.scalar(&input(1))?.is_none_or(|truth| truth != 0);
        let mut carried: Vec<Held> = inputs.iter().skip(2).map(|value| value.clone().unwrap_or(Held::Nothing)).collect();
        let collects = (body.graph.output.len() + 1).checked_sub(2 + carried.len());
        let Some(collects) = collects.filter(|_| body.graph.input.len() == carried.len() + 2) else {
            let (takes, gives) = (body.graph.input.len(), body.graph.output.len());
            let text =
                format!("found a loop body with {takes} inputs and {gives} outputs for {} loop-carried values", carried.len());
            return Err(Error::new(Kind::Type, text));
        };
        let mut collected: Vec<Collected> = (0..collects).map(|_| Collected::default()).collect();
        let mut run = 0;
        while goes_on && trips.is_none_or(|trips| run < trips) {
            if run == MOST_RUNS {
                return Err(Error::new(Kind::Operation, format!("the loop ran more than {MOST_RUNS} times (the limit)")));
            }
            let number = Held::Host { tensor: Tensor::from_integers(ElementType::Int64, vec![], &[run]), known: false };
            let condition = Held::Host { tensor: Tensor::from_integers(ElementType::Bool, vec![], &[1]), known: false };
            let given = [number, condition].into_iter().chain(carried.drain(..)).collect();
            let mut outputs = self.run_body(body, plans, around, given)?.into_iter();
            goes_on = self.scalar(&outputs.next())?.is_none_or(|truth| truth != 0);
            let rest: Vec<Held> = outputs.collect();
            let (next, parts) = rest.split_at(rest.len() - collects);
            carried = next.to_vec();
            for (collected, part) in collected.iter_mut().zip(parts) {
                self.collect(collected, part)?;
            }
            run += 1;
        }
        let mut results = carried;
        for (collected, info) in collected.into_iter().zip(body.graph.output.iter().skip(1 + results.len()).collect::<Vec<_>>()) {
            results.push(stacked(collected, 0, false, crate::onnx::declared(info))?);
        }
        Ok(results)
    }

    fn run_scan(
        &mut self,
        repetition: &Repetition,
        body: &Body,
        plans: &Plans,
        inputs: &[Option<Held>],
        around: &Values,
    ) -> Result<Vec<Held>> {
        let Repetition::Scan { scanned, in_batches, input_axes, input_backwards, output_axes, output_backwards } = repetition
        else {
            return Err(Error::new(Kind::Operation, "no Scan (internal error)"));
        };
        let fail = |text: String| Error::new(Kind::Type, text);
        let (lengths, inputs) = if *in_batches { (inputs[0].clone(), &inputs[1..]) } else { (None, inputs) };
        let inputs = inputs.iter().map(|value| value.clone().ok_or_else(|| fail("an input is missing".into())));
        let inputs = inputs.collect::<Result<Vec<Held>>>()?;
        let (carried, lines) = inputs.split_at(inputs.len() - scanned);
        let Some(collects) =
            body.graph.output.len().checked_sub(carried.len()).filter(|_| body.graph.input.len() == inputs.len())
        else {
            return Err(fail(format!("found a body with {} inputs, allowed {}", body.graph.input.len(), inputs.len())));
        };
        let mut sources = Vec::with_capacity(lines.len());
        let mut length = None;
        for (position, value) in lines.iter().enumerate() {
            let tensor = self.tensor(value)?;
            let rank = tensor.shape.len();
            let axis = if *in_batches { 1 } else { input_axes.get(position).copied().unwrap_or(0) };
            let axis = counted(axis, rank)
                .ok_or_else(|| fail(format!("found an input of {rank} dimensions, allowed more than {axis}")))?;
            let own = tensor.shape[axis];
            if *length.get_or_insert(own) != own {
                return Err(fail(format!("found inputs of {} and {own} steps, allowed one length", length.unwrap_or(0))));
            }
            sources.push(Line { tensor, axis, is_backwards: input_backwards.get(position).copied().unwrap_or(false) });
        }
        let length = length.unwrap_or(0);
        let scan = Scan { body, plans, around, collects };
        if *in_batches {
            return self.scan_batches(&scan, lengths.as_ref(), carried, &sources, length);
        }
        let (mut results, collected) = self.scan(&scan, carried.to_vec(), &sources, length)?;
        let first = body.graph.output.len() - collects;
        for (position, collected) in collected.into_iter().enumerate() {
            let axis = output_axes.get(position).copied().unwrap_or(0);
            let backwards = output_backwards.get(position).copied().unwrap_or(false);
            results.push(stacked(collected, axis, backwards, crate::onnx::declared(&body.graph.output[first + position]))?);
        }
        Ok(results)
    }

    /// Runs a body for so many places of what is gone through: what went round, and what was collected.
    fn scan(
        &mut self,
        scan: &Scan<'_>,
        mut carried: Vec<Held>,
        sources: &[Line],
        length: usize,
    ) -> Result<(Vec<Held>, Vec<Collected>)> {
        let &Scan { body, plans, around, collects } = scan;
        let mut collected: Vec<Collected> = (0..collects).map(|_| Collected::default()).collect();
        for run in 0..length {
            let part = |line: &Line| {
                let at = if line.is_backwards { length - 1 - run } else { run };
                Held::Host { tensor: slice_along(&line.tensor, line.axis, at), known: false }
            };
            let given = carried.drain(..).chain(sources.iter().map(part)).collect();
            let outputs = self.run_body(body, plans, around, given)?;
            let (next, parts) = outputs.split_at(outputs.len() - collects);
            carried = next.to_vec();
            for (collected, part) in collected.iter_mut().zip(parts) {
                self.collect(collected, part)?;
            }
        }
        Ok((carried, collected))
    }

    /// A Scan of version 8: each place of the first axis by itself, and as far as `lengths` says; what is collected has zeros after that.
    fn scan_batches(
        &mut self,
        scan: &Scan<'_>,
        lengths: Option<&Held>,
        carried: &[Held],
        sources: &[Line],
        most: usize,
    ) -> Result<Vec<Held>> {
        let &Scan { body, collects, .. } = scan;
        let batch = sources.first().map_or(0, |line| line.tensor.shape[0]);
        let states = carried.iter().map(|state| self.tensor(state)).collect::<Result<Vec<Tensor>>>()?;
        let all = states.iter().chain(sources.iter().map(|line| &line.tensor));
        if let Some(other) = all.map(|tensor| tensor.shape.first()).find(|&size| size != Some(&batch)) {
            let found = other.map_or("no".to_owned(), usize::to_string);
            let text = format!("found inputs of {batch} and {found} batches, allowed one number");
            return Err(Error::new(Kind::Operation, text));
        }
        let lengths = self.lengths(lengths, batch, most)?;
        let mut last: Vec<Collected> = states.iter().map(|_| Collected::default()).collect();
        let mut collected: Vec<Vec<Collected>> = (0..collects).map(|_| Vec::new()).collect();
        for (at, &length) in lengths.iter().enumerate() {
            let of_batch = |tensor: &Tensor| slice_along(tensor, 0, at);
            let carried = states.iter().map(|state| Held::Host { tensor: of_batch(state), known: false }).collect();
            let line = |line: &Line| Line { tensor: of_batch(&line.tensor), axis: 0, is_backwards: line.is_backwards };
            let lines: Vec<Line> = sources.iter().map(line).collect();
            let (carried, parts) = self.scan(scan, carried, &lines, length)?;
            for (last, state) in last.iter_mut().zip(&carried) {
                self.collect(last, state)?;
            }
            for (collected, parts) in collected.iter_mut().zip(parts) {
                collected.push(parts);
            }
        }
        let mut results = Vec::with_capacity(states.len() + collects);
        for (state, last) in states.into_iter().zip(last) {
            results.push(match batch {
                0 => Held::Host { tensor: state, known: false },
                _ => stacked(last, 0, false, (state.element, Vec::new()))?,
            });
        }
        let first = body.graph.output.len() - collects;
        for (position, batches) in collected.into_iter().enumerate() {
            let like = batches.iter().flat_map(|batch| batch.parts.first()).map(|part| (part.element, part.shape.clone())).next();
            let like = like.unwrap_or_else(|| crate::onnx::declared(&body.graph.output[first + position]));
            results.push(self.padded(batches, like, most)?);
        }
        Ok(results)
    }

    /// How many steps each batch has, at most so many.
    fn lengths(&self, lengths: Option<&Held>, batch: usize, most: usize) -> Result<Vec<usize>> {
        let Some(value) = lengths.filter(|value| !matches!(value, Held::Nothing)) else { return Ok(vec![most; batch]) };
        let lengths = self.tensor(value)?.integers();
        let known = lengths.iter().filter_map(|&length| usize::try_from(length).ok().filter(|&length| length <= most));
        let known: Vec<usize> = known.collect();
        if known.len() != lengths.len() || known.len() != batch {
            let text = format!("found the lengths {lengths:?}, allowed {batch} numbers from 0 to {most}");
            return Err(Error::new(Kind::Operation, text));
        }
        Ok(known)
    }

    /// What batches have collected, each filled up to so many parts with zeros.
    fn padded(&self, batches: Vec<Collected>, (element, shape): (ElementType, Vec<usize>), most: usize) -> Result<Held> {
        let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
        let bytes = count.and_then(|count| element.byte_length(count)).unwrap_or(usize::MAX);
        let total = bytes.saturating_mul(most).saturating_mul(batches.len());
        self.afford(total)?;
        crate::memory::require(total)?;
        let zeros = Tensor { element, shape: shape.clone(), bytes: vec![0; bytes].into() };
        let mut all = Collected::default();
        for mut batch in batches {
            batch.parts.resize(most, zeros.clone());
            if let Held::Host { tensor, .. } = stacked(batch, 0, false, (element, shape.clone()))? {
                all.parts.push(tensor);
            }
        }
        let with_length = std::iter::once(most).chain(shape).collect();
        stacked(all, 0, false, (element, with_length))
    }

    fn collect(&self, collected: &mut Collected, part: &Held) -> Result<()> {
        let tensor = self.tensor(part)?;
        collected.bytes = collected.bytes.saturating_add(tensor.bytes.len());
        self.afford(collected.bytes)?;
        crate::memory::require(collected.bytes)?;
        collected.parts.push(tensor);
        Ok(())
    }
}

/// An axis that may count from the end.
fn counted(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add(rank as i64)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// What was collected, along a new axis; nothing of what is declared where the body never ran.
fn stacked(collected: Collected, axis: i64, backwards: bool, declared: (ElementType, Vec<usize>)) -> Result<Held> {
    let mut parts = collected.parts;
    if backwards {
        parts.reverse();
    }
    let fail = |text: String| Error::new(Kind::Operation, text);
    let Some(first) = parts.first() else {
        let (element, mut shape) = declared;
        let axis = counted(axis, shape.len() + 1).ok_or_else(|| fail(format!("axis {axis}")))?;
        shape.insert(axis, 0);
        return Ok(Held::Host { tensor: Tensor { element, shape, bytes: Default::default() }, known: false });
    };
    let axis = counted(axis, first.shape.len() + 1).ok_or_else(|| fail(format!("axis {axis}")))?;
    let shape = first.shape.clone();
    if let Some(other) = parts.iter().find(|part| part.shape != shape) {
        return Err(fail(format!("found results of {shape:?} and {:?}, allowed one shape", other.shape)));
    }
    let mut with_axis = shape;
    with_axis.insert(axis, 1);
    let parts: Vec<Tensor> = parts.into_iter().map(|part| part.reshaped(with_axis.clone())).collect();
    let tensor = join(&parts, axis)?;
    Ok(Held::Host { tensor, known: false })
}
