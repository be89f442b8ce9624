//! Which adapter a context gets, and what of it is used.

use crate::backend::wgpu::target::{Features, Matrices};
use crate::error::{Error, Kind, Result};
use std::sync::OnceLock;
use wgpu::{Adapter, AdapterInfo, Backends, CooperativeMatrixProperties, CooperativeScalarType, DeviceType};
use wgpu::{Instance, InstanceDescriptor, InstanceFlags};

/// What a context asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdapterRequest {
    /// Whether an adapter that computes on the CPU will do when there is no other.
    pub software: bool,
    /// Whether the adapter that needs less power comes first.
    pub low_power: bool,
}

/// What of an adapter's features may be used: those that the variable `WEBNN_GPU_FEATURES` lists (`f16`, `subgroups`, `matrices`,
/// which wants those; `none` is the name of no feature), or without it all but `matrices`: products of 2048 and 4096 in float16 take 1.8 and
/// 22.7 ms with these on an H200, and 1.05 and 10.8 without (`benches/results/gpus.md`).
pub fn features(adapter: &Adapter) -> Features {
    let listed = std::env::var("WEBNN_GPU_FEATURES").ok();
    let may = |name: &str| listed.as_deref().unwrap_or("f16,subgroups").split(',').any(|one| one.trim() == name);
    let has = |feature| adapter.features().contains(feature);
    let half = may("f16") && has(wgpu::Features::SHADER_F16);
    let subgroups = may("subgroups") && has(wgpu::Features::SUBGROUP);
    let has_matrices = subgroups && may("matrices") && has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);
    Features { half, subgroups, standard: false, matrices: if has_matrices { matrices(adapter) } else { None } }
}

fn matrices(adapter: &Adapter) -> Option<Matrices> {
    let AdapterInfo { subgroup_min_size: lanes, subgroup_max_size: most, .. } = adapter.get_info();
    let properties = adapter.cooperative_matrix_properties();
    let size = |scalar| {
        let fits = |one: &&CooperativeMatrixProperties| {
            let is_square = one.m_size == one.n_size && one.n_size == one.k_size;
            is_square && one.ab_type == scalar && one.cr_type == CooperativeScalarType::F32
        };
        properties.iter().filter(fits).map(|one| one.m_size).max()
    };
    let matrices = Matrices { half: size(CooperativeScalarType::F16), float: size(CooperativeScalarType::F32), lanes };
    (lanes == most && (matrices.half.is_some() || matrices.float.is_some())).then_some(matrices)
}

/// What a device is asked for so that it has these, and tells times where it can.
pub fn required(adapter: &Adapter, features: Features) -> wgpu::Features {
    let mut required = adapter.features() & wgpu::Features::TIMESTAMP_QUERY;
    required.set(wgpu::Features::SHADER_F16, features.half);
    required.set(wgpu::Features::SUBGROUP, features.subgroups);
    required.set(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX, features.matrices.is_some());
    required
}

fn instance() -> &'static Instance {
    static INSTANCE: OnceLock<Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        let mut descriptor = InstanceDescriptor::new_without_display_handle();
        descriptor.backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
        descriptor.flags = InstanceFlags::empty();
        Instance::new(descriptor)
    })
}

/// All adapters of the machine, found once.
static ADAPTERS: OnceLock<Vec<Adapter>> = OnceLock::new();

/// Whether it is known already that there is no such adapter.
pub fn is_absent(request: AdapterRequest) -> bool {
    ADAPTERS.get().is_some_and(|_| choose(request).is_err())
}

pub fn choose(request: AdapterRequest) -> Result<Adapter> {
    let found = ADAPTERS.get_or_init(|| pollster::block_on(instance().enumerate_adapters(Backends::all())));
    let mut adapters = found.clone();
    adapters.sort_by_key(|adapter| preference(adapter.get_info().device_type, request.low_power));
    let names: Vec<String> = adapters.iter().map(|adapter| adapter.get_info().name).collect();
    let named = std::env::var("WEBNN_ADAPTER").ok().filter(|name| !name.is_empty());
    let fits = |adapter: &Adapter| {
        let info = adapter.get_info();
        match &named {
            // Whoever names a software adapter has asked for it.
            Some(name) => info.name.to_lowercase().contains(&name.to_lowercase()),
            None => request.software || info.device_type != DeviceType::Cpu,
        }
    };
    adapters.into_iter().find(fits).ok_or_else(|| {
        let found = if names.is_empty() { "no adapter".to_owned() } else { format!("the adapters {}", names.join(", ")) };
        let allowed = match named {
            Some(name) => format!("one with \"{name}\" in its name (WEBNN_ADAPTER)"),
            None => "a GPU that Vulkan, Metal or Direct3D 12 can reach".to_owned(),
        };
        Error::new(Kind::NotSupported, format!("found {found}, allowed {allowed}"))
    })
}

/// The lower the better; hardware before software.
fn preference(device_type: DeviceType, low_power: bool) -> u8 {
    match device_type {
        DeviceType::DiscreteGpu => u8::from(low_power),
        DeviceType::IntegratedGpu => u8::from(!low_power),
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}
