//! `p2p_matrix_perf`: all pairs, one launch. Ranks connect as for an exchange between all.

fn main() -> std::process::ExitCode {
    critrank::matrix_main("alltoall")
}
