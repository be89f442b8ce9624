//! Packed weights, once in the process: the graphs of a model for inputs of different shapes, and all models and contexts that have the
//! same constants, mostly want them packed alike.
//!
//! A packing is known by the step that it is for (the implementation and its instruction set, the operator with its attributes, and what its
//! constants are), by how it lies in memory, and by its number among the packings of the step. Weights of products do not depend on the operators
//! that are fused with these: they are known by the operator alone, so a model has them once for steps with an adapter and without one. Rows of numbers, such as biases, are known by
//! what is in them, and zeros by how many they are. All are kept for as long as a kernel uses them, and no longer.
//! Where a model has a cache, large packings come from its files, or go there.

use super::dispatch::{Problem, Target, TensorDesc};
use super::kernels::Caches;
use crate::disk_cache::{ModelCache, Stored, WORTH_STORING};
use crate::graph::ConstantBytes;
use crate::looks;
use crate::memory::{self, Bytes, Charge, Lending, Once, Usage, Use};
use std::cell::RefCell;
use std::mem::replace;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock, Weak};
use xxhash_rust::xxh3::Xxh3;

/// Those of the process ([`Packings::of_process`]).
#[derive(Debug, Default)]
pub struct Packings(Once<Key, Arc<Packed>>);

/// Memory of a kernel, counted once however many graphs use it.
#[derive(Debug)]
pub struct Packed {
    bytes: Content,
    charge: Option<Lending>,
}

#[derive(Debug)]
enum Content {
    Computed(Bytes),
    /// In a file, which other processes may have mapped, too.
    Stored(Stored),
}

impl Packed {
    /// What is nobody else's, and counted with its kernel.
    pub fn own(bytes: Bytes) -> Packed {
        Packed { bytes: Content::Computed(bytes), charge: None }
    }

    /// Counts it as shared for a model that has it from another one.
    pub fn lend(&self, usage: &Arc<Usage>) -> Vec<Arc<Charge>> {
        self.charge.as_ref().map(|charge| charge.lend(usage)).unwrap_or_default()
    }

    /// # Panics
    /// For what comes from a file, which others have too.
    pub fn bytes_mut(&mut self) -> &mut Bytes {
        match &mut self.bytes {
            Content::Computed(bytes) => bytes,
            Content::Stored(_) => unreachable!("only what is nobody else's is written to"),
        }
    }
}

impl Deref for Packed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Content::Computed(bytes) => bytes,
            Content::Stored(stored) => stored.as_ref(),
        }
    }
}

impl AsRef<[u8]> for Packed {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Packing {
        step: u128,
        number: usize,
        layout: Vec<usize>,
        length: usize,
    },
    /// A hash of 128 bits of the numbers.
    Row(u128),
    Zeros(usize),
}

/// Files of packings that were made otherwise are not found: to be raised when packings change within a version.
const FORMAT: u32 = 1;

impl Key {
    /// What a file is known by, if it is worth one.
    fn stored(&self, caches: &Caches) -> Option<u128> {
        let Key::Packing { step, number, layout, length } = self else { return None };
        if *length < WORTH_STORING {
            return None;
        }
        let mut hash = Xxh3::with_seed(memory::seed());
        let (version, machine) = (env!("CARGO_PKG_VERSION"), (std::env::consts::ARCH, cfg!(target_endian = "big")));
        hash.update(format!("{version} {FORMAT} {machine:?} {caches:?} {step} {number} {layout:?} {length}").as_bytes());
        Some(hash.digest128())
    }
}

/// What kernels are being built for on this thread.
struct Building {
    cache: Option<(Arc<ModelCache>, Caches)>,
    packings: Arc<Packings>,
    usage: Arc<Usage>,
    step: Option<Step>,
    /// What the kernels have, their own and that of others.
    used: Vec<Weak<Packed>>,
}

struct Step {
    identity: Identity,
    /// How many packings it has had.
    number: usize,
    /// Bytes of all these, which are counted here.
    counted: usize,
}

impl Step {
    /// The key of its next packing.
    fn next(&mut self, known_by: impl FnOnce(&Identity) -> u128, layout: &[usize], length: usize) -> Key {
        self.counted += length;
        self.number += 1;
        Key::Packing { step: known_by(&self.identity), number: self.number, layout: layout.to_vec(), length }
    }
}

thread_local!(static BUILDING: RefCell<Option<Building>> = const { RefCell::new(None) });

/// What a step is to its packings.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// The implementation and what it is made for, what it computes, and its constants.
    step: u128,
    /// The same without what makes the operator's operands, and what is done to its output.
    operator: u128,
}

impl Identity {
    pub fn of<'a>(
        implementation: &str,
        problem: &Problem<'_>,
        target: &Target,
        constants: impl Iterator<Item = Option<&'a ConstantBytes>> + Clone,
    ) -> Identity {
        let Problem { prologue, dequantized, op, fused, inputs, .. } = problem;
        let (isa, fp_math) = (target.isa.name, target.fp_math);
        let mut hash = Xxh3::with_seed(memory::seed());
        hash.update(format!("{implementation} {isa} {fp_math:?} {prologue:?}{dequantized:?}{op:?}{fused:?}").as_bytes());
        for (input, constant) in inputs.iter().zip(constants.clone()) {
            add_operand(&mut hash, input, constant);
        }
        let step = hash.digest128();
        // Operands of others than the operator say how its own are read.
        if !dequantized.is_empty() {
            return Identity { step, operator: step };
        }
        let (mut operator, mut operands) = ((*op).clone(), Vec::new());
        operator.visit_mut(&mut |id| {
            operands.push(id.0 as usize);
            id.0 = operands.len() as u32;
        });
        let mut hash = Xxh3::with_seed(memory::seed());
        hash.update(format!("operator {implementation} {isa} {fp_math:?} {operator:?}").as_bytes());
        for position in operands {
            match (inputs.get(position), constants.clone().nth(position)) {
                (Some(input), Some(constant)) => add_operand(&mut hash, input, constant),
                // It is made in the step.
                _ => hash.update(&[0]),
            }
        }
        Identity { step, operator: hash.digest128() }
    }
}

fn add_operand(hash: &mut Xxh3, input: &TensorDesc<'_>, constant: Option<&ConstantBytes>) {
    hash.update(input.data_type.name().as_bytes());
    match constant {
        None => hash.update(&[0]),
        Some(constant) => {
            hash.update(format!("{:?}", input.shape).as_bytes());
            hash.update(&constant.identity().to_le_bytes());
        }
    }
}

impl Packings {
    /// What all models and contexts share.
    pub fn of_process() -> &'static Arc<Packings> {
        static PACKINGS: LazyLock<Arc<Packings>> = LazyLock::new(Arc::default);
        &PACKINGS
    }
}

/// Builds the kernels of a graph, which share what they pack with those of others; with a cache also with other processes on machines
/// with such caches of the processor.
pub fn within<R>(
    packings: &Arc<Packings>,
    usage: &Arc<Usage>,
    cache: Option<(Arc<ModelCache>, Caches)>,
    build: impl FnOnce() -> R,
) -> R {
    struct Restore(Option<Building>);
    impl Drop for Restore {
        fn drop(&mut self) {
            BUILDING.set(self.0.take());
        }
    }
    let own = Building { cache, packings: packings.clone(), usage: usage.clone(), step: None, used: Vec::new() };
    let _restore = Restore(BUILDING.replace(Some(own)));
    build()
}

/// The packings that the graph uses whose kernels are being built, those of others, too.
pub fn take_used() -> Vec<Weak<Packed>> {
    BUILDING.with_borrow_mut(|building| building.as_mut().map(|building| std::mem::take(&mut building.used))).unwrap_or_default()
}

/// The same packing, noted as one that the graph uses.
fn used(packed: Arc<Packed>) -> Arc<Packed> {
    BUILDING.with_borrow_mut(|building| building.iter_mut().for_each(|building| building.used.push(Arc::downgrade(&packed))));
    packed
}

/// Builds the kernel of a step of the graph whose kernels are being built. Beside the result the bytes of its packings, which are counted here.
pub fn during<R>(identity: Identity, build: impl FnOnce() -> R) -> (R, usize) {
    let begin =
        |step| BUILDING.with_borrow_mut(|building| building.as_mut().and_then(|building| replace(&mut building.step, step)));
    begin(Some(Step { identity, number: 0, counted: 0 }));
    let result = build();
    // Where the build panics the graph's ends too.
    (result, begin(None).map_or(0, |step| step.counted))
}

/// Memory of so many bytes that `fill` packs, or that of another graph which has packed the same. `layout` has all numbers beside the
/// constants and the operator's attributes that what is packed depends on.
///
/// # Panics
/// When the memory cannot be had; that ends the build with an error.
pub fn packed(layout: &[usize], length: usize, fill: impl FnOnce(&mut Bytes)) -> Arc<Packed> {
    shared(length, fill, |step| Some(step?.next(|identity| identity.step, layout, length)))
}

/// The same of the operator's own constants: steps that do other things to its output have it, too.
///
/// # Panics
/// As [`packed`].
pub fn packed_operand(layout: &[usize], length: usize, fill: impl FnOnce(&mut Bytes)) -> Arc<Packed> {
    shared(length, fill, |step| Some(step?.next(|identity| identity.operator, layout, length)))
}

/// These numbers, or those of another step or graph which has the same. No step counts them.
///
/// # Panics
/// As [`packed`].
pub fn row(numbers: &[f32]) -> Arc<Packed> {
    let bytes: &[u8] = bytemuck::cast_slice(numbers);
    shared(bytes.len(), |row| row.copy_from_slice(bytes), |_| Some(Key::Row(memory::identity(bytes))))
}

/// At least so many zeros. No step counts them.
///
/// # Panics
/// As [`packed`].
pub fn zeros(length: usize) -> Arc<Packed> {
    // Of any length they are much the same.
    let length = if length == 0 { 0 } else { length.next_power_of_two() };
    shared(length, |_| (), |_| Some(Key::Zeros(length)))
}

/// What has been made for the same key, or is made now.
fn shared(length: usize, fill: impl FnOnce(&mut Bytes), key: impl FnOnce(Option<&mut Step>) -> Option<Key>) -> Arc<Packed> {
    let known = BUILDING.with_borrow_mut(|building| {
        let Building { cache, packings, usage, step, .. } = building.as_mut()?;
        let key = key(step.as_mut())?;
        let stored = cache.as_ref().and_then(|(cache, caches)| Some((cache.clone(), key.stored(caches)?)));
        Some((packings.clone(), usage.clone(), key, stored))
    });
    if let Some((packings, usage, key, stored)) = &known {
        if let Some(found) = packings.0.find(key) {
            return used(found);
        }
        if let Some(found) = stored.as_ref().and_then(|(cache, key)| cache.find(*key, length)) {
            let charge =
                if found.is_mapped() { Ok(usage.charge(Use::Mapped, length)) } else { usage.reserve(Use::Packed, length) };
            // The build ends with the error.
            let charge = charge.unwrap_or_else(|error| resume_unwind(Box::new(error)));
            let packed = Arc::new(Packed { bytes: Content::Stored(found), charge: Some(charge.into()) });
            return used(packings.0.keep(key.clone(), packed, |_| true));
        }
    }
    let reserved = known.as_ref().map(|(_, usage, ..)| usage.reserve(Use::Packed, length)).transpose();
    let allocated = reserved.and_then(|charge| Ok((charge, Bytes::beside_others(length)?)));
    // The build ends with the error.
    let (charge, mut bytes) = allocated.unwrap_or_else(|error| resume_unwind(Box::new(error)));
    fill(&mut bytes);
    // Pieces that nobody wants any more are left out: what has none of them is not kept.
    looks::look();
    let packed = Arc::new(Packed { bytes: Content::Computed(bytes), charge: charge.map(Lending::from) });
    let Some((packings, _, key, stored)) = known else { return packed };
    // Another thread may have been faster.
    let kept = packings.0.keep(key, packed, |_| true);
    if let Some((cache, key)) = stored {
        cache.offer(key, kept.clone());
    }
    used(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::Cancel;
    use crate::done::from_panic;
    use crate::error::Kind;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn step(number: u128) -> Identity {
        Identity { step: number, operator: number + 100 }
    }

    #[test]
    fn what_is_packed_alike_is_packed_once() {
        let packings = Arc::new(Packings::default());
        let usage = Arc::new(Usage::default());
        let pack = |number, layout: &[usize], with: u8| {
            let build = || {
                let first = packed(layout, 64, |bytes| bytes.fill(with));
                (first, packed(layout, 64, |bytes| bytes.fill(with + 1)))
            };
            let (both, counted) = within(&packings, &usage, None, || during(step(number), build));
            assert_eq!(counted, 128);
            both
        };
        let (a, b) = pack(7, &[1, 2], 3);
        assert!(a.iter().all(|&byte| byte == 3) && b.iter().all(|&byte| byte == 4));
        let (again, _) = pack(7, &[1, 2], 9);
        assert!(Arc::ptr_eq(&a, &again));
        assert_eq!(usage.numbers().packed, 128);
        // Another model has it from the first.
        let other = Arc::new(Usage::default());
        let charges = within(&packings, &other, None, || {
            let (_same, _) = during(step(7), || [packed(&[1, 2], 64, |_| {}), packed(&[1, 2], 64, |_| {})]);
            take_used().iter().filter_map(Weak::upgrade).flat_map(|packed| packed.lend(&other)).collect::<Vec<_>>()
        });
        assert_eq!((other.numbers().packed, other.numbers().shared, usage.numbers().shared), (0, 128, 0));
        drop(charges);
        assert_eq!(other.numbers().shared, 0);
        // Another layout, another step.
        assert!(pack(7, &[1, 3], 9).0.iter().all(|&byte| byte == 9));
        assert!(pack(8, &[1, 2], 9).0.iter().all(|&byte| byte == 9));
        // Nobody keeps what nobody uses, and outside of a step nothing is shared.
        drop((a, again));
        assert!(pack(7, &[1, 2], 11).0.iter().all(|&byte| byte == 11));
        assert!(!Arc::ptr_eq(&packed(&[1], 8, |_| {}), &packed(&[1], 8, |_| {})));
    }

    #[test]
    fn what_is_packed_of_an_operator_serves_all_steps_with_it() {
        let packings = Arc::new(Packings::default());
        let usage = Arc::new(Usage::default());
        let pack = |step, operator| {
            let both = || (packed_operand(&[1], 64, |_| {}), packed(&[1], 64, |_| {}));
            within(&packings, &usage, None, || during(Identity { step, operator }, both)).0
        };
        let (one, other, third) = (pack(1, 9), pack(2, 9), pack(1, 8));
        assert!(Arc::ptr_eq(&one.0, &other.0) && !Arc::ptr_eq(&one.1, &other.1));
        assert!(!Arc::ptr_eq(&one.0, &third.0) && Arc::ptr_eq(&one.1, &third.1));
        assert!(!Arc::ptr_eq(&one.0, &one.1));
        assert_eq!(usage.numbers().packed, 4 * 64);
    }

    #[test]
    fn rows_and_zeros_are_there_once() {
        let packings = Arc::new(Packings::default());
        let usage = Arc::new(Usage::default());
        // Whoever asks: in a step, or before it is known which implementation is chosen.
        let one = within(&packings, &usage, None, || row(&[1.0, 2.0]));
        let (two, counted) =
            within(&packings, &usage, None, || during(step(1), || [row(&[1.0, 2.0]), row(&[1.0, -2.0]), zeros(100)]));
        assert!(Arc::ptr_eq(&one, &two[0]) && !Arc::ptr_eq(&one, &two[1]));
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&two[1]), [1.0, -2.0]);
        let (three, _) = within(&packings, &usage, None, || during(step(2), || [zeros(128), zeros(129), zeros(0)]));
        assert!(Arc::ptr_eq(&two[2], &three[0]) && !Arc::ptr_eq(&two[2], &three[1]));
        assert_eq!(three.each_ref().map(|zeros| zeros.len()), [128, 256, 0]);
        assert_eq!((counted, usage.numbers().packed), (0, 8 + 8 + 128 + 256));
        // Outside of a graph nobody has them together.
        assert!(!Arc::ptr_eq(&row(&[1.0, 2.0]), &one));
        drop((one, two, three));
        assert_eq!(usage.numbers().packed, 0);
    }

    #[test]
    fn what_was_given_up_meanwhile_is_not_kept() {
        let (packings, usage, cancel) = (Arc::new(Packings::default()), Arc::new(Usage::default()), Cancel::default());
        let pack = |with: u8| {
            let fill = |bytes: &mut Bytes| {
                bytes.fill(with);
                if with == 1 {
                    cancel.cancel();
                }
            };
            within(&packings, &usage, None, || during(step(1), || packed(&[1], 64, fill))).0
        };
        let panic = catch_unwind(AssertUnwindSafe(|| cancel.during(|| pack(1)))).unwrap_err();
        assert_eq!((from_panic(&*panic).kind(), usage.numbers().packed), (Kind::InvalidState, 0));
        assert_eq!(pack(2)[0], 2);
    }

    #[test]
    fn only_large_packings_are_stored_and_known_by_all_that_they_depend_on() {
        let caches = Caches::of_this_machine();
        let key = |step, number, layout: &[usize], length| Key::Packing { step, number, layout: layout.to_vec(), length };
        let first = key(1, 1, &[2, 3], WORTH_STORING).stored(&caches).unwrap();
        assert_eq!(key(1, 1, &[2, 3], WORTH_STORING).stored(&caches), Some(first));
        for other in [
            key(2, 1, &[2, 3], WORTH_STORING),
            key(1, 2, &[2, 3], WORTH_STORING),
            key(1, 1, &[2, 4], WORTH_STORING),
            key(1, 1, &[2, 3], WORTH_STORING + 1),
        ] {
            assert_ne!(other.stored(&caches).unwrap(), first);
        }
        assert_ne!(key(1, 1, &[2, 3], WORTH_STORING).stored(&Caches { second: 1, ..caches }), Some(first));
        assert!(
            [key(1, 1, &[], WORTH_STORING - 1), Key::Row(1), Key::Zeros(1 << 20)].iter().all(|key| key.stored(&caches).is_none())
        );
    }
}
