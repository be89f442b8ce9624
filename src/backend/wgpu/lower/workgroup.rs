//! Combining what all invocations of a workgroup have: by those that run in step first, where the device has operations for
//! that, and then in the workgroup's memory.

use super::lowering::Lowering;

/// A combination of values of one type.
pub struct Combination<'a> {
    /// Invocations of the workgroup, a power of two.
    pub lanes: usize,
    /// The name of an array of as many values, which [`Combination::declare`] declares.
    pub array: &'a str,
    pub value: &'a str,
    /// `combined(a, b)`
    pub combine: &'a dyn Fn(&str, &str) -> String,
    /// Statements that make `total` the combination of those of the subgroup, if there are such.
    pub in_subgroup: Option<&'a str>,
}

/// Sums of a subgroup.
pub const SUMS: &str = "total = subgroupAdd(total);\n";

/// Two sums of a subgroup and the greatest of a third value. (What that is where one is not a number does not matter: the sums
/// are not numbers then.)
pub const MAGNITUDES: &str = "total = vec3<f32>(subgroupAdd(total.xy), subgroupMax(total.z));\n";

/// Sums of exponentials of a subgroup, as [`super::reduce::exponentials`] has them. What the greatest of several is when one
/// is not a number is left open, so these are looked for apart.
pub const EXPONENTIALS: &str = "let is_spoilt = subgroupAny(is_nan(total.x));\n\
     let greatest = subgroupMax(select(total.x, -infinity(), is_nan(total.x)));\n\
     let sum_of_subgroup = subgroupAdd(select(total.y * exp_f32(total.x - greatest), total.y, total.x == greatest));\n\
     total = select(vec2<f32>(greatest, sum_of_subgroup), vec2<f32>(nan(), nan()), is_spoilt);\n";

/// More parameters of an entry point, for kernels that combine in subgroups.
pub fn parameters(lowering: &Lowering<'_>) -> &'static str {
    if lowering.features().subgroups {
        ", @builtin(subgroup_id) subgroup: u32, @builtin(num_subgroups) subgroups: u32, \
         @builtin(subgroup_invocation_id) lane_of_subgroup: u32"
    } else {
        ""
    }
}

impl Combination<'_> {
    pub fn declare(&self) -> String {
        format!("var<workgroup> {}: array<{}, {}>;\n", self.array, self.value, self.lanes)
    }

    /// Statements after which `array[0]` is the combination of the variable `total` of all invocations, for invocation 0.
    /// `lane` is the invocation's number.
    pub fn text(&self, lowering: &Lowering<'_>) -> String {
        let Combination { lanes, array, .. } = *self;
        if let Some(in_subgroup) = self.in_subgroup.filter(|_| lowering.features().subgroups) {
            let step = (self.combine)(&format!("{array}[0]"), &format!("{array}[s]"));
            return format!(
                "{{\n{in_subgroup}if lane_of_subgroup == 0u {{ {array}[subgroup] = total; }}\n}}\n\
                 workgroupBarrier();\n\
                 if lane == 0u {{ for (var s = 1u; s < subgroups; s += 1u) {{ {array}[0] = {step}; }} }}\n"
            );
        }
        let mut text = format!("{array}[lane] = total;\nworkgroupBarrier();\n");
        let mut half = lanes / 2;
        while half > 0 {
            let step = (self.combine)(&format!("{array}[lane]"), &format!("{array}[lane + {half}u]"));
            text.push_str(&format!("if lane < {half}u {{ {array}[lane] = {step}; }}\n"));
            if half > 1 {
                text.push_str("workgroupBarrier();\n");
            }
            half /= 2;
        }
        text
    }
}
