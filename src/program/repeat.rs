//! Loop and Scan: the stages of a body again and again.

use super::plans::Plans;
use super::run::Run;
use super::values::{Held, Key, Values, find};
use crate::error::{Error, Kind, Result};
use crate::onnx::{Body, ElementType, Givens, Repetition, Step, Tensor, join, slice_along};
use std::sync::Arc;

/// A loop that runs longer than this is taken for one that does not end.
const MOST_RUNS: i64 = 1 << 20;

/// What scan outputs collect.
#[derive(Default)]
struct Collected {
    parts: Vec<Tensor>,
    bytes: usize,
}

impl Run<'_> {
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
        let mut values = around.clone();
        let mut key = Key::default();
        for (info, value) in body.graph.input.iter().zip(inputs) {
            key.shape(&value);
            values.insert(info.name.clone(), value);
        }
        let given: Givens = values.iter().map(|(name, value)| (name.clone(), value.given())).collect();
        let stage = plans.get(key, || self.program.stage(Some(body), &given))?;
        let (results, _) = self.walk(Some(body), stage, values)?;
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
            let text = format!("a body of {takes} inputs and {gives} outputs for {} values that go round", carried.len());
            return Err(Error::new(Kind::Type, text));
        };
        let mut collected: Vec<Collected> = (0..collects).map(|_| Collected::default()).collect();
        let mut run = 0;
        while goes_on && trips.is_none_or(|trips| run < trips) {
            if run == MOST_RUNS {
                return Err(Error::new(
                    Kind::Operation,
                    format!("found more than {MOST_RUNS} runs of its body, allowed as many"),
                ));
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
        let Repetition::Scan { scanned, input_axes, input_backwards, output_axes, output_backwards } = repetition else {
            return Err(Error::new(Kind::Operation, "no Scan (internal error)"));
        };
        let fail = |text: String| Error::new(Kind::Type, text);
        let inputs = inputs.iter().map(|value| value.clone().ok_or_else(|| fail("an input is missing".into())));
        let inputs = inputs.collect::<Result<Vec<Held>>>()?;
        let (carried, lines) = inputs.split_at(inputs.len() - scanned);
        let mut carried = carried.to_vec();
        let Some(collects) =
            body.graph.output.len().checked_sub(carried.len()).filter(|_| body.graph.input.len() == inputs.len())
        else {
            return Err(fail(format!("a body of {} inputs for {}", body.graph.input.len(), inputs.len())));
        };
        let mut sources = Vec::with_capacity(lines.len());
        let mut length = None;
        for (position, value) in lines.iter().enumerate() {
            let tensor = self.tensor(value)?;
            let rank = tensor.shape.len();
            let axis = counted(input_axes.get(position).copied().unwrap_or(0), rank).ok_or_else(|| fail("an axis".into()))?;
            let own = tensor.shape[axis];
            if *length.get_or_insert(own) != own {
                return Err(fail(format!("found {own} along an input, where another one has {}", length.unwrap_or(0))));
            }
            sources.push((tensor, axis, input_backwards.get(position).copied().unwrap_or(false)));
        }
        let length = length.unwrap_or(0);
        let mut collected: Vec<Collected> = (0..collects).map(|_| Collected::default()).collect();
        for run in 0..length {
            let part = |(tensor, axis, backwards): &(Tensor, usize, bool)| {
                let at = if *backwards { length - 1 - run } else { run };
                Held::Host { tensor: slice_along(tensor, *axis, at), known: false }
            };
            let given = carried.drain(..).chain(sources.iter().map(part)).collect();
            let outputs = self.run_body(body, plans, around, given)?;
            let (next, parts) = outputs.split_at(outputs.len() - collects);
            carried = next.to_vec();
            for (collected, part) in collected.iter_mut().zip(parts) {
                self.collect(collected, part)?;
            }
        }
        let mut results = carried;
        let first = body.graph.output.len() - collects;
        for (position, collected) in collected.into_iter().enumerate() {
            let axis = output_axes.get(position).copied().unwrap_or(0);
            let backwards = output_backwards.get(position).copied().unwrap_or(false);
            results.push(stacked(collected, axis, backwards, crate::onnx::declared(&body.graph.output[first + position]))?);
        }
        Ok(results)
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
