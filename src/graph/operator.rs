//! What a row of the operator table says, and the macros that write one.
//!
//! A row is written once, in the operator's family file in `graph/ops/`. From it come the method on
//! `MLGraphBuilder.prototype` with its WebIDL conversion, the typed node ([`Operation`]), the check of data types and
//! ranks, `opSupportLimits()`, the typings, and the list that the tests walk. What the specification's method *steps* say
//! beyond its tables is the rule ([`Rule::infer`]), beside the row.

use super::attribute::{Kind, Value};
use super::data_type::DataTypes;
use super::descriptor::MAX_RANK;
use super::ops::Op;
use super::{Descriptor, OperandId, Operands};
use crate::error::{Error, Result};
use smallvec::{SmallVec, smallvec};

/// One row of the operator table.
#[derive(Debug)]
pub struct Operator {
    /// The method of `MLGraphBuilder`.
    pub name: &'static str,
    /// What it computes, in a sentence or two.
    pub doc: &'static str,
    /// The anchor of its section in the specification.
    pub section: &'static str,
    /// The dictionary of its options.
    pub dictionary: &'static str,
    /// Positional arguments, in order, and then the dictionary's own members (without `label`).
    pub arguments: &'static [Member],
    pub options: &'static [Member],
    /// The specification's table of tensor limits.
    pub operands: &'static [TensorLimits],
    pub outputs: &'static [TensorLimits],
    pub returns: Returns,
    /// Makes the typed node from converted values: arguments, then options.
    pub create: fn(&mut dyn Iterator<Item = Value>) -> Result<Op>,
}

/// An argument or an option.
#[derive(Debug)]
pub struct Member {
    /// What it means; empty where the operator's own documentation says it.
    pub doc: &'static str,
    /// In Rust's case; [`Member::name`] gives script's.
    pub field: &'static str,
    pub kind: Kind,
    /// The value of an option that is absent; nothing where absence itself has a meaning.
    pub default: fn() -> Value,
}

impl Member {
    /// The name in script: `outputSizes` for the field `output_sizes`.
    pub fn name(&self) -> String {
        camel_case(self.field)
    }
}

/// Turns Rust's case into script's.
pub fn camel_case(field: &str) -> String {
    let mut name = String::with_capacity(field.len());
    let mut upper = false;
    for c in field.chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                name.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => name.push(c),
        }
    }
    name
}

/// Whether the method returns one operand or a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    One,
    Sequence,
}

/// A row of a table of tensor limits: which data types and ranks an operand may have. Operands are named as script
/// names them, fields as Rust does.
#[derive(Debug)]
pub struct TensorLimits {
    pub name: &'static str,
    pub types: Types,
    pub ranks: Ranks,
}

#[derive(Clone, Copy, Debug)]
pub enum Types {
    Of(DataTypes),
    /// That of another operand of the same table.
    SameAs(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub enum Ranks {
    Between(usize, usize),
    /// That of another operand of the same table.
    SameRankAs(&'static str),
}

/// Any rank.
pub const N: Ranks = Ranks::Between(0, MAX_RANK);

/// Exactly this rank.
pub const fn rank(rank: usize) -> Ranks {
    Ranks::Between(rank, rank)
}

/// This rank or a higher one.
pub const fn at_least(rank: usize) -> Ranks {
    Ranks::Between(rank, MAX_RANK)
}

/// The descriptors of a node's outputs.
pub type Outputs = SmallVec<[Descriptor; 1]>;

/// The outputs of an operator that returns one operand.
pub fn one(output: Descriptor) -> Result<Outputs> {
    Ok(smallvec![output])
}

/// What the method steps of the specification say beyond its tables of types and ranks.
pub trait Rule {
    /// The descriptors of the outputs, or what is wrong. Data types and ranks have been checked by the row; the
    /// dimensions of the outputs are checked afterwards.
    fn infer(&self, operands: &Operands<'_>) -> Result<Outputs>;
}

/// A typed node. Implemented by the macros below, for every operator alike.
pub trait Operation: Rule {
    /// The rows whose methods make this node.
    const ROWS: &'static [Operator];

    /// The row that made this one.
    fn row(&self) -> &'static Operator;

    /// Visits the operands in the order of arguments, then options, each with its field's name.
    fn visit(&self, visit: &mut dyn FnMut(&'static str, OperandId));

    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut OperandId));

    /// The values that the row makes this node from: arguments, then options.
    fn values(&self) -> Vec<Value>;
}

/// Checks data types and ranks of a node's operands by its row (*allowed data types*, *allowed ranks*).
pub fn check_limits(row: &'static Operator, op: &Op, operands: &Operands<'_>) -> Result<()> {
    let mut found: SmallVec<[(&'static str, OperandId); 8]> = SmallVec::new();
    op.visit(&mut |field, id| found.push((field, id)));
    for &(field, id) in &found {
        let limits = row.operands.iter().find(|l| l.name == field).expect("every operand of a row has limits");
        let descriptor = operands.descriptor(id);
        let other = |name| {
            let (_, id) = found.iter().find(|(field, _)| *field == name).expect("limits refer to a required operand");
            operands.descriptor(*id)
        };
        let fits = match limits.types {
            Types::Of(types) => types.contains(descriptor.data_type),
            Types::SameAs(name) => other(name).data_type == descriptor.data_type,
        };
        if !fits {
            let allowed = match limits.types {
                Types::Of(types) => types.to_string(),
                Types::SameAs(name) => format!("the data type of {} ({})", camel_case(name), other(name).data_type),
            };
            return Err(Error::argument(&camel_case(field), format!("data type {}", descriptor.data_type), allowed));
        }
        let rank = descriptor.rank();
        let fits = match limits.ranks {
            Ranks::Between(min, max) => (min..=max).contains(&rank),
            Ranks::SameRankAs(name) => other(name).rank() == rank,
        };
        if !fits {
            let allowed = match limits.ranks {
                Ranks::Between(min, max) if min == max => format!("rank {min}"),
                Ranks::Between(min, max) => format!("ranks {min} to {max}"),
                Ranks::SameRankAs(name) => format!("the rank of {} ({})", camel_case(name), other(name).rank()),
            };
            return Err(Error::argument(&camel_case(field), format!("rank {rank}"), allowed));
        }
    }
    Ok(())
}

/// Declares a typed node and its rows.
///
/// ```text
/// operators! {
///     /// What one of these computes.
///     pub struct Conv2d: "MLConv2dOptions" in "api-mlgraphbuilder-conv2d" {
///         input: OperandId,                       // positional arguments
///         filter: OperandId,
///     } options {
///         groups: u32 = 1,                        // a default …
///         bias: Option<OperandId> = None,         // … or none
///     }
///     // the table of tensor limits, then the methods that share it
///     [("input", Of(FLOAT), rank(4)), …] -> One [("output", SameAs("input"), rank(4))] {
///         /// The method's documentation.
///         "conv2d",
///     }
/// }
/// ```
///
/// A family writes `pub struct Binary(BinaryKind)` and gives each method the kind's variant: `"add" Add,`. Several tables
/// may follow each other. The kind is then the node's field `kind`. A method that has a section of its own says so:
/// `"gelu" Gelu in "api-mlgraphbuilder-gelu-method",`.
macro_rules! operators {
    (
        $(#[$meta:meta])*
        pub struct $Node:ident ( $Kind:ident ) : $dictionary:literal in $section:literal $arguments:tt options $options:tt
        $(
            $operands:tt -> $Returns:ident $outputs:tt
            { $( $(#[doc = $doc:literal])+ $name:literal $Variant:ident $(in $own_section:literal)? ),+ $(,)? }
        )+
    ) => {
        #[doc = concat!("Which operator a [`", stringify!($Node), "`] is.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $Kind { $( $( $(#[doc = $doc])+ $Variant, )+ )+ }

        operators!(@node [$(#[$meta])*] $Node [kind: $Kind] $arguments $options);

        impl $crate::graph::operator::Operation for $Node {
            const ROWS: &'static [$crate::graph::operator::Operator] = &[ $( $(
                operators!(@row $Node [$Kind::$Variant] $dictionary, (operators!(@section [$($own_section)?] $section)), $operands, $Returns, $outputs, $name, concat!($($doc, "\n"),+)),
            )+ )+ ];

            fn row(&self) -> &'static $crate::graph::operator::Operator {
                &Self::ROWS[self.kind as usize]
            }

            operators!(@visit $arguments $options);
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $Node:ident : $dictionary:literal in $section:literal $arguments:tt options $options:tt
        $operands:tt -> $Returns:ident $outputs:tt
        { $(#[doc = $doc:literal])+ $name:literal $(,)? }
    ) => {
        operators!(@node [$(#[$meta])*] $Node [] $arguments $options);

        impl $crate::graph::operator::Operation for $Node {
            const ROWS: &'static [$crate::graph::operator::Operator] = &[
                operators!(@row $Node [] $dictionary, $section, $operands, $Returns, $outputs, $name, concat!($($doc, "\n"),+)),
            ];

            fn row(&self) -> &'static $crate::graph::operator::Operator {
                &Self::ROWS[0]
            }

            operators!(@visit $arguments $options);
        }
    };
    (@section [] $section:literal) => { $section };
    (@section [$own_section:literal] $section:literal) => { $own_section };
    // The struct, the members of its rows, and its making from values.
    (
        @node [$(#[$meta:meta])*] $Node:ident [$($kind:ident : $Kind:ident)?]
        { $( $(#[doc = $argument_doc:literal])* $argument:ident : $Argument:ty ),* $(,)? }
        { $( $(#[doc = $option_doc:literal])* $option:ident : $Option:ty = $default:expr ),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Node {
            $( pub $kind: $Kind, )?
            $( $(#[doc = $argument_doc])* pub $argument: $Argument, )*
            $( $(#[doc = $option_doc])* pub $option: $Option, )*
        }

        impl $Node {
            const ARGUMENTS: &'static [$crate::graph::operator::Member] = &[ $( $crate::graph::operator::Member {
                doc: concat!($($argument_doc, "\n"),*),
                field: stringify!($argument),
                kind: <$Argument as $crate::graph::attribute::Attribute>::KIND,
                default: || $crate::graph::attribute::Value::Absent,
            } ),* ];

            const OPTIONS: &'static [$crate::graph::operator::Member] = &[ $( $crate::graph::operator::Member {
                doc: concat!($($option_doc, "\n"),*),
                field: stringify!($option),
                kind: <$Option as $crate::graph::attribute::Attribute>::KIND,
                default: || { let value: $Option = $default; $crate::graph::attribute::Attribute::into_value(value) },
            } ),* ];

            fn from_values(
                $( $kind: $Kind, )?
                values: &mut dyn Iterator<Item = $crate::graph::attribute::Value>,
            ) -> $crate::error::Result<Self> {
                Ok($Node {
                    $( $kind, )?
                    $( $argument: $crate::graph::attribute::required(stringify!($argument), values)?, )*
                    $( $option: $crate::graph::attribute::optional(stringify!($option), values, || $default)?, )*
                })
            }
        }
    };
    (
        @row $Node:ident [$($variant:path)?] $dictionary:literal, $section:expr,
        [ $( ($operand:literal, $types:expr, $ranks:expr) ),* $(,)? ], $Returns:ident,
        [ $( ($output:literal, $output_types:expr, $output_ranks:expr) ),* $(,)? ], $name:literal, $doc:expr
    ) => {
        $crate::graph::operator::Operator {
            name: $name,
            doc: $doc,
            section: $section,
            dictionary: $dictionary,
            arguments: $Node::ARGUMENTS,
            options: $Node::OPTIONS,
            operands: &[ $( $crate::graph::operator::TensorLimits { name: $operand, types: $types, ranks: $ranks } ),* ],
            outputs: &[ $( $crate::graph::operator::TensorLimits { name: $output, types: $output_types, ranks: $output_ranks } ),* ],
            returns: $crate::graph::operator::Returns::$Returns,
            create: |values| Ok($Node::from_values($($variant,)? values)?.into()),
        }
    };
    (
        @visit { $( $(#[doc = $argument_doc:literal])* $argument:ident : $Argument:ty ),* $(,)? }
        { $( $(#[doc = $option_doc:literal])* $option:ident : $Option:ty = $default:expr ),* $(,)? }
    ) => {
        fn visit(&self, visit: &mut dyn FnMut(&'static str, $crate::graph::OperandId)) {
            $( $crate::graph::attribute::Attribute::visit(&self.$argument, &mut |id| visit(stringify!($argument), id)); )*
            $( $crate::graph::attribute::Attribute::visit(&self.$option, &mut |id| visit(stringify!($option), id)); )*
        }

        fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut $crate::graph::OperandId)) {
            $( $crate::graph::attribute::Attribute::visit_mut(&mut self.$argument, visit); )*
            $( $crate::graph::attribute::Attribute::visit_mut(&mut self.$option, visit); )*
        }

        fn values(&self) -> Vec<$crate::graph::attribute::Value> {
            vec![
                $( $crate::graph::attribute::Attribute::into_value(Clone::clone(&self.$argument)), )*
                $( $crate::graph::attribute::Attribute::into_value(Clone::clone(&self.$option)), )*
            ]
        }
    };
}
pub(crate) use operators;
