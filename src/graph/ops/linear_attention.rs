//! Attention whose memory is a matrix of a fixed size, which each token changes.

use crate::error::{Error, Result};
use crate::graph::data_type::{DataType, DataTypes};
use crate::graph::descriptor::Dimensions;
use crate::graph::operator::Types::{Of, SameAs};
use crate::graph::operator::{Outputs, Rule, operators, rank};
use crate::graph::shape::{check_dimension, check_shape};
use crate::graph::{Descriptor, OperandId, Operands};
use smallvec::smallvec;

operators! {
    /// A linear recurrence over tokens.
    pub struct LinearAttention: "MLOperatorOptions" in "" {
        /// `[batch, tokens, queryHeads * keySize]`.
        query: OperandId,
        /// `[batch, tokens, keyHeads * keySize]`.
        key: OperandId,
        /// `[batch, tokens, heads * valueSize]`.
        value: OperandId,
        /// `[batch, heads, keySize, valueSize]`.
        state: OperandId,
        /// What the results are multiplied by.
        scale: f64,
    } options {
        /// The logarithm of what a token leaves of the state, for each head, or for each row of it.
        decay: Option<OperandId> = None,
        /// How much of the difference to what the state has for a key is learnt, for each head, or one for all. Without it keys and values
        /// are added to the state whatever it has.
        rate: Option<OperandId> = None,
        /// After how many of the last tokens the states are kept.
        states: u32 = 1,
    }
    [
        ("query", Of(DataTypes::of(&[DataType::Float32])), rank(3)),
        ("key", SameAs("query"), rank(3)),
        ("value", SameAs("query"), rank(3)),
        ("state", SameAs("query"), rank(4)),
        ("decay", SameAs("query"), rank(3)),
        ("rate", SameAs("query"), rank(3)),
    ] -> Sequence [("output0", SameAs("query"), rank(3)), ("output1", SameAs("query"), rank(5))] {
        /// For each token scales the state by `exp(decay)`, adds to it the outer product of the key and of the value, or of
        /// `rate * (value - stateᵀ key)`, and computes `scale * stateᵀ query`. Heads of keys, and of queries or of the state, whichever are
        /// fewer, are shared by as many of the others. The second output are the states after the last tokens; zeros where there is no
        /// such token.
        "linearAttention"
    }
}

/// The sizes of a recurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub batch: usize,
    pub tokens: usize,
    pub query_heads: usize,
    pub key_heads: usize,
    /// Of the state.
    pub heads: usize,
    pub key_size: usize,
    pub value_size: usize,
    /// Numbers of a token's decay for each head, and of all its rates.
    pub decays: usize,
    pub rates: usize,
}

impl Sizes {
    /// Of operands that the rule has accepted.
    pub fn new(op: &LinearAttention, shape: impl Fn(OperandId) -> Vec<usize>) -> Sizes {
        let (query, key, state) = (shape(op.query), shape(op.key), shape(op.state));
        let (heads, key_size) = (state[1], state[2]);
        Sizes {
            batch: query[0],
            tokens: query[1],
            query_heads: query[2] / key_size,
            key_heads: key[2] / key_size,
            heads,
            key_size,
            value_size: state[3],
            decays: op.decay.map_or(0, |decay| shape(decay)[2] / heads),
            rates: op.rate.map_or(0, |rate| shape(rate)[2]),
        }
    }

    /// Heads of the results.
    pub fn output_heads(&self) -> usize {
        self.query_heads.max(self.heads)
    }

    /// The results that a head of the state makes.
    pub fn group(&self) -> usize {
        self.output_heads() / self.heads
    }

    /// The query of a result, by its number.
    pub fn query_head(&self, output: usize) -> usize {
        output / (self.output_heads() / self.query_heads)
    }

    pub fn key_head(&self, head: usize) -> usize {
        head / (self.heads / self.key_heads)
    }
}

impl Rule for LinearAttention {
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
        let shape = |id: OperandId| operands.shape(id);
        let &[batch, heads, key_size, value_size] = shape(self.state) else { unreachable!("the state's rank is 4") };
        let &[_, tokens, queries] = shape(self.query) else { unreachable!("the query's rank is 3") };
        let whole = |argument: &str, found: u32, fits: &dyn Fn(u32) -> bool| match found.is_multiple_of(key_size)
            && fits(found / key_size)
        {
            true => Ok(found / key_size),
            false => {
                let allowed = format!("heads of {key_size} elements, as many as are shared evenly with {heads} of the state");
                Err(Error::argument(
                    argument,
                    format!("shape {}", Dimensions(shape(if argument == "query" { self.query } else { self.key }))),
                    allowed,
                ))
            }
        };
        let query_heads = whole("query", queries, &|found| found % heads == 0 || heads % found == 0)?;
        check_shape("query", shape(self.query), &[batch, tokens, queries])?;
        let keys = shape(self.key)[2];
        whole("key", keys, &|found| heads % found == 0)?;
        check_shape("key", shape(self.key), &[batch, tokens, keys])?;
        let width = |heads: u32, size: u32| check_dimension("state", u64::from(heads) * u64::from(size));
        check_shape("value", shape(self.value), &[batch, tokens, width(heads, value_size)?])?;
        if let Some(decay) = self.decay {
            let all = width(heads, key_size)?;
            let found = shape(decay)[2];
            check_shape("decay", shape(decay), &[batch, tokens, if found == all { all } else { heads }])?;
        }
        if let Some(rate) = self.rate {
            let found = shape(rate)[2];
            check_shape("rate", shape(rate), &[batch, tokens, if found == 1 { 1 } else { heads }])?;
        }
        if self.states == 0 {
            return Err(Error::argument("states", 0, "1 or more"));
        }
        if !self.scale.is_finite() {
            return Err(Error::argument("scale", self.scale, "a finite number"));
        }
        let output = width(query_heads.max(heads), value_size)?;
        Ok(smallvec![
            Descriptor::new(DataType::Float32, [batch, tokens, output]),
            Descriptor::new(DataType::Float32, [self.states, batch, heads, key_size, value_size]),
        ])
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::DataType::Float32;
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;
    use crate::graph::testing;

    #[test]
    fn heads_are_shared_evenly() {
        let check = |shapes: [&[u32]; 6], states: u32, expected: Result<&[&str], &str>| {
            let operands = shapes.map(|shape| (Float32, shape));
            let id = |number| Value::Operand(OperandId(number));
            let values = [id(0), id(1), id(2), id(3), Value::Double(0.5), id(4), id(5), Value::Unsigned(states)];
            testing::check("linearAttention", &operands, &values, expected);
        };
        let (state, value): (&[u32], &[u32]) = (&[2, 4, 3, 5], &[2, 7, 20]);
        let (key, of_heads, of_rows): (&[u32], &[u32], &[u32]) = (&[2, 7, 12], &[2, 7, 4], &[2, 7, 12]);
        let outputs: &[&str] = &["float32[2, 7, 20]", "float32[1, 2, 4, 3, 5]"];
        check([key, key, value, state, of_heads, of_heads], 1, Ok(outputs));
        check([&[2, 7, 6], &[2, 7, 3], value, state, of_rows, &[2, 7, 1]], 1, Ok(outputs));
        check([&[2, 7, 24], key, value, state, of_rows, of_heads], 3, Ok(&["float32[2, 7, 40]", "float32[3, 2, 4, 3, 5]"]));
        check([&[2, 7, 9], key, value, state, of_heads, of_heads], 1, Err("query"));
        check([&[2, 7, 11], key, value, state, of_heads, of_heads], 1, Err("query"));
        check([key, &[2, 7, 24], value, state, of_heads, of_heads], 1, Err("key"));
        check([key, &[2, 6, 12], value, state, of_heads, of_heads], 1, Err("key"));
        check([key, key, &[2, 7, 19], state, of_heads, of_heads], 1, Err("value"));
        check([key, key, value, state, &[2, 7, 5], of_heads], 1, Err("decay"));
        check([key, key, value, state, of_heads, &[2, 7, 2]], 1, Err("rate"));
        check([key, key, value, state, of_heads, of_heads], 0, Err("states"));
    }
}
