//! Nodes that stand for other nodes: branches, the bodies of loops, functions, and operators that are written out.

use super::*;

impl<'a> Importer<'a> {
    /// Maps a node that has graphs of its own.
    pub(super) fn control(
        &mut self,
        proto: &NodeProto,
        inputs: &[Option<Named>],
        around: &Values<'_>,
        scope: &Scope<'_>,
    ) -> Result<Outcome> {
        if scope.depth == MOST_NESTED {
            return Err(malformed("branches that are nested too deep"));
        }
        match proto.op_type.as_str() {
            "If" => self.choose(proto, inputs, around, scope),
            "SequenceMap" => self.map_sequence(proto, inputs, around, scope),
            _ => self.repeat(proto, inputs, around, scope),
        }
    }

    /// Maps an If node: the branch that is chosen at import in its place. Where the choice is made when the model runs, both and
    /// then a selection of their results, if they are small; otherwise the model is cut here.
    fn choose(&mut self, proto: &NodeProto, inputs: &[Option<Named>], around: &Values<'_>, scope: &Scope<'_>) -> Result<Outcome> {
        let values = match values_of(inputs) {
            Ok(values) => values,
            Err(failure) => return Ok(Err(failure)),
        };
        let Some(condition) = values.into_iter().next().flatten() else {
            return Ok(Err(Failure::Refused(Some("no condition".into()))));
        };
        if let Some(known) = condition.constant() {
            let [truth] = known.integers()[..] else {
                return Ok(Err(Failure::Refused(Some("a condition of several elements".into()))));
            };
            let branch = if truth != 0 { "then_branch" } else { "else_branch" };
            return Ok(Ok(self.branch(proto, branch, around, scope)?));
        }
        let mark = self.mark();
        let needed = self.deferral.as_ref().map(|deferral| deferral.needed.clone());
        let may_cut = self.deferral.is_some() && matches!(condition, Value::Operand(_));
        let selected = if may_cut && !self.is_small(proto)? { Err(None) } else { self.select(proto, &condition, around, scope)? };
        match selected {
            Ok(values) => Ok(Ok(values.into_iter().map(Found::Value).collect())),
            Err(_) if may_cut => {
                self.back_to(&mark);
                if let (Some(deferral), Some(needed)) = (&mut self.deferral, needed) {
                    deferral.needed = needed;
                }
                let text = "the branch is known only when the model runs".to_owned();
                Ok(Err(self.cut(proto, inputs, Reason { text, wants: Some(Wants::Elements(0)) }, scope)))
            }
            Err(reason) => Ok(Err(Failure::Refused(reason))),
        }
    }

    /// Whether the branches of an If have few nodes, so that computing both costs less than a look at the condition.
    fn is_small(&mut self, proto: &NodeProto) -> Result<bool> {
        const MOST: usize = 16;
        let mut nodes = 0;
        for name in ["then_branch", "else_branch"] {
            nodes += branch::decode(proto, name, &mut self.folding)?.node.len();
        }
        Ok(nodes <= MOST)
    }

    /// The results of both branches of an If, and a selection of them.
    fn select(
        &mut self,
        proto: &NodeProto,
        condition: &Value,
        around: &Values<'_>,
        scope: &Scope<'_>,
    ) -> Result<std::result::Result<Vec<Value>, Option<Reason>>> {
        let mut branches = Vec::new();
        for name in ["then_branch", "else_branch"] {
            let results = self.branch(proto, name, around, scope)?;
            let values = results.into_iter().map(|found| if let Found::Value(value) = found { Some(value) } else { None });
            let Some(results) = values.collect::<Option<Vec<Value>>>() else {
                // The nodes have spoken for themselves; here is what else could be done.
                self.refused.push(described(proto, scope, branch::HINT.into()));
                return Ok(Err(None));
            };
            branches.push(results);
        }
        let label = label(proto, scope);
        let mut emit = Emit {
            builder: &mut self.builder,
            folding: &mut self.folding,
            short: &mut self.short,
            transposed: &mut self.transposed,
            label,
        };
        Ok(branch::select(condition, &branches[0], &branches[1], &mut emit).map_err(Some))
    }

    /// The results of a branch, which sees the values around it.
    fn branch(&mut self, proto: &NodeProto, name: &str, around: &Values<'_>, scope: &Scope<'_>) -> Result<Vec<Found>> {
        let graph = branch::decode(proto, name, &mut self.folding)?;
        // A branch is taken where its node is, so the two may have the same names.
        let qualified = format!("{}{}/{name}/", scope.qualified, first_output(proto));
        self.inline(proto, &graph, Vec::new(), around, &qualified, scope)
    }

    /// The results of a graph in place of a node.
    fn inline(
        &mut self,
        proto: &NodeProto,
        graph: &GraphProto,
        inputs: Vec<Named>,
        around: &Values<'_>,
        qualified: &str,
        scope: &Scope<'_>,
    ) -> Result<Vec<Found>> {
        let mut values: Values<'_> = around.iter().map(|(name, found)| (*name, found.clone())).collect();
        // Names of the graph's own hide those around it.
        for name in graph.node.iter().flat_map(|node| &node.output) {
            values.remove(name.as_str());
        }
        for (info, value) in graph.input.iter().zip(inputs) {
            values.insert(info.name.as_str(), value);
        }
        for (name, tensor) in self.initializers(graph)? {
            values.insert(name, Named::new(&format!("{qualified}{name}"), Found::Value(tensor.into())));
        }
        let prefix = format!("{}/", label(proto, scope));
        let inner = Scope { opsets: scope.opsets, prefix: &prefix, qualified, depth: scope.depth + 1 };
        let wanted: Vec<&str> = graph.output.iter().map(|info| info.name.as_str()).collect();
        self.run(&graph.node, &wanted, &mut values, &inner)?;
        Ok(wanted.iter().map(|name| values.get(name).map_or(Found::Refused, |named| named.found.clone())).collect())
    }

    /// Maps SequenceMap: its body once for each element.
    fn map_sequence(
        &mut self,
        proto: &NodeProto,
        inputs: &[Option<Named>],
        around: &Values<'_>,
        scope: &Scope<'_>,
    ) -> Result<Outcome> {
        let values = match values_of(inputs) {
            Ok(values) => values,
            Err(failure) => return Ok(Err(failure)),
        };
        let Some(Some(Value::Sequence(first))) = values.first() else {
            return Ok(Err(Failure::Refused(Some("input 0 is no sequence".into()))));
        };
        let graph = branch::decode(proto, "body", &mut self.folding)?;
        let mut results: Vec<Vec<Value>> = vec![Vec::new(); proto.output.len()];
        for position in 0..first.len() {
            let element = |value: &Option<Value>| match value {
                Some(Value::Sequence(list)) => list.get(position).cloned(),
                other => other.clone(),
            };
            let qualified = format!("{}{}/{position}/", scope.qualified, first_output(proto));
            let mut own = Vec::new();
            for (value, info) in values.iter().map(element).zip(&graph.input) {
                let Some(value) = value else {
                    return Ok(Err(Failure::Refused(Some("sequences of different lengths".into()))));
                };
                own.push(Named::new(&format!("{qualified}{}", info.name), Found::Value(value)));
            }
            let found = self.inline(proto, &graph, own, around, &qualified, scope)?;
            for (results, found) in results.iter_mut().zip(found) {
                match found {
                    Found::Value(value) => results.push(value),
                    Found::Deferred => return Ok(Err(Failure::Deferred)),
                    Found::Refused => return Ok(Err(Failure::Refused(None))),
                }
            }
        }
        Ok(Ok(results.into_iter().map(|list| Found::Value(Value::Sequence(list.into()))).collect()))
    }

    /// Leaves a Loop or Scan to whoever runs the model.
    fn repeat(&mut self, proto: &NodeProto, inputs: &[Option<Named>], around: &Values<'_>, scope: &Scope<'_>) -> Result<Outcome> {
        if let Err(failure) = values_of(inputs) {
            return Ok(Err(failure));
        }
        let mut captured = Vec::new();
        for (name, named) in around {
            match &named.found {
                Found::Value(_) => captured.push(((*name).to_owned(), named.name.to_string())),
                Found::Refused => return Ok(Err(Failure::Refused(None))),
                Found::Deferred => return Ok(Err(Failure::Deferred)),
            }
        }
        captured.sort();
        let graph = branch::decode(proto, "body", &mut self.folding)?;
        let body = Body { graph, captured, opsets: scope.opsets.clone() };
        let kind = match Repetition::of(proto, scope.opsets.get("").copied().unwrap_or(1)) {
            Ok(repetition) => StepKind::Repetition { repetition, body: body.into() },
            Err(reason) => return Ok(Err(Failure::Refused(Some(reason)))),
        };
        Ok(Err(self.step(proto, inputs, kind, "the number of iterations is known only when the model runs", scope)))
    }

    /// Maps nodes in place of one that they are written out for.
    pub(super) fn expand(
        &mut self,
        expansion: &FunctionProto,
        proto: &NodeProto,
        inputs: &[Option<Named>],
        scope: &Scope<'_>,
    ) -> Result<Outcome> {
        self.function(expansion, &expansion.node, proto, inputs, scope.opsets, scope)
    }

    /// Maps the nodes of a function in place of a node that calls it.
    pub(super) fn call(
        &mut self,
        function: &'a FunctionProto,
        proto: &NodeProto,
        inputs: &[Option<Named>],
        scope: &Scope<'_>,
    ) -> Result<Outcome> {
        if scope.depth == MOST_NESTED {
            return Err(malformed(format!("the function {:?} is called within itself, or too deep", function.name)));
        }
        // What is deferred or refused is so for those nodes that use it.
        let given = by_name(&proto.attribute);
        let defaults = by_name(&function.attribute_proto);
        let nodes: Vec<NodeProto> = function.node.iter().map(|node| with_attributes(node, &defaults, &given)).collect();
        // An absent input stays absent: to its users the name stands for nothing.
        let mut positions: HashMap<&str, usize> = HashMap::new();
        for (position, input) in function.input.iter().enumerate() {
            positions.entry(input).or_insert(position);
        }
        let absent = |name: &String| {
            let position = positions.get(name.as_str());
            position.is_some_and(|&position| inputs.get(position).is_none_or(Option::is_none))
        };
        let nodes: Vec<NodeProto> = nodes
            .into_iter()
            .map(|mut node| {
                node.input.iter_mut().filter(|name| absent(name)).for_each(String::clear);
                node
            })
            .collect();
        self.function(function, &nodes, proto, inputs, &opsets(&function.opset_import)?, scope)
    }

    fn function(
        &mut self,
        function: &FunctionProto,
        nodes: &[NodeProto],
        proto: &NodeProto,
        inputs: &[Option<Named>],
        opsets: &HashMap<String, i64>,
        scope: &Scope<'_>,
    ) -> Result<Outcome> {
        let mut values: Values<'_> = HashMap::new();
        for (name, named) in function.input.iter().zip(inputs) {
            if let Some(named) = named {
                if matches!(named.found, Found::Refused) {
                    return Ok(Err(Failure::Refused(None)));
                }
                values.insert(name, named.clone());
            }
        }
        let prefix = format!("{}/", label(proto, scope));
        let qualified = format!("{}{}/", scope.qualified, first_output(proto));
        let inner = Scope { opsets, prefix: &prefix, qualified: &qualified, depth: scope.depth + 1 };
        let wanted: Vec<&str> = function
            .output
            .iter()
            .zip(&proto.output)
            .filter(|(_, used)| !used.is_empty())
            .map(|(name, _)| name.as_str())
            .collect();
        self.run(nodes, &wanted, &mut values, &inner)?;
        let found = |name: &String| values.get(name.as_str()).map_or(Found::Refused, |named| named.found.clone());
        Ok(Ok(function.output.iter().map(found).collect()))
    }
}

type Attributes<'a> = HashMap<&'a str, &'a AttributeProto>;

/// The first attribute of each name.
fn by_name(attributes: &[AttributeProto]) -> Attributes<'_> {
    let mut named = HashMap::new();
    for attribute in attributes {
        named.entry(attribute.name.as_str()).or_insert(attribute);
    }
    named
}

/// A node of a function with the values that a call gives to the function's attributes.
fn with_attributes(node: &NodeProto, defaults: &Attributes<'_>, given: &Attributes<'_>) -> NodeProto {
    let resolve = |attribute: &AttributeProto| {
        if attribute.ref_attr_name.is_empty() {
            return Some(attribute.clone());
        }
        let name = attribute.ref_attr_name.as_str();
        let &given = given.get(name).or_else(|| defaults.get(name))?;
        Some(AttributeProto { name: attribute.name.clone(), ..given.clone() })
    };
    NodeProto { attribute: node.attribute.iter().filter_map(resolve).collect(), ..node.clone() }
}
