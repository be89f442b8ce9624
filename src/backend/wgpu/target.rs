//! What shaders are made for: what of a device decides their text and how their work is divided.

use crate::error::{Error, Kind, Result};
use crate::graph::Limits;

/// What a device can do, without the device.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub features: Features,
    /// Bytes of a tensor that are bound at once, and of a buffer.
    pub max_storage_buffer_binding_size: usize,
    pub max_buffer_size: usize,
    /// Bindings of a shader.
    pub max_storage_buffers_per_shader_stage: usize,
    /// Of a grid.
    pub max_compute_workgroups_per_dimension: usize,
    /// Bytes that a workgroup shares.
    pub max_compute_workgroup_storage_size: usize,
    /// Whether shapes are numbers that shaders read, or in their text; as the schedule wants it where nobody says so.
    pub opens_shapes: Option<bool>,
}

/// What is used of a device besides what every device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// 16-bit floating-point numbers in memory, one by one; otherwise they are read and written in pairs.
    pub half: bool,
    /// Operations among the invocations that run in step.
    pub subgroups: bool,
    /// Nothing but standard WGSL, which wants features to be named that naga takes unnamed, and has none of wgpu's own.
    pub standard: bool,
    /// Matrices that those multiply together, where their number is known.
    pub matrices: Option<Matrices>,
}

/// The sizes of square matrices that subgroups multiply, adding to sums of `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    /// Of matrices of `f16`.
    pub half: Option<u32>,
    /// Of matrices of `f32`.
    pub float: Option<u32>,
    /// Invocations of a subgroup.
    pub lanes: u32,
}

/// What the variable `WEBNN_GPU_SIZES` says, `open` or `literal`: so shaders of both kinds can be tested with any graph.
pub fn opens_shapes() -> Option<bool> {
    match std::env::var("WEBNN_GPU_SIZES").ok()?.as_str() {
        "open" => Some(true),
        "literal" => Some(false),
        _ => None,
    }
}

impl Target {
    /// Bindings that a kernel may have at most. Beyond some dozens more are of no use.
    pub fn most_bindings(&self) -> usize {
        self.max_storage_buffers_per_shader_stage.min(64)
    }

    /// How much of a tensor of so many bytes is bound at once: all of it, or parts of a size that makes the part of an element
    /// quick to find. Every device's alignment of bindings divides it.
    pub fn binding_length(&self, length: usize) -> usize {
        let most = self.max_storage_buffer_binding_size;
        if length <= most { length.max(1) } else { 1 << most.ilog2() }
    }

    /// The largest tensor of which a kernel can bind two: one that is read, and one that is written.
    pub fn largest_tensor(&self) -> usize {
        let part = self.max_storage_buffer_binding_size;
        let whole = part.max((self.most_bindings() / 2).saturating_mul(1 << part.ilog2()));
        whole.min(self.max_buffer_size)
    }

    /// Those of tensors and operators.
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::everything();
        // The greatest number of that form.
        let most = self.largest_tensor().saturating_add(1);
        limits.max_tensor_byte_length = limits.max_tensor_byte_length.min((1 << most.ilog2()) - 1);
        limits
    }

    /// Whether a kernel can have so many bindings.
    pub fn check_bindings(&self, count: usize) -> Result<()> {
        let most = self.most_bindings();
        if count > most {
            let length = self.max_storage_buffer_binding_size;
            let message = format!(
                "its tensors are {count} parts of at most {length} bytes (maxStorageBufferBindingSize); \
                 this device takes at most {most} at once (maxStorageBuffersPerShaderStage){}",
                if self.features.standard {
                    "; ask requestDevice() for more, as by requiredLimits() of webnn-node/webgpu"
                } else {
                    ""
                }
            );
            return Err(Error::new(Kind::Operation, message));
        }
        Ok(())
    }
}
