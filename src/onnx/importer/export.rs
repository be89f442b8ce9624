//! What becomes of a part's values: outputs of its graph, or what is known or given already.

use super::*;

impl Importer<'_> {
    /// Builds the graph of what was mapped.
    pub(super) fn finish(mut self, wanted: &[&str], values: &Values<'_>, is_first: bool) -> Result<Part> {
        let deferral = self.deferral.take();
        let next = deferral.filter(|deferral| deferral.nodes > 0);
        // A model that is not cut is one graph, which has all of its outputs.
        let is_whole = next.is_none() && is_first;
        let mut outputs = Outputs::default();
        let mut exports: Vec<(String, Export)> = Vec::new();
        let mut signatures = Vec::new();
        let mut names = HashSet::new();
        for &name in wanted {
            let value = match values.get(name).map(|named| &named.found) {
                Some(Found::Value(value)) => value.clone(),
                Some(Found::Deferred) => continue,
                _ => return Err(malformed(format!("the output {name:?} is produced by nothing"))),
            };
            // Outputs of a branch may be the same value.
            if !names.insert(name) {
                continue;
            }
            if value.is_tensor() {
                signatures.push(self.signature(name, &value)?);
            }
            let value = self.rows(name, value)?;
            let export = self.export(name, &value, is_whole, &mut outputs)?;
            exports.push((name.to_owned(), export));
        }
        let next = match next {
            None => None,
            Some(deferral) => {
                for (name, value) in &deferral.needed {
                    if !names.contains(&**name) {
                        exports.push((name.to_string(), self.export(name, value, false, &mut outputs)?));
                    }
                }
                Some(deferral.next)
            }
        };
        let mut graph = if outputs.list.is_empty() { None } else { Some(self.builder.build(outputs.list)?) };
        if let Some(graph) = &mut graph {
            graph.rounds_late = true;
        }
        Ok(Part { graph, exports, next, outputs: signatures, most_bytes: usize::MAX, asked: Vec::new() })
    }

    /// A cache as its rows, one after the other.
    fn rows(&mut self, name: &str, value: Value) -> Result<Value> {
        let Some(cache) = self.caches.iter().find(|cache| cache.present == name) else { return Ok(value) };
        let Value::Operand(id) = value else { return Ok(value) };
        let rank = self.builder.operands().rank(id);
        if cache.axis >= rank {
            return Ok(value);
        }
        let front = Transposition::to_front(cache.axis, rank);
        if let Some(Transposition { of, permutation, .. }) = self.transposed.get(&id)
            && *permutation == Transposition::inverse(&front)
        {
            return Ok((*of).into());
        }
        let front = front.iter().map(|&axis| axis as u32).collect();
        Ok(self.builder.push_op(Transpose { input: id, permutation: Some(front) }, name)?[0].into())
    }

    fn signature(&self, name: &str, value: &Value) -> Result<Signature> {
        let (data_type, element, shape) = match value {
            Value::Operand(id) => {
                let descriptor = self.builder.operands().descriptor(*id);
                let data_type = descriptor.data_type;
                (data_type, self.short.get(id).copied().unwrap_or(data_type.into()), descriptor.shape.to_vec())
            }
            _ => {
                let tensor = value.constant().ok_or_else(|| malformed("an output that is not a tensor"))?;
                let data_type =
                    tensor.element.held_by().ok_or_else(|| malformed(format!("output {name:?} of {}", tensor.element)))?;
                let shape = tensor.shape.iter().map(|&size| u32::try_from(size).unwrap_or(u32::MAX)).collect();
                (data_type, if tensor.element.is_narrow() { tensor.element } else { data_type.into() }, shape)
            }
        };
        let element_type = if element.is_narrow() { element.name() } else { data_type.name() };
        Ok(Signature { name: name.to_owned(), data_type, element_type, shape })
    }

    /// Makes a value an output of the graph, if it is none yet and has to be one.
    fn export(&mut self, name: &str, value: &Value, is_whole: bool, outputs: &mut Outputs) -> Result<Export> {
        match value {
            Value::Nothing => return Ok(Export::Nothing),
            Value::Sequence(list) => {
                let mut exports = Vec::with_capacity(list.len());
                for (position, value) in list.iter().enumerate() {
                    exports.push(self.export(&element_name(name, position), value, false, outputs)?);
                }
                return Ok(Export::Sequence(exports));
            }
            Value::Constant(constant) if constant.tensor.is_empty() || !is_whole => {
                return Ok(Export::Known(constant.tensor.clone()));
            }
            Value::Operand(id) if !is_whole => {
                if let Some(name) = self.inputs.get(id) {
                    return Ok(Export::Given((*name).to_owned()));
                }
                if let Some(&output) = outputs.positions.get(id) {
                    return Ok(self.result(*id, output));
                }
            }
            _ => {}
        }
        let fail = |reason: Reason| Error::new(Kind::NotSupported, format!("output {name:?}: {}", reason.text));
        let mut id = value.operand(&mut self.builder).map_err(fail)?;
        // An output must be a node's, and no other output's.
        let is_of_node = matches!(self.builder.operands().source(id), OperandSource::Node { .. });
        let element = self.short.get(&id).copied();
        if !is_of_node || outputs.positions.contains_key(&id) {
            id = self.builder.push_op(Unary { kind: UnaryKind::Identity, input: id }, name)?[0];
            self.short.extend(element.map(|element| (id, element)));
        }
        let output = outputs.list.len();
        outputs.positions.insert(id, output);
        outputs.list.push((name.to_owned(), id));
        Ok(self.result(id, output))
    }

    fn result(&self, id: OperandId, output: usize) -> Export {
        let descriptor = self.builder.operands().descriptor(id);
        let element = self.short.get(&id).copied().unwrap_or(descriptor.data_type.into());
        Export::Result { output, element, shape: descriptor.shape.to_vec() }
    }
}

/// The outputs of a graph under construction.
#[derive(Default)]
struct Outputs {
    list: Vec<(String, OperandId)>,
    positions: HashMap<OperandId, usize>,
}
