//! The names that each file of `src` takes from other files, as its `use` lines and qualified names
//! say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::buffer::Cursor;
use syn::parse::ParseStream;
use syn::visit::{self, Visit};
use syn::{Item, ItemUse, Macro, UseTree};

/// A path of segments, as `use` lines write them.
type Segments = Vec<String>;

/// The names that a file defines and uses.
#[derive(Default)]
struct File {
    /// Items that the file defines.
    defined: BTreeSet<String>,
    /// The defined names that are types or traits.
    types: BTreeSet<String>,
    /// Names that its `use` lines bring in, and the paths that they stand for.
    imported: Vec<(String, Segments)>,
    /// Modules from which the file takes all names.
    globs: Vec<Segments>,
    /// All paths in the file.
    paths: BTreeSet<Segments>,
}

/// All files of a crate, by the path of their module.
pub struct Crate {
    files: BTreeMap<Segments, (String, File)>,
}

/// For each file, the names that it takes from each other file.
pub type Imports = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The most `use` lines that lead from a name to its definition.
const HOPS: usize = 16;

impl Crate {
    /// Reads all files under `src`.
    pub fn read(src: &Path) -> Self {
        let mut files = BTreeMap::new();
        for entry in walkdir::WalkDir::new(src).sort_by_file_name() {
            let path = entry.expect("a readable folder").into_path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(src).expect("under src").to_path_buf();
                let text = std::fs::read_to_string(&path).expect("a readable file");
                let parsed = syn::parse_file(&text).expect("valid Rust");
                let mut file = File::default();
                file.visit_file(&parsed);
                let shown = name.to_string_lossy().replace('\\', "/");
                files.insert(module_of(&name), (shown, file));
            }
        }
        Self { files }
    }

    /// The files, as paths under `src`.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.values().map(|(name, _)| name.as_str())
    }

    /// The files that define each type or trait, as paths under `src`.
    pub fn types(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut types = BTreeMap::<_, Vec<_>>::new();
        for (name, file) in self.files.values() {
            for defined in &file.types {
                types
                    .entry(defined.as_str())
                    .or_default()
                    .push(name.as_str());
            }
        }
        types
    }

    pub fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (module, (name, file)) in &self.files {
            let used = file.imported.iter().map(|(_, path)| path);
            for path in used.chain(&file.globs).chain(&file.paths) {
                if let Some((from, taken)) = self.resolve(module, path, HOPS)
                    && from != name
                {
                    let by_file = imports.entry(name.clone()).or_default();
                    by_file.entry(from.to_owned()).or_default().insert(taken);
                }
            }
        }
        imports
    }

    /// The file that defines the item of a path inside a module, and the item's name there. `None`
    /// for other crates and for modules, because the names taken from a module say more.
    fn resolve(&self, module: &[String], path: &[String], hops: usize) -> Option<(&str, String)> {
        let hops = hops.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.find(&[], rest, hops),
            "self" => self.find(module, rest, hops),
            "super" => {
                let (_, parent) = module.split_last()?;
                let mut path = rest;
                let mut above = parent;
                while path.first().is_some_and(|segment| segment == "super") {
                    path = &path[1..];
                    above = above.split_last()?.1;
                }
                self.find(above, path, hops)
            }
            _ if self.files.contains_key(&child(module, first)) => self.find(module, path, hops),
            _ => {
                let (_, file) = self.files.get(module)?;
                let (_, alias) = file
                    .imported
                    .iter()
                    .find(|(name, path)| name == first && (path.len() > 1 || path[0] != *name))?;
                self.resolve(module, &[alias.as_slice(), rest].concat(), hops)
            }
        }
    }

    /// Returns the file and the name of a path that starts at a module.
    fn find(&self, module: &[String], path: &[String], hops: usize) -> Option<(&str, String)> {
        let (first, rest) = path.split_first()?;
        let inner = child(module, first);
        let is_module = self.files.contains_key(&inner);
        if is_module && !rest.is_empty() {
            return self.find(&inner, rest, hops);
        }
        let (name, file) = self.files.get(module)?;
        if file.defined.contains(first) {
            return Some((name, first.clone()));
        }
        // A module and a function in it can have the same name.
        let handed_on = file
            .imported
            .iter()
            .filter(|(name, path)| name == first && path.len() > 1);
        let named = handed_on.filter_map(|(_, path)| {
            let path = [path.as_slice(), rest].concat();
            self.resolve(module, &path, hops)
        });
        let globs = file.globs.iter().filter_map(|glob| {
            let path = [glob.as_slice(), path].concat();
            self.resolve(module, &path, hops)
        });
        let found = named.chain(globs).next();
        // Items of macros and generated code are not seen, and count as the module's own.
        found.or_else(|| (!is_module).then(|| (name.as_str(), first.clone())))
    }
}

fn child(module: &[String], name: &str) -> Segments {
    let mut path = module.to_vec();
    path.push(name.to_owned());
    path
}

/// The module of a file: `a/mod.rs` and `a.rs` are `a`.
fn module_of(file: &Path) -> Segments {
    let path: PathBuf = file.with_extension("");
    let mut segments: Segments = path
        .iter()
        .map(|segment| segment.to_string_lossy().into_owned())
        .collect();
    if ["mod", "lib"].contains(&segments.last().map_or("", String::as_str)) {
        segments.pop();
    }
    segments
}

/// Returns whether code is compiled for its own tests alone.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

impl File {
    fn take(&mut self, before: &[String], tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                self.take(&child(before, &path.ident.to_string()), &path.tree);
            }
            UseTree::Name(name) if name.ident == "self" => {
                let last = before.last().expect("a module is named before").clone();
                self.imported.push((last, before.to_vec()));
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.imported.push((name.clone(), child(before, &name)));
            }
            UseTree::Rename(rename) => self.imported.push((
                rename.rename.to_string(),
                child(before, &rename.ident.to_string()),
            )),
            UseTree::Glob(_) => self.globs.push(before.to_vec()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.take(before, tree);
                }
            }
        }
    }
}

impl<'a> Visit<'a> for File {
    fn visit_item(&mut self, item: &'a Item) {
        let (name, attributes) = match item {
            Item::Fn(item) => (Some(&item.sig.ident), &item.attrs),
            Item::Struct(item) => (Some(&item.ident), &item.attrs),
            Item::Enum(item) => (Some(&item.ident), &item.attrs),
            Item::Union(item) => (Some(&item.ident), &item.attrs),
            Item::Trait(item) => (Some(&item.ident), &item.attrs),
            Item::Type(item) => (Some(&item.ident), &item.attrs),
            Item::Const(item) => (Some(&item.ident), &item.attrs),
            Item::Static(item) => (Some(&item.ident), &item.attrs),
            Item::Macro(item) => (item.ident.as_ref(), &item.attrs),
            Item::Mod(item) => (None, &item.attrs),
            Item::Use(item) => (None, &item.attrs),
            Item::Impl(item) => (None, &item.attrs),
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            if let Item::Struct(_)
            | Item::Enum(_)
            | Item::Union(_)
            | Item::Trait(_)
            | Item::Type(_) = item
            {
                self.types.extend(name.map(ToString::to_string));
            }
            self.defined.extend(name.map(ToString::to_string));
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if item.leading_colon.is_none() {
            self.take(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            let segments = path.segments.iter();
            self.paths
                .insert(segments.map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, found: &'a Macro) {
        visit::visit_macro(self, found);
        let read = |input: ParseStream| {
            input.step(|start| {
                self.take_tokens(*start);
                Ok(((), Cursor::empty()))
            })
        };
        let _ = found.parse_body_with(read);
    }
}

impl File {
    /// Takes the paths from a macro's arguments, whatever its grammar is.
    fn take_tokens(&mut self, mut rest: Cursor<'_>) {
        let mut path = Segments::new();
        let mut joined = 0;
        while let Some((_, next)) = rest.token_tree() {
            if let Some((inner, ..)) = rest.any_group() {
                self.take_tokens(inner);
            }
            match (rest.ident(), rest.punct()) {
                (Some((name, _)), _) => {
                    if joined != 2 {
                        self.end_path(&mut path);
                    }
                    path.push(name.to_string());
                    joined = 0;
                }
                (None, Some((mark, _))) if mark.as_char() == ':' && joined < 2 => joined += 1,
                _ => {
                    self.end_path(&mut path);
                    joined = 0;
                }
            }
            rest = next;
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Segments) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.paths.insert(path);
        }
    }
}
