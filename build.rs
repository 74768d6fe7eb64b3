//! Exports the symbols by which NCCL finds this program's profiler.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let set = |name: &str| std::env::var_os(name).is_some();
    let linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if set("CARGO_FEATURE_NCCL") && linux {
        for version in 4..=6 {
            println!("cargo:rustc-link-arg-bins=-Wl,--export-dynamic-symbol=ncclProfiler_v{version}");
        }
    }
}
