//! Shaders of graphs for devices that are not here, held against WGSL's rules and the limits of those devices.
//!
//! With `WEBNN_SHADERS=folder` they are also written there, each text once, for `tests/portability`, which makes Metal's, Direct3D's and
//! Vulkan's languages of them.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use webnn_node::backend::wgpu::Foreign;
use webnn_node::backend::wgpu::target::{Features, Matrices, Target};
use webnn_node::graph::Graph;
use wgpu::naga::front::wgsl::parse_str;
use wgpu::naga::proc::Layouter;
use wgpu::naga::valid::{Capabilities, ValidationFlags, Validator};
use wgpu::naga::{AddressSpace, Module};

/// What WebGPU promises of every device, such as of phones: 128 MiB of a buffer are bound at once, a workgroup shares 16 KiB.
const LEAST: Target = Target {
    features: Features { half: false, subgroups: false, standard: true, matrices: None },
    max_storage_buffer_binding_size: 128 << 20,
    max_buffer_size: 256 << 20,
    max_storage_buffers_per_shader_stage: 8,
    max_compute_workgroups_per_dimension: 65535,
    max_compute_workgroup_storage_size: 16384,
    opens_shapes: None,
};

/// Invocations of a workgroup that WebGPU promises, and how many along each dimension.
const INVOCATIONS: (u32, [u32; 3]) = (256, [256, 256, 64]);

/// As Apple's GPUs (8 x 8) and NVIDIA's (16 x 16) multiply, in a workgroup that shares 32 KiB.
const fn with_matrices(half: u32, float: Option<u32>) -> Target {
    Target {
        features: Features {
            half: true,
            subgroups: true,
            standard: false,
            matrices: Some(Matrices { half: Some(half), float, lanes: 32 }),
        },
        max_storage_buffer_binding_size: 1 << 30,
        max_buffer_size: 1 << 30,
        max_compute_workgroup_storage_size: 32768,
        ..LEAST
    }
}

const FEATURES: [(&str, Features); 3] = [
    ("half", Features { half: true, subgroups: false, standard: true, matrices: None }),
    ("subgroups", Features { half: false, subgroups: true, standard: false, matrices: None }),
    ("all", Features { half: true, subgroups: true, standard: false, matrices: None }),
];

/// Devices by name, the least one first.
static DEVICES: LazyLock<Vec<(String, Target, Foreign)>> = LazyLock::new(|| {
    let mut targets = vec![("least".to_owned(), LEAST)];
    targets.extend(FEATURES.map(|(name, features)| (name.to_owned(), Target { features, ..LEAST })));
    targets.push(("matrices8".to_owned(), with_matrices(8, Some(8))));
    targets.push(("matrices16".to_owned(), with_matrices(16, None)));
    let opened = targets.into_iter().flat_map(|(name, target)| {
        [("literal", false), ("open", true)]
            .map(|(sizes, is_open)| (format!("{name}-{sizes}"), Target { opens_shapes: Some(is_open), ..target }))
    });
    opened.map(|(name, target)| (name, target, Foreign::new(target))).collect()
});

/// What has been looked at.
static SEEN: Mutex<Option<HashSet<u64>>> = Mutex::new(None);

/// Which devices a graph is lowered for.
#[derive(Clone, Copy)]
pub enum Which {
    #[allow(dead_code, reason = "not every suite has so few graphs")]
    All,
    /// One of them, by a number, and the least one.
    #[allow(dead_code, reason = "not every suite has so many graphs")]
    One(usize),
}

/// What is wrong with the shaders of a graph; nothing if they can be used.
///
/// A device whose shaders take few buffers may refuse a graph, with the limit.
pub fn faults(graph: &Graph, which: Which) -> Vec<String> {
    let chosen = |number: usize| match which {
        Which::All => true,
        Which::One(one) => number == one % DEVICES.len() || number == one % 2,
    };
    let devices = DEVICES.iter().enumerate().filter(|(number, _)| chosen(*number));
    devices.flat_map(|(_, device)| of_device(graph, device)).collect()
}

fn of_device(graph: &Graph, (name, target, device): &(String, Target, Foreign)) -> Vec<String> {
    let program = match device.program(graph.clone(), usize::MAX) {
        Ok(lowered) => lowered.program,
        Err(error) if error.message().contains("maxStorageBuffersPerShaderStage") => return Vec::new(),
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let is_too_wide = |grid: &[u32; 3]| grid.iter().any(|size| *size as usize > target.max_compute_workgroups_per_dimension);
    let grids = program.dispatches.iter().map(|dispatch| dispatch.grid).filter(is_too_wide);
    let mut faults: Vec<String> = grids.map(|grid| format!("{name}: a grid of {grid:?}")).collect();
    for shader in &program.shaders {
        let mut hasher = DefaultHasher::new();
        (name.split('-').next(), &*shader.text).hash(&mut hasher);
        let hash = hasher.finish();
        if !SEEN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(hash) {
            continue;
        }
        write(
            &format!("{name}-{}-{hash:016x}.wgsl", shader.label.replace(|c: char| !c.is_ascii_alphanumeric(), "_")),
            &shader.text,
        );
        if let Err(fault) = look(&shader.text, target) {
            faults.push(format!("{name}: {}: {fault}\n{}", shader.label, shader.text));
        }
    }
    faults
}

fn write(name: &str, text: &str) {
    static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let folder = PathBuf::from(std::env::var_os("WEBNN_SHADERS")?);
        std::fs::create_dir_all(&folder).expect("WEBNN_SHADERS is a folder that can be made");
        Some(folder)
    });
    if let Some(folder) = &*FOLDER {
        std::fs::write(folder.join(name), text).expect("WEBNN_SHADERS is a folder that can be written to");
    }
}

fn look(text: &str, target: &Target) -> Result<(), String> {
    let module = parse_str(text).map_err(|error| error.emit_to_string(text))?;
    let Features { half, subgroups, matrices, .. } = target.features;
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::SHADER_FLOAT16, half);
    capabilities.set(Capabilities::SUBGROUP, subgroups);
    capabilities.set(Capabilities::COOPERATIVE_MATRIX, matrices.is_some());
    let valid = Validator::new(ValidationFlags::all(), capabilities).validate(&module);
    valid.map_err(|error| error.emit_to_string(text))?;
    limits(&module, target)
}

fn limits(module: &Module, target: &Target) -> Result<(), String> {
    let [entry] = &module.entry_points[..] else { return Err(format!("{} entry points", module.entry_points.len())) };
    let (most, along) = INVOCATIONS;
    let size = entry.workgroup_size;
    if size.iter().product::<u32>() > most || size.iter().zip(along).any(|(size, most)| *size > most) {
        return Err(format!("a workgroup of {size:?}"));
    }
    let mut layouter = Layouter::default();
    let mut shared = 0;
    let mut buffers = 0;
    for (_, variable) in module.global_variables.iter() {
        match variable.space {
            AddressSpace::WorkGroup => {
                layouter.update(module.to_ctx()).map_err(|error| error.to_string())?;
                shared += layouter[variable.ty].size.next_multiple_of(16) as usize;
            }
            AddressSpace::Storage { .. } => buffers += 1,
            _ => {}
        }
    }
    if shared > target.max_compute_workgroup_storage_size {
        return Err(format!("a workgroup shares {shared} bytes"));
    }
    if buffers > target.max_storage_buffers_per_shader_stage {
        return Err(format!("{buffers} buffers"));
    }
    Ok(())
}

#[test]
fn what_a_device_does_not_take_is_found() {
    let entry = "@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) lane: u32)";
    let shared =
        |length: usize| format!("var<workgroup> shared_words: array<u32, {length}>;\n{entry} {{ shared_words[lane] = lane; }}");
    assert_eq!(look(&shared(4096), &LEAST), Ok(()));
    assert!(look(&shared(4097), &LEAST).unwrap_err().contains("shares"));
    assert!(look("@compute @workgroup_size(257) fn main() {}", &LEAST).unwrap_err().contains("workgroup of"));
    let half = format!("enable f16;\n{entry} {{ var x = f16(lane); x += 1.0h; }}");
    assert!(look(&half, &LEAST).is_err());
    assert_eq!(look(&half, &Target { features: FEATURES[0].1, ..LEAST }), Ok(()));
    let sum = format!("{entry} {{ var x = subgroupAdd(lane); x += 1u; }}");
    assert!(look(&sum, &LEAST).is_err());
    assert_eq!(look(&sum, &Target { features: FEATURES[1].1, ..LEAST }), Ok(()));
    let bound = |count: usize| {
        let buffers = (0..count).map(|i| format!("@group(0) @binding({i}) var<storage, read_write> b{i}: array<u32>;\n"));
        let writes = (0..count).map(|i| format!("b{i}[lane] = lane; "));
        format!("{}{entry} {{ {} }}", buffers.collect::<String>(), writes.collect::<String>())
    };
    assert_eq!(look(&bound(8), &LEAST), Ok(()));
    assert!(look(&bound(9), &LEAST).unwrap_err().contains("9 buffers"));
}
