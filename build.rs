//! Prepares linking of the addon.

use std::env::var;

fn main() {
    let (system, environment) = (var("CARGO_CFG_TARGET_OS"), var("CARGO_CFG_TARGET_ENV"));
    // With MinGW napi wants a library to import node.exe's functions from. The feature `dyn-symbols` finds them when the addon is loaded.
    if (system.as_deref(), environment.as_deref()) != (Ok("windows"), Ok("gnu")) {
        napi_build::setup();
    }
    if system.as_deref() == Ok("linux") {
        // Keeps the library mapped when the last worker thread that loaded it ends: threads of ours may still be returning.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
