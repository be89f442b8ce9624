//! Computes float16 in float32, for backends whose kernels are made for that.
//!
//! What an operator makes is rounded to float16 at once, by a cast there and one back, so that every value, overflow and
//! NaN included, is the one that the float16 operator gives: those compute in float32 or better and round once, too. The
//! pair of casts joins the operator before it ([`fuse`](super::fuse)). What only moves or compares values follows the form
//! in which they are there, and everything else gets them as float16.
//!
//! Graphs of ONNX models are not rounded there ([`Graph::rounds_late`]), but only where a value is needed as float16.
//!
//! What is appended to a cache, an input, stays float16 ([`caches`]): new rows are read as they are kept, and only they are converted.
//! Attention reads the rows where they are, so their conversion to float32 moves behind reshapes and transpositions to the products.

use super::capabilities::Capabilities;
use super::compilation::Compilation;
use super::fold::results_of;
use crate::error::Result;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind, Cast, GateKind, UnaryKind};
use crate::graph::ops::movement::{Expand, Reshape, Transpose};
use crate::graph::ops::pool::Pool2dKind;
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::ops::resample::InterpolationMode;
use crate::graph::{DataType, Descriptor, Graph, Node, Number, Op, OperandId, Source};
use DataType::{Float16, Float32};
use std::collections::HashSet;

/// # Errors
/// Those of converting constants: memory; and when nobody wants the graph any more.
pub fn promote(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let is_computed = |node: &Node| {
        let is_half = graph.descriptor(node.outputs[0]).data_type == Float16;
        is_half && matches!(role(&node.op), Role::Computes | Role::IsExact)
    };
    let caches = caches(graph);
    if caches.is_empty() && !graph.nodes.iter().any(is_computed) {
        return Ok(());
    }
    let nodes = std::mem::take(&mut graph.nodes);
    let forms = (0..graph.operands.len() as u32).map(|id| Forms { own: Some(OperandId(id)), ..Forms::default() }).collect();
    let mut rewrite = Rewrite { graph, capabilities: compilation.capabilities, forms, caches };
    for node in compilation.each(nodes) {
        rewrite.node(node?)?;
    }
    for i in 0..rewrite.graph.outputs.len() {
        let id = rewrite.graph.outputs[i].1;
        rewrite.graph.outputs[i].1 = rewrite.own(id);
    }
    Ok(())
}

/// The results that are float16 inputs with new rows after them.
fn caches(graph: &Graph) -> HashSet<OperandId> {
    let outputs = graph.outputs.iter().map(|&(_, id)| id);
    let is_cache = |id: &OperandId| {
        let Some((_, Node { op: Op::Concat(op), .. })) = graph.maker(*id) else { return false };
        let past = &graph.operands[op.inputs[0].0 as usize];
        past.descriptor.data_type == Float16 && matches!(past.source, Source::Input { .. })
    };
    outputs.filter(is_cache).collect()
}

/// What becomes of an operator.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// It is computed in float32, and its results are rounded.
    Computes,
    /// The same, but of float16 values it makes nothing else.
    IsExact,
    /// It moves or compares values, in whatever form they are there.
    Follows,
    /// It stays as it is where values are rounded at once. Where they are rounded late ([`Graph::rounds_late`]) it is computed in float32, or
    /// it would lose what its operand has beyond float16.
    StaysIfRounded,
    /// It stays as it is.
    Stays,
}

/// Whether an operator of float16 values rounds what it computes.
#[cfg(test)]
pub fn rounds(op: &Op) -> bool {
    !matches!(role(op), Role::IsExact | Role::Follows)
}

#[expect(clippy::too_many_lines, reason = "a table: an arm for each operator")]
fn role(op: &Op) -> Role {
    use Role::*;
    match op {
        Op::Activation(op) => match op.kind {
            ActivationKind::Relu => IsExact,
            ActivationKind::Gelu | ActivationKind::HardSwish | ActivationKind::Sigmoid | ActivationKind::Tanh => Computes,
            ActivationKind::Softplus | ActivationKind::Softsign => StaysIfRounded,
        },
        Op::Binary(op) => match op.kind {
            BinaryKind::Max | BinaryKind::Min => IsExact,
            BinaryKind::Add | BinaryKind::Sub | BinaryKind::Mul | BinaryKind::Div | BinaryKind::Pow => Computes,
        },
        Op::Gate(op) => match op.kind {
            GateKind::Mish | GateKind::TanhGelu => Computes,
        },
        Op::Unary(op) => match op.kind {
            UnaryKind::Identity => Follows,
            UnaryKind::Abs | UnaryKind::Neg | UnaryKind::Sign => IsExact,
            UnaryKind::Ceil | UnaryKind::Floor | UnaryKind::RoundEven => IsExact,
            UnaryKind::Erf | UnaryKind::Exp | UnaryKind::Reciprocal | UnaryKind::Sqrt => Computes,
            UnaryKind::Cos | UnaryKind::Log | UnaryKind::Sin | UnaryKind::Tan => StaysIfRounded,
        },
        Op::Clamp(_) | Op::ReplaceNan(_) => IsExact,
        Op::Pool2d(op) => match op.kind {
            Pool2dKind::Max => IsExact,
            Pool2dKind::Average | Pool2dKind::L2 => Computes,
        },
        Op::Reduce(op) => match op.kind {
            ReduceKind::Max | ReduceKind::Min => IsExact,
            ReduceKind::L1
            | ReduceKind::L2
            | ReduceKind::LogSum
            | ReduceKind::LogSumExp
            | ReduceKind::Mean
            | ReduceKind::Product
            | ReduceKind::Sum
            | ReduceKind::SumSquare => Computes,
        },
        Op::Resample2d(op) => match op.mode {
            InterpolationMode::NearestNeighbor => IsExact,
            InterpolationMode::Linear => Computes,
        },
        Op::BatchNormalization(_)
        | Op::BlockQuantizedMatmul(_)
        | Op::Conv2d(_)
        | Op::ConvTranspose2d(_)
        | Op::DequantizeLinear(_)
        | Op::Gemm(_)
        | Op::Gru(_)
        | Op::GruCell(_)
        | Op::HardSigmoid(_)
        | Op::InstanceNormalization(_)
        | Op::LayerNormalization(_)
        | Op::LeakyRelu(_)
        | Op::Linear(_)
        | Op::Lstm(_)
        | Op::LstmCell(_)
        | Op::Matmul(_)
        | Op::NormPool2d(_)
        | Op::Prelu(_)
        | Op::RmsNormalization(_)
        | Op::Softmax(_)
        | Op::Swish(_) => Computes,
        Op::Arg(_)
        | Op::Cast(_)
        | Op::Concat(_)
        | Op::Expand(_)
        | Op::Gather(_)
        | Op::GatherElements(_)
        | Op::GatherNd(_)
        | Op::Logical(_)
        | Op::Pad(_)
        | Op::Predicate(_)
        | Op::QuantizeLinear(_)
        | Op::Reshape(_)
        | Op::Reverse(_)
        | Op::ScatterElements(_)
        | Op::ScatterNd(_)
        | Op::Slice(_)
        | Op::Split(_)
        | Op::Tile(_)
        | Op::TopK(_)
        | Op::Transpose(_)
        | Op::Triangular(_)
        | Op::Where(_) => Follows,
        Op::CumulativeProduct(_) | Op::CumulativeSum(_) | Op::Elu(_) => StaysIfRounded,
        Op::AccumulateElements(_)
        | Op::AccumulateNd(_)
        | Op::Bitcast(_)
        | Op::CheckIndices(_)
        | Op::Determinant(_)
        | Op::DynamicQuantizeLinear(_)
        | Op::QuantizeAlong(_)
        | Op::IntegerMatmul(_)
        | Op::ExpertMatmul(_)
        | Op::Inverse(_)
        | Op::LinearAttention(_)
        | Op::PairwiseCoupling(_)
        | Op::QuantizedLstm(_)
        | Op::QuantizedMatmul(_)
        | Op::Remainder(_)
        | Op::RoiMaxPool(_)
        | Op::TreeEnsemble(_) => Stays,
    }
}

/// Operands that an operator takes in either form, whatever the form of the others.
fn kept(op: &Op) -> [Option<OperandId>; 2] {
    match op {
        // Its weights would grow with them.
        Op::BlockQuantizedMatmul(op) => [Some(op.scales), op.zero_points],
        _ => [None; 2],
    }
}

/// Casts numbers among the options to float16, as the operator does itself where its operands are float16.
fn round_options(op: &mut Op) {
    let round = |x: f64| f64::from(Number::Double(x).to_f16());
    let number = |number: Number| Number::Double(f64::from(number.to_f16()));
    match op {
        Op::LeakyRelu(op) => op.alpha = round(op.alpha),
        Op::HardSigmoid(op) => (op.alpha, op.beta) = (round(op.alpha), round(op.beta)),
        Op::Linear(op) => (op.alpha, op.beta) = (round(op.alpha), round(op.beta)),
        Op::Gemm(op) => (op.alpha, op.beta) = (round(op.alpha), round(op.beta)),
        Op::Swish(op) => op.alpha = round(op.alpha),
        Op::ReplaceNan(op) => op.number = round(op.number),
        Op::Clamp(op) => (op.min_value, op.max_value) = (op.min_value.map(number), op.max_value.map(number)),
        Op::Pad(op) => op.value = number(op.value),
        // Rounded, an epsilon under 6e-8 would be 0, and what has no variance NaN.
        Op::BatchNormalization(_) | Op::InstanceNormalization(_) | Op::LayerNormalization(_) | Op::RmsNormalization(_) => {}
        // They stay as they are.
        Op::AccumulateElements(_) | Op::AccumulateNd(_) | Op::Bitcast(_) | Op::Elu(_) | Op::Remainder(_) | Op::TopK(_) => {}
        // They have no operands of float16.
        Op::CheckIndices(_)
        | Op::Determinant(_)
        | Op::ExpertMatmul(_)
        | Op::Inverse(_)
        | Op::LinearAttention(_)
        | Op::PairwiseCoupling(_)
        | Op::RoiMaxPool(_)
        | Op::TreeEnsemble(_) => {}
        // They have no numbers that are of their operands' type.
        Op::Activation(_)
        | Op::Arg(_)
        | Op::Binary(_)
        | Op::BlockQuantizedMatmul(_)
        | Op::Cast(_)
        | Op::Concat(_)
        | Op::Conv2d(_)
        | Op::ConvTranspose2d(_)
        | Op::CumulativeProduct(_)
        | Op::CumulativeSum(_)
        | Op::DequantizeLinear(_)
        | Op::DynamicQuantizeLinear(_)
        | Op::QuantizeAlong(_)
        | Op::Expand(_)
        | Op::Gate(_)
        | Op::Gather(_)
        | Op::GatherElements(_)
        | Op::GatherNd(_)
        | Op::Gru(_)
        | Op::GruCell(_)
        | Op::IntegerMatmul(_)
        | Op::Logical(_)
        | Op::Lstm(_)
        | Op::LstmCell(_)
        | Op::Matmul(_)
        | Op::NormPool2d(_)
        | Op::Pool2d(_)
        | Op::Predicate(_)
        | Op::Prelu(_)
        | Op::QuantizedLstm(_)
        | Op::QuantizedMatmul(_)
        | Op::QuantizeLinear(_)
        | Op::Reduce(_)
        | Op::Resample2d(_)
        | Op::Reshape(_)
        | Op::Reverse(_)
        | Op::ScatterElements(_)
        | Op::ScatterNd(_)
        | Op::Slice(_)
        | Op::Softmax(_)
        | Op::Split(_)
        | Op::Tile(_)
        | Op::Transpose(_)
        | Op::Triangular(_)
        | Op::Unary(_)
        | Op::Where(_) => {}
    }
}

/// The forms in which a value is there: at least one.
#[derive(Default)]
struct Forms {
    /// With the data type that the graph says.
    own: Option<OperandId>,
    /// As float32, of a float16 value.
    wide: Option<OperandId>,
    /// As float16, of a cache that is moved and converted to float32.
    narrow: Option<OperandId>,
}

struct Rewrite<'a> {
    graph: &'a mut Graph,
    capabilities: &'a dyn Capabilities,
    /// By operand of the graph as it was.
    forms: Vec<Forms>,
    /// Caches with their new rows, and what is made of these by moving elements alone.
    caches: HashSet<OperandId>,
}

impl Rewrite<'_> {
    fn forms(&mut self, id: OperandId) -> &mut Forms {
        &mut self.forms[id.0 as usize]
    }

    fn is_half(&self, id: OperandId) -> bool {
        self.graph.descriptor(id).data_type == Float16
    }

    /// The value with the data type that the graph says.
    fn own(&mut self, id: OperandId) -> OperandId {
        if let Some(own) = self.forms(id).own {
            return own;
        }
        let own = match *self.forms(id) {
            Forms { wide: Some(wide), .. } => self.cast(wide, Float16),
            Forms { narrow, .. } => self.cast(narrow.expect("a value has a form"), Float32),
        };
        self.forms(id).own = Some(own);
        own
    }

    /// A float16 value as float32; any other as it is.
    fn wide(&mut self, id: OperandId) -> Result<OperandId> {
        if !self.is_half(id) {
            return Ok(self.own(id));
        }
        if let Some(wide) = self.forms(id).wide {
            return Ok(wide);
        }
        let own = self.own(id);
        let wide = match self.graph.bytes(own) {
            Some(bytes) => {
                let descriptor = self.with_type(own, Float32);
                let cast = Cast { input: OperandId(0), data_type: Float32 }.into();
                let of = [(self.graph.descriptor(own), bytes)];
                let mut results = results_of(&self.graph.shared, self.capabilities, cast, &of, &[&descriptor])?;
                self.graph.constant(descriptor, results.remove(0))
            }
            None => self.cast(own, Float32),
        };
        self.forms(id).wide = Some(wide);
        Ok(wide)
    }

    /// The descriptor of an operand with another data type.
    fn with_type(&self, id: OperandId, data_type: DataType) -> Descriptor {
        Descriptor { data_type, ..self.graph.descriptor(id).clone() }
    }

    /// Appends a node that converts a value.
    fn cast(&mut self, input: OperandId, data_type: DataType) -> OperandId {
        self.graph.insert(Cast { input, data_type }, self.with_type(input, data_type))
    }

    /// Appends a node that makes a cache, or moves or converts one; gives back any other.
    fn cached(&mut self, mut node: Node) -> Option<Node> {
        let output = node.outputs[0];
        let input = match &node.op {
            Op::Concat(_) if self.caches.contains(&output) => {
                node.op.visit_mut(&mut |id| *id = self.own(*id));
                self.graph.push(node);
                return None;
            }
            Op::Cast(Cast { input, .. })
            | Op::Expand(Expand { input, .. })
            | Op::Reshape(Reshape { input, .. })
            | Op::Transpose(Transpose { input, .. }) => *input,
            _ => return Some(node),
        };
        let (is_cache, narrow) = (self.caches.contains(&input), self.forms(input).narrow);
        let narrow = match (&node.op, narrow) {
            (Op::Cast(op), _) if is_cache && op.data_type == Float32 => input,
            (Op::Cast(_), _) => return Some(node),
            (_, Some(narrow)) => {
                node.op.visit_mut(&mut |id| *id = narrow);
                let op = self.at_once(&node.op).unwrap_or(node.op);
                self.graph.insert(op, self.with_type(output, Float16))
            }
            _ if is_cache => {
                self.caches.insert(output);
                self.graph.push(node);
                return None;
            }
            _ => return Some(node),
        };
        *self.forms(output) = Forms { narrow: Some(narrow), ..Forms::default() };
        None
    }

    /// A transposition of what is transposed already, as one: there was a conversion between them.
    fn at_once(&self, op: &Op) -> Option<Op> {
        let Op::Transpose(second) = op else { return None };
        let (_, Node { op: Op::Transpose(first), .. }) = self.graph.maker(second.input)? else { return None };
        let rank = self.graph.descriptor(first.input).shape.len();
        let permutation = (0..rank).map(|axis| first.source(second.source(axis, rank), rank) as u32);
        Some(Transpose { input: first.input, permutation: Some(permutation.collect()) }.into())
    }

    fn node(&mut self, node: Node) -> Result<()> {
        let Some(mut node) = self.cached(node) else { return Ok(()) };
        let mut is_half = node.outputs.iter().any(|&id| self.is_half(id));
        // Whether an operand is there as float32 and in no other form.
        let mut any_wide = false;
        node.op.visit(&mut |_, id| {
            is_half |= self.is_half(id);
            any_wide |= self.forms[id.0 as usize].wide.is_some() && self.forms[id.0 as usize].own.is_none();
        });
        let role = match role(&node.op) {
            Role::StaysIfRounded if self.graph.rounds_late => Role::Computes,
            role => role,
        };
        let is_wide = match role {
            Role::Computes | Role::IsExact => is_half,
            Role::Follows => any_wide,
            Role::StaysIfRounded | Role::Stays => false,
        };
        if !is_wide {
            node.op.visit_mut(&mut |id| *id = self.own(*id));
            self.graph.push(node);
            return Ok(());
        }
        if let Op::Cast(op) = &node.op
            && matches!(op.data_type, Float16 | Float32)
        {
            // The value is there already.
            let (wide, output) = (self.wide(op.input)?, node.outputs[0]);
            *self.forms(output) = match op.data_type {
                Float16 => Forms { wide: Some(wide), ..Forms::default() },
                _ => Forms { own: Some(wide), ..Forms::default() },
            };
            return Ok(());
        }
        round_options(&mut node.op);
        let mut failed = Ok(());
        let kept = kept(&node.op);
        node.op.visit_mut(&mut |id| match if kept.contains(&Some(*id)) { Ok(self.own(*id)) } else { self.wide(*id) } {
            Ok(wide) => *id = wide,
            Err(error) => failed = Err(error),
        });
        failed?;
        let halves: Vec<(usize, OperandId)> =
            node.outputs.iter().copied().enumerate().filter(|&(_, id)| self.is_half(id)).collect();
        for &(position, id) in &halves {
            node.outputs[position] = self.graph.operand(self.with_type(id, Float32));
        }
        let outputs = node.outputs.clone();
        self.graph.push(node);
        for (position, id) in halves {
            let mut wide = outputs[position];
            if role == Role::Computes && !self.graph.rounds_late {
                let narrow = self.cast(wide, Float16);
                wide = self.cast(narrow, Float32);
            }
            *self.forms(id) = Forms { wide: Some(wide), ..Forms::default() };
        }
        Ok(())
    }
}
