//! What the passes of one compilation share: the backend that they ask, what may still be computed, and how many nodes they have
//! looked at.

use super::budget::Budget;
use super::capabilities::{Capabilities, Preferences};
use crate::error::Result;
use std::cell::Cell;

/// Nodes between two questions: some microseconds of the passes' work, and the question takes tens of nanoseconds.
const BETWEEN: usize = 16;

/// Goes through all passes of one compilation. Each loop of theirs over nodes is one over [`each`](Self::each).
pub struct Compilation<'a> {
    pub capabilities: &'a dyn Capabilities,
    pub preferences: Preferences,
    /// Nothing may be computed until there is one.
    pub budget: Budget,
    looked_at: Cell<usize>,
    /// How many had been when the last question was asked.
    asked_at: Cell<usize>,
}

impl<'a> Compilation<'a> {
    pub fn new(capabilities: &'a dyn Capabilities) -> Compilation<'a> {
        let preferences = capabilities.preferences();
        let (looked_at, asked_at) = Default::default();
        Compilation { capabilities, preferences, budget: Budget::default(), looked_at, asked_at }
    }

    /// The same with a budget.
    pub fn with(self, budget: Budget) -> Compilation<'a> {
        Compilation { budget, ..self }
    }

    /// A node more has been looked at. What follows others from a node counts them, so that work which is not linear in the
    /// nodes of a graph shows.
    pub fn count(&self) {
        self.looked_at.set(self.looked_at.get() + 1);
    }

    /// How many nodes have been looked at, each as often as it was.
    #[cfg(test)]
    pub fn looked_at(&self) -> usize {
        self.looked_at.get()
    }

    /// # Errors
    /// When nobody wants the graph any more.
    pub fn check(&self) -> Result<()> {
        self.capabilities.check()
    }

    /// The items of a loop, which ends with the first error, when nobody wants the graph any more.
    pub fn each<I: IntoIterator>(&self, items: I) -> impl Iterator<Item = Result<I::Item>> {
        items.into_iter().map(|item| {
            self.count();
            let looked_at = self.looked_at.get();
            if looked_at - self.asked_at.get() >= BETWEEN {
                self.asked_at.set(looked_at);
                self.check()?;
            }
            Ok(item)
        })
    }

    /// For tests of passes that compute nothing.
    #[cfg(test)]
    pub fn unasked() -> Compilation<'static> {
        struct Nobody;
        impl Capabilities for Nobody {
            fn preferences(&self) -> Preferences {
                super::capabilities::EVERYTHING
            }

            fn evaluate(
                &self,
                _: &crate::graph::Op,
                _: &[(&crate::graph::Descriptor, &[u8])],
                _: &[&crate::graph::Descriptor],
            ) -> Result<Vec<crate::graph::ConstantBytes>> {
                panic!("nothing is computed here")
            }
        }
        Compilation::new(&Nobody)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::backend::cpu::Cpu;
    use crate::compiler::testing::EVERYTHING;
    use crate::compiler::{Filter, Pattern, passes};
    use crate::error::{Error, Kind};
    use crate::graph::ops::conv::Conv2d;
    use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Cast};
    use crate::graph::ops::layout::{Conv2dFilterOperandLayout::Oihw, InputOperandLayout::Nchw};
    use crate::graph::ops::matmul::Matmul;
    use crate::graph::ops::movement::Transpose;
    use crate::graph::ops::softmax::Softmax;
    use crate::graph::{ConstantBytes, DataType, Descriptor, Graph, GraphBuilder, Limits, Op, OperandId};
    use std::sync::Arc;

    /// The CPU's, with an end after so many questions.
    struct Asked {
        cpu: Cpu,
        questions: Cell<usize>,
        most: usize,
    }

    impl Capabilities for Asked {
        fn preferences(&self) -> Preferences {
            EVERYTHING
        }

        fn accepts(&self, pattern: &Pattern<'_>) -> bool {
            self.cpu.capabilities().accepts(pattern)
        }

        fn is_quick(&self, op: &Op, number: &dyn Fn(OperandId) -> Option<f32>) -> bool {
            self.cpu.capabilities().is_quick(op, number)
        }

        fn is_always_fused(&self, op: &Op) -> bool {
            self.cpu.capabilities().is_always_fused(op)
        }

        fn is_fast_convolution(&self, op: &Op, filter: Filter<'_>) -> bool {
            self.cpu.capabilities().is_fast_convolution(op, filter)
        }

        fn evaluate(&self, op: &Op, operands: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
            self.cpu.capabilities().evaluate(op, operands, outputs)
        }

        fn check(&self) -> Result<()> {
            self.questions.set(self.questions.get() + 1);
            match self.questions.get() > self.most {
                true => Err(Error::new(Kind::InvalidState, "nobody wants it")),
                false => Ok(()),
            }
        }
    }

    /// How often the compiler asks, how many nodes it looks at, and whether there is a schedule.
    fn compiled(graph: Graph, most: usize) -> (usize, usize, bool) {
        let asked = Asked { cpu: Cpu::new(1), questions: Cell::new(0), most };
        let compilation = Compilation::new(&asked).with(Budget::beside(&graph, usize::MAX));
        let schedule = passes(usize::MAX, graph, &compilation);
        (asked.questions.get(), compilation.looked_at(), schedule.is_ok())
    }

    /// A chain: what it begins with, what makes the next value of one, and what makes the output.
    struct Chain {
        name: &'static str,
        data_type: DataType,
        shape: &'static [u32],
        next: fn(&mut GraphBuilder, OperandId) -> OperandId,
        last: fn(&mut GraphBuilder, OperandId) -> OperandId,
    }

    fn push(builder: &mut GraphBuilder, op: impl Into<Op>) -> OperandId {
        builder.push_op(op, "").unwrap()[0]
    }

    fn constant(builder: &mut GraphBuilder, data_type: DataType, shape: &[u32]) -> OperandId {
        let descriptor = Descriptor::new(data_type, shape.iter().copied());
        let bytes = ConstantBytes::new(vec![0x35; descriptor.byte_length()]);
        builder.constant(descriptor, bytes).unwrap()
    }

    /// What an element-wise operator does with one number.
    fn with_number(builder: &mut GraphBuilder, kind: BinaryKind, a: OperandId) -> OperandId {
        let data_type = builder.operands().descriptor(a).data_type;
        let b = constant(builder, data_type, &[]);
        push(builder, Binary { kind, a, b })
    }

    fn conv(builder: &mut GraphBuilder, input: OperandId) -> OperandId {
        let filter = constant(builder, DataType::Float32, &[4, 4, 1, 1]);
        let (padding, strides, dilations) = ([0; 4], [1; 2], [1; 2]);
        let (input_layout, filter_layout) = (Nchw, Oihw);
        push(builder, Conv2d { input, filter, padding, strides, dilations, groups: 1, input_layout, filter_layout, bias: None })
    }

    /// Operators that each pass follows to others.
    const CHAINS: [Chain; 9] = [
        Chain {
            name: "products",
            data_type: DataType::Float32,
            shape: &[4],
            next: |builder, x| with_number(builder, BinaryKind::Mul, x),
            last: |_, x| x,
        },
        Chain {
            name: "quotients",
            data_type: DataType::Float32,
            shape: &[4],
            next: |builder, x| with_number(builder, BinaryKind::Div, x),
            last: |_, x| x,
        },
        Chain {
            name: "products of float16",
            data_type: DataType::Float16,
            shape: &[4],
            next: |builder, x| with_number(builder, BinaryKind::Mul, x),
            last: |_, x| x,
        },
        Chain {
            name: "sums of integers",
            data_type: DataType::Int32,
            shape: &[4],
            next: |builder, x| with_number(builder, BinaryKind::Add, x),
            last: |_, x| x,
        },
        Chain {
            name: "casts",
            data_type: DataType::Float32,
            shape: &[4],
            next: |builder, input| {
                let input = push(builder, Cast { input, data_type: DataType::Float16 });
                push(builder, Cast { input, data_type: DataType::Float32 })
            },
            last: |_, x| x,
        },
        Chain { name: "convolutions", data_type: DataType::Float32, shape: &[1, 4, 3, 3], next: conv, last: |_, x| x },
        Chain {
            name: "scaled channels",
            data_type: DataType::Float32,
            shape: &[1, 4, 3, 3],
            next: |builder, x| {
                let x = conv(builder, x);
                let x = with_number(builder, BinaryKind::Mul, x);
                push(builder, Activation { kind: ActivationKind::Relu, input: x })
            },
            last: |_, x| x,
        },
        Chain {
            name: "transpositions",
            data_type: DataType::Float32,
            shape: &[4, 5],
            next: |builder, input| push(builder, Transpose { input, permutation: None }),
            last: |_, x| x,
        },
        Chain {
            name: "masks",
            data_type: DataType::Float32,
            shape: &[4, 4],
            next: |builder, x| with_number(builder, BinaryKind::Add, x),
            last: |builder, input| {
                let a = push(builder, Softmax { input, axis: 1 });
                let b = push(builder, Activation { kind: ActivationKind::Relu, input });
                push(builder, Matmul { a, b })
            },
        },
    ];

    impl Chain {
        fn graph(&self, length: usize) -> Graph {
            let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
            let x = builder.input("x", Descriptor::new(self.data_type, self.shape.iter().copied())).unwrap();
            let end = (0..length).fold(x, |x, _| (self.next)(&mut builder, x));
            let y = (self.last)(&mut builder, end);
            builder.build(vec![("y".into(), y)]).unwrap()
        }
    }

    #[test]
    fn work_is_linear_in_the_nodes() {
        for chain in CHAINS {
            let [once, twice] = [400, 800].map(|length| compiled(chain.graph(length), usize::MAX).1);
            assert!(once > 400 * 5 && twice <= once * 2 + once / 50, "{}: {once} nodes looked at, then {twice}", chain.name);
        }
    }

    #[test]
    fn the_compiler_ends_at_the_first_question_that_fails() {
        for chain in CHAINS {
            let (asked, looked_at, is_made) = compiled(chain.graph(40), usize::MAX);
            assert!(is_made && asked * 2 >= looked_at / BETWEEN, "{}: asked {asked} times at {looked_at} nodes", chain.name);
            for most in 0..asked {
                let (questions, _, is_made) = compiled(chain.graph(40), most);
                assert!(!is_made && questions == most + 1, "{}: asked {questions} times, not {}", chain.name, most + 1);
            }
        }
    }
}
