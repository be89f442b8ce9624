//! Draws valid calls of an operator from its row.
//!
//! The row says which operands, arguments and options there are, of which types and ranks. Where shapes and values depend
//! on each other, the operator's family says how, in a file of its own. What a family does not mention is drawn by its kind.

mod contents;
pub mod convolution;
pub mod elementwise;
pub mod indexed;
pub mod matrices;
pub mod movement;
pub mod others;
pub mod recurrent;
pub mod reduction;

pub use contents::Contents;

use crate::call::{Call, Operand};
use crate::families;
use crate::random::Random;
use crate::tensor::Tensor;
use crate::wish::{Choice, Wish};
use std::collections::BTreeMap;
use webnn_node::graph::attribute::{Kind, Value};
use webnn_node::graph::descriptor::MAX_RANK;
use webnn_node::graph::operator::{Member, Operator, Ranks, Types};
use webnn_node::graph::{DataType, Number, OperandId};

/// Draws a call; a wish is fulfilled if the family's rules let it.
pub fn call(row: &'static Operator, random: &mut Random, wish: Option<&Wish>) -> Call {
    let mut draw = Draw::new(row, random, wish.cloned());
    (families::of(row).0)(&mut draw);
    draw.finish()
}

/// A call under construction.
pub struct Draw<'a> {
    pub row: &'static Operator,
    pub random: &'a mut Random,
    wish: Option<Wish>,
    types: BTreeMap<&'static str, DataType>,
    operands: Vec<Operand>,
    values: BTreeMap<&'static str, Value>,
    all_constant: bool,
}

impl<'a> Draw<'a> {
    fn new(row: &'static Operator, random: &'a mut Random, wish: Option<Wish>) -> Self {
        let all_constant = random.once_in(8);
        let mut draw =
            Draw { row, random, wish, types: BTreeMap::new(), operands: Vec::new(), values: BTreeMap::new(), all_constant };
        for limits in row.operands {
            if let Types::Of(types) = limits.types {
                let types: Vec<DataType> = types.iter().collect();
                let drawn = draw.random.pick(&types);
                let wished = draw.wished_type(limits.name);
                draw.types.insert(limits.name, wished.unwrap_or(drawn));
            }
        }
        for limits in row.operands {
            if let Types::SameAs(other) = limits.types {
                draw.types.insert(limits.name, draw.types[other]);
            }
        }
        draw
    }

    /// A wish for the type of an operand is one for that of the operand whose type it shares.
    fn wished_type(&self, field: &str) -> Option<DataType> {
        let Some(Wish::Type(wished, data_type)) = &self.wish else { return None };
        let limits = self.row.operands.iter().find(|limits| limits.name == *wished)?;
        let shared = matches!(limits.types, Types::SameAs(other) if other == field);
        (*wished == field || shared).then_some(*data_type)
    }

    pub fn data_type(&self, field: &str) -> DataType {
        self.types[field]
    }

    pub fn wished_rank(&self, field: &str) -> Option<usize> {
        let Some(Wish::Rank(wished, rank)) = &self.wish else { return None };
        let limits = self.row.operands.iter().find(|limits| limits.name == *wished)?;
        let shared = matches!(limits.ranks, Ranks::SameRankAs(other) if other == field);
        (*wished == field || shared).then_some(*rank)
    }

    /// A rank that the row allows for an operand.
    pub fn rank(&mut self, field: &str) -> usize {
        self.rank_up_to(field, MAX_RANK)
    }

    /// A rank that the row allows, and not more than that unless it is wished.
    pub fn rank_up_to(&mut self, field: &str, most: usize) -> usize {
        if let Some(rank) = self.wished_rank(field) {
            return rank;
        }
        let limits = self.row.operands.iter().find(|limits| limits.name == field).expect("a family knows its operands");
        let Ranks::Between(low, high) = limits.ranks else { panic!("{field} has the rank of another operand") };
        self.random.between(low, high.min(most).max(low))
    }

    /// Sizes of so many dimensions, with some hundred elements at most; now and then one with thousands.
    pub fn shape(&mut self, rank: usize) -> Vec<usize> {
        let most = [1, 40, 10, 6, 4, 3, 3, 2, 2][rank];
        let mut shape: Vec<usize> = (0..rank).map(|_| self.random.between(1, most)).collect();
        if rank > 0 && self.random.once_in(40) {
            shape.iter_mut().for_each(|size| *size = 1);
            let long = self.random.below(rank);
            shape[long] = self.random.between(1000, 3000);
            let other = self.random.below(rank);
            shape[other] = shape[other].max(self.random.between(1, 4));
        }
        shape
    }

    /// Whether an option is given, or an optional operand there.
    pub fn is_given(&mut self, field: &str) -> bool {
        match &self.wish {
            Some(Wish::Option(wished, choice)) if *wished == field => *choice != Choice::Absent,
            Some(Wish::Type(wished, _) | Wish::Rank(wished, _)) if *wished == field => true,
            _ => self.random.once_in(2),
        }
    }

    /// Draws an option that is given or not, by its kind, and sets it. Returns the position of an enumeration's value.
    pub fn enumeration(&mut self, field: &'static str) -> usize {
        let member = self.row.options.iter().find(|member| member.field == field).expect("a family knows its options");
        self.draw_by_kind(member);
        match (&self.values[field], &(member.default)()) {
            (Value::Enumeration(index), _) | (_, Value::Enumeration(index)) => *index as usize,
            other => panic!("{field} is no enumeration: {other:?}"),
        }
    }

    pub fn boolean(&mut self, field: &'static str, default: bool) -> bool {
        let member = self.row.options.iter().find(|member| member.field == field).expect("a family knows its options");
        self.draw_by_kind(member);
        if let Value::Boolean(value) = self.values[field] { value } else { default }
    }

    pub fn set(&mut self, field: &'static str, value: Value) {
        self.values.insert(field, value);
    }

    pub fn set_list(&mut self, field: &'static str, list: &[usize]) {
        self.set(field, Value::UnsignedList(list.iter().map(|&value| value as u32).collect()));
    }

    /// Draws the elements of an operand.
    pub fn operand(&mut self, field: &'static str, shape: &[usize], contents: Contents) {
        let id = self.new_operand(field, shape, contents);
        self.set(field, Value::Operand(id));
    }

    /// Draws an optional operand, if it is to be there.
    pub fn optional(&mut self, field: &'static str, shape: &[usize], contents: Contents) {
        if self.is_given(field) {
            self.operand(field, shape, contents);
        } else {
            self.set(field, Value::Absent);
        }
    }

    /// An operand that is a value only later, in a list.
    pub fn new_operand(&mut self, field: &str, shape: &[usize], contents: Contents) -> OperandId {
        let data_type = self.data_type(field);
        let elements = contents::draw(self.random, data_type, shape.iter().product(), contents);
        let is_constant = self.all_constant || self.random.once_in(4);
        self.operands.push(Operand { tensor: Tensor { data_type, shape: shape.to_vec(), elements }, is_constant });
        OperandId(self.operands.len() as u32 - 1)
    }

    fn finish(mut self) -> Call {
        for member in self.row.options {
            if !self.values.contains_key(member.field) {
                self.draw_by_kind(member);
            }
        }
        for member in self.row.arguments {
            if !self.values.contains_key(member.field) {
                let value = self.by_kind(member);
                self.set(member.field, value);
            }
        }
        let members = self.row.arguments.iter().chain(self.row.options);
        let values = members.map(|member| self.values[member.field].clone()).collect();
        let label = if self.random.once_in(2) { String::new() } else { format!("label {}", self.random.below(100)) };
        Call { row: self.row, operands: self.operands, values, label }
    }

    fn draw_by_kind(&mut self, option: &'static Member) {
        let value = if self.is_given(option.field) { self.by_kind(option) } else { Value::Absent };
        self.set(option.field, value);
    }

    fn by_kind(&mut self, member: &'static Member) -> Value {
        let wished = match &self.wish {
            Some(Wish::Option(field, choice)) if *field == member.field => Some(choice.clone()),
            _ => None,
        };
        match member.kind {
            Kind::Boolean => match wished {
                Some(Choice::Boolean(value)) => Value::Boolean(value),
                _ => Value::Boolean(self.random.once_in(2)),
            },
            Kind::Enumeration(_) => match wished {
                Some(Choice::Enumeration(index)) => Value::Enumeration(index),
                _ => {
                    let allowed = crate::wish::allowed_values(self.row, member);
                    Value::Enumeration(self.random.pick(&allowed))
                }
            },
            Kind::Double => Value::Double(self.random.pick(&[0.5, -0.5, 2.0, 0.1, -3.0, 1e-3, 1.0, 1.2345678901234])),
            Kind::Number => {
                let double = Number::Double(self.random.pick(&[0.0, 1.0, -1.0, 2.5, 3.5, 0.1, 1e3, -1e6, f64::INFINITY]));
                let integer = Number::Integer(self.random.pick(&[0, 1, -1, 100, 1 << 62, -(1 << 62), i128::MAX, i128::MIN]));
                Value::Number(self.random.pick(&[double, integer]))
            }
            kind => panic!("the family of {} must draw {}, of kind {kind:?}", self.row.name, member.field),
        }
    }
}
