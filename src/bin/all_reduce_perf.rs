//! `all_reduce_perf`: see `critrank::collective`.

fn main() -> std::process::ExitCode {
    critrank::perf_main("all_reduce")
}
