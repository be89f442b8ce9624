//! The operator tables. One file per family: its rows ([`Operator`]) and rules.
//!
//! There are two tables: the operators of the specification, which are methods of `MLGraphBuilder`, and those that no
//! composition of these computes exactly or in reasonable time, which only the importer and the compiler put into graphs.
//!
//! An operator is a row and a rule in its family's file. A new node is a line in the list below, too, and a new family a file here. What
//! else asks for it is in docs/adding-an-operator.md.

use super::attribute::Value;
use super::operator::{Operation, Operator, Outputs, Rule};
use super::{OperandId, Operands};
use crate::error::Result;
use std::sync::LazyLock;

pub mod accumulate;
pub mod arg;
pub mod bitcast;
pub mod block_quantized;
pub mod check;
pub mod conv;
pub mod coupling;
pub mod cumulative;
pub mod determinant;
pub mod elementwise;
pub mod expert_matmul;
pub mod gather;
pub mod layout;
pub mod linear_attention;
pub mod matmul;
pub mod movement;
pub mod normalization;
pub mod pool;
pub mod quantized;
pub mod quantized_lstm;
pub mod recurrent;
pub mod reduce;
pub mod resample;
pub mod roi;
pub mod scatter;
pub mod softmax;
pub mod top_k;
pub mod tree;

/// Lists the typed nodes: from the lists come the [`Op`] enumeration, the one by family and the tables of rows.
macro_rules! nodes {
    (
        specified { $( $family:ident::$Node:ident, )* }
        internal { $( $internal_family:ident::$Internal:ident, )* }
    ) => {
        nodes!(@op $( $family::$Node, )* $( $internal_family::$Internal, )*);

        nodes!(@by_family [] [] $( $family::$Node, )* $( $internal_family::$Internal, )*);

        static ROWS: LazyLock<Vec<&'static Operator>> = LazyLock::new(|| table(&[ $( $family::$Node::ROWS, )* ]));

        static INTERNAL: LazyLock<Vec<&'static Operator>> =
            LazyLock::new(|| table(&[ $( $internal_family::$Internal::ROWS, )* ]));
    };
    (@op $( $family:ident::$Node:ident, )*) => {
        /// A typed node of any operator.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op { $( $Node($family::$Node), )* }

        $( impl From<$family::$Node> for Op {
            fn from(node: $family::$Node) -> Op {
                Op::$Node(node)
            }
        } )*

        impl Op {
            /// The row whose method made this node.
            pub fn row(&self) -> &'static Operator {
                match self { $( Op::$Node(node) => node.row(), )* }
            }

            /// The same node, with element-wise operators in an enumeration of their own.
            pub fn by_family(&self) -> ByFamily<'_> {
                match self { $( Op::$Node(node) => nodes!(@node $family $Node node), )* }
            }

            /// The node, if every element of the output depends on one element of each operand.
            pub fn elementwise(&self) -> Option<Elementwise<'_>> {
                match self.by_family() {
                    ByFamily::Elementwise(op) => Some(op),
                    _ => None,
                }
            }

            /// The rule: descriptors of the outputs, or what is wrong.
            pub fn infer(&self, operands: &Operands<'_>) -> Result<Outputs> {
                match self { $( Op::$Node(node) => node.infer(operands), )* }
            }

            /// Visits the operands in the order of arguments, then options.
            pub fn visit(&self, visit: &mut dyn FnMut(&'static str, OperandId)) {
                match self { $( Op::$Node(node) => node.visit(visit), )* }
            }

            pub fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut OperandId)) {
                match self { $( Op::$Node(node) => node.visit_mut(visit), )* }
            }

            /// The values that the row makes this node from: arguments, then options.
            pub fn values(&self) -> Vec<Value> {
                match self { $( Op::$Node(node) => node.values(), )* }
            }
        }
    };
    // The family `elementwise` apart from the others.
    (@by_family [ $( $Elementwise:ident )* ] [ $( $family:ident::$Other:ident, )* ]) => {
        /// An element-wise operator. What has to be said of each of them is a `match` on this, without `_`.
        #[derive(Clone, Copy, Debug)]
        pub enum Elementwise<'a> { $( $Elementwise(&'a elementwise::$Elementwise), )* }

        impl Elementwise<'_> {
            /// See [`Op::row`].
            pub fn row(self) -> &'static Operator {
                match self { $( Elementwise::$Elementwise(node) => node.row(), )* }
            }

            /// See [`Op::visit`].
            pub fn visit(self, visit: &mut dyn FnMut(&'static str, OperandId)) {
                match self { $( Elementwise::$Elementwise(node) => node.visit(visit), )* }
            }
        }

        static ELEMENTWISE: LazyLock<Vec<&'static Operator>> = LazyLock::new(|| table(&[ $( elementwise::$Elementwise::ROWS, )* ]));

        /// A node of any operator, element-wise ones together: for what has to be said of every operator, but is the same for all of these.
        #[derive(Clone, Copy, Debug)]
        pub enum ByFamily<'a> {
            Elementwise(Elementwise<'a>),
            $( $Other(&'a $family::$Other), )*
        }
    };
    (@by_family [ $( $Elementwise:ident )* ] $others:tt elementwise::$Node:ident, $( $rest:tt )*) => {
        nodes!(@by_family [ $( $Elementwise )* $Node ] $others $( $rest )*);
    };
    (@by_family $elementwise:tt [ $( $others:tt )* ] $family:ident::$Node:ident, $( $rest:tt )*) => {
        nodes!(@by_family $elementwise [ $( $others )* $family::$Node, ] $( $rest )*);
    };
    (@node elementwise $Node:ident $node:ident) => { ByFamily::Elementwise(Elementwise::$Node($node)) };
    (@node $family:ident $Node:ident $node:ident) => { ByFamily::$Node($node) };
}

nodes! {
    specified {
        arg::Arg,
        conv::Conv2d,
        conv::ConvTranspose2d,
        cumulative::CumulativeSum,
        elementwise::Activation,
        elementwise::Binary,
        elementwise::Cast,
        elementwise::Clamp,
        elementwise::DequantizeLinear,
        elementwise::Elu,
        elementwise::HardSigmoid,
        elementwise::LeakyRelu,
        elementwise::Linear,
        elementwise::Logical,
        elementwise::Predicate,
        elementwise::Prelu,
        elementwise::QuantizeLinear,
        elementwise::Unary,
        elementwise::Where,
        gather::Gather,
        gather::GatherElements,
        gather::GatherNd,
        matmul::Gemm,
        matmul::Matmul,
        movement::Concat,
        movement::Expand,
        movement::Pad,
        movement::Reshape,
        movement::Reverse,
        movement::Slice,
        movement::Split,
        movement::Tile,
        movement::Transpose,
        movement::Triangular,
        normalization::BatchNormalization,
        normalization::InstanceNormalization,
        normalization::LayerNormalization,
        pool::Pool2d,
        recurrent::Gru,
        recurrent::GruCell,
        recurrent::Lstm,
        recurrent::LstmCell,
        reduce::Reduce,
        resample::Resample2d,
        scatter::ScatterElements,
        scatter::ScatterNd,
        softmax::Softmax,
    }
    internal {
        accumulate::AccumulateElements,
        accumulate::AccumulateNd,
        bitcast::Bitcast,
        block_quantized::BlockQuantizedMatmul,
        check::CheckIndices,
        coupling::PairwiseCoupling,
        cumulative::CumulativeProduct,
        determinant::Determinant,
        determinant::Inverse,
        elementwise::Gate,
        elementwise::Remainder,
        elementwise::ReplaceNan,
        elementwise::Swish,
        expert_matmul::ExpertMatmul,
        linear_attention::LinearAttention,
        matmul::IntegerMatmul,
        normalization::RmsNormalization,
        pool::NormPool2d,
        quantized::DynamicQuantizeLinear,
        quantized::QuantizeAlong,
        quantized::QuantizedMatmul,
        quantized_lstm::QuantizedLstm,
        roi::RoiMaxPool,
        top_k::TopK,
        tree::TreeEnsemble,
    }
}

fn table(families: &[&'static [Operator]]) -> Vec<&'static Operator> {
    families.iter().copied().flatten().collect()
}

/// The rows of the specification's operators. A row's position is the number that `lib/` uses for it.
pub fn operators() -> &'static [&'static Operator] {
    &ROWS
}

/// The rows of the operators that only the importer and the compiler use: script does not see them.
pub fn internal_operators() -> &'static [&'static Operator] {
    &INTERNAL
}

/// The rows of element-wise operators, of both tables.
pub fn elementwise_operators() -> &'static [&'static Operator] {
    &ELEMENTWISE
}

/// The row of that name, in either table.
pub fn operator(name: &str) -> Option<&'static Operator> {
    operators().iter().chain(internal_operators()).copied().find(|row| row.name == name)
}
