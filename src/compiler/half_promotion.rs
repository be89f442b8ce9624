//! Computes float16 in float32, for backends whose kernels are made for that.
//!
//! What an operator makes is rounded to float16 at once, by a cast there and one back, so that every value, overflow and
//! NaN included, is the one that the float16 operator gives: those compute in float32 or better and round once, too. The
//! pair of casts joins the operator before it ([`fuse`](super::fuse)). What only moves or compares values follows the form
//! in which they are there, and everything else gets them as float16.
//!
//! Graphs of ONNX models are not rounded there ([`Graph::rounds_late`]), but only where a value is needed as float16.

use super::capabilities::Capabilities;
use super::compilation::Compilation;
use super::fold::results_of;
use crate::error::Result;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind, Cast, GateKind, UnaryKind};
use crate::graph::ops::pool::Pool2dKind;
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::ops::resample::InterpolationMode;
use crate::graph::{DataType, Descriptor, Graph, Node, Number, Op, OperandId};
use DataType::{Float16, Float32};

/// # Errors
/// Those of converting constants: memory; and when nobody wants the graph any more.
pub fn promote(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let is_computed = |node: &Node| {
        let is_half = graph.descriptor(node.outputs[0]).data_type == Float16;
        is_half && matches!(role(&node.op), Role::Computes | Role::IsExact)
    };
    if !graph.nodes.iter().any(is_computed) {
        return Ok(());
    }
    let nodes = std::mem::take(&mut graph.nodes);
    let forms = (0..graph.operands.len() as u32).map(|id| Forms { own: Some(OperandId(id)), wide: None }).collect();
    let mut rewrite = Rewrite { graph, capabilities: compilation.capabilities, forms };
    for node in compilation.each(nodes) {
        rewrite.node(node?)?;
    }
    for i in 0..rewrite.graph.outputs.len() {
        let id = rewrite.graph.outputs[i].1;
        rewrite.graph.outputs[i].1 = rewrite.own(id);
    }
    Ok(())
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
struct Forms {
    /// With the data type that the graph says.
    own: Option<OperandId>,
    /// As float32, of a float16 value.
    wide: Option<OperandId>,
}

struct Rewrite<'a> {
    graph: &'a mut Graph,
    capabilities: &'a dyn Capabilities,
    /// By operand of the graph as it was.
    forms: Vec<Forms>,
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
        let wide = self.forms(id).wide.expect("a value has a form");
        let own = self.cast(wide, Float16);
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

    fn node(&mut self, mut node: Node) -> Result<()> {
        let mut is_half = node.outputs.iter().any(|&id| self.is_half(id));
        // Whether an operand is there as float32 and in no other form.
        let mut any_wide = false;
        node.op.visit(&mut |_, id| {
            is_half |= self.is_half(id);
            any_wide |= self.forms[id.0 as usize].own.is_none();
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
                Float16 => Forms { own: None, wide: Some(wide) },
                _ => Forms { own: Some(wide), wide: None },
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
            *self.forms(id) = Forms { own: None, wide: Some(wide) };
        }
        Ok(())
    }
}
