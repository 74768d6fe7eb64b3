//! `reduce_scatter_perf`: see `critrank::collective`.

fn main() -> std::process::ExitCode {
    critrank::perf_main("reduce_scatter")
}
