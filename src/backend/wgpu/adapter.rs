//! Which adapter a context gets, and what of it is used.

use super::device::Device;
use super::trial;
use crate::error::{Error, Kind, Result};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use wgpu::{Adapter, AdapterInfo, Backends, CooperativeMatrixProperties, CooperativeScalarType, DeviceType};
use wgpu::{Instance, InstanceDescriptor, InstanceFlags};

/// What a context asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// Whether an adapter that computes on the CPU will do when there is no other.
    pub software: bool,
    /// Whether the adapter that needs less power comes first.
    pub low_power: bool,
}

/// What is used of a device besides what every device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// 16-bit floating-point numbers in memory, one by one; otherwise they are read and written in pairs.
    pub half: bool,
    /// Operations among the invocations that run in step.
    pub subgroups: bool,
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

impl Matrices {
    fn of(adapter: &Adapter) -> Option<Self> {
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
}

impl Features {
    /// What of the adapter's features may be used: all, or those that the variable `WEBNN_GPU_FEATURES` lists (`f16`,
    /// `subgroups`, `matrices`, which wants those; `none` is the name of no feature).
    fn allowed(adapter: &Adapter) -> Self {
        let listed = std::env::var("WEBNN_GPU_FEATURES").ok();
        let may = |name: &str| listed.as_ref().is_none_or(|list| list.split(',').any(|one| one.trim() == name));
        let has = |feature| adapter.features().contains(feature);
        let half = may("f16") && has(wgpu::Features::SHADER_F16);
        let subgroups = may("subgroups") && has(wgpu::Features::SUBGROUP);
        let matrices = subgroups && may("matrices") && has(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);
        Features { half, subgroups, matrices: if matrices { Matrices::of(adapter) } else { None } }
    }

    pub fn required(self) -> wgpu::Features {
        let mut required = wgpu::Features::empty();
        required.set(wgpu::Features::SHADER_F16, self.half);
        required.set(wgpu::Features::SUBGROUP, self.subgroups);
        required.set(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX, self.matrices.is_some());
        required
    }
}

/// What tells devices apart.
type Key = (AdapterInfo, Features);

/// Finds the adapter that a wish asks for, and its device, which all contexts of the adapter share. The drivers are loaded
/// by the first call, which may take long.
///
/// # Errors
/// `NotSupportedError` when there is no such adapter, or it gives no device.
pub fn open(wish: Wish) -> Result<Arc<Device>> {
    static OPEN: Mutex<Vec<(Key, Weak<Device>)>> = Mutex::new(Vec::new());
    // Under the lock, so that two contexts do not make two devices.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let adapter = choose(wish)?;
    let features = Features::allowed(&adapter);
    let key = (adapter.get_info(), features);
    open.retain(|(_, device)| device.strong_count() > 0);
    let existing = open.iter().filter(|(other, _)| *other == key).find_map(|(_, device)| device.upgrade());
    if let Some(device) = existing.filter(|device| !device.is_lost()) {
        log(&key.0, features, "again");
        return Ok(device);
    }
    let device = match Device::new(&adapter, features) {
        Ok(device) if features.matrices.is_none() || trial::multiplies(&device) => device,
        // What is experimental is refused, or does it wrong: the rest is no worse for it.
        _ if features.matrices.is_some() => Device::new(&adapter, Features { matrices: None, ..features })?,
        refused => refused?,
    };
    log(&key.0, device.features, "new device");
    open.push((key, Arc::downgrade(&device)));
    Ok(device)
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
pub fn is_absent(wish: Wish) -> bool {
    ADAPTERS.get().is_some_and(|_| choose(wish).is_err())
}

fn choose(wish: Wish) -> Result<Adapter> {
    let found = ADAPTERS.get_or_init(|| pollster::block_on(instance().enumerate_adapters(Backends::all())));
    let mut adapters = found.clone();
    adapters.sort_by_key(|adapter| preference(adapter.get_info().device_type, wish.low_power));
    let names: Vec<String> = adapters.iter().map(|adapter| adapter.get_info().name).collect();
    let named = std::env::var("WEBNN_ADAPTER").ok().filter(|name| !name.is_empty());
    let fits = |adapter: &Adapter| {
        let info = adapter.get_info();
        match &named {
            // Whoever names a software adapter has asked for it.
            Some(name) => info.name.to_lowercase().contains(&name.to_lowercase()),
            None => wish.software || info.device_type != DeviceType::Cpu,
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

/// Says on stderr what was chosen, for those who set `WEBNN_LOG`.
fn log(info: &AdapterInfo, features: Features, what: &str) {
    if std::env::var_os("WEBNN_LOG").is_some_and(|value| !value.is_empty()) {
        let AdapterInfo { name, backend, driver, driver_info, device_type, .. } = info;
        eprintln!("webnn: adapter \"{name}\" ({backend:?}, {device_type:?}, {driver} {driver_info}), {features:?}, {what}");
    }
}
