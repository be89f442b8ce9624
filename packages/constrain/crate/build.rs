//! Prepares linking of the addon.

fn main() {
    napi_build::setup();
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // Keeps the library mapped when the last worker thread that loaded it ends: threads of ours may still be returning.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
