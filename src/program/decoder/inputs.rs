//! What the inputs of a decoder mean, by the names that exporters give them, and their shapes and contents for a step.

use super::ways::Way;
use crate::error::{Error, Kind, Result};
use crate::graph::Descriptor;
use crate::onnx::caches::{KvCache, KvCaches};
use crate::onnx::fixed_caches::Filled;
use crate::onnx::{ElementType, Loaded, OpenInput, Size, Tensor};
use crate::program::caches::{Allocator, InputValue, Memory};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A value of an input that is the same for every step of a sequence.
#[derive(Clone, Debug, Default)]
pub struct ConstantInput {
    pub name: String,
    pub shape: Vec<u32>,
    pub bytes: Arc<crate::memory::Bytes>,
    /// Rows of zeros in front, if it is filled up ([`Roles::filled_up`]).
    pub padding: Option<usize>,
    /// The same on a device whose memory is elsewhere, once it was wanted.
    pub on_device: Arc<Mutex<Option<Arc<Memory>>>>,
    /// Whether it is that of many calls, and not kept by one.
    pub is_shared: bool,
    /// What such a value is when it is filled up.
    pub longer: Arc<Mutex<Option<ConstantInput>>>,
}

impl ConstantInput {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Memory>>> {
        self.on_device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value as a run takes it: where it is, or a tensor of a device whose memory is elsewhere, which it is copied to once.
    pub fn value(&self, descriptor: &Descriptor, allocator: Allocator<'_>) -> Result<InputValue> {
        if !allocator.timeline.has_own_memory() {
            return Ok(InputValue::Shared(self.bytes.clone()));
        }
        let mut tensor = self.lock();
        if let Some(memory) = tensor.as_ref()
            && let Memory::Device(tensor) = &**memory
            && tensor.descriptor == *descriptor
        {
            return Ok(InputValue::Memory(memory.clone()));
        }
        let memory = Arc::new(Memory::Device(allocator.timeline.upload(descriptor, &self.bytes, allocator.failures)?));
        *tensor = Some(memory.clone());
        Ok(InputValue::Memory(memory))
    }

    /// Whether it has no elements, as an adapter where there is none.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Has it copied again: the tensor may not be what it should be.
    pub fn forget(&self) {
        *self.lock() = None;
    }
}

/// What an input is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Ids,
    /// The embeddings of the tokens, in their place.
    Embeddings,
    /// What else is made of the tokens.
    Embedded,
    /// Which of all positions count, those of the cache before the new ones. Whether it is as long as these: one of a fixed size has more
    /// after them.
    Mask {
        grows: bool,
    },
    /// How many tokens come before each new one.
    Positions,
    /// The places of the new tokens in the cache.
    Places,
    /// For how many of the last tokens logits are wanted.
    LogitsToKeep,
    /// Whether there is a cache, in exports that hold the prompt and the step in one file.
    UsesCache,
    /// The rows of a cache, by its number.
    Rows(usize),
    /// A state, by its number.
    State(usize),
    /// How much of caches of a fixed size is filled, of each sequence.
    Filled(Filled),
    /// One whose value is the same for every step, by its number.
    Constant(usize),
}

/// The inputs in the order of the file.
#[derive(Clone, Debug)]
pub struct Roles {
    pub inputs: Vec<(Role, OpenInput)>,
    /// The names of those whose values are given.
    pub others: Vec<String>,
    /// Whether the caches have a fixed size in the file.
    are_fixed: bool,
}

/// What a step works on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// New tokens.
    pub tokens: usize,
    /// Rows of the caches before them, of which the first ones may not count.
    pub rows: usize,
    pub way: Way,
    /// Whether there are any of the sequence's own.
    pub uses_cache: bool,
    /// Whether logits of all tokens are asked for, of a model that is told for how many.
    pub keeps_all: bool,
    pub states: Vec<Vec<u32>>,
    /// The shapes of what is given.
    pub given: Vec<Vec<u32>>,
    /// Whether the tokens are rows of features.
    pub takes_features: bool,
    /// The length that this is filled up to, if it is.
    pub padded_length: Option<usize>,
}

impl Extent {
    /// Whether something that is given has no elements, as adapters where there is none.
    pub fn is_plain(&self) -> bool {
        self.given.iter().any(|shape| shape.contains(&0))
    }

    /// Whether a step is the same without an adapter as this one is with one.
    pub fn has_plain(&self, plain: &Extent) -> bool {
        let is_same = |(full, plain): (&Vec<u32>, &Vec<u32>)| full == plain || plain.contains(&0);
        let are_alike = self.given.len() == plain.given.len() && self.given.iter().zip(&plain.given).all(is_same);
        let Extent { given, padded_length, .. } = self.clone();
        !self.is_plain() && plain.is_plain() && are_alike && *self == Extent { given, padded_length, ..plain.clone() }
    }
}

fn role(input: &OpenInput, caches: &KvCaches) -> Option<Role> {
    let name = input.name.as_str();
    if let Some(number) = caches.rows.iter().position(|cache| cache.past == name) {
        return Some(Role::Rows(number));
    }
    if let Some(number) = caches.states.iter().position(|(past, _)| past == name) {
        return Some(Role::State(number));
    }
    Some(match name {
        "input_ids" | "decoder_input_ids" | "ids" | "tokens" => Role::Ids,
        "attention_mask" | "decoder_attention_mask" => Role::Mask { grows: !matches!(input.shape.get(1), Some(Size::Known(_))) },
        "position_ids" | "decoder_position_ids" => Role::Positions,
        "cache_position" => Role::Places,
        "num_logits_to_keep" | "logits_to_keep" => Role::LogitsToKeep,
        "use_cache_branch" => Role::UsesCache,
        _ => return None,
    })
}

impl Roles {
    /// # Errors
    /// `NotSupportedError` where the model takes no tokens, or inputs have other shapes than is usual.
    pub fn of(
        loaded: &Loaded,
        caches: &KvCaches,
        counts: &[(usize, Filled)],
        are_fixed: bool,
        embedded: &[String],
    ) -> Result<Roles> {
        let (mut inputs, mut others) = (Vec::new(), Vec::new());
        let has_ids = loaded.inputs().iter().any(|input| role(input, caches) == Some(Role::Ids));
        for (at, input) in loaded.inputs().iter().enumerate() {
            if !input.form.is_tensor() {
                let text = format!("found the input {:?}, a sequence or an optional value, allowed tensors", input.name);
                return Err(Error::new(Kind::NotSupported, text));
            }
            let filled = counts.iter().find(|(count, _)| *count == at).map(|&(_, filled)| Role::Filled(filled));
            let is_embeddings = input.name == "inputs_embeds" && !has_ids;
            let embeddings = || is_embeddings.then_some(Role::Embeddings);
            let is_made = !has_ids && embedded.contains(&input.name);
            let role = filled.or_else(|| role(input, caches)).or_else(embeddings);
            let role = role.or_else(|| is_made.then_some(Role::Embedded)).unwrap_or(Role::Constant(others.len()));
            if let Role::Constant(_) = role {
                others.push(input.name.clone());
            }
            inputs.push((role, input.clone()));
        }
        let find = |is_wanted: fn(Role) -> bool| inputs.iter().find(|(role, _)| is_wanted(*role)).map(|(_, input)| input);
        match (find(|role| role == Role::Ids), find(|role| role == Role::Embeddings)) {
            (Some(ids), _) if ids.shape.len() != 2 => return Err(unlike(ids, "[batch, sequence]")),
            (None, Some(embeddings)) if embeddings.shape.len() != 3 || !matches!(embeddings.shape[2], Size::Known(_)) => {
                return Err(unlike(embeddings, "[batch, sequence, size]"));
            }
            (None, None) => {
                return Err(Error::new(Kind::NotSupported, "found no input 'input_ids', allowed a decoder that takes tokens"));
            }
            _ => {}
        }
        if let Some(made) = find(|role| role == Role::Embedded)
            && made.shape.len() < 2
        {
            return Err(unlike(made, "[batch, sequence, …]"));
        }
        if let Some(mask) = find(|role| matches!(role, Role::Mask { .. }))
            && mask.shape.len() != 2
        {
            return Err(unlike(mask, "[batch, total sequence]"));
        }
        Ok(Roles { are_fixed, inputs, others })
    }

    /// # Errors
    /// `NotSupportedError` where a model of embeddings is missing, or is not read.
    pub fn require_embedder(&self, is_there: bool) -> Result<()> {
        let takes = self.inputs.iter().any(|(role, _)| *role == Role::Embeddings);
        let text = match (takes, is_there) {
            (true, false) => {
                "found a decoder with the input 'inputs_embeds', which needs the option embed: a model that embeds tokens"
            }
            (false, true) => "found the option embed, allowed for a decoder that has the input 'inputs_embeds' and no tokens",
            _ => return Ok(()),
        };
        Err(Error::new(Kind::NotSupported, text))
    }

    /// Whether positions have three axes, in which images lie.
    pub fn has_axes(&self) -> bool {
        self.inputs.iter().any(|(role, input)| *role == Role::Positions && has_axes(input))
    }

    /// Whether the prompt and the step are branches of one file.
    pub fn has_branches(&self) -> bool {
        self.inputs.iter().any(|(role, _)| *role == Role::UsesCache)
    }

    /// Whether a step has one token: by its shape, or because the model is the half of an export that comes after the first step. It has the
    /// caches of the encoder as they are, and was tried with one token, so a mask that keeps several apart may be missing.
    pub fn takes_one(&self) -> bool {
        let is_one = |(role, input): &(Role, OpenInput)| {
            matches!(role, Role::Ids | Role::Embeddings) && input.shape.get(1) == Some(&Size::Known(1))
        };
        let is_of_encoder = |name: &String| name.starts_with("past_key_values.") && name.contains(".encoder.");
        self.inputs.iter().any(is_one) || self.others.iter().any(is_of_encoder)
    }

    /// The same with a size for those of the caches that the file leaves open beside their rows, where `of` knows the shape that an output
    /// has for inputs of these shapes: caches that nothing is in yet, and one token. onnxruntime-genai's builder calls the last one only
    /// `kv_cache_dim`, and weights tell what it is.
    pub fn with_sizes_of_caches(mut self, caches: &KvCaches, of: impl FnOnce(&[Vec<u32>]) -> HashMap<String, Vec<u32>>) -> Roles {
        let first = Extent { tokens: 1, ..Extent::default() };
        if !self.others.is_empty() || self.shapes(caches, &first).is_ok() {
            return self;
        }
        let open = |roles: &mut Roles, size: &dyn Fn(&KvCache, usize) -> Option<u32>| {
            for (role, input) in &mut roles.inputs {
                let Role::Rows(number) = role else { continue };
                let cache = &caches.rows[*number];
                for (axis, found) in input.shape.iter_mut().enumerate().skip(1).filter(|(axis, _)| *axis != cache.axis) {
                    if !matches!(found, Size::Known(_))
                        && let Some(size) = size(cache, axis)
                    {
                        *found = Size::Known(size);
                    }
                }
            }
        };
        // Of what has no rows any size will do.
        let mut tried = Roles { inputs: self.inputs.clone(), others: Vec::new(), ..self.clone() };
        open(&mut tried, &|_, _| Some(1));
        if let Ok(shapes) = tried.shapes(caches, &first) {
            let found = of(&shapes);
            open(&mut self, &|cache, axis| found.get(&cache.present)?.get(axis).copied());
        }
        self
    }

    /// What is given for each of so many prompts, in the order of [`Roles::others`]. An input whose first dimension is that of the sequences
    /// has a row for each prompt, or one for all.
    ///
    /// # Errors
    /// Those of [`Roles::checked`]; `TypeError` for another number of rows.
    pub fn given(&self, constants: Vec<ConstantInput>, prompts: usize) -> Result<Vec<Arc<Vec<ConstantInput>>>> {
        let all = self.checked(constants)?;
        let batch = self
            .inputs
            .iter()
            .find(|(role, _)| matches!(role, Role::Ids | Role::Embeddings))
            .and_then(|(_, ids)| ids.shape.first());
        let has_rows = |constant: &ConstantInput| {
            let input = self.inputs.iter().find(|(_, input)| input.name == constant.name).map(|(_, input)| input);
            let first = input.and_then(|input| input.shape.first());
            matches!((first, batch), (Some(Size::Open(own)), Some(Size::Open(batch))) if own == batch)
        };
        let mut is_shared = true;
        for constant in all.iter().filter(|constant| has_rows(constant)) {
            let rows = constant.shape[0] as usize;
            if rows != 1 && rows != prompts {
                let found = format!("{rows} rows of {:?}", constant.name);
                return Err(Error::argument("inputs", found, format!("1, or {prompts} for as many prompts")));
            }
            is_shared &= rows == 1;
        }
        if is_shared {
            let all = Arc::new(all);
            return Ok(vec![all; prompts]);
        }
        let of_prompt = |prompt: usize| {
            let own = |constant: &ConstantInput| {
                if !has_rows(constant) {
                    return Ok(constant.clone());
                }
                let rows = constant.shape[0] as usize;
                let length = constant.bytes.len() / rows;
                let first = if rows == 1 { 0 } else { prompt * length };
                let mut shape = constant.shape.clone();
                if rows > 1 {
                    shape[0] = 1;
                }
                let bytes = Arc::new(crate::memory::Bytes::copy_of(&constant.bytes[first..first + length])?);
                Ok(ConstantInput { name: constant.name.clone(), shape, bytes, ..ConstantInput::default() })
            };
            all.iter().map(own).collect::<Result<Vec<ConstantInput>>>().map(Arc::new)
        };
        (0..prompts).map(of_prompt).collect()
    }

    /// The dimensions of an input that may be as long as what is given: they are open, and not the number of sequences. That is the first one,
    /// but for matrices, as adapters have them, where it has another name.
    fn open_axes(&self, input: &OpenInput) -> Vec<usize> {
        let tokens = self.inputs.iter().find(|(role, _)| matches!(role, Role::Ids | Role::Embeddings));
        let batch = tokens.and_then(|(_, tokens)| tokens.shape.first());
        let is_matrix = input.shape.len() == 2 && input.data_type.is_float() && input.shape.first() != batch;
        let is_open = |axis: &usize| (*axis > 0 || is_matrix) && matches!(input.shape[*axis], Size::Open(_));
        (0..input.shape.len()).filter(is_open).collect()
    }

    /// The input of something that is given.
    fn input_of(&self, constant: &ConstantInput) -> Option<&OpenInput> {
        self.inputs.iter().find(|(_, input)| input.name == constant.name).map(|(_, input)| input)
    }

    /// How long what is given is: the one size of all open dimensions.
    pub fn given_length(&self, given: &[ConstantInput]) -> Option<usize> {
        let sizes = given.iter().flat_map(|constant| {
            let axes = self.input_of(constant).into_iter().flat_map(|input| self.open_axes(input));
            axes.filter_map(move |axis| constant.shape.get(axis).copied())
        });
        let sizes: Vec<u32> = sizes.collect();
        let first = *sizes.first()?;
        (first > 0 && sizes.iter().all(|size| *size == first)).then_some(first as usize)
    }

    /// What is given with rows of zeros in front, so that it has a length.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for it.
    pub fn padded(&self, given: &[ConstantInput], from: usize, to: usize) -> Result<Vec<ConstantInput>> {
        let fill = |constant: &ConstantInput| {
            let Some(axis) = self.input_of(constant).and_then(|input| self.open_axes(input).first().copied()) else {
                return Ok(constant.clone());
            };
            let mut known = constant.is_shared.then(|| constant.longer.lock().unwrap_or_else(PoisonError::into_inner));
            let is_wanted = |longer: &&ConstantInput| longer.shape.get(axis) == Some(&(to as u32));
            if let Some(longer) = known.as_ref().and_then(|known| (**known).as_ref()).filter(is_wanted) {
                return Ok(longer.clone());
            }
            let mut shape = constant.shape.clone();
            shape[axis] = to as u32;
            let blocks: usize = constant.shape[..axis].iter().map(|&size| size as usize).product();
            let block = constant.bytes.len() / blocks.max(1);
            let front = block / from * (to - from);
            let mut bytes = crate::memory::Bytes::zeroed(blocks * (front + block))?;
            for (into, from) in bytes.chunks_exact_mut((front + block).max(1)).zip(constant.bytes.chunks_exact(block.max(1))) {
                into[front..].copy_from_slice(from);
            }
            let longer = ConstantInput {
                name: constant.name.clone(),
                shape,
                bytes: Arc::new(bytes),
                padding: Some(to - from),
                is_shared: constant.is_shared,
                ..ConstantInput::default()
            };
            if let Some(known) = &mut known {
                **known = Some(longer.clone());
            }
            Ok(longer)
        };
        given.iter().map(fill).collect()
    }

    /// The same extent for something that is given of another length.
    pub fn with_given_length(&self, extent: &Extent, length: usize) -> Extent {
        let mut other = extent.clone();
        let Some(padded_length) = extent.padded_length else { return other };
        for (role, input) in &self.inputs {
            let shape = match role {
                Role::Constant(number) => other.given.get_mut(*number),
                Role::State(number) => other.states.get_mut(*number),
                _ => None,
            };
            let Some(shape) = shape else { continue };
            for axis in self.open_axes(input) {
                if let Some(size) = shape.get_mut(axis)
                    && *size as usize == padded_length
                {
                    *size = length as u32;
                }
            }
        }
        other
    }

    /// What is given, in the order of [`Roles::others`].
    ///
    /// # Errors
    /// `TypeError` where something is missing or has another shape or number of bytes, or is no such input.
    fn checked(&self, constants: Vec<ConstantInput>) -> Result<Vec<ConstantInput>> {
        if let Some(constant) = constants.iter().find(|constant| !self.others.contains(&constant.name)) {
            return Err(Error::argument("inputs", format!("{:?}", constant.name), format!("{:?}", self.others)));
        }
        let mut all: HashMap<String, ConstantInput> =
            constants.into_iter().map(|constant| (constant.name.clone(), constant)).collect();
        let of = |name: &String| {
            let input = self.inputs.iter().find(|(_, input)| input.name == *name).map(|(_, input)| input);
            let (Some(constant), Some(input)) = (all.remove(name), input) else {
                return Err(Error::argument("inputs", format!("no value of {name:?}"), format!("values of {:?}", self.others)));
            };
            let is_like = |(size, allowed): (&u32, &Size)| !matches!(allowed, Size::Known(known) if known != size);
            let fits = constant.shape.len() == input.shape.len() && constant.shape.iter().zip(&input.shape).all(is_like);
            let descriptor = Descriptor { data_type: input.data_type, shape: constant.shape.iter().copied().collect() };
            if !fits || descriptor.byte_length() != constant.bytes.len() {
                let found = format!("{} bytes of shape {:?} for {name:?}", constant.bytes.len(), constant.shape);
                return Err(Error::argument("inputs", found, format!("{} of shape {:?}", input.data_type, input.shape)));
            }
            Ok(constant)
        };
        self.others.iter().map(of).collect()
    }

    /// The sizes that open dimensions have, by their names: the first input that tells one wins.
    fn sizes_by_name(&self, caches: &KvCaches, extent: &Extent) -> HashMap<&str, u32> {
        let mut names: HashMap<&str, u32> = HashMap::new();
        let (tokens, rows) = (extent.tokens as u32, extent.rows as u32);
        for (role, input) in &self.inputs {
            let meant: Vec<(usize, u32)> = match role {
                Role::Ids | Role::Embeddings | Role::Embedded => vec![(0, 1), (1, tokens)],
                Role::Mask { .. } => vec![(0, 1), (1, rows + tokens)],
                Role::Rows(number) => vec![(caches.rows[*number].axis, rows)],
                Role::Constant(number) => extent.given[*number].iter().copied().enumerate().collect(),
                _ => vec![],
            };
            for (axis, size) in meant {
                if let Some(Size::Open(name)) = input.shape.get(axis) {
                    names.entry(name).or_insert(size);
                }
            }
        }
        names
    }

    /// The shapes of the inputs for a step.
    ///
    /// # Errors
    /// `NotSupportedError` for a size of which nothing is known.
    pub fn shapes(&self, caches: &KvCaches, extent: &Extent) -> Result<Vec<Vec<u32>>> {
        let names = self.sizes_by_name(caches, extent);
        let (tokens, rows) = (extent.tokens as u32, extent.rows as u32);
        let mut shapes = Vec::new();
        for (role, input) in &self.inputs {
            let rank = input.shape.len();
            if let Role::State(number) = role
                && let Some(shape) = extent.states.get(*number).filter(|shape| shape.len() == rank)
            {
                shapes.push(shape.clone());
                continue;
            }
            let mut shape = Vec::with_capacity(rank);
            for (axis, size) in input.shape.iter().enumerate() {
                let meant = match role {
                    Role::Ids | Role::Positions if axis + 1 == rank => Some(tokens),
                    Role::Places => Some(tokens),
                    Role::Embeddings | Role::Embedded if axis == 1 => Some(tokens),
                    Role::Mask { .. } if axis == 1 => Some(rows + tokens),
                    // Whatever size the file gives it.
                    Role::Rows(number) if self.are_fixed && caches.rows[*number].axis == axis => {
                        shape.push(rows);
                        continue;
                    }
                    Role::Rows(number) if caches.rows[*number].axis == axis => Some(rows),
                    Role::Constant(number) => extent.given[*number].get(axis).copied(),
                    _ => None,
                };
                let found = match (size, meant) {
                    (Size::Known(size), _) => *size,
                    (_, Some(meant)) => meant,
                    (Size::Open(name), None) if names.contains_key(name.as_str()) => names[name.as_str()],
                    // The number of sequences comes first.
                    (_, None) if axis == 0 || matches!(role, Role::State(_) | Role::UsesCache | Role::LogitsToKeep) => 1,
                    (_, None) => {
                        let text = format!(
                            "found the open dimension {axis} of the input {:?}, allowed one that the tokens or the cache tell; give \
                             its size when the model is loaded (freeDimensions)",
                            input.name
                        );
                        return Err(Error::new(Kind::NotSupported, text));
                    }
                };
                shape.push(found);
            }
            if let (Role::Ids, &[batch, found]) = (role, &shape[..])
                && (batch, found) != (1, tokens)
            {
                return Err(unlike(input, "one sequence of any length"));
            }
            if let Role::Rows(number) = role
                && shape[caches.rows[*number].axis] != rows
            {
                return Err(unlike(input, "a cache of any length"));
            }
            shapes.push(shape);
        }
        Ok(shapes)
    }

    /// Values that a plan for these shapes is made for.
    ///
    /// # Errors
    /// As [`numbers`].
    pub fn known(&self, extent: &Extent, shapes: &[Vec<u32>]) -> Result<Vec<(String, Tensor)>> {
        let mut all = Vec::new();
        for ((role, input), shape) in self.inputs.iter().zip(shapes) {
            let is_known = match role {
                Role::LogitsToKeep | Role::UsesCache | Role::Filled(_) => true,
                // Images before them change them.
                Role::Positions if has_axes(input) => false,
                Role::Mask { .. } | Role::Positions | Role::Places => extent.way.knows_positions,
                Role::Ids | Role::Embeddings | Role::Embedded | Role::Rows(_) | Role::State(_) | Role::Constant(_) => false,
            };
            if is_known {
                let &Extent { rows, tokens: new, uses_cache, keeps_all, .. } = extent;
                let step = StepTokens { rows, before: rows, tokens: &[], new, padding: 0, uses_cache, keeps_all };
                let numbers = numbers(*role, shape, &step)?;
                all.push((input.name.clone(), tensor(input.element(), shape, &numbers)));
            }
        }
        Ok(all)
    }
}

/// The tokens of a step, and what comes before them.
pub struct StepTokens<'a> {
    /// The rows that count; none of a decoder that has states alone.
    pub rows: usize,
    /// The tokens that came before.
    pub before: usize,
    pub tokens: &'a [u32],
    /// New tokens.
    pub new: usize,
    /// Rows of padding.
    pub padding: usize,
    pub uses_cache: bool,
    pub keeps_all: bool,
}

/// The numbers of an input that is made for each step.
///
/// # Errors
/// `NotSupportedError` where the sequence is longer than a mask of a fixed size.
pub fn numbers(role: Role, shape: &[u32], step: &StepTokens<'_>) -> Result<Vec<i64>> {
    let &StepTokens { rows, before, tokens, new, padding, uses_cache, keeps_all } = step;
    let all = rows + new;
    let count: usize = shape.iter().map(|&size| size as usize).product();
    // The same for each of what comes before the last axis: a position may have several dimensions.
    let each = |one: Vec<i64>| one.repeat(count.checked_div(one.len()).unwrap_or(0));
    Ok(match role {
        Role::Ids | Role::Embeddings | Role::Embedded => tokens.iter().map(|&id| i64::from(id)).collect(),
        Role::Mask { grows } => {
            let width = shape.last().map_or(0, |&size| size as usize);
            let first = if grows { padding } else { 0 };
            if width < first + all {
                let text = format!("the mask has {width} positions, the sequence needs {}", first + all);
                return Err(Error::new(Kind::NotSupported, text));
            }
            each((0..width).map(|place| (first..first + all).contains(&place).into()).collect())
        }
        Role::Filled(filled) => vec![filled.number(rows, new); count],
        Role::Positions | Role::Places => each((before..before + new).map(|place| place as i64).collect()),
        Role::LogitsToKeep => vec![if keeps_all { new as i64 } else { 1 }; count],
        Role::UsesCache => vec![uses_cache.into(); count],
        Role::Rows(_) | Role::State(_) | Role::Constant(_) => Vec::new(),
    })
}

/// Numbers as the elements of an input.
fn tensor(element: ElementType, shape: &[u32], numbers: &[i64]) -> Tensor {
    Tensor::from_numbers(element, shape.iter().map(|&size| size as usize).collect(), numbers)
}

/// Numbers as the bytes of an input.
///
/// # Errors
/// `NotSupportedError` for an element type that nothing holds.
pub fn bytes(element: ElementType, shape: &[u32], numbers: &[i64]) -> Result<crate::memory::Bytes> {
    let (_, bytes) = tensor(element, shape, numbers).held()?;
    crate::memory::Bytes::copy_of(&bytes)
}

/// Whether positions are [3, batch, sequence].
fn has_axes(positions: &OpenInput) -> bool {
    positions.shape.len() == 3 && positions.shape[0] == Size::Known(3)
}

fn unlike(input: &OpenInput, allowed: &str) -> Error {
    let text = format!("{:?}: found the shape {:?}, allowed {allowed}", input.name, input.shape);
    Error::new(Kind::NotSupported, text)
}
