//! The table of laws in the documents is the one in the code.

use std::fmt::Write as _;

use tenure_laws::LAWS;
use tenure_tests::check_block;

#[test]
fn the_table_of_laws_is_printed_from_the_code() {
    let mut table =
        "| id | name | statement | source | checked on |\n|---|---|---|---|---|\n".to_owned();
    for law in LAWS {
        let cells = [law.id, law.name, law.statement, law.source, law.on];
        assert!(cells.iter().all(|cell| !cell.contains(['|', '\n'])), "{} fits a table", law.id);
        writeln!(table, "| {} |", cells.join(" | ")).unwrap();
    }
    check_block("docs/INVARIANTS.md", "laws", &table);
}
