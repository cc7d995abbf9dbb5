//! The layouts in `docs/FORMATS.md`, as the source of the core declares them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Fields, GenericArgument, Ident, Item, PathArguments, Token, Type};
use tenure_tests::{check_block, root};

/// A type as it is encoded.
enum Layout {
    Structure(String),
    /// Each variant with its fields.
    Enumeration(Vec<(String, String)>),
}

/// The declarations of the core.
#[derive(Default)]
struct Declared {
    layouts: BTreeMap<String, Layout>,
    /// For each role its kinds of facts: kind, version, fields.
    facts: BTreeMap<String, Vec<(String, u16, String)>>,
    /// The types that each name speaks of.
    uses: BTreeMap<String, BTreeSet<String>>,
}

/// One kind of facts in `facts! { ... }`.
struct FactKind {
    name: Ident,
    kind: syn::LitStr,
    version: syn::LitInt,
    fields: syn::FieldsNamed,
}

impl Parse for FactKind {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.call(Attribute::parse_outer)?;
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Self { name, kind: input.parse()?, version: input.parse()?, fields: input.parse()? })
    }
}

struct FactKinds(Vec<FactKind>);

impl Parse for FactKinds {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut kinds = Vec::new();
        if input.peek(Ident) && input.peek2(Ident) {
            // `of Role::Broker;`
            input.parse::<Ident>()?;
            input.parse::<syn::Path>()?;
            input.parse::<Token![;]>()?;
        }
        while !input.is_empty() {
            kinds.push(input.parse()?);
        }
        Ok(Self(kinds))
    }
}

/// Whether serde leaves a field out.
fn is_skipped(attributes: &[Attribute]) -> bool {
    let mut skipped = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        let _ = attribute.parse_nested_meta(|meta| {
            skipped |= meta.path.is_ident("skip") || meta.path.is_ident("skip_serializing");
            Ok(())
        });
    }
    skipped
}

fn is_serialised(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("derive")).any(|attribute| {
        let mut found = false;
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|last| last.ident == "Serialize");
            Ok(())
        });
        found
    })
}

/// `camelCase` as words: `camel case`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// A type in words; the types that it speaks of go to `uses`.
fn shown(of: &Type, uses: &mut BTreeSet<String>) -> String {
    let path = match of {
        Type::Tuple(tuple) => {
            let parts: Vec<String> = tuple.elems.iter().map(|part| shown(part, uses)).collect();
            return format!("({})", parts.join(", "));
        }
        Type::Array(array) => return format!("array of {}", shown(&array.elem, uses)),
        Type::Path(path) => path.path.segments.last().expect("a path has a segment"),
        _ => panic!("only paths, tuples and arrays have a layout"),
    };
    let mut of = |place: usize| match &path.arguments {
        PathArguments::AngleBracketed(arguments) => match &arguments.args[place] {
            GenericArgument::Type(argument) => shown(argument, uses),
            _ => panic!("the argument of {} is no type", path.ident),
        },
        PathArguments::None | PathArguments::Parenthesized(_) => panic!("{} of what", path.ident),
    };
    match path.ident.to_string().as_str() {
        "Option" => format!("option {}", of(0)),
        "Vec" | "VecDeque" => format!("sequence of {}", of(0)),
        "BTreeSet" | "OrdSet" => format!("set of {}", of(0)),
        "BTreeMap" | "OrdMap" => format!("map {} → {}", of(0), of(1)),
        "Box" | "Arc" => of(0),
        "String" => "text".to_owned(),
        "NonZeroU32" => "`u32` not zero".to_owned(),
        name => {
            uses.insert(name.to_owned());
            format!("`{name}`")
        }
    }
}

fn fields(of: &Fields, uses: &mut BTreeSet<String>) -> String {
    let kept = of.iter().filter(|field| !is_skipped(&field.attrs));
    let shown: Vec<String> = kept
        .map(|field| match &field.ident {
            Some(name) => format!("{name}: {}", shown(&field.ty, uses)),
            None => shown(&field.ty, uses),
        })
        .collect();
    shown.join(", ")
}

impl Declared {
    fn read() -> Self {
        let mut declared = Self::default();
        declared.read_folder(&root().join("crates/core/src"));
        declared
    }

    fn read_folder(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.read_folder(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let file = syn::parse_file(&fs::read_to_string(&path).unwrap());
                let role = path.parent().and_then(Path::file_name).unwrap().to_string_lossy();
                for item in file.unwrap_or_else(|e| panic!("{}: {e}", path.display())).items {
                    self.read_item(&role, item);
                }
            }
        }
    }

    fn read_item(&mut self, role: &str, item: Item) {
        let mut uses = BTreeSet::new();
        let (name, layout) = match item {
            Item::Struct(of) if is_serialised(&of.attrs) => {
                (of.ident.to_string(), Layout::Structure(fields(&of.fields, &mut uses)))
            }
            Item::Enum(of) if is_serialised(&of.attrs) => {
                let variant = |of: &syn::Variant| {
                    (words(&of.ident.to_string()), fields(&of.fields, &mut uses))
                };
                let variants = of.variants.iter().map(variant).collect();
                (of.ident.to_string(), Layout::Enumeration(variants))
            }
            Item::Macro(of)
                if ["facts", "common_facts"].iter().any(|name| of.mac.path.is_ident(name)) =>
            {
                return self.read_facts(role, of.mac.parse_body().unwrap());
            }
            _ => return,
        };
        self.uses.insert(name.clone(), uses);
        self.layouts.insert(name, layout);
    }

    fn read_facts(&mut self, role: &str, FactKinds(kinds): FactKinds) {
        for FactKind { name, kind, version, fields: named } in kinds {
            let mut uses = BTreeSet::new();
            let shown = fields(&Fields::Named(named), &mut uses);
            let version = version.base10_parse().unwrap();
            self.facts.entry(role.to_owned()).or_default().push((kind.value(), version, shown));
            self.uses.insert(format!("fact {name}"), uses);
        }
    }

    /// The types that facts and envelopes are made of, down to those that the document describes itself.
    fn reached(&self, described: &BTreeSet<String>) -> BTreeSet<String> {
        let facts = self.uses.keys().filter(|name| name.starts_with("fact ")).cloned();
        let mut open: Vec<String> = facts.chain(["Envelope", "Link"].map(str::to_owned)).collect();
        let mut reached = BTreeSet::new();
        while let Some(name) = open.pop() {
            if !described.contains(&name) && reached.insert(name.clone()) {
                open.extend(self.uses.get(&name).into_iter().flatten().cloned());
            }
        }
        reached.retain(|name| self.layouts.contains_key(name));
        reached
    }
}

/// The types that a table of the document describes in words.
fn described() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("docs/FORMATS.md")).unwrap();
    let (_, table) = text.split_once("\n## Types\n").expect("a section on types");
    let (table, _) = table.split_once("\n### ").expect("another section");
    let cells = table.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let named = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    named.map(str::to_owned).collect()
}

fn cell(fields: &str) -> &str {
    if fields.is_empty() { "none" } else { fields }
}

#[test]
fn the_layouts_of_messages_and_facts_are_printed_from_the_code() {
    let declared = Declared::read();
    let mut structures = "| type | fields |\n|---|---|\n".to_owned();
    let mut enumerations = String::new();
    for name in declared.reached(&described()) {
        match &declared.layouts[&name] {
            Layout::Structure(fields) => writeln!(structures, "| `{name}` | {fields} |").unwrap(),
            Layout::Enumeration(variants) => {
                write!(enumerations, "\n| `{name}` | fields |\n|---|---|\n").unwrap();
                for (number, (variant, fields)) in variants.iter().enumerate() {
                    writeln!(enumerations, "| {number} {variant} | {} |", cell(fields)).unwrap();
                }
            }
        }
    }
    check_block("docs/FORMATS.md", "structures", &structures);
    check_block("docs/FORMATS.md", "enumerations", enumerations.trim_start());
}

#[test]
fn the_layouts_of_facts_are_printed_from_the_code() {
    for (role, kinds) in Declared::read().facts {
        let mut table = "| kind | fields |\n|---|---|\n".to_owned();
        for (kind, version, fields) in kinds {
            let version = if version == 1 { String::new() } else { format!(" {version}") };
            writeln!(table, "| `{kind}`{version} | {} |", cell(&fields)).unwrap();
        }
        check_block("docs/FORMATS.md", &format!("facts {role}"), &table);
    }
}
