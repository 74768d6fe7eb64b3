//! What needs neither MPI nor a GPU: see `critrank::tool_main`.

fn main() -> std::process::ExitCode {
    critrank::tool_main()
}
