//! Makes the languages of Metal, Direct3D 12 and Vulkan of the shaders in a folder (`WEBNN_SHADERS`, `tests/runners/portable.rs`), as wgpu does on
//! these systems. `spirv-val` looks at the SPIR-V if it is installed. The HLSL is left in the folder, with lists for the compilers of Windows
//! (`scripts/direct3d.mjs`): `fxc.txt` and `dxc.txt`.
//!
//!     cargo run --release --manifest-path tests/portability/Cargo.toml -- FOLDER
//!
//! The names of files begin with the name of the device that a shader is for.

use naga::back::hlsl::{self, ShaderModel};
use naga::back::{msl, spv};
use naga::front::wgsl::parse_str;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{Module, ShaderStage};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};

/// What became of the shaders in one language.
#[derive(Default)]
struct Sum {
    passed: usize,
    failures: Vec<String>,
}

/// At most so many are shown of each language.
const MOST_SHOWN: usize = 5;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("a folder of shaders is missing");
        return ExitCode::from(2);
    };
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("{}: there is no such folder", folder.display());
        return ExitCode::from(2);
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "wgsl"));
    files.sort();
    let tools = Tools { spirv_val: is_there("spirv-val"), fxc: Mutex::default(), dxc: Mutex::default() };
    let sums = of_all(&files, &tools);
    for (language, Sum { passed, failures }) in &sums {
        println!("{language}: {passed} shaders, {} failed", failures.len());
        failures.iter().take(MOST_SHOWN).for_each(|failure| println!("  {failure}"));
    }
    if !tools.spirv_val {
        println!("spirv-val is not installed: it has looked at nothing");
    }
    for (name, list) in [("fxc.txt", tools.fxc), ("dxc.txt", tools.dxc)] {
        let mut lines = list.into_inner().unwrap_or_else(PoisonError::into_inner);
        lines.sort();
        if let Err(error) = fs::write(folder.join(name), lines.concat()) {
            eprintln!("{name}: {error}");
            return ExitCode::from(2);
        }
    }
    // No shader at all is a failure, too.
    let failed = sums.values().filter(|sum| !sum.failures.is_empty()).count() + usize::from(files.is_empty());
    println!("{} passed, {failed} failed", sums.len() - failed.min(sums.len()));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Each core takes a part of the files.
fn of_all(files: &[PathBuf], tools: &Tools) -> BTreeMap<&'static str, Sum> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let of_part = |first: usize| {
        let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
        // Neighbours are alike, so every part has some of each kind.
        for file in files.iter().skip(first).step_by(cores) {
            for (language, result) in of_file(file, tools) {
                let sum = sums.entry(language).or_default();
                match result {
                    Ok(()) => sum.passed += 1,
                    Err(why) => sum.failures.push(format!("{}: {why}", file.display())),
                }
            }
        }
        sums
    };
    let mut all: BTreeMap<&str, Sum> = BTreeMap::new();
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..cores).map(|first| scope.spawn(move || of_part(first))).collect();
        for (language, Sum { passed, failures }) in parts.into_iter().flat_map(|part| part.join().expect("it does not panic")) {
            let sum = all.entry(language).or_default();
            sum.passed += passed;
            sum.failures.extend(failures);
        }
    });
    all
}

struct Tools {
    spirv_val: bool,
    /// Lines for the compilers of Windows: a file, its entry point, and a target.
    fxc: Mutex<Vec<String>>,
    dxc: Mutex<Vec<String>>,
}

fn is_there(program: &str) -> bool {
    let ran = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

fn of_file(file: &Path, tools: &Tools) -> Vec<(&'static str, Result<(), String>)> {
    let read = fs::read_to_string(file).map_err(|error| error.to_string());
    let parsed = read.and_then(|text| {
        let module = parse_str(&text).map_err(|error| error.emit_to_string(&text))?;
        let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module);
        let info = info.map_err(|error| error.emit_to_string(&text))?;
        Ok((module, info))
    });
    let (module, info) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => return vec![("WGSL", Err(why))],
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    // Direct3D has no matrices of subgroups in naga.
    let has_matrices = name.starts_with("matrices");
    let mut results = vec![("MSL", metal(&module, &info)), ("SPIR-V", vulkan(file, &module, &info, tools))];
    if !has_matrices {
        // wgpu uses FXC where Windows has no DXC, and that knows neither float16 nor subgroups.
        if name.starts_with("least") {
            results.push(("HLSL for FXC", direct3d(file, &module, &info, ShaderModel::V5_1, &tools.fxc)));
        }
        let model = if name.starts_with("least") { ShaderModel::V6_0 } else { ShaderModel::V6_2 };
        results.push(("HLSL for DXC", direct3d(file, &module, &info, model, &tools.dxc)));
    }
    results
}

/// Indices are kept within memory, as by wgpu.
fn restricted() -> BoundsCheckPolicies {
    BoundsCheckPolicies {
        index: BoundsCheckPolicy::Restrict,
        buffer: BoundsCheckPolicy::Restrict,
        image_load: BoundsCheckPolicy::Restrict,
        binding_array: BoundsCheckPolicy::Unchecked,
    }
}

fn metal(module: &Module, info: &ModuleInfo) -> Result<(), String> {
    // The language of macOS 11 has what all devices need; matrices came with 2.3.
    let options = msl::Options {
        lang_version: (2, 4),
        fake_missing_bindings: true,
        bounds_check_policies: restricted(),
        ..Default::default()
    };
    let (text, translated) =
        msl::write_string(module, info, &options, &msl::PipelineOptions::default()).map_err(|error| error.to_string())?;
    translated.entry_point_names.into_iter().collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    if text.contains("kernel void") { Ok(()) } else { Err("no kernel".to_owned()) }
}

fn direct3d(
    file: &Path,
    module: &Module,
    info: &ModuleInfo,
    model: ShaderModel,
    list: &Mutex<Vec<String>>,
) -> Result<(), String> {
    // As the addon's pipelines, which write memory of a workgroup before they read it.
    let options = hlsl::Options { shader_model: model, zero_initialize_workgroup_memory: false, ..Default::default() };
    let pipeline = hlsl::PipelineOptions { entry_point: Some((ShaderStage::Compute, "main".to_owned())) };
    let mut text = String::new();
    let written =
        hlsl::Writer::new(&mut text, &options, &pipeline).write(module, info, None).map_err(|error| error.to_string())?;
    let names: Vec<String> =
        written.entry_point_names.into_iter().collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let [entry] = &names[..] else { return Err(format!("the entry points {names:?}")) };
    let version = model.to_str();
    let hlsl = file.with_extension(format!("{version}.hlsl"));
    fs::write(&hlsl, text).map_err(|error| error.to_string())?;
    let name = hlsl.file_name().unwrap_or_default().to_string_lossy();
    list.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name} {entry} cs_{version}\n"));
    Ok(())
}

fn vulkan(file: &Path, module: &Module, info: &ModuleInfo, tools: &Tools) -> Result<(), String> {
    // Subgroups came with 1.3.
    let options = spv::Options { lang_version: (1, 3), bounds_check_policies: restricted(), ..Default::default() };
    let matrices = spv::Options { lang_version: (1, 6), ..options.clone() };
    let is_new = file.file_name().unwrap_or_default().to_string_lossy().starts_with("matrices");
    let words =
        spv::write_vec(module, info, if is_new { &matrices } else { &options }, None).map_err(|error| error.to_string())?;
    // Version 2023 knows no matrices of this kind.
    if !tools.spirv_val || is_new {
        return Ok(());
    }
    let spv = file.with_extension("spv");
    fs::write(&spv, words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>()).map_err(|error| error.to_string())?;
    checked(Command::new("spirv-val").args(["--target-env", "vulkan1.1"]).arg(&spv))
}

/// Whether a program is content.
fn checked(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}
