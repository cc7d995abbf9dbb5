//! The `tenure` command.

fn main() -> std::process::ExitCode {
    tenure::main()
}
