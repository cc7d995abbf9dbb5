//! The commands that documents show, with what they print.

use tenure_tests::root;

use crate::deployment::{Deployment, outside_of, stderr};
use crate::links;
use crate::{sharing, workspaces};

/// The commands of a document's `console` blocks, each with the output that it shows and the exit code.
fn sessions(document: &str) -> Vec<(String, String, i32)> {
    let text = std::fs::read_to_string(root().join(document)).expect(document);
    let mut commands: Vec<(String, String, i32)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            inside = language == "console";
        } else if let (true, Some(command)) = (inside, line.strip_prefix("$ tenure ")) {
            commands.push((command.to_owned(), String::new(), 0));
        } else if let (true, Some((_, output, code))) = (inside, commands.last_mut()) {
            match line.strip_prefix("? ") {
                Some(number) => *code = number.parse().expect("an exit code"),
                None => {
                    output.push_str(line);
                    output.push('\n');
                }
            }
        }
    }
    commands
}

/// Text without what differs from one run to the next: numbers, hashes, folders.
fn in_general(text: &str) -> String {
    let plain = |word: &str| {
        let word = word.split_once("unit.directory=").map_or(word, |_| "unit.directory=#");
        // The ten digits of an id may all be letters.
        let counts = word.chars().all(|c| c.is_ascii_hexdigit())
            && (word.len() == 10 || word.chars().any(|c| c.is_ascii_digit()));
        let word = if counts { "#" } else { word };
        let mut shown = String::new();
        for letter in word.chars() {
            match letter {
                '0'..='9' if shown.ends_with('#') => {}
                '0'..='9' => shown.push('#'),
                letter => shown.push(letter),
            }
        }
        // Lengths of time have one part or two.
        ["#h#m", "#m#s", "#h", "#m", "#s"]
            .iter()
            .fold(shown, |shown, length| if shown == *length { "#time".to_owned() } else { shown })
    };
    let lines =
        text.lines().map(|line| line.split_whitespace().map(plain).collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn is_true(document: &str) {
    is_true_on(&Deployment::start(), document);
}

/// Whether the commands of a document do what it says, on this deployment.
#[track_caller]
fn is_true_on(deployment: &Deployment, document: &str) {
    let data = deployment.data.path().display().to_string();
    let commands = sessions(document);
    assert!(commands.len() > 2, "{document} shows no commands");
    for (command, shown, code) in commands {
        let files = format!(" {}/config/", root().display());
        let command = command.replace("tenure-data", &data).replace(" config/", &files);
        let output = deployment.tenure(&command);
        assert_eq!(output.status.code(), Some(code), "{command}: {}", stderr(&output));
        let printed = String::from_utf8_lossy(&output.stdout).replace(&data, "tenure-data");
        assert_eq!(in_general(&printed), in_general(&shown), "tenure {command}\n{printed}");
    }
}

#[test]
fn the_first_screen_of_the_readme_is_true() {
    is_true("README.md");
}

#[test]
fn the_page_on_a_class_is_true() {
    is_true("docs/howto/class-of-forty.md");
}

#[test]
fn the_page_on_a_pipeline_is_true() {
    is_true("docs/howto/pipeline-of-two-stages.md");
}

#[test]
fn the_page_on_a_lab_is_true() {
    let config = std::fs::read_to_string(root().join("config/lab.toml")).expect("config/lab.toml");
    let deployment = Deployment::of(&config, tempfile::tempdir().expect("a folder"));
    let doctor = deployment.tenure("doctor");
    assert!(doctor.status.success(), "{}", stderr(&doctor));
    is_true_on(&deployment, "docs/howto/lab-of-phones.md");
}

#[test]
fn the_page_on_workspaces_is_true() {
    let deployment = Deployment::of(&workspaces::config(), tempfile::tempdir().expect("a folder"));
    is_true_on(&deployment, "docs/howto/workspaces.md");
}

#[test]
#[ignore = "needs root, `ip`, `tc` and `unshare`"]
fn the_page_on_bandwidth_is_true_in_namespaces() {
    if !outside_of("sessions::the_page_on_bandwidth_is_true_in_namespaces") {
        is_true_on(&links::in_namespaces(), "docs/howto/compute-with-bandwidth.md");
    }
}

#[test]
fn the_page_on_maintenance_is_true() {
    is_true("docs/howto/maintenance.md");
}

#[test]
fn the_page_on_networks_is_true() {
    let deployment = sharing::deployment();
    is_true_on(&deployment, "docs/NETWORK.md");
}

#[test]
fn the_tutorial_is_true() {
    is_true("docs/TUTORIAL.md");
}
