//! The `tenure` command.

const _: () =
    assert!(!tenure_core::mutants::COMPILED_IN, "bugs are for tests, never for a command");

fn main() -> std::process::ExitCode {
    tenure::main()
}
